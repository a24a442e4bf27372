"""`docs/rfc9309.md` names existing cases and tests, and they name it."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.support.case_files import Clause, clauses_by_id

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "rfc9309.md"

#: Rows of RFC 9309's table: every clause of 2.1 to 2.5 and 3 that says anything to a crawler.
NUMBERS = range(1, 39)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of one of the page's tables.

    :param clause: number of the clause, or name of the decision.
    :param level: as the RFC words it; empty for a decision.
    :param proofs: ids of cases, and tests as ``path::name``.
    """

    clause: Clause
    level: str
    proofs: tuple[str, ...]


@cache
def rows() -> tuple[Row, ...]:
    """All rows of both tables."""
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
    """Names of the test functions in a file; empty where there is no such file."""
    file = ROOT / path
    nodes = ast.walk(ast.parse(file.read_text("utf-8"))) if file.is_file() else ()
    functions = (
        node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    return frozenset(name for name in functions if name.startswith("test_"))


def exists(proof: str) -> bool:
    """Whether there is a case, or a test, of that name."""
    path, is_test, name = proof.partition("::")
    return name in names_in(path) if is_test else proof in clauses_by_id()


def test_every_clause_has_one_row() -> None:
    """The clauses stand in the RFC's order, each once, and no decision stands twice."""
    assert [row.clause for row in rows() if isinstance(row.clause, int)] == list(NUMBERS)
    names = [row.clause for row in rows() if isinstance(row.clause, str)]
    assert names
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    "row",
    [row for row in rows() if "MUST" in row.level or "SHOULD" in row.level],
    ids=lambda row: str(row.clause),
)
def test_what_the_rfc_demands_is_proven(row: Row) -> None:
    """A clause with MUST or SHOULD (NOT) names a case or a test."""
    assert row.proofs


@pytest.mark.parametrize(
    "row", [row for row in rows() if row.proofs], ids=lambda row: str(row.clause)
)
def test_proofs_exist(row: Row) -> None:
    """Every case and every test that the page names is there, and a case names the clause in
    return.
    """
    assert [proof for proof in row.proofs if not exists(proof)] == []
    cases = [proof for proof in row.proofs if "::" not in proof]
    assert [case for case in cases if row.clause not in clauses_by_id()[case]] == []


def test_every_case_stands_in_the_page() -> None:
    """A case stands in the row of each of its clauses, and so names no clause that there is not."""
    proofs = {row.clause: row.proofs for row in rows()}
    assert [
        (case, clause)
        for case, clauses in clauses_by_id().items()
        for clause in clauses
        if case not in proofs.get(clause, ())
    ] == []
