"""docs/rfc9309.md refers to existing cases and tests, and has every case in its rows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.case_files import Clause, clauses_by_id

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "rfc9309.md"

#: The numbers of the clauses of RFC 9309, 2.1 to 2.5 and 3, that concern a crawler.
NUMBERS = range(1, 39)


@dataclass(frozen=True, slots=True)
class Row:
    """A row of one of the two tables.

    :param clause: the number of the clause, or the name of the decision.
    :param level: MUST, SHOULD and so on, or an empty string for a decision.
    :param proofs: ids of cases, and tests as ``path::name``.
    """

    clause: Clause
    level: str
    proofs: tuple[str, ...]


@cache
def rows() -> tuple[Row, ...]:
    """Return all rows of both tables."""
    found = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        proofs = tuple(re.findall(r"`([^`]+)`", cells[-1])) if cells else ()
        if cells and cells[0].isdigit():
            found.append(Row(int(cells[0]), cells[2], proofs))
        elif cells and re.fullmatch(r"`[a-z0-9-]+`", cells[0]):
            found.append(Row(cells[0].strip("`"), "", proofs))
    return tuple(found)


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the test functions in a file, if it exists."""
    file = ROOT / path
    source = file.read_text("utf-8") if file.is_file() else ""
    return frozenset(re.findall(r"^(?:async )?def (test_\w+)", source, re.MULTILINE))


def exists(proof: str) -> bool:
    """Return whether a case or a test with this name exists."""
    path, is_test, name = proof.partition("::")
    return name in names_in(path) if is_test else proof in clauses_by_id()


def test_every_clause_has_one_row() -> None:
    """Each clause has one row, in the order of the RFC, and so has each decision."""
    assert [row.clause for row in rows() if isinstance(row.clause, int)] == list(NUMBERS)
    names = [row.clause for row in rows() if isinstance(row.clause, str)]
    assert names
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "row",
    [row for row in rows() if "MUST" in row.level or "SHOULD" in row.level],
    ids=lambda row: str(row.clause),
)
def test_requirements_have_a_proof(row: Row) -> None:
    """A clause with MUST or SHOULD refers to a case or a test."""
    assert row.proofs


@pytest.mark.parametrize(
    "row", [row for row in rows() if row.proofs], ids=lambda row: str(row.clause)
)
def test_proofs_exist(row: Row) -> None:
    """Each case and test in a row exists, and the case refers to the clause."""
    assert [proof for proof in row.proofs if not exists(proof)] == []
    cases = [proof for proof in row.proofs if "::" not in proof]
    assert [case for case in cases if row.clause not in clauses_by_id()[case]] == []


def test_every_case_is_in_its_rows() -> None:
    """Each case is in the rows of its clauses."""
    proofs = {row.clause: row.proofs for row in rows()}
    assert [
        (case, clause)
        for case, clauses in clauses_by_id().items()
        for clause in clauses
        if case not in proofs.get(clause, ())
    ] == []
