"""Compare the verdicts of parsers on the same cases: `make conformance`.

The parsers are in an environment of their own, with pinned versions. The exit code is 1 if one of
our verdicts is wrong, if a difference has no reason, or if docs/ is out of date; `--write` updates
docs/.
"""

import argparse
import importlib.util
import json
import logging
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from bench import peers, public_cases
from bench.conformance_cases import GOOGLE, OURS, RFC, SECTIONS, Question, questions
from bench.report import table
from scrapy_robots_rfc.parser import RfcRobotParser

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENT = ROOT / ".venv-peers"
PAGE = ROOT / "docs" / "conformance.md"
CASES = ROOT / "docs" / "conformance.jsonl"
RECORD = ROOT / "docs" / "conformance_results.json"

#: The urllib.robotparser of the newest CPython on this machine.
NEW_URLLIB = "urllib (new)"
NAMES = (
    peers.OURS,
    peers.PROTEGO,
    peers.URLLIB,
    NEW_URLLIB,
    peers.GOOGLE,
    peers.ROBOTSPY,
    peers.RERP,
)
PUBLIC = (peers.PROTEGO, peers.URLLIB, NEW_URLLIB, peers.GOOGLE, peers.AI_CRAWLERS)
HEAD = ("clause", "cases", *NAMES)


@dataclass(frozen=True, slots=True)
class Record:
    """The results of one run.

    :param versions: of the parsers, and of CPython for urllib.
    :param differs: parser -> ID of a case -> the wrong answer.
    :param public: parser -> reason -> number of verdicts on public questions that are not ours.
    :param asked: number of public questions.
    """

    versions: dict[str, str]
    differs: dict[str, dict[str, str]]
    public: dict[str, dict[str, int]]
    asked: int

    @classmethod
    def read(cls) -> Self:
        return cls(**json.loads(RECORD.read_text("utf-8")))


def ours() -> peers.Peer:
    """Return our parser as Scrapy loads it, with its limit on the size of a file."""
    return peers.Peer(peers.OURS, "", peers.of_scrapy(RfcRobotParser))


