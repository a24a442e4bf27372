"""docs/rfc9309.md has a row for each clause and decision, and each requirement has a proof."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from tests.support.case_files import Clause, clauses_by_id

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "rfc9309.md"

#: The numbers of the clauses of RFC 9309, 2.1 to 2.5 and 3, that concern a crawler.
NUMBERS = range(1, 39)


class Row(NamedTuple):
    """A row of one of the two tables.

    :param clause: the number of the clause, or the name of the decision.
    :param level: MUST, SHOULD and so on, or an empty string for a decision.
    :param tests: the tests that it names, as ``path::name``.
    """

    clause: Clause
    level: str
    tests: list[str]


@cache
def rows() -> list[Row]:
    """Return all rows of both tables."""
    found: list[Row] = []
    for line in PAGE.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        tests = re.findall(r"`(tests/[^`]+::[^`]+)`", line)
        if cells and cells[0].isdigit():
            found.append(Row(int(cells[0]), cells[2], tests))
        elif cells and re.fullmatch(r"`[a-z0-9-]+`", cells[0]):
            found.append(Row(cells[0].strip("`"), "", tests))
    return found


def test_every_clause_has_one_row() -> None:
    """Each clause has one row, in the order of the RFC, and so has each decision."""
    assert [row.clause for row in rows() if isinstance(row.clause, int)] == list(NUMBERS)
    names = [row.clause for row in rows() if isinstance(row.clause, str)]
    assert len(names) == len(set(names)) > 0


def test_every_case_is_of_a_row() -> None:
    """Each case names clauses and decisions that have a row."""
    assert {*chain.from_iterable(clauses_by_id().values())} <= {row.clause for row in rows()}


def test_requirements_have_a_proof() -> None:
    """A clause with MUST or SHOULD has a case or names a test."""
    with_case = {*chain.from_iterable(clauses_by_id().values())}
    required = [row for row in rows() if "MUST" in row.level or "SHOULD" in row.level]
    assert len(required) > 15
    assert [row.clause for row in required if row.clause not in with_case and not row.tests] == []


def test_named_tests_exist() -> None:
    """Each test that a row names exists."""
    missing = []
    for test in chain.from_iterable(row.tests for row in rows()):
        path, _, name = test.partition("::")
        file = ROOT / path
        source = file.read_text("utf-8") if file.is_file() else ""
        if not re.search(rf"^(?:async )?def {name}\(", source, re.MULTILINE):
            missing.append(test)
    assert missing == []
