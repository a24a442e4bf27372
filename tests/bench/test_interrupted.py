"""Crawls in their own processes that are interrupted and resumed.

`python -m bench.interrupted` runs more of them.
"""

from __future__ import annotations

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.interrupted import Crawled, Stop, crawl, wrong
from bench.resumed_crawl import SETTINGS

pytestmark = pytest.mark.once

RUNS = [
    (0.4, signal.SIGINT, "asyncio"),
    (0.9, signal.SIGTERM, "select"),
    (0.2, signal.SIGINT, "none"),
    (0.6, signal.SIGKILL, "asyncio"),
]


@pytest.fixture(scope="module")
def crawls() -> list[Crawled]:
    """A crawl without interruption, and one for each of the runs."""
    with ThreadPoolExecutor(3) as pool:  # they mostly wait
        plain = pool.submit(crawl)
        results = pool.map(lambda run: crawl(Stop(*run[:2]), runtime=run[2]), RUNS)
        return [plain.result(), *results]


@pytest.mark.parametrize("run", range(len(RUNS)))
def test_a_resumed_crawl_fetches_each_page_once(crawls: list[Crawled], run: int) -> None:
    """After a signal every callback is called once; SIGKILL opens no disallowed page."""
    _, sign, _ = RUNS[run]
    plain, result = crawls[0], crawls[run + 1]
    assert wrong(plain, result, sign) == ""
    assert plain.errors == ""
    assert result.errors == "" or sign is signal.SIGKILL


def test_a_kill_takes_only_requests_in_flight() -> None:
    """Requests that wait for a robots.txt survive SIGKILL on disk."""
    result = crawl(Stop(None), Stop(None, signal.SIGKILL))
    assert (result.processes, result.hangs) == (3, False)
    assert result.missing <= SETTINGS["CONCURRENT_REQUESTS"]
