"""`python -m bench.conformance [--write]`: ask every parser the same cases, show what differs.

The other parsers need an environment of their own, with pinned versions: `make` sets it up.
Ends with 1 where an answer of ours differs, or where what docs/ says is not what was measured.
With `--write`, docs/ is made to say it.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

from bench.conformance_cases import GOOGLE, OURS as DECISION, RFC, SECTIONS, TITLES, questions
from bench.peers import OURS, PROTEGO, RERP, URLLIB, Peer, named, of_scrapy
from bench.report import table
from scrapy_robots_rfc.parser import RfcRobotParser

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from bench.conformance_cases import Question
    from bench.peers import Ask

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-peers"
PAGE = ROOT / "docs" / "conformance.md"
CASES = ROOT / "docs" / "conformance.jsonl"
RECORD = ROOT / "docs" / "conformance_results.json"

ROBOTSPY = "robotspy"
NAMES = (OURS, PROTEGO, URLLIB, ROBOTSPY, RERP)
HEAD = ("clause", "cases", *NAMES)

#: Seconds for one question. Some parsers take hours for a pattern with many stars.
LIMIT = 60

#: Of each parser that differs somewhere: the id of a case, and what the parser does there.
Answers = dict[str, dict[str, str]]


@dataclass(frozen=True, slots=True)
class Record:
    """What was measured in one run.

    :param versions: of the parsers, and of CPython for urllib's.
    :param differs: by parser, the cases in which its verdict is another one.
    """

    versions: dict[str, str]
    differs: Answers

    def text(self) -> str:
        """As the file has it."""
        both = {"versions": self.versions, "differs": self.differs}
        return json.dumps(both, indent=1) + "\n"

    @classmethod
    def read(cls) -> Record:
        """What was recorded last."""
        return cls(**json.loads(RECORD.read_text("utf-8")))


def _robotspy(body: bytes, _host: str) -> Ask:
    # Through a file, as robotspy decodes what it fetches by itself.
    with tempfile.NamedTemporaryFile() as file:
        file.write(body)
        file.flush()
        parser = import_module("robots").RobotsParser.from_uri(Path(file.name).as_uri())

    def ask(url: str, agent: str) -> object:
        return parser.can_fetch(agent, url)

    return ask


def ours() -> Peer:
    """Our parser as Scrapy loads it, with its limit on a file's size."""
    return Peer(OURS, of_scrapy(RfcRobotParser))


def parsers() -> list[Peer]:
    """All of them, in the order of the columns."""
    return [ours(), named(PROTEGO), named(URLLIB), Peer(ROBOTSPY, _robotspy), named(RERP)]


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError


def answer(peer: Peer, question: Question) -> str:
    """What a parser says, or what becomes of the question."""
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    try:
        ask = peer.load(question.case.octets, "e.example")
        return "allows" if peer.verdict(ask(question.url, question.agent)) else "forbids"
    except TimeoutError:
        return f"takes more than {LIMIT} s"
    except Exception as error:  # noqa: BLE001 - whatever a parser raises is its answer
        return f"raises {type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def differing(peer: Peer, asked: Sequence[Question]) -> dict[str, str]:
    """The cases in which a parser says something else, and what it says."""
    found = {}
    for question in asked:
        given = answer(peer, question)
        if given != ("allows" if question.case.allowed else "forbids"):
            found[question.case.id] = given
    return found


def measured(asked: Sequence[Question]) -> Record:
    """Ask all parsers, one after the other."""
    signal.signal(signal.SIGALRM, _stop)
    packages = {PROTEGO: "Protego", ROBOTSPY: "robotspy", RERP: "robotexclusionrulesparser"}
    versions = {name: metadata.version(package) for name, package in packages.items()}
    versions[URLLIB] = platform.python_version()
    return Record(versions, {peer.name: differing(peer, asked) for peer in parsers()})


def rows(asked: Sequence[Question], differs: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """A row for each clause, one for their sum, and two for what is not counted."""

    def row(title: str, belongs: Callable[[Question], bool]) -> list[str]:
        names = [question.case.id for question in asked if belongs(question)]
        counts = [sum(name in differs[parser] for name in names) for parser in NAMES]
        return [title, str(len(names)), *map(str, counts)]

    def of(section: str) -> Callable[[Question], bool]:
        return lambda question: question.basis == RFC and question.sections[0] == section

    found = [row(section, of(section)) for section in SECTIONS]
    return [
        *found,
        row("RFC", lambda question: question.basis == RFC),
        row("Google", lambda question: question.basis == GOOGLE),
        row("ours", lambda question: question.basis == DECISION),
    ]


def _who(name: str, differs: Mapping[str, Mapping[str, str]]) -> str:
    found = []
    for parser in NAMES:
        given = differs[parser].get(name)
        if given:
            found.append(parser if given in {"allows", "forbids"} else f"{parser} ({given})")
    return ", ".join(found)


def listed(asked: Sequence[Question], differs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The cases of the RFC in which a parser differs, clause by clause."""
    lines = []
    for section in SECTIONS:
        found = []
        for question in asked:
            case = question.case
            who = _who(case.id, differs)
            if who and question.basis == RFC and question.sections[0] == section:
                found.append(f"- `{case.id}`: {case.says} Differ: {who}.")
        if found:
            lines += [f"### {section}: {TITLES[section]}", "", *found, ""]
    return lines[:-1]


def _put(text: str, name: str, lines: Sequence[str]) -> str:
    """A page with lines in the place that two comments mark."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(start)
    _, found, after = rest.partition(end)
    assert found, f"the page has no place for the {name}"
    return "\n".join((before + start, "", *lines, "", end + after))


def page(text: str, asked: Sequence[Question], record: Record) -> str:
    """The page with what was measured in the places for it."""

    def markdown(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cells)} |"

    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    counts = rows(asked, record.differs)
    rule = "|---" + "|---:" * (len(HEAD) - 1) + "|"
    text = _put(text, "versions", [versions.replace(URLLIB, "urllib of CPython") + "."])
    text = _put(text, "table", [markdown(HEAD), rule, *map(markdown, counts)])
    return _put(text, "list", listed(asked, record.differs))


def made(record: Record) -> dict[Path, str]:
    """The files of docs/ that say what was measured."""
    asked = questions()
    return {
        CASES: "".join(f"{question.line()}\n" for question in asked),
        RECORD: record.text(),
        PAGE: page(PAGE.read_text("utf-8"), asked, record),
    }


def main() -> int:
    """Measure, show, and compare with what docs/ says, or write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write what was measured to docs/")
    arguments = parser.parse_args()
    if Path(sys.prefix) != ENVIRONMENT:
        command = ["make", "--no-print-directory", "conformance", f"ARGS={' '.join(sys.argv[1:])}"]
        return subprocess.run(command, cwd=ROOT, check=False).returncode

    logging.disable()
    asked = questions()
    record = measured(asked)
    print(", ".join(f"{name} {version}" for name, version in record.versions.items()))
    print(table(f"Verdicts that differ, of {len(asked)} cases", HEAD, rows(asked, record.differs)))
    print("\n".join(listed(asked, record.differs)))
    outdated = False
    for path, text in made(record).items():
        if arguments.write:
            path.write_text(text, "utf-8")
        elif path.read_text("utf-8") != text:
            outdated = True
            print(f"{path.relative_to(ROOT)} says something else: write it with --write")
    return 1 if record.differs[OURS] or outdated else 0


if __name__ == "__main__":
    sys.exit(main())
