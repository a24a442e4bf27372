"""Times of reading and asking, in nanoseconds: best of several repetitions, all parsers in turn for
each file.

In turn, so that a busy machine hits all alike; the best, since whatever else the machine does only
ever adds.
"""

from __future__ import annotations

import gc
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter_ns
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.peers import Ask, Peer
    from bench.samples import Sample


@dataclass(slots=True)
class Times:
    """The best times of one parser on one file, in nanoseconds.

    :param first: reading the file, and the first verdict.
    :param passes: verdicts on all its URLs after that, for the first time; an index made on first
        use counts.
    :param warm: verdicts on all its URLs once more.
    """

    first: int
    passes: int
    warm: int


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection meanwhile."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def measure(
    peers: Sequence[Peer], samples: Sequence[Sample], repeat: int
) -> dict[str, list[Times]]:
    """Best times of each parser, by name, a value a file."""
    found: dict[str, list[Times]] = {peer.name: [] for peer in peers}
    with quiet():
        for sample in samples:
            best = {peer.name: _once(peer, sample) for peer in peers}
            for _ in range(repeat):
                for peer in peers:
                    # Twice in a row: the first finds the caches full of what its neighbour left
                    # there.
                    _keep_best(best[peer.name], _once(peer, sample))
                    _keep_best(best[peer.name], _once(peer, sample))
            for name, times in best.items():
                found[name].append(times)
    return found


def _once(peer: Peer, sample: Sample) -> Times:
    load, agent, body, urls = peer.load, peer.agent, sample.body, sample.urls
    host = sample.name
    start = perf_counter_ns()
    ask = load(body, host)
    ask(urls[0], agent)
    first = perf_counter_ns() - start
    return Times(first, _asking(ask, agent, urls), _asking(ask, agent, urls))


def _asking(ask: Ask, agent: str | tuple[str, ...], urls: Sequence[str]) -> int:
    start = perf_counter_ns()
    for url in urls:
        ask(url, agent)
    return perf_counter_ns() - start


def _keep_best(best: Times, times: Times) -> None:
    best.first = min(best.first, times.first)
    best.passes = min(best.passes, times.passes)
    best.warm = min(best.warm, times.warm)


def warm_match(peers: Sequence[Peer], samples: Sequence[Sample], repeat: int) -> dict[str, float]:
    """Nanoseconds a URL once everything is built.

    The files are read once, and asked again and again.
    """
    asks = {
        peer.name: [
            (peer.load(sample.body, sample.name), peer.agent, sample.urls) for sample in samples
        ]
        for peer in peers
    }
    best = {name: [1 << 62] * len(samples) for name in asks}
    with quiet():
        for _ in range(repeat + 1):
            for name, files in asks.items():
                for _ in range(2):
                    best[name] = [
                        min(old, _asking(*file))
                        for old, file in zip(best[name], files, strict=True)
                    ]
    urls = sum(len(sample.urls) for sample in samples)
    return {name: sum(times) / urls for name, times in best.items()}
