"""The life of a file: reading it and so many verdicts, each on another URL, in nanoseconds.

All parsers in turn.
"""

from __future__ import annotations

import random
from statistics import fmean
from time import perf_counter_ns
from typing import TYPE_CHECKING

from bench import samples
from bench.timing import quiet

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers import Peer
    from bench.samples import Sample

#: Verdicts a life.
LENGTHS = (1, 2, 5, 20, 100, 1000)
#: The last verdict of those that come after the first one, whose time together is a row of its own.
NEXT = 21


def measure(
    peers: Sequence[Peer], files: Sequence[Sample], repeat: int
) -> tuple[dict[int, dict[str, float]], dict[str, float]]:
    """Mean microseconds of lives, by their length and by the parser's name.

    And those of verdicts 2 to 21 together.
    """
    rng = random.Random(LENGTHS[-1])
    asked = [(file, samples.urls_for(file.name, file.body, LENGTHS[-1], rng)) for file in files]
    lives: dict[int, dict[str, list[int]]] = {
        length: {peer.name: [] for peer in peers} for length in LENGTHS
    }
    following: dict[str, list[int]] = {peer.name: [] for peer in peers}
    with quiet():
        for file, urls in asked:
            for length in LENGTHS:
                for peer in peers:
                    lives[length][peer.name].append(_life(peer, file, urls[:length], repeat)[0])
            for peer in peers:
                following[peer.name].append(_life(peer, file, urls[:NEXT], repeat)[1])
    means = {
        length: {name: fmean(times) / 1000 for name, times in found.items()}
        for length, found in lives.items()
    }
    return means, {name: fmean(times) / 1000 for name, times in following.items()}


def _life(peer: Peer, file: Sample, urls: Sequence[str], repeat: int) -> tuple[int, int]:
    """The best times of a life, and of all its verdicts but the first."""
    whole = rest = 1 << 62
    for _ in range(repeat + 1):
        start = perf_counter_ns()
        ask = peer.load(file.body, file.name)
        ask(urls[0], peer.agent)
        first = perf_counter_ns()
        for url in urls[1:]:
            ask(url, peer.agent)
        end = perf_counter_ns()
        whole, rest = min(whole, end - start), min(rest, end - first)
    return whole, rest
