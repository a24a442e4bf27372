"""Workers that share a Redis server: real processes in every runtime."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
import redis
from pytest_twisted import ensureDeferred
from twisted.internet.defer import Deferred

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.cache import client as fetches
from scrapy_robots_rfc.scheduling import shared
from tests.support.crawling import crawl
from tests.support.documents import block
from tests.support.site import HANG, PAGE, Asked, Reply, Site, redirect, robots
from tests.support.timed_site import DELAY, PACED, gaps
from tests.support.workers import REACTORS, Worker, fleet

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.redis_server import RedisServer

FORBID = robots("User-agent: *\nDisallow: /private\n")

#: Seconds after which leases and turns of a killed worker end.
HOLD = 1.5


@pytest.fixture
def settings(redis_address: str) -> dict[str, Any]:
    """Return the settings of workers that share a server."""
    return {"ROBOTS_CACHE": redis_address}


def together(workers: list[Worker]) -> list[dict[str, Any]]:
    """Start workers at the same time, and wait for them."""
    with fleet(*workers):
        for worker in workers:
            worker.start()
        return [worker.result() for worker in workers]


def test_one_fetch_and_one_interval(settings: dict[str, Any]) -> None:
    """Each file is fetched once for all processes, and its interval is kept by all of them
    together.
    """
    kinds = [FORBID, Reply(404), Reply(503), redirect("/elsewhere")]
    forbidden: dict[int, set[str]] = {0: {"/private"}, 2: {"/private", "/page"}}
    with ExitStack() as stack:
        sites = [
            stack.enter_context(Site({"/robots.txt": kind})) for kind in kinds for _ in range(2)
        ]
        paced = stack.enter_context(Site({"/robots.txt": PACED}))
        urls = [site.url(path) for site in sites for path in ("/page", "/private")]
        slow = [[paced.url(f"/{mode}/{number}") for number in range(3)] for mode in REACTORS]
        results = together(
            [
                Worker(mode, urls + pages, settings)
                for mode, pages in zip(REACTORS, slow, strict=True)
            ]
        )
        assert [site.fetches for site in sites] == [1] * 8
        for number, url in enumerate(urls):
            path = url[url.rindex("/") :]
            wanted = "RobotsDisallowed" if path in forbidden.get(number // 4, ()) else 200
            assert [result["outcomes"][url] for result in results] == [wanted] * 3
    assert sum(result["stats"].get("robotstxt/request_count", 0) for result in results) == 9
    assert not any(result["stats"].get("robotstxt/cache/store_errors") for result in results)
    for result, pages in zip(results, slow, strict=True):
        assert {url: result["outcomes"][url] for url in pages} == dict.fromkeys(pages, 200)
    assert (paced.fetches, paced.targets[0]) == (1, "/robots.txt")
    assert len(paced.arrivals) == 10
    assert min(gaps(paced)) >= DELAY


@ensureDeferred
async def test_worker_that_dies_with_a_lease_and_a_turn(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others wait until the lease and the turn of a killed worker end, and no longer."""
    monkeypatch.setattr(fetches, "LEASE", HOLD)
    monkeypatch.setattr(fetches, "RENEW_INTERVAL", HOLD / 3)
    monkeypatch.setattr(shared, "TURN_TIMEOUT", HOLD)
    monkeypatch.setattr(shared, "EXTEND_EVERY", HOLD / 3)
    file_asked, page_asked = threading.Event(), threading.Event()

    def file(_: Asked) -> Reply:
        if file_asked.is_set():
            return FORBID
        file_asked.set()
        return HANG

    def page(_: Asked) -> Reply:
        page_asked.set()
        return HANG

    with (
        Site({"/robots.txt": file}) as site,
        Site({"/robots.txt": PACED, "/slow": page}) as paced,
    ):
        urls = [site.url("/page"), site.url("/private"), paced.url("/1"), paced.url("/2")]
        worker = Worker("asyncio", [site.url("/page"), paced.url("/slow")], settings, HOLD)
        with fleet(worker):
            worker.start()
            assert file_asked.wait(60)
            assert page_asked.wait(60)
            going_on = Deferred.fromCoroutine(crawl(urls, settings))
            worker.kill()
            result = await going_on
    assert result.outcomes.pop(site.url("/private")).__class__ is RobotsDisallowed
    assert list(result.outcomes.values()) == [200] * 3
    assert site.fetches == 2
    assert site.pages == ["/page"]
    assert paced.targets[:2] == ["/robots.txt", "/slow"]
    assert len(paced.targets) == 4
    assert min(gaps(paced)) >= DELAY
    assert gaps(paced)[1] >= HOLD / 2


SPIDER = """
from scrapy import Request, Spider

class Worker(Spider):
    name = "worker"
    custom_settings = globals()

    async def start(self):
        for url in self.urls.split():
            yield Request(url)

    def parse(self, response):
        pass
"""


@pytest.mark.usefixtures("redis_installed")
@pytest.mark.parametrize(
    "reply", [HANG, robots("User-agent: *\nCrawl-delay: 50\n")], ids=["hanging", "paced"]
)
def test_waiting_requests_go_back(redis_server: RedisServer, tmp_path: Path, reply: Reply) -> None:
    """A site whose requests wait delays no other site. A worker that gets SIGTERM ends soon, and
    its waiting requests are in the shared queue.
    """
    started = threading.Event()

    def last_page(_: Asked) -> Reply:
        started.set()
        return PAGE

    recipe = block("docs/plugins.md", "python", "scrapy_redis")
    spider = tmp_path / "worker.py"
    spider.write_text(recipe.replace("redis://127.0.0.1:6379/0", redis_server.url) + SPIDER)
    with Site({"/robots.txt": reply}) as waiting, Site({"/last": last_page}) as site:
        urls = [*(waiting.url(f"/{number}") for number in range(20)), site.url("/last")]
        command = [sys.executable, "-m", "scrapy", "runspider", str(spider), "-a"]
        with subprocess.Popen([*command, "urls=" + " ".join(urls)], cwd=tmp_path) as worker:
            assert started.wait(100)
            stopped = time.monotonic()
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(100) == 0
        assert waiting.pages == []
    assert time.monotonic() - stopped < 30  # robots.txt and pages may take up to 180 s
    with redis.Redis(port=redis_server.port) as client:
        assert client.zcard("worker:requests") == 20
        client.delete("worker:requests")
