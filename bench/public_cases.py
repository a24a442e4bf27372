"""Compare parsers on crawlers and files of another project, as part of `make conformance`.

The package ai-crawler-robots has 150 crawlers and some robots.txt files. Each parser decides about
URLs of these files, and of the files of our own cases, for each crawler. Every verdict other than
ours must have a reason: the decision that our case tests, an entry in `REASONS`, or a crawler name
with characters that are not allowed in a product token.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import NamedTuple

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


class PublicFile(NamedTuple):
    """A file, URLs of its host, and the decision that it tests if it is one of our cases."""

    name: str
    body: bytes
    urls: tuple[str, ...]
    decision: str = ""


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
        urls = dict.fromkeys(urls_of("e.example", body, _URLS))
        found.append(PublicFile(slug, body, tuple(urls)))
    for question in questions():
        body = question.case.octets
        if len(body) < _MAX_SIZE and len(question.url) < _MAX_SIZE:
            urls = dict.fromkeys((question.url, *urls_of("e.example", body, _URLS)))
            found.append(PublicFile(question.case.id, body, tuple(urls), question.reason))
    return found


def differences(
    load: Load, asked: Sequence[PublicFile], agents: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the reason and a description of each verdict that differs from ours."""
    for file in asked:
        # Read each file only once.
        ours, theirs = cache(PEERS[CORE].load), cache(load)
        for url in file.urls:
            for agent in agents:
                given = answer(theirs, file.body, url, agent, _TIMEOUT)
                if given != answer(ours, file.body, url, agent):
                    is_token = re.fullmatch(r"[A-Za-z_-]+", agent)
                    of_file = REASONS.get(file.name, UNEXPLAINED)
                    reason = file.decision or (of_file if is_token else "leading-run")
                    yield reason, f"{file.name}: {given} {url:.60} for {agent}"
                if given.startswith("takes"):
                    break  # it would be as slow for the other crawlers
