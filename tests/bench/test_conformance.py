"""docs/conformance.md and its files say what was measured, with the cases of the project."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from bench.conformance import CASES, PAGE, RECORD, ROOT, Record, differing, made, ours
from bench.conformance_cases import OF_GOOGLE, OF_RFC, RFC, SECTIONS, questions
from bench.peers import OURS, PEERS, PROTEGO, RERP
from bench.public_cases import UNEXPLAINED
from scrapy_robots_rfc import RfcRobotParser
from tests.support.case_files import clauses_by_id
from tests.support.documents import block, executed

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once

AS_RECORDED = "docs/ does not say what was measured: make conformance ARGS=--write"


def test_ours_gives_the_verdict_of_each_case() -> None:
    """Our parser, as Scrapy loads it, differs nowhere, and each other verdict has a reason."""
    assert differing(ours().load, questions()) == {}
    record = Record.read()
    assert record.differs[OURS] == {}
    assert not any(UNEXPLAINED in counted for counted in record.public.values())


@pytest.mark.parametrize("path", [CASES, RECORD, PAGE], ids=lambda path: path.name)
def test_documents_are_as_recorded(path: Path) -> None:
    """The cases, the record and the tables of the page are what the command writes."""
    assert path.read_text("utf-8") == made(Record.read())[path], AS_RECORDED


@pytest.mark.parametrize("name", [PROTEGO, RERP])
def test_a_parser_answers_as_recorded(name: str) -> None:
    """A parser of the recorded version still answers as the record says."""
    record, peer = Record.read(), PEERS[name]
    if peer.version != record.versions[name]:
        pytest.skip(f"the record is about {name} {record.versions[name]}")
    recorded = record.differs[name]
    slow = {case for case, given in recorded.items() if given.startswith("takes")}
    asked = [question for question in questions() if question.case.id not in slow]
    expected = {case: given for case, given in recorded.items() if case not in slow}
    assert differing(peer.load, asked) == expected, AS_RECORDED


def test_each_case_has_a_basis_that_exists() -> None:
    """A row of docs/rfc9309.md belongs to the section that it names, and decisions have cases."""
    text = (ROOT / "docs" / "rfc9309.md").read_text("utf-8")
    rows = {(int(n), s) for n, s in re.findall(r"^\| (\d+) \| ([\d.]+) \|", text, re.MULTILINE)}
    assert {(row, name) for name, those in SECTIONS.items() for row in those} <= rows
    assert {name for names in clauses_by_id().values() for name in names} >= OF_GOOGLE | OF_RFC
    asked = questions()
    assert [q.case.id for q in asked if q.basis == RFC and not q.sections] == []


def test_the_python_of_the_page_runs_the_cases() -> None:
    """The function on the page finds nothing for ours, and each error of a parser that allows."""
    differs = executed(block("docs/conformance.md", "python", "def differing"))["differing"]
    lines = CASES.read_text("ascii").splitlines()
    assert len({json.loads(line)["id"] for line in lines}) == len(lines) == len(questions())

    def allowed(body: bytes, agent: str, url: str) -> bool:
        return RfcRobotParser(body).allowed(url, agent)

    assert differs(lines, allowed) == []
    disallowed = [q.case.id for q in questions() if q.basis == RFC and not q.case.allowed]
    assert differs(lines, lambda *_: True) == disallowed
