"""Compare parsers on crawlers and files of another project, as part of `make conformance`.

The package ai-crawler-robots has 150 crawlers and some robots.txt files. Each parser decides about
URLs of these files, and of the files of our own cases, for each crawler. Each verdict other than
ours has a reason: the decision that our case tests, or the first step of simplifying the file after
which both parsers agree.
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

    from bench.peers import Ask, Load

# Larger files and URLs of our cases are left out, because they test limits.
_MAX_SIZE = 20_000
_URLS = 3
# Maximum seconds for one verdict.
_TIMEOUT = 5
_KEYS = ("user-agent", "allow", "disallow")
UNEXPLAINED = "unexplained"


@dataclass(frozen=True, slots=True)
class PublicFile:
    """A file, URLs of its host, and the decision that it tests, if it is one of our cases."""

    name: str
    body: bytes
    urls: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Difference:
    """A verdict of a parser that differs from ours, and the crawlers that get it."""

    parser: str
    file: str
    url: str
    answer: str
    reason: str
    crawlers: tuple[str, ...]

    def __str__(self) -> str:
        count = f"{len(self.crawlers)} crawlers"
        return (
            f"{self.file}: {self.parser} {self.answer} {self.url:.60} for {count} ({self.reason})"
        )


def crawlers() -> list[str]:
    """Return the product tokens of the 150 crawlers."""
    records = import_module("ai_crawler_robots").crawlers().values()
    return sorted(record["token"] or record["slug"] for record in records)


def files() -> list[PublicFile]:
    """Return all files."""
    module = import_module("ai_crawler_robots")
    found = []
    for slug in module.policies():
        body = module.policy(slug)["robots_txt"].encode()
        found.append(PublicFile(slug, body, urls_of("e.example", body, _URLS), ""))
    for question in questions():
        body = question.case.octets
        if len(body) < _MAX_SIZE and len(question.url) < _MAX_SIZE:
            urls = (question.url, *urls_of("e.example", body, _URLS))
            found.append(PublicFile(question.case.id, body, urls, question.reason))
    return found


def compare(
    name: str, load: Load, asked: Sequence[PublicFile], agents: Sequence[str]
) -> Iterator[Difference]:
    """Yield the verdicts of a parser that differ from ours."""
    for file in asked:
        differing: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        ours, theirs = _once(PEERS[CORE].load), _once(load)
        for url in dict.fromkeys(file.urls):
            for agent in agents:
                expected = answer(ours, file.body, url, agent)
                given = answer(theirs, file.body, url, agent, _TIMEOUT)
                if given != expected:
                    reason = file.reason or _reason(load, file.body, url, agent)
                    differing[url, given, reason].append(agent)
                if given.startswith("takes"):
                    break  # it would be as slow for the other crawlers
        for (url, given, reason), names in differing.items():
            yield Difference(name, file.name, url, given, reason, tuple(names))


def _once(load: Load) -> Load:
    """Return a function that reads each file only once."""
    asks: dict[bytes, Ask] = {}

    def load_once(body: bytes) -> Ask:
        if body not in asks:
            asks[body] = load(body)
        return asks[body]

    return load_once


def counts(differences: Sequence[Difference]) -> dict[str, Counter[str]]:
    """Count the differences of each parser by their reasons."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for one in differences:
        found[one.parser][one.reason] += len(one.crawlers)
    return found


def _reason(load: Load, body: bytes, url: str, agent: str) -> str:
    """Return the first step of simplifying a file after which a parser agrees with ours.

    This explains differences on files that are not ours.
    """
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