def newest_urllib() -> tuple[peers.Peer, str]:
    """Return the urllib.robotparser of the newest CPython on PATH, and the version of CPython."""
    paths = (shutil.which(f"python3.{minor}") for minor in range(19, 10, -1))
    python = next(filter(None, paths), sys.executable)
    program = "import platform as p, urllib.robotparser as r; print(p.python_version(), r.__file__)"
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    version, path = done.stdout.strip().split(maxsplit=1)
    spec = importlib.util.spec_from_file_location("newest_robotparser", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def load(body: bytes) -> peers.Ask:
        parser = module.RobotFileParser()
        parser.parse(body.decode("utf-8", "ignore").splitlines())
        return lambda url, agent: parser.can_fetch(agent, url)

    return peers.Peer(NEW_URLLIB, "", load), version


def differing(load: peers.Load, asked: Sequence[Question]) -> dict[str, str]:
    """Return the cases that a parser answers wrongly, with its answers."""
    wrong = {}
    for question in asked:
        given = peers.answer(load, question.case.octets, question.url, question.agent)
        if given != ("allows" if question.case.allowed else "disallows"):
            wrong[question.case.id] = given
    return wrong


def measure(asked: Sequence[Question]) -> Record:
    """Get the verdicts of all parsers, and print those that no reason explains."""
    new_urllib, version = newest_urllib()
    parsers = peers.PEERS | {peers.OURS: ours(), NEW_URLLIB: new_urllib}
    differs = {name: differing(parsers[name].load, asked) for name in NAMES}
    files, agents = public_cases.files(), public_cases.crawlers()
    public = {}
    for name in PUBLIC:
        counts: Counter[str] = Counter()
        for reason, text in public_cases.differences(parsers[name].load, files, agents):
            counts[reason] += 1
            if reason == public_cases.UNEXPLAINED:
                print(f"unexplained: {name}, {text}")
        public[name] = dict(sorted(counts.items()))
    count = sum(len(file.urls) for file in files) * len(agents)
    names = dict.fromkeys(NAMES + PUBLIC)
    versions = {name: parsers[name].version for name in names if name != peers.OURS}
    versions[NEW_URLLIB] = version
    return Record(versions, differs, public, count)


def rows(asked: Sequence[Question], record: Record) -> list[list[str]]:
    """Return a row for each clause, for their sum, and for the cases that the RFC leaves open."""

    def row(title: str, belongs: Callable[[Question], bool]) -> list[str]:
        ids = [question.case.id for question in asked if belongs(question)]
        counts = [sum(name in record.differs[parser] for name in ids) for parser in NAMES]
        return [title, str(len(ids)), *map(str, counts)]

    def is_of(section: str) -> Callable[[Question], bool]:
        return lambda question: question.basis == RFC and question.sections[0] == section

    return [
        *(row(section, is_of(section)) for section in SECTIONS),
        row("RFC", lambda question: question.basis == RFC),
        row("Google", lambda question: question.basis == GOOGLE),
        row("ours", lambda question: question.basis == OURS),
    ]


def public_row(record: Record) -> list[str]:
    """Return the number of verdicts on public questions that are not ours."""
    return ["all", *(f"{sum(record.public[name].values()):,}" for name in PUBLIC)]


def _replaced(text: str, name: str, lines: Iterable[str]) -> str:
    """Return a page with other lines between the two comments with a name."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    before, _, rest = text.partition(start)
    _, found, after = rest.partition(end)
    assert found, f"the page has no place for the {name}"
    return "\n".join((before + start, "", *lines, "", end + after))


def _markdown(head: Sequence[str], cells: Sequence[Sequence[str]]) -> list[str]:
    rule = "|---" + "|---:" * (len(head) - 1) + "|"
    first, *rest = (f"| {' | '.join(row)} |" for row in (head, *cells))
    return [first, rule, *rest]


def made(record: Record) -> dict[Path, str]:
    """Return the files of docs/ that contain the results."""
    asked = questions()
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    page = PAGE.read_text("utf-8")
    page = _replaced(page, "versions", [f"{versions} (urllib: of CPython)."])
    page = _replaced(page, "table", _markdown(HEAD, rows(asked, record)))
    public = _markdown(("", *PUBLIC), [public_row(record)])
    page = _replaced(page, "public", [f"{record.asked:,} questions.", "", *public])
    return {
        CASES: "".join(f"{question.line()}\n" for question in asked),
        RECORD: json.dumps(asdict(record), indent=1) + "\n",
        PAGE: page,
    }


def main() -> int:
    """Measure, print, and compare with docs/ or write it."""
    parser = argparse.ArgumentParser(prog="python -m bench.conformance", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the results to docs/")
    arguments = parser.parse_args()
    if Path(sys.prefix) != ENVIRONMENT:
        command = ["make", "--no-print-directory", "conformance", f"ARGS={' '.join(sys.argv[1:])}"]
        return subprocess.run(command, cwd=ROOT, check=False).returncode
    logging.disable()
    asked = questions()
    record = measure(asked)
    print(", ".join(f"{name} {version}" for name, version in record.versions.items()))
    print(table(f"Wrong verdicts on {len(asked)} cases", HEAD, rows(asked, record)))
    for case, given in record.differs[peers.OURS].items():
        print(f"{case}: ours {given}")
    title = f"Other verdicts than ours on {record.asked:,} public questions"
    print(table(title, ("", *PUBLIC), [public_row(record)]))
    is_outdated = False
    for path, text in made(record).items():
        if arguments.write:
            path.write_text(text, "utf-8")
        elif path.read_text("utf-8") != text:
            is_outdated = True
            print(f"{path.relative_to(ROOT)} is out of date; update it with --write")
    is_unexplained = any(public_cases.UNEXPLAINED in counts for counts in record.public.values())
    return 1 if record.differs[peers.OURS] or is_unexplained or is_outdated else 0


if __name__ == "__main__":
    sys.exit(main())
