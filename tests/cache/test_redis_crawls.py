"""Crawls whose Redis server fails, at start or later."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
import redis
from pytest_twisted import ensureDeferred
from scrapy import Request, signals

from scrapy_robots_rfc.cache.stores.redis import RedisStore
from tests.support.crawling import Pages, crawl, listening
from tests.support.redis_server import RedisServer
from tests.support.site import PAGE, Reply, Site, robots
from tests.support.timed_site import DELAY, gaps

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


pytestmark = pytest.mark.usefixtures("redis_installed")

PASSWORD = "se-cret"
FORBID = robots("User-agent: *\nDisallow: /private\n")
PACED = robots(f"User-agent: *\nDisallow: /private\nCrawl-delay: {DELAY}\n")


class Stepwise(Pages):
    """A spider that calls a function after a page, requests more pages, and so on, then pages one
    by one.
    """

    steps: list[tuple[Callable[[], object], list[str]]]
    further: Iterator[Request]

    def parse(self, response: Any, **_: Any) -> Any:
        super().parse(response)
        if self.steps:
            act, urls = self.steps.pop(0)
            act()
            for url in urls:
                yield Request(url, callback=self.parse, errback=self.failed)
        else:
            for request in islice(self.further, 1):
                yield request.replace(callback=self.parse, errback=self.failed)


@dataclass
class Server:
    """A server, and a connection that survives a change of its password."""

    server: RedisServer
    admin: Any

    @property
    def address(self) -> str:
        """The address with the password."""
        return f"redis://:{PASSWORD}@127.0.0.1:{self.server.port}?timeout=0.5"

    def settled(self) -> Reply:
        """Answer with a page when all work for its robots.txt is done."""
        with self.admin.pubsub() as events:
            events.psubscribe("__keyevent@0__:del")
            while self.admin.keys("robots:lease:http*"):
                events.get_message(timeout=1)
        return PAGE

    def has_one(self) -> bool:
        return bool(self.admin.keys("robots:copy:http://*.example"))

    def password(self, password: str) -> None:
        self.admin.config_set("requirepass", password)
        self.admin.client_kill_filter(skipme=True, _type="normal")


@pytest.fixture
def server() -> Iterator[Server]:
    """A server with a password."""
    with RedisServer(requirepass=PASSWORD) as running:
        admin = redis.Redis(port=running.port, password=PASSWORD, socket_timeout=60)
        admin.config_set("notify-keyspace-events", "Eg")  # for `settled`
        yield Server(running, admin)
        admin.close()


#: Failures of a server, and how to undo them.
TROUBLES: dict[str, tuple[Callable[[Server], object], Callable[[Server], object]]] = {
    "connection lost": (lambda it: it.server.stop(), lambda it: it.server.start()),
    "slow": (lambda it: it.server.freeze(), lambda it: it.server.thaw()),
    "out of memory": (
        lambda it: it.admin.config_set("maxmemory", "1"),
        lambda it: it.admin.config_set("maxmemory", "0"),
    ),
    "read-only replica": (
        lambda it: it.admin.replicaof("127.0.0.1", "1"),
        lambda it: it.admin.replicaof("no", "one"),
    ),
    "wrong password": (lambda it: it.password("another"), lambda it: it.password(PASSWORD)),
}


@pytest.mark.parametrize("trouble", TROUBLES)
@ensureDeferred
async def test_server_that_fails_during_a_crawl(
    trouble: str,
    server: Server,
    open_redis: Callable[..., RedisStore],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While its server fails, a crawl obeys robots.txt, fetches and paces by itself, and logs that
    once; then it uses the server again.
    """
    monkeypatch.setattr("scrapy_robots_rfc.cache.client.RETRY_DELAY", 0.0)
    begin, end = TROUBLES[trouble]
    with (
        Site({"/robots.txt": FORBID}) as first,
        Site({"/robots.txt": PACED}) as second,
        Site() as proxy,
    ):
        first.replies["/1"] = lambda _: server.settled()
        steps = [
            (
                lambda: begin(server),
                [first.url("/private"), *map(second.url, ("/private", "/1", "/2"))],
            ),
            (lambda: end(server), ["data:,"]),
        ]
        settings = {"ROBOTS_CACHE": server.address}
        further = until_it_is_used_again(server, proxy)
        result = await crawl(
            [first.url("/1")], settings, spider=Stepwise, steps=steps, further=further
        )
        private = [site.url("/private") for site in (first, second)]
        assert result.verdicts(*private) == ["rule"] * 2
        assert {*result.verdicts()} == {"rule", 200}
        assert (first.fetches, first.pages) == (1, ["/1"])
        assert (second.fetches, second.pages) == (1, ["/1", "/2"])
        assert min(gaps(second)) >= DELAY
        assert server.has_one()
    assert result.stat("cache/store_errors") >= 1
    [fails] = logged(caplog)
    assert " failed (" in fails
    assert PASSWORD not in caplog.text


def logged(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log says about the store."""
    return [
        record.getMessage()
        for record in caplog.records
        if record.name == "scrapy_robots_rfc.cache.client"
    ]


def until_it_is_used_again(server: Server, proxy: Site) -> Iterator[Request]:
    """Yield pages of one site until the server is used again, which depends on the machine."""
    for number in itertools.count():
        yield Request(f"http://{number}.example/1", meta={"proxy": proxy.url("")})
        if server.has_one():
            return


@ensureDeferred
async def test_connections_of_a_worker(server: Server, proxy: Site) -> None:
    """A worker opens at most eight connections to the server, however many files it needs."""
    connections: list[int] = []

    def count() -> None:
        # Without the connection of the test.
        connections.append(len(server.admin.client_list()) - 1)

    pages = [f"http://{number}.example/" for number in range(60)]
    settings = {"ROBOTS_CACHE": server.address}
    result = await crawl(pages, settings, prepare=listening(count, signals.spider_closed))
    assert result.outcomes == dict.fromkeys(pages, 200)
    assert proxy.pages
    assert 1 < connections[0] <= RedisStore.threads == 8
