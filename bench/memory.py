"""Bytes that a parsed file keeps: what is still allocated when the caller has given the octets up."""

from __future__ import annotations

import gc
import tracemalloc
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.peers import Peer
    from bench.samples import Sample


@dataclass(slots=True)
class Kept:
    """Mean bytes a file.

    :param parsed: after reading.
    :param asked: after the first verdict.
    :param used: after verdicts on all its URLs, an index made on first use included.
    """

    parsed: float = 0
    asked: float = 0
    used: float = 0


def measure(peers: Sequence[Peer], samples: Sequence[Sample]) -> dict[str, Kept]:
    """Mean bytes that each parser keeps of a file, by name."""
    for peer in peers:  # what a parser keeps for the whole process is not a file's
        _bytes(peer, samples[:3])
    return {peer.name: _bytes(peer, samples) for peer in peers}


def _bytes(peer: Peer, samples: Sequence[Sample]) -> Kept:
    gc.collect()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        # A copy, so that octets which a parser keeps are counted as its own; it has no other owner.
        asks = [peer.load(bytes(bytearray(sample.body)), sample.name) for sample in samples]
        parsed = _held(start)
        for ask, sample in zip(asks, samples, strict=True):
            ask(sample.urls[0], peer.agent)
        asked = _held(start)
        for ask, sample in zip(asks, samples, strict=True):
            for url in sample.urls:
                ask(url, peer.agent)
        used = _held(start)
    finally:
        tracemalloc.stop()
    return Kept(parsed / len(samples), asked / len(samples), used / len(samples))


def _held(start: int) -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - start
