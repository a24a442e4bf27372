"""The service in real crawls: its results, its memory, and the proxies of its requests."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import DeferredList

from scrapy_robots_rfc import Reason, RobotsService, RobotsTxt, robots_service
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.routes import proxy_of
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.crawling import Pages, crawl
from tests.support.service_crawls import gather, run
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scrapy_robots_rfc.fetching.parsed import OriginPolicy

FORBID = robots("User-agent: *\nDisallow: /x\n")


@ensureDeferred
async def test_waiting_request_never_loses_its_entry() -> None:
    """With more origins than the memory holds, each waiter gets its own verdict."""
    with ExitStack() as stack:
        sites = [stack.enter_context(Site({"/robots.txt": FORBID})) for _ in range(4)] * 3

        async def script(service: RobotsService) -> None:
            known: list[OriginPolicy] = await gather(*(service.robots(s.url("/x")) for s in sites))
            assert [str(robots.origin) for robots in known] == [s.url("") for s in sites]
            assert not any(robots.decide(f"{robots.origin}/x").allowed for robots in known)

        await run(script, {"ROBOTS_CACHE_SIZE": 1})
        assert [s.fetches for s in sites[:4]] == [1, 1, 1, 1]


@pytest.mark.reactor
@ensureDeferred
async def test_cancelled_waiter_disturbs_no_other(site: Site) -> None:
    """If a waiter is cancelled, the fetch continues for the others."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n", gate=gate)

    async def script(service: RobotsService) -> None:
        waiting = [deferred_from_coro(service.robots(site.url("/x"))) for _ in range(4)]
        for cancelled in (waiting[0], waiting[2]):
            cancelled.addErrback(lambda _: None)
            cancelled.cancel()
        gate.set()
        results = await maybe_deferred_to_future(DeferredList([waiting[1], waiting[3]]))
        assert [known.decide(site.url("/x")).allowed for _, known in results] == [False, False]

    await run(script)
    assert site.fetches == 1


@ensureDeferred
async def test_what_a_spider_can_read(site: Site) -> None:
    """The result has outcome, status, file, sitemaps, delay and decisions."""
    text = (
        "User-agent: foobot\nDisallow: /foo\nCrawl-delay: 2.5\n\n"
        "User-agent: *\nDisallow: /any\n\nSitemap: https://a.example/s.xml\n"
    )
    site.replies["/robots.txt"] = robots(text)

    async def script(service: RobotsService) -> None:
        known = await service.robots(site.url("/x"))
        assert (known.outcome, known.status, known.cause, known.stale) == (
            Outcome.SUCCESSFUL,
            200,
            "200",
            False,
        )
        assert isinstance(known.robots, RobotsTxt)
        assert known.sitemaps == ("https://a.example/s.xml",)
        assert (known.crawl_delay(), known.crawl_delay("OtherBot")) == (2.5, None)
        own, others = known.decide(site.url("/foo")), known.decide(site.url("/foo"), "OtherBot/1.0")
        assert (own.allowed, own.token, own.origin) == (False, "FooBot", site.url(""))
        assert (others.allowed, others.token) == (True, "*")
        assert known.decide(site.url("/any"), ["unknown", "other"]).reason is Reason.RULE

    result = await run(script, {"ROBOTSTXT_USER_AGENT": "FooBot", "USER_AGENT": "FooBot/1.0"})
    assert not result.stat("allowed")


@ensureDeferred
async def test_sitemaps_that_a_spider_may_ask_for(site: Site, tmp_path: Path) -> None:
    """Sitemaps are absolute URLs of allowed schemes, each once, at most 1,000."""
    many = "".join(f"Sitemap: /{number}.xml\n" for number in range(2_000))
    site.replies["/robots.txt"] = robots(f"Sitemap: /0.xml\nSitemap: file:///etc/passwd\n{many}")
    own = tmp_path / "robots.txt"
    own.write_text("Sitemap: https://b.example/own.xml\n", encoding="utf-8")

    async def script(service: RobotsService) -> None:
        assert await service.sitemaps("http://own.example/") == ["https://b.example/own.xml"]
        assert await service.sitemaps(site.url("/x")) == [
            site.url(f"/{number}.xml") for number in range(998)
        ]
        with pytest.raises(ValueError, match="http or https"):
            await service.sitemaps("data:,x")

    await run(script, {"ROBOTS_OVERRIDES": {"http://own.example": str(own)}})
    assert site.fetches == 1


@ensureDeferred
async def test_where_there_is_no_file(site: Site) -> None:
    """Without a file, the result says so, and still decides."""
    site.replies["/robots.txt"] = Reply(410)

    async def script(service: RobotsService) -> None:
        known = await service.robots(site.url("/x"))
        assert (known.outcome, known.status, known.cause) == (Outcome.UNAVAILABLE, 410, "410")
        assert (known.robots, known.sitemaps, known.crawl_delay()) == (None, (), None)
        decision = known.decide(site.url("/x"))
        assert (decision.allowed, decision.reason) == (True, Reason.UNAVAILABLE)

    await run(script)


@ensureDeferred
async def test_robots_service_without_the_middleware() -> None:
    """If robots.txt is not obeyed, there is no service, and the error says what to do."""
    found: list[str] = []

    class Looking(Pages):
        async def start(self) -> AsyncIterator[Any]:
            try:
                robots_service(self.crawler)
            except RuntimeError as error:
                found.append(str(error))
            async for request in super().start():
                yield request

    await crawl((), {"ROBOTSTXT_OBEY": False}, spider=Looking)
    assert found == [
        "RfcRobotsTxtMiddleware is not active; enable it, and set ROBOTSTXT_OBEY = True"
    ]


