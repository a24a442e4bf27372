"""Ask all parsers the same cases, and show which verdicts differ: `make conformance`.

The other parsers are in an environment of their own, with pinned versions. The exit code is 1 if
one of our verdicts differs, if a difference has no reason, or if docs/ does not say what was
measured; `--write` updates docs/.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench import public_cases
from bench.conformance_cases import GOOGLE, OURS as DECISION, RFC, SECTIONS, questions
from bench.peers import (
    AI_CRAWLERS,
    GOOGLE as FAST,
    OURS,
    PEERS,
    PROTEGO,
    RERP,
    ROBOTSPY,
    URLLIB,
    Peer,
    answer,
    of_scrapy,
)
from bench.report import table
from scrapy_robots_rfc.parser import RfcRobotParser
from tools.matrix import interpreters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from bench.conformance_cases import Question
    from bench.peers import Ask, Load
    from bench.public_cases import Difference

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-peers"
PAGE = ROOT / "docs" / "conformance.md"
CASES = ROOT / "docs" / "conformance.jsonl"
RECORD = ROOT / "docs" / "conformance_results.json"

#: The urllib.robotparser of the newest CPython; `URLLIB` is the oldest supported one.
NEW_URLLIB = "urllib (new)"
NAMES = (OURS, PROTEGO, URLLIB, NEW_URLLIB, FAST, ROBOTSPY, RERP)
PUBLIC = (PROTEGO, URLLIB, NEW_URLLIB, FAST, AI_CRAWLERS)
HEAD = ("clause", "cases", *NAMES)

#: Parser -> id of a case -> the answer that differs.
Answers = dict[str, dict[str, str]]

# Decides with the urllib.robotparser of another interpreter, as Scrapy's class for it does.
_PROGRAM = """
import json, sys
from urllib.robotparser import RobotFileParser
for line in sys.stdin:
    body, url, agent = json.loads(line)
    try:
        if body is not None:
            parser = RobotFileParser()
            parser.parse(body.encode("latin-1").decode("utf-8", "ignore").splitlines())
        print("allows" if parser.can_fetch(agent, url) else "disallows", flush=True)
    except Exception as error:
        print(type(error).__name__, flush=True)
"""


@dataclass(frozen=True, slots=True)
class Record:
    """The measurements of one run.

    :param versions: of the parsers, and of CPython for urllib.
    :param differs: the verdicts of the cases that differ.
    :param public: parser -> reason -> number of other verdicts on public questions.
    :param asked: number of public questions.
    """

    versions: dict[str, str]
    differs: Answers
    public: dict[str, dict[str, int]]
    asked: int

    def text(self) -> str:
        """Return the text of the file."""
        return json.dumps(asdict(self), indent=1) + "\n"

    @classmethod
    def read(cls) -> Record:
        """Return what was recorded last."""
        return cls(**json.loads(RECORD.read_text("utf-8")))


class Urllib:
    """The urllib.robotparser of another interpreter, in another process."""

    def __init__(self, python: str) -> None:
        self._process = subprocess.Popen(
            [python, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._last: bytes | None = None

    def load(self, body: bytes) -> Ask:
        """Return the function that decides about a file."""

        def ask(url: str, agent: str) -> bool:
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            sent = None if body is self._last else body.decode("latin-1")
            self._last = body
            stdin.write(json.dumps([sent, url, agent]) + "\n")
            stdin.flush()
            said = stdout.readline().strip()
            if not said.endswith("allows"):
                raise type(said, (Exception,), {})
            return said == "allows"

        return ask


def loaders() -> tuple[dict[str, Load], dict[str, str]]:
    """Return how each parser is loaded, and the versions."""
    peers = [PEERS[name] for name in (PROTEGO, FAST, ROBOTSPY, RERP, AI_CRAWLERS)]
    found = {peer.name: peer.load for peer in peers}
    versions = {peer.name: peer.version for peer in peers}
    pythons = list(interpreters().values())
    for name, python in ((URLLIB, pythons[0]), (NEW_URLLIB, pythons[-1])):
        found[name] = Urllib(python).load
        command = [python, "-c", "import platform; print(platform.python_version())"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        versions[name] = done.stdout.strip()
    return {OURS: ours().load, **found}, versions


def ours() -> Peer:
    """Return our parser as Scrapy loads it, with its limit on the size of a file."""
    return Peer(OURS, "", of_scrapy(RfcRobotParser))


def differing(load: Load, asked: Sequence[Question]) -> dict[str, str]:
    """Return the cases in which a parser gives another answer, and that answer."""
    found = {}
    for question in asked:
        given = answer(load, question.case.octets, question.url, question.agent)
        if given != ("allows" if question.case.allowed else "disallows"):
            found[question.case.id] = given
    return found


def measure(asked: Sequence[Question]) -> tuple[Record, list[Difference]]:
    """Ask all parsers, one after the other."""
    loads, versions = loaders()
    differs = {name: differing(loads[name], asked) for name in NAMES}
    files, agents = public_cases.files(), public_cases.crawlers()
    differences = [
        difference
        for name in PUBLIC
        for difference in public_cases.compare(name, loads[name], files, agents)
    ]
    public = {
        name: dict(sorted(counted.items()))
        for name, counted in public_cases.counts(differences).items()
    }
    count = sum(len(dict.fromkeys(file.urls)) for file in files) * len(agents)
    return Record(versions, differs, public, count), differences


def rows(asked: Sequence[Question], differs: Mapping[str, Mapping[str, str]]) -> list[list[str]]:
    """Return a row for each clause, for their sum, and for cases that the RFC leaves open."""

    def row(title: str, belongs: Callable[[Question], bool]) -> list[str]:
        ids = [question.case.id for question in asked if belongs(question)]
        counts = [sum(name in differs[parser] for name in ids) for parser in NAMES]
        return [title, str(len(ids)), *map(str, counts)]

    def of(section: str) -> Callable[[Question], bool]:
        return lambda question: question.basis == RFC and question.sections[0] == section

    return [
        *(row(section, of(section)) for section in SECTIONS),
        row("RFC", lambda question: question.basis == RFC),
        row("Google", lambda question: question.basis == GOOGLE),
        row("ours", lambda question: question.basis == DECISION),
    ]


def listed(asked: Sequence[Question], differs: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return for each parser the cases of the RFC in which it differs."""
    lines = []
    for parser in NAMES:
        cases = []
        for question in asked:
            case = question.case.id
            given = differs[parser].get(case, "")
            is_repeated = parser == NEW_URLLIB and differs[URLLIB].get(case) == given
            if given and question.basis == RFC and not is_repeated:
                cases.append(f"`{case}`" if given.endswith("allows") else f"`{case}` ({given})")
        if cases:
            lines.append(f"- {parser}: {', '.join(cases)}")
    return lines


