"""Bytes that a parsed file takes: what is still allocated when the caller has given the octets up.

And those that a crawl takes for a file that is not parsed. What a whole crawl takes is `hosts.py`.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import tracemalloc
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.peers import Peer
    from bench.samples import Sample


def resident() -> int:
    """Bytes of memory that this process has just now.

    Where the system does not say so, at its largest.
    """
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (
            1 if sys.platform == "darwin" else 1024
        )
    return pages * os.sysconf("SC_PAGE_SIZE")


@dataclass(slots=True)
class Sizes:
    """Mean bytes a file.

    :param parsed: after reading.
    :param asked: after the first verdict.
    :param used: after verdicts on all its URLs, an index made on first use included.
    """

    parsed: float = 0
    asked: float = 0
    used: float = 0


def measure(peers: Sequence[Peer], samples: Sequence[Sample]) -> dict[str, Sizes]:
    """Mean bytes that each parser takes for a file, by name."""
    with _alone():
        for peer in peers:  # what a parser stores for the whole process is not a file's
            _bytes(peer, samples[:3])
        return {peer.name: _bytes(peer, samples) for peer in peers}


@contextmanager
def _alone() -> Iterator[None]:
    """Have collections look at nothing that was there before.

    It is not counted, and there is much of it.
    """
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def _bytes(peer: Peer, samples: Sequence[Sample]) -> Sizes:
    gc.collect()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        # A copy, so that octets which a parser stores are counted as its own; it has no other
        # owner.
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
    return Sizes(parsed / len(samples), asked / len(samples), used / len(samples))


def _held(start: int) -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - start


def remembered(samples: Sequence[Sample]) -> float:
    """Mean bytes that a crawl takes for an origin whose file is not parsed."""
    gc.collect()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        memory: MemoryCache = MemoryCache(
            len(samples),
            parse=lambda *_: True,
            evicted=lambda: None,
            parsed=(1, 0),
        )
        for at, sample in enumerate(samples):
            validity = Validity(Outcome.SUCCESSFUL, at + 86400.0, float(at))
            copy = CacheEntry(validity, 200, "200", float(at), body=bytes(bytearray(sample.body)))
            memory.put(Origin("https", f"{at}.{sample.name}", 443), True, copy)
        assert len(memory) == len(samples)
        return _held(start) / len(samples)
    finally:
        tracemalloc.stop()
