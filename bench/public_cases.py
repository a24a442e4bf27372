"""Compare parsers on questions from outside this project: a part of `make conformance`.

The crawlers are the 150 of the package ai-crawler-robots. Each of them asks for some URLs of each
policy that this package brings, and of the files of this project's cases. Every verdict other than
ours has a reason: the decision that the file of a case tests, or, for the policies, the first step
of simplifying the file after which both parsers agree.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

from bench.conformance_cases import questions
from bench.files import urls_of
from bench.peers import CORE, PEERS, allows, answer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from bench.peers import Ask, Load

# Larger files of the cases test limits.
_LARGEST = 20_000
_URLS = 3
# Seconds for one verdict.
_LIMIT = 5
_KEYS = ("user-agent", "allow", "disallow")
UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class PublicFile:
    """A file, URLs of its host, and the decision that it tests, or an empty string."""

    name: str
    body: bytes
    urls: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A verdict of a parser that is not ours.

    :param crawlers: the crawlers that get it.
    """

    parser: str
    file: str
    url: str
    answer: str
    reason: str
    crawlers: tuple[str, ...]

    def __str__(self) -> str:
        crawlers = ", ".join(self.crawlers)
        if len(self.crawlers) > 3:
            crawlers = f"{len(self.crawlers)} crawlers"
        url = self.url if len(self.url) < 60 else f"{self.url[:57]}..."
        return f"{self.file}: {self.parser} {self.answer} {url} for {crawlers} ({self.reason})"


def crawlers() -> list[str]:
    """Return the product tokens of the 150 crawlers."""
    records = import_module("ai_crawler_robots").crawlers().values()
    return sorted(record["token"] or record["slug"] for record in records)


def files(folder: Path | None = None) -> list[PublicFile]:
    """Return all files, and the files of a folder if it is given."""
    module = import_module("ai_crawler_robots")
    bodies = {slug: module.policy(slug)["robots_txt"].encode() for slug in module.policies()}
    if folder is not None:
        bodies |= {path.name: path.read_bytes() for path in sorted(folder.glob("*.txt"))}
    found = [
        PublicFile(name, body, urls_of("e.example", body, _URLS), "")
        for name, body in bodies.items()
    ]
    for question in questions():
        body = question.case.octets
        if len(body) < _LARGEST and len(question.url) < _LARGEST:
            urls = (question.url, *urls_of("e.example", body, _URLS))
            found.append(PublicFile(question.case.id, body, urls, question.reason))
    return found


def compare(
    name: str, load: Load, asked: Sequence[PublicFile], agents: Sequence[str]
) -> Iterator[Difference]:
    """Yield the verdicts of a parser that are not ours."""
    for file in asked:
        differing: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        ours, parsed = _once(PEERS[CORE].load), _once(load)
        for url in dict.fromkeys(file.urls):
            for agent in agents:
                expected = answer(ours, file.body, url, agent)
                given = answer(parsed, file.body, url, agent, _LIMIT)
                if given != expected:
                    reason = file.reason or _reason(load, file.body, url, agent)
                    differing[url, given, reason].append(agent)
                if given.startswith("takes"):
                    break  # the other crawlers would take as long
        for (url, given, reason), names in differing.items():
            yield Difference(name, file.name, url, given, reason, tuple(names))


def _once(load: Load) -> Load:
    """Return a function that reads a file when it is asked about first."""
    asks: dict[bytes, Ask] = {}

    def parsed(body: bytes) -> Ask:
        if body not in asks:
            asks[body] = load(body)
        return asks[body]

    return parsed


def counts(differences: Sequence[Difference]) -> dict[str, Counter[str]]:
    """Count the differences of each parser by their reasons."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in differences:
        found[one.parser][one.reason] += len(one.crawlers)
    return found


# Why two parsers differ about a file that tests no decision.


def _reason(load: Load, body: bytes, url: str, agent: str) -> str:
    """Return the first step of simplifying a file after which a parser agrees with ours."""
    expected = allows(PEERS[CORE].load(body)(url, agent))
    run = re.match(r"[A-Za-z_-]*", agent)
    if run and run[0] != agent and allows(load(body)(url, run[0])) is expected:
        return "leading-run"
    lines = _lines(body)
    group = _group(lines, agent)
    ordered = sorted(group, key=lambda rule: (-len(rule[1]), rule[0]))
    verdict = [("allow" if expected else "disallow", "/")]
    steps = {
        "RFC 2.2 (lines and other records)": lines,
        "RFC 2.2.1 (the group that applies)": [("user-agent", agent), *group],
        "RFC 2.2.2 (the most specific rule)": [("user-agent", agent), *ordered],
        "RFC 2.2.3 (special characters), 2.2.2 (escapes)": [("user-agent", agent), *verdict],
    }
    for reason, simpler in steps.items():
        text = "\n".join(f"{key}: {value}" for key, value in simpler).encode()
        answers = [allows(parser(text)(url, agent)) for parser in (PEERS[CORE].load, load)]
        if answers == [expected, expected]:
            return reason
    return UNEXPLAINED


def _lines(body: bytes) -> list[tuple[str, str]]:
    """Return the user-agent lines and rules of a file."""
    records = []
    for line in re.split(r"\r\n|\r|\n", body.decode("utf-8", "ignore").removeprefix("\ufeff")):
        key, _, value = line.partition("#")[0].partition(":")
        if key.strip().lower() in _KEYS:
            records.append((key.strip().lower(), value.strip()))
    return records


def _group(lines: Sequence[tuple[str, str]], agent: str) -> list[tuple[str, str]]:
    """Return the rules of all groups of a crawler, or of the `*` groups if it has none."""
    groups: dict[str, list[tuple[str, str]]] = {}
    names: list[str] = []
    is_open = False
    for key, value in lines:
        if key == "user-agent":
            names = [*names, value.lower()] if is_open else [value.lower()]
            groups.setdefault(value.lower(), [])
            is_open = True
            continue
        is_open = False
        for name in names:
            groups[name].append((key, value))
    return groups.get(agent.lower(), groups.get("*", []))
