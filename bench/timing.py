"""Times and memory of parsers; the best of several repetitions counts, all parsers take turns."""

from __future__ import annotations

import gc
import os
import tracemalloc
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter_ns
from typing import TYPE_CHECKING

from bench.files import AGENT

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.files import File
    from bench.peers import Peer


@contextmanager
def quiet() -> Iterator[None]:
    """Run the block without garbage collection."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def life(peer: Peer, body: bytes, urls: Sequence[str], agents: Sequence[str] = (AGENT,)) -> float:
    """Return the microseconds of reading a file and deciding about URLs."""
    start = perf_counter_ns()
    ask = peer.load(body)
    for number, url in enumerate(urls):
        ask(url, agents[number % len(agents)])
    return (perf_counter_ns() - start) / 1000


def lives(
    peers: Sequence[Peer], files: Sequence[File], count: int, repeat: int
) -> dict[str, float]:
    """Return the mean microseconds of the life of a file with this number of verdicts."""
    sums = dict.fromkeys((peer.name for peer in peers), 0.0)
    with quiet():
        for file in files:
            urls = file.urls[:count]
            best = {peer.name: life(peer, file.body, urls) for peer in peers}
            for _ in range(repeat):
                for peer in peers:
                    best[peer.name] = min(best[peer.name], life(peer, file.body, urls))
            for name, micros in best.items():
                sums[name] += micros / len(files)
    return sums


def memory(peer: Peer, files: Sequence[File]) -> tuple[float, float]:
    """Return the mean bytes of a file that was read, and after its verdicts."""
    gc.collect()
    tracemalloc.start()
    try:
        start = tracemalloc.get_traced_memory()[0]
        # Copies, so that bytes that a parser keeps count for it.
        asks = [peer.load(bytes(bytearray(file.body))) for file in files]
        read = tracemalloc.get_traced_memory()[0] - start
        for ask, file in zip(asks, files, strict=True):
            for url in file.urls:
                ask(url, AGENT)
        gc.collect()
        asked = tracemalloc.get_traced_memory()[0] - start
    finally:
        tracemalloc.stop()
    return read / len(files), asked / len(files)


def resident() -> int:
    """Return the bytes of memory that this process has (on Linux)."""
    pages = Path("/proc/self/statm").read_text(encoding="ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")
