"""Whole crawls of a local site, in rounds.

Every mode in turn, so that a busy machine hits all alike.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.crawl import MODES, OFF

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Crawl:
    """Crawls in one mode.

    :param rate: pages per second by the wall clock, the median of the rounds.
    :param cpu: microseconds of processor time a page, the median of the rounds.
    :param of_off: its rate as a share of that without robots.txt in the same round, the median of
        the rounds.
    :param cpu_of_off: the same by processor time: a busy machine disturbs it less.
    """

    rate: float
    cpu: float
    of_off: float
    cpu_of_off: float


@contextmanager
def serving(address: str = "127.0.0.1") -> Iterator[int]:
    """The site's port; it ends with the block.

    :param address: where it listens.
    """
    command = [sys.executable, "-m", "bench.site", address]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield int(server.stdout.readline())
        finally:
            server.communicate()


def _crawl(mode: str, port: int, pages: int) -> dict[str, float]:
    command = [sys.executable, "-m", "bench.crawl", mode, str(port), str(pages)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True, timeout=120)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def measure(pages: int, rounds: int) -> dict[str, Crawl]:
    """Crawl the site in each mode, and that so many times; by the mode's name.

    :param pages: pages a crawl.
    """
    runs: list[dict[str, dict[str, float]]] = []
    modes = list(MODES)
    with serving() as port:
        for turn in range(rounds):
            order = modes[turn % len(modes) :] + modes[: turn % len(modes)]
            runs.append({mode: _crawl(mode, port, pages) for mode in order})
    return {mode: _summary(mode, runs, pages) for mode in modes}


def _summary(mode: str, runs: list[dict[str, dict[str, float]]], pages: int) -> Crawl:
    median = statistics.median
    return Crawl(
        median(pages / run[mode]["wall"] for run in runs),
        median(run[mode]["cpu"] / pages * 1e6 for run in runs),
        median(run[OFF]["wall"] / run[mode]["wall"] for run in runs),
        median(run[OFF]["cpu"] / run[mode]["cpu"] for run in runs),
    )
