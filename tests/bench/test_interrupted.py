"""Crawls in processes of their own that are interrupted once, and resumed.

`python -m bench.interrupted` runs more.
"""

from __future__ import annotations

import signal
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from bench.interrupted import Crawled, Stop, crawl, moments, wrong
from bench.resumed_crawl import SETTINGS

pytestmark = pytest.mark.once

RUNS = [
    (after, sign, runtime)
    for sign, runtime in (
        (signal.SIGINT, "asyncio"),
        (signal.SIGINT, "select"),
        (signal.SIGINT, "none"),
        (signal.SIGKILL, "asyncio"),
    )
    for after in moments(1, seed=len(runtime) + sign)
]


@pytest.fixture(scope="module")
def crawls() -> list[Crawled]:
    """One that is not interrupted, and one for each of the runs."""
    with ThreadPoolExecutor(3) as pool:  # most of their time they wait
        plain = pool.submit(crawl)
        found = pool.map(lambda run: crawl(Stop(*run[:2]), runtime=run[2]), RUNS)
        return [plain.result(), *found]


def test_the_crawl_itself(crawls: list[Crawled]) -> None:
    """Without interruption every open page is fetched, and every closed one dropped, once, with
    its meta.
    """
    plain = crawls[0]
    assert [pages.total() for pages in plain.pages] == [21, 20, 20]
    outcomes = Counter((outcome, own) for (_, _, outcome, own) in plain.reported.elements())
    assert outcomes == {("200", "True"): 61, ("RobotsDisallowed", "True"): 30}
    assert plain.errors == ""


def test_killed_while_requests_wait_for_a_robots_txt() -> None:
    """Requests stay on disk while their robots.txt is fetched.

    A SIGKILL takes no more than what was handed out.
    """
    found = crawl(Stop(None), Stop(None, signal.SIGKILL))
    assert (found.processes, found.hangs) == (3, False)
    assert found.missing <= SETTINGS["CONCURRENT_REQUESTS"]


@pytest.mark.parametrize("run", range(len(RUNS)))
def test_interrupted_and_resumed(crawls: list[Crawled], run: int) -> None:
    """After SIGINT, under any runtime, each page is fetched once and every callback is called.

    SIGKILL opens none.
    """
    after, sign, _ = RUNS[run]
    found = crawls[run + 1]
    assert found.processes == 2 or after > 1  # it may be over by then
    assert wrong(crawls[0], found, sign) == "", after
    assert found.errors == "" or sign is signal.SIGKILL
    assert (
        found.closing < 15
    )  # a busy machine takes its time; what an idle one takes, `python -m bench.interrupted` prints
