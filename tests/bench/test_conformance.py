"""docs/conformance.md and its files say what was measured, with the cases of the project."""

from __future__ import annotations

import json
import re
import tomllib
from importlib import metadata
from typing import TYPE_CHECKING

import pytest

from bench import conformance
from bench.conformance import CASES, PAGE, RECORD, ROOT, Record, answer, differing, made, ours
from bench.conformance_cases import (
    GOOGLE,
    OF_GOOGLE,
    OF_RFC,
    OURS as DECISION,
    RFC,
    SECTIONS,
    questions,
)
from bench.peers import OURS, PROTEGO, RERP, URLLIB, Peer, named
from scrapy_robots_rfc import RfcRobotParser
from tests.support.case_files import clauses_by_id
from tests.support.documents import block, executed

if TYPE_CHECKING:
    from bench.peers import Ask

pytestmark = pytest.mark.once

#: Parsers that the tests' environment has, too.
INSTALLED = {PROTEGO: "Protego", RERP: "robotexclusionrulesparser"}
AS_RECORDED = "what docs/ says is not what was measured: make conformance ARGS=--write"


def test_ours_differs_nowhere() -> None:
    """Our parser, as Scrapy loads it, gives the verdict of each case."""
    assert differing(ours(), questions()) == {}
    assert Record.read().differs[OURS] == {}


@pytest.mark.parametrize("path", [CASES, RECORD, PAGE], ids=lambda path: path.name)
def test_documents_are_as_recorded(path: object) -> None:
    """The cases, the record and the tables of the page are what the command writes."""
    [text] = [text for name, text in made(Record.read()).items() if name == path]
    assert path.read_text("utf-8") == text, AS_RECORDED  # type: ignore[attr-defined]


@pytest.mark.parametrize(("name", "package"), sorted(INSTALLED.items()))
def test_peer_answers_as_recorded(name: str, package: str) -> None:
    """A parser of the recorded version answers as the record says; what takes long is left out."""
    record = Record.read()
    if metadata.version(package) != record.versions[name]:
        pytest.skip(f"the record is about {package} {record.versions[name]}")
    recorded = record.differs[name]
    slow = {case for case, given in recorded.items() if given.startswith("takes")}
    asked = [question for question in questions() if question.case.id not in slow]
    expected = {case: given for case, given in recorded.items() if case not in slow}
    assert differing(named(name), asked) == expected, AS_RECORDED


def test_versions_are_pinned() -> None:
    """The record is about the versions that pyproject.toml pins."""
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    versions = Record.read().versions
    del versions[URLLIB]
    assert sorted(text.partition("==")[2] for text in groups["peers"]) == sorted(versions.values())


def test_an_error_is_an_answer() -> None:
    """A parser that raises something differs, and the record says what it raised."""

    def load(_body: bytes, _host: str) -> Ask:
        raise RecursionError

    assert answer(Peer("broken", load), questions()[0]) == "raises RecursionError"


def test_sections_are_those_of_the_table() -> None:
    """A row of docs/rfc9309.md belongs to the section that the row names."""
    text = (ROOT / "docs" / "rfc9309.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| ([\d.]+) \|", text, re.MULTILINE)
    ours_say = {(row, name) for name, those in SECTIONS.items() for row in those}
    assert ours_say <= {(int(row), section) for row, section in rows}


def test_every_decision_has_cases() -> None:
    """Decisions that are Google's or the RFC's have cases, so a misspelt one is found."""
    assert {name for those in clauses_by_id().values() for name in those} >= OF_GOOGLE | OF_RFC


def test_every_case_has_a_basis_and_one_of_the_rfc_a_section() -> None:
    """Only a case with a section of the RFC counts against a parser."""
    asked = questions()
    assert {question.basis for question in asked} == {RFC, GOOGLE, DECISION}
    assert [q.case.id for q in asked if q.basis == RFC and not q.sections] == []


def test_what_is_permitted_is_not_asked_for() -> None:
    """A case about what a crawler MAY do, or about a decision, counts against no parser."""
    basis = {question.case.id: question.basis for question in questions()}
    assert basis["record-crawl-delay-of-the-group"] == DECISION
    assert basis["misspelt-dissallow"] == GOOGLE
    assert basis["record-between-agents-crawl-delay"] == RFC


def test_lines_of_the_file() -> None:
    """Each line is one object in ASCII, and has a name of its own."""
    lines = CASES.read_bytes().splitlines()
    names = [json.loads(line)["id"] for line in lines]
    assert len(set(names)) == len(names) == len(questions())
    assert all(line.isascii() for line in lines)


def test_python_of_the_page() -> None:
    """The page's function finds no case for ours, and all that forbid for one that allows all."""
    differs = executed(block("docs/conformance.md", "python", "def differing"))["differing"]
    lines = CASES.read_text("ascii").splitlines()

    def ours_allows(octets: bytes, agent: str, url: str) -> bool:
        return RfcRobotParser(octets).allowed(url, agent)

    assert differs(lines, ours_allows) == []
    forbidden = [q.case.id for q in questions() if q.basis == RFC and not q.case.allowed]
    assert differs(lines, lambda *_: True) == forbidden


def test_command_of_the_page() -> None:
    """The page's command is a target of the Makefile that runs this module."""
    command = block("docs/conformance.md", "sh", "make").split()
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.search(rf"^{command[1]}: .*\n\t.* -m {conformance.__name__} ", makefile, re.MULTILINE)