@ensureDeferred
async def test_time_in_the_downloaders_queue_does_not_count(site: Site, other: Site) -> None:
    """ROBOTS_TIMEOUT bounds the fetch, not the wait for DOWNLOAD_DELAY before it."""
    site.replies["/robots.txt"] = FORBID
    occupied = f"http://127.0.0.1:{other.port}/first"  # the same slot, as slots go by host
    settings = {"DOWNLOAD_DELAY": 0.6, "DOWNLOAD_DELAY_JITTER": 0, "ROBOTS_TIMEOUT": 0.3}
    result = await crawl([occupied, site.url("/y")], settings)
    assert result.outcomes == {occupied: 200, site.url("/y"): 200}


@pytest.mark.reactor
@ensureDeferred
async def test_failed_route_closes_a_site_until_another_leads_there(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A failed route disallows its own requests until another route works."""
    monkeypatch.setattr("scrapy_robots_rfc.fetching.known.FAILED_ROUTES", 2)
    site.replies["/robots.txt"] = Reply(body=b"", headers=(("Cache-Control", "max-age=0"),))
    page = site.url("/")
    # Nothing listens on these ports.
    requests = [Request(page, meta={"proxy": f"http://127.0.0.1:{port}"}) for port in (1, 2, 3, 4)]

    async def script(service: RobotsService) -> None:
        origin = Origin("http", "127.0.0.1", site.port)
        for request in requests[:3]:
            known = await service.fetch(origin, request).result()
            assert known is not None
            assert known.outcome is Outcome.UNREACHABLE
            assert known.decide(site.url("/robots.txt")).allowed
        routes = [*map(service.routes.of, requests), None]
        assert [service.known.get(origin, route) is None for route in routes] == [
            True,
            False,
            False,
            True,
            True,
        ]
        robots = await service.robots(page)
        assert robots.outcome is Outcome.SUCCESSFUL
        assert [service.known.get(origin, route) for route in routes] == [robots] * 5

    await run(script, {"ROBOTS_UNREACHABLE_BACKOFF": [], "ROBOTS_CACHE_MIN_AGE": 0})


@ensureDeferred
async def test_file_for_a_spider_beside_a_failing_proxy(site: Site) -> None:
    """A spider that asks for a file gets it, even if a fetch through a proxy is failing."""
    # Nothing listens on this port.
    page = Request(site.url("/"), meta={"proxy": "http://127.0.0.1:1"})

    async def script(service: RobotsService) -> None:
        service.fetch(Origin("http", "127.0.0.1", site.port), page)
        assert (await service.robots(page.url)).outcome is Outcome.UNAVAILABLE

    await run(script, {"ROBOTS_UNREACHABLE_BACKOFF": []})


@ensureDeferred
async def test_internal_error_is_a_local_failure(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An exception within a fetch is a failure of the crawl, logged once if a page is dropped."""
    monkeypatch.setattr("scrapy_robots_rfc.fetching.service.freshness", lambda *_: 1 / 0)
    origin = Origin("http", "127.0.0.1", site.port)

    async def script(service: RobotsService) -> None:
        known = await service.fetch(origin).result()
        assert known is not None
        assert (known.outcome, "ZeroDivisionError" in known.cause) == (Outcome.LOCAL, True)
        assert service.known.get(origin) is known

    await run(script, requests=[site.url("/x"), site.url("/y")])
    logged = [record.getMessage() for record in caplog.records if record.exc_info]
    assert len(logged) == 1
    assert "report it" in logged[0]


# Proxies.

SAME = "http://p.example:3128"
OTHER = b"Basic b3RoZXI6c2VjcmV0"


@pytest.mark.parametrize(
    ("proxy", "name"),
    [
        ("http://user:pass@p.example:3128", "http://p.example:3128"),
        ("http://p@ss:w@rd@p.example", "http://p.example"),
        ("user:pass@p.example", "p.example"),
        ("socks5://p.example", "socks5://p.example"),
    ],
)
def test_name_of_a_proxy(proxy: str, name: str) -> None:
    """The name of a proxy has no credentials."""
    assert proxy_of(Request("http://a.example/", meta={"proxy": proxy})) == name


@pytest.mark.parametrize(
    ("environment", "meta", "credentials", "taken"),
    [
        (SAME, {"proxy": SAME}, None, {}),
        (SAME, {"proxy": SAME}, OTHER, {"proxy": SAME}),
        (SAME, {"proxy": "http://q.example"}, None, {"proxy": "http://q.example"}),
        (SAME, {"proxy": None}, None, {"proxy": None}),
        (SAME, {}, None, {}),
        ("", {"proxy": None}, None, {"proxy": None}),
    ],
    ids=[
        "of-the-environment",
        "with-another-account",
        "another",
        "none",
        "not-chosen-yet",
        "none-of-none",
    ],
)
@ensureDeferred
async def test_proxy_of_a_page(
    environment: str,
    meta: dict[str, Any],
    credentials: bytes | None,
    taken: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A robots.txt request has the proxy of its page, or none like its page.

    The proxy of the environment is chosen for each redirect by its scheme.
    """
    monkeypatch.setenv("http_proxy", environment)
    monkeypatch.setenv("no_proxy", "")
    page = Request("http://a.example/", meta=meta)
    if credentials is not None:
        page.headers[b"Proxy-Authorization"] = credentials
    found: list[Request] = []

    async def script(service: RobotsService) -> None:
        fetch = PendingFetch(Origin("http", "a.example", 80), page=page)
        found.append(service.download.request("http://a.example/robots.txt", fetch, None))

    await run(script)
    assert {key: value for key, value in found[0].meta.items() if key == "proxy"} == taken
    assert found[0].headers.get(b"Proxy-Authorization") == credentials
