"""Compare parsers on crawlers and files of another project, as part of `make conformance`.

The package ai-crawler-robots has 150 crawlers and some robots.txt files. Each parser decides about
URLs of these files, and of the files of our own cases, for each crawler. Every verdict other than
ours must have a reason: the decision that our case tests, an entry in `REASONS`, or a crawler name
with characters that are not allowed in a product token.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from bench.conformance_cases import questions
from bench.files import urls_of
from bench.peers import CORE, PEERS, Load, answer

# Larger files and URLs of our cases are left out, because they test limits.
_MAX_SIZE = 20_000
_URLS = 3
# Maximum seconds for one verdict.
_TIMEOUT = 5
UNEXPLAINED = "unexplained"
#: File of the package -> the section of the RFC that other parsers read differently.
REASONS = {"allow-ai-search-only": "RFC 2.2.1", "block-seo-tools": "RFC 2.2.1"}


@dataclass(frozen=True, slots=True)
class PublicFile:
    """A file, URLs of its host, and the decision that it tests if it is one of our cases."""

    name: str
    body: bytes
    urls: tuple[str, ...]
    decision: str = ""

    def reason(self, agent: str) -> str:
        """Return why other parsers may decide differently about a crawler."""
        if self.decision:
            return self.decision
        if not re.fullmatch(r"[A-Za-z_-]+", agent):
            return "leading-run"
        return REASONS.get(self.name, UNEXPLAINED)


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
        decided = f"{self.parser} {self.answer} {self.url:.60}"
        return f"{self.file}: {decided} for {len(self.crawlers)} crawlers ({self.reason})"


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
        found.append(PublicFile(slug, body, urls_of("e.example", body, _URLS)))
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
        # Read each file only once.
        ours, theirs = cache(PEERS[CORE].load), cache(load)
        for url in dict.fromkeys(file.urls):
            for agent in agents:
                expected = answer(ours, file.body, url, agent)
                given = answer(theirs, file.body, url, agent, _TIMEOUT)
                if given != expected:
                    differing[url, given, file.reason(agent)].append(agent)
                if given.startswith("takes"):
                    break  # it would be as slow for the other crawlers
        for (url, given, reason), names in differing.items():
            yield Difference(name, file.name, url, given, reason, tuple(names))