def public_rows(record: Record) -> list[list[str]]:
    """Return a row for each reason, and their sum."""
    reasons = sorted({reason for counted in record.public.values() for reason in counted})
    found = [
        [reason, *(f"{record.public.get(name, {}).get(reason, 0):,}" for name in PUBLIC)]
        for reason in reasons
    ]
    sums = [f"{sum(record.public.get(name, {}).values()):,}" for name in PUBLIC]
    return [*found, ["all", *sums]]


def _put(text: str, name: str, lines: Iterable[str]) -> str:
    """Return a page with lines between two comments that mark their place."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(start)
    _, found, after = rest.partition(end)
    assert found, f"the page has no place for the {name}"
    return "\n".join((before + start, "", *lines, "", end + after))


def _markdown(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    rule = "|---" + "|---:" * (len(head) - 1) + "|"
    first, *rest = (f"| {' | '.join(row)} |" for row in (head, *cells))
    return [first, rule, *rest]


def page(text: str, asked: Sequence[Question], record: Record) -> str:
    """Return the page with what was measured."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    text = _put(text, "versions", [f"{versions} (urllib: of CPython)."])
    text = _put(text, "table", _markdown(HEAD, rows(asked, record.differs)))
    public = [f"{record.asked:,} questions.", "", *_markdown(("", *PUBLIC), public_rows(record))]
    text = _put(text, "public", public)
    return _put(text, "list", listed(asked, record.differs))


def made(record: Record) -> dict[Path, str]:
    """Return the files of docs/ that say what was measured."""
    asked = questions()
    return {
        CASES: "".join(f"{question.line()}\n" for question in asked),
        RECORD: record.text(),
        PAGE: page(PAGE.read_text("utf-8"), asked, record),
    }


def main() -> int:
    """Measure, print, and compare with docs/ or write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write what was measured to docs/")
    arguments = parser.parse_args()
    if Path(sys.prefix) != ENVIRONMENT:
        command = ["make", "--no-print-directory", "conformance", f"ARGS={' '.join(sys.argv[1:])}"]
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    logging.disable()
    asked = questions()
    record, differences = measure(asked)
    print(", ".join(f"{name} {version}" for name, version in record.versions.items()))
    print(table(f"Verdicts that differ, of {len(asked)} cases", HEAD, rows(asked, record.differs)))
    print("\n".join(listed(asked, record.differs)))
    print("\n", *differences, sep="\n")
    title = f"Other verdicts than ours on {record.asked:,} public questions, by reason"
    print(table(title, ("", *PUBLIC), public_rows(record)))
    is_outdated = False
    for path, text in made(record).items():
        if arguments.write:
            path.write_text(text, "utf-8")
        elif path.read_text("utf-8") != text:
            is_outdated = True
            print(f"{path.relative_to(ROOT)} says something else: write it with --write")
    unexplained = [one for one in differences if one.reason == public_cases.UNEXPLAINED]
    print(f"unexplained: {len(unexplained)}")
    return 1 if record.differs[OURS] or unexplained or is_outdated else 0


if __name__ == "__main__":
    sys.exit(main())
