"""Several processes that crawl with one Redis server: real crawls, real sites, under every runtime."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import redis

from tests.scrapy.clocked import DELAY, PACED, Clocked, gaps
from tests.scrapy.runtimes import MODES
from tests.scrapy.site import Reply, Site, redirect, robots
from tests.scrapy.workers import Worker, fleet

if TYPE_CHECKING:
    from tests.redis_server import RedisServer
    from tests.scrapy.site import Asked

FORBID = robots("User-agent: *\nDisallow: /private\n")

#: Seconds after which what a worker that was killed had ends, in place of the usual ones.
HOLD = 1.5


@pytest.fixture
def settings(redis_address: str) -> dict[str, Any]:
    """The settings of workers that share a server."""
    return {"ROBOTSTXT_CACHE": redis_address}


def together(workers: list[Worker]) -> list[dict[str, Any]]:
    """Let workers begin at the same time; wait for all of them."""
    with fleet(*workers):
        for worker in workers:
            worker.start()
        return [worker.result() for worker in workers]


def test_one_fetch_and_one_interval(settings: dict[str, Any]) -> None:
    """Each file is fetched once, however many processes need it, and all go by it; its interval holds for all of them.

    Whatever the file is, and whichever process sends the requests.
    """
    kinds = [FORBID, Reply(404), Reply(503), redirect("/elsewhere")]
    forbidden: dict[int, set[str]] = {0: {"/private"}, 2: {"/private", "/page"}}
    with ExitStack() as stack:
        sites = [stack.enter_context(Site({"/robots.txt": kind})) for kind in kinds for _ in range(4)]
        paced = stack.enter_context(Clocked({"/robots.txt": PACED}))
        urls = [site.url(path) for site in sites for path in ("/page", "/private")]
        slow = [[paced.url(f"/{mode}/{number}") for number in range(5)] for mode in MODES]
        results = together([Worker(mode, urls + pages, settings) for mode, pages in zip(MODES, slow, strict=True)])
        assert [site.fetches for site in sites] == [1] * 16
        for number, url in enumerate(urls):
            path = url[url.rindex("/") :]
            wanted = "RobotsDisallowed" if path in forbidden.get(number // 8, ()) else 200
            assert [result["outcomes"][url] for result in results] == [wanted] * 3
    assert sum(result["stats"].get("robotstxt/request_count", 0) for result in results) == 17
    assert not any(result["stats"].get("robotstxt/cache/store_errors") for result in results)
    for result, pages in zip(results, slow, strict=True):
        assert {url: result["outcomes"][url] for url in pages} == dict.fromkeys(pages, 200)
    assert (paced.fetches, paced.targets[0]) == (1, "/robots.txt")
    assert len(paced.arrivals) == 16
    assert min(gaps(paced)) >= DELAY


def test_others_wait(settings: dict[str, Any], redis_server: RedisServer) -> None:
    """While one process fetches a file, another one that needs it waits, and goes by it."""
    gate = threading.Event()
    with Site({"/robots.txt": robots("User-agent: *\nDisallow: /private\n", gate=gate)}) as site:
        urls = [site.url("/page"), site.url("/private")]
        workers = [Worker("asyncio", urls, settings) for _ in range(2)]
        with (
            fleet(*workers),
            redis.Redis(port=redis_server.port, socket_timeout=None) as client,
            client.monitor() as monitor,
        ):
            for worker in workers:
                worker.start()
            askers: set[str] = set()
            while len(askers) < 2:
                words = monitor.next_command()["command"].split()
                if words[0] == "EVALSHA" and "lease:http" in words[3]:
                    askers.add(words[4])
            gate.set()
            results = [worker.result() for worker in workers]
    assert [result["outcomes"] for result in results] == [{urls[0]: 200, urls[1]: "RobotsDisallowed"}] * 2
    assert (site.fetches, site.pages) == (1, ["/page", "/page"])
    waited = [result["stats"].get("robotstxt/cache/lease_waits", 0) for result in results]
    assert sorted(waited) == [0, 1]


def test_worker_that_dies_with_a_lease(settings: dict[str, Any]) -> None:
    """A worker that is killed while it fetches a file is waited for until its lease ends; then another one fetches."""
    asked = threading.Event()

    def answer(_: Asked) -> Reply:
        if asked.is_set():
            return FORBID
        asked.set()
        return Reply(gate=threading.Event())

    with Site({"/robots.txt": answer}) as site:
        urls = [site.url("/page"), site.url("/private")]
        one, other = (Worker("asyncio", urls, settings, HOLD) for _ in range(2))
        with fleet(one, other):
            one.start()
            assert asked.wait(60)
            other.start()
            one.kill()
            result = other.result()
    assert result["outcomes"] == {urls[0]: 200, urls[1]: "RobotsDisallowed"}
    assert site.fetches == 2
    assert site.pages == ["/page"]


def test_worker_that_dies_with_a_turn(settings: dict[str, Any]) -> None:
    """A worker that is killed while its page is unanswered holds the others up until its turn ends, and no longer."""
    asked = threading.Event()

    def answer(_: Asked) -> Reply:
        asked.set()
        return Reply(gate=threading.Event())

    with Clocked({"/robots.txt": PACED, "/slow": answer}) as site:
        one = Worker("asyncio", [site.url("/slow")], settings, HOLD)
        other = Worker("none", [site.url("/1"), site.url("/2")], settings, HOLD)
        with fleet(one, other):
            one.start()
            assert asked.wait(60)
            other.start()
            one.kill()
            result = other.result()
    assert list(result["outcomes"].values()) == [200, 200]
    assert site.targets[:2] == ["/robots.txt", "/slow"]
    assert len(site.targets) == 4
    assert min(gaps(site)) >= DELAY
    assert gaps(site)[1] >= HOLD / 2
