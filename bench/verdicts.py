"""Whether the verdicts are what they must be: ours against `plain.py`, URL by URL.

The peers' counts beside them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.peers import CORE, OURS
from bench.plain import Plain
from bench.samples import AGENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers import Peer
    from bench.samples import Sample

# The plain matcher tries every rule at every octet; larger files would take it minutes.
_MOST_RULES = 1000
_SHOWN = 10


@dataclass(slots=True)
class Count:
    """Verdicts of one parser.

    :param allowed: how many URLs it allows, of all files.
    :param checked: how many it allows of the files that the plain matcher read too.
    :param wrong: URLs on which it says something else than the plain matcher.
    """

    allowed: int = 0
    checked: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Verdicts:
    """What everyone says about all URLs.

    :param urls: how many there are.
    :param checked_urls: those of the files that the plain matcher read.
    :param expected: how many of these it allows.
    :param counts: by the parser's name.
    """

    urls: int
    checked_urls: int
    expected: int
    counts: dict[str, Count]

    @property
    def right(self) -> bool:
        """Whether ours agree with the plain matcher on every URL."""
        return (
            not (self.counts[OURS].wrong or self.counts[CORE].wrong)
            and self.counts[OURS].checked == self.expected
        )

    def complaints(self) -> list[str]:
        """The first verdicts of ours that are wrong."""
        return [url for name in (OURS, CORE) for url in self.counts[name].wrong][:_SHOWN]


def check(peers: Sequence[Peer], samples: Sequence[Sample]) -> Verdicts:
    """Ask every parser for every URL, and the plain matcher for those of all but the largest
    files.
    """
    found = Verdicts(0, 0, 0, {peer.name: Count() for peer in peers})
    for sample in samples:
        plain = Plain(sample.body, AGENT) if sample.rules <= _MOST_RULES else None
        expected = [plain.allowed(url) for url in sample.urls] if plain else []
        found.urls += len(sample.urls)
        found.checked_urls += len(expected)
        found.expected += sum(expected)
        for peer in peers:
            _count(found.counts[peer.name], peer, sample, expected)
    return found


def _count(count: Count, peer: Peer, sample: Sample, expected: Sequence[bool]) -> None:
    ask = peer.load(sample.body, sample.name)
    given = [peer.verdict(ask(url, peer.agent)) for url in sample.urls]
    count.allowed += sum(given)
    if expected:
        count.checked += sum(given)
        pairs = zip(sample.urls, given, expected, strict=True)
        count.wrong += [
            f"{url}: {answer}, must be {right}"
            for url, answer, right in pairs
            if answer is not right
        ]
