"""A sitemap spider takes the sitemaps from the robots.txt that the crawl has: real crawls, whose sites count."""

from __future__ import annotations

import gzip
import logging
import threading
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.spiders import SitemapSpider

from scrapy_robots_rfc import RobotsSitemaps, _scrapy
from tests.support.crawling import Pages, crawl, records
from tests.support.scenarios_obeying import OURS, Gate
from tests.support.shared_stores import KEPT, Kept
from tests.support.site import Reply, Site, redirect, robots
from tests.support.timed_site import DELAY, Clocked, gaps

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from scrapy.http import Response

    from tests.support.service_crawls import Clock

ROBOTS = "User-agent: *\nDisallow: /private\nSitemap: /a.xml\nSitemap: /private.xml\nSitemap: /a.xml\n"


def xml(root: str, *locations: str) -> Reply:
    """A sitemap (`urlset`), or an index of some (`sitemapindex`)."""
    entries = "".join(f"<url><loc>{location}</loc></url>" for location in locations)
    body = f'<?xml version="1.0"?><{root} xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</{root}>'
    return Reply(body=body.encode(), headers=(("Content-Type", "application/xml"),))


class Maps(RobotsSitemaps, SitemapSpider):
    """Keeps the responses that it gets; its first argument is `sitemap_urls`."""

    name = "maps"

    def __init__(self, sitemap_urls: Iterable[str] = (), **kwargs: Any) -> None:
        self.sitemap_urls = list(sitemap_urls)
        super().__init__(**kwargs)
        self.came: list[Response] = []

    def parse(self, response: Response, **_: Any) -> None:
        """Keep it."""
        self.came.append(response)


class Plain(Maps):
    """The same without what the mixin does."""

    def _marked(self, request: Request) -> Request:
        return request


def fill(site: Site, text: str = ROBOTS, **other: Any) -> None:
    """Give a site a robots.txt, and a sitemap of two pages, one of them forbidden."""
    site.replies["/robots.txt"] = robots(text, **other)
    site.replies["/a.xml"] = xml("urlset", site.url("/page"), site.url("/private/page"))


async def run(site: Site | list[str], settings: dict[str, Any] | None = None, spider: Any = Maps) -> Any:
    """Crawl the sitemaps of a site's robots.txt, or of some URLs."""
    return await crawl([site.url("/robots.txt")] if isinstance(site, Site) else site, settings, spider=spider)


@ensureDeferred
async def test_file_is_fetched_once(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The file is fetched once; its sitemaps are asked for once each, but for those that it forbids."""
    fill(site)
    result = await run(site)
    assert "\n  requests: 2 allowed, 2 forbidden (2 rule), 1 reused\n" in records(caplog, logging.INFO)[-1]
    assert site.targets == ["/robots.txt", "/a.xml", "/page"]
    assert [response.url for response in result.spider.came] == [site.url("/page")]
    assert "dupefilter/filtered" not in result.stats
    counted = {key: result.stat(key) for key in ("reused", "allowed", "forbidden/rule", "request_count")}
    assert counted == {"reused": 1, "allowed": 2, "forbidden/rule": 2, "request_count": 1}


@ensureDeferred
async def test_stock_spider_fetches_the_file_twice(site: Site) -> None:
    """Scrapy's own spider fetches it twice: what the mixin is for."""
    fill(site)
    await run(site, spider=Plain)
    assert site.fetches == 2


@ensureDeferred
async def test_without_the_name_of_its_callback(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Where Scrapy's spider reads sitemaps by a method of another name, the mixin does nothing, with one warning."""
    fill(site)
    real = _scrapy._there
    monkeypatch.setattr(
        _scrapy, "_there", lambda owner, key: key != "SitemapSpider._parse_sitemap" and real(owner, key)
    )
    result = await run(site)
    assert site.fetches == 2
    assert [response.url for response in result.spider.came] == [site.url("/page")]
    [warning] = records(caplog)
    assert warning.startswith(
        "The robots.txt files in sitemap_urls of a RobotsSitemaps spider are fetched a second time: "
    )


@ensureDeferred
async def test_request_waits_for_a_slow_file(site: Site) -> None:
    """While robots.txt is on its way, the spider's own request for it is set aside as any other, and then answered."""
    Gate.opened, Gate.expected = threading.Event(), 1  # the page, after it
    fill(site, gate=Gate.opened)

    class Beside(Maps):
        async def start(self) -> AsyncIterator[Any]:
            async for item in super().start():
                yield item
            yield Request(site.url("/other"))

    result = await run(site, OURS, Beside)
    assert site.fetches == 1
    assert (result.stat("reused"), result.stat("set_aside")) == (1, 2)
    assert sorted(response.url for response in result.spider.came) == [site.url("/other"), site.url("/page")]


@ensureDeferred
async def test_no_room_to_wait(site: Site) -> None:
    """Where nothing may be set aside it waits in place, and is answered all the same."""
    fill(site)
    result = await run(site, {"ROBOTSTXT_MAX_WAITING": 0})
    assert site.targets == ["/robots.txt", "/a.xml", "/page"]
    assert result.stat("set_aside") == 0


@ensureDeferred
async def test_code_past_the_scheduler_gets_the_same_answer(site: Site) -> None:
    """Code that downloads by itself gets the same answer, and waits for it in place."""
    fill(site)

    class Direct(Maps):
        async def start(self) -> AsyncIterator[Any]:
            request = Request(site.url("/robots.txt"), meta={"robotstxt_reuse": True})
            self.came.append(await self.crawler.engine.download_async(request))
            yield Request(site.url("/private"))

    result = await run([], spider=Direct)
    assert result.spider.came[0].body == ROBOTS.encode()
    assert site.targets == ["/robots.txt"]


@ensureDeferred
async def test_file_that_left_the_memory_is_answered(site: Site, other: Site) -> None:
    """A file that the memory had to let go meanwhile is answered all the same: who waited for it gets it."""
    fill(site)
    fill(other)
    urls = [site.url("/robots.txt"), other.url("/robots.txt")]
    result = await run(urls, {"ROBOTSTXT_CACHE_SIZE": 1})
    assert result.stat("reused") == 2
    assert "/page" in site.targets
    assert "/page" in other.targets


@ensureDeferred
async def test_stale_file_gives_its_sitemaps(site: Site, clock: Clock) -> None:
    """An earlier copy, obeyed because its refresh failed, is what the crawl goes by, and so is its list of sitemaps."""
    Kept.store = Kept()
    fill(site)
    await run(site, KEPT)
    clock.now += 2 * 86_400
    site.replies["/robots.txt"] = Reply(503)
    site.asked.clear()
    result = await run(site, KEPT)
    assert site.targets == ["/robots.txt", "/a.xml", "/page"]
    assert result.stat("reused") == 1


@pytest.mark.parametrize("status", [404, 503])
@ensureDeferred
async def test_request_goes_to_a_site_without_a_file(site: Site, status: int) -> None:
    """Where there is no file the request goes to the site, and nothing comes of it, as without the mixin."""
    site.replies["/robots.txt"] = Reply(status, b"Sitemap: /a.xml\n")
    result = await run(site)
    assert site.targets == ["/robots.txt"] * 2
    assert result.stat("reused") == 0
    assert result.stat("allowed") == 1
    assert result.spider.came == []


@ensureDeferred
async def test_answer_has_the_url_that_was_asked_for(site: Site, other: Site) -> None:
    """The answer has the URL that was asked for: relative sitemaps are those of that site, and its rules hold."""
    fill(other)
    fill(site)
    site.replies["/robots.txt"] = redirect(other.url("/robots.txt"))
    await run(site)
    assert site.targets == ["/robots.txt", "/a.xml", "/page"]
    assert other.targets == ["/robots.txt"]


@ensureDeferred
async def test_sitemap_is_judged_by_its_own_origin() -> None:
    """A site with http and one with https have a file each: a sitemap is judged by that of the site that it is on."""
    with Site() as plain, Site(tls=True) as secure:
        fill(plain, f"User-agent: *\nDisallow: /\nSitemap: {secure.url('/a.xml')}\n")
        fill(secure)
        urls = [plain.url("/robots.txt"), secure.url("/robots.txt")]
        result: Any = await run(urls)
        assert plain.targets == ["/robots.txt"]
        assert sorted(secure.targets) == ["/a.xml", "/page", "/robots.txt"]
        assert result.stat("reused") == 2


@ensureDeferred
async def test_sitemaps_keep_the_crawl_delay() -> None:
    """The sitemaps keep the site's Crawl-delay, counted from the one fetch of robots.txt on."""
    with Clocked() as site:
        fill(site, f"{ROBOTS}Crawl-delay: {DELAY}\n".replace("Sitemap", f"Crawl-delay: {DELAY}\nSitemap", 1))
        await run(site)
        assert site.targets == ["/robots.txt", "/a.xml", "/page"]
        assert min(gaps(site)) >= DELAY


@ensureDeferred
async def test_marked_request_survives_a_restart(site: Site, tmp_path: Path) -> None:
    """With JOBDIR the marked request is kept when the spider is closed meanwhile, and answered in the next crawl."""
    opened = threading.Event()
    fill(site, gate=opened)

    class Closes(Maps):
        async def start(self) -> AsyncIterator[Any]:
            async for item in super().start():
                yield item
            while not site.fetches:
                yield Request("data:,", dont_filter=True)
            await self.crawler.engine.close_spider_async(reason="test")

    settings = {"JOBDIR": str(tmp_path)}
    first = await run(site, settings, Closes)
    assert first.stat("undecided") == 1
    opened.set()
    resumed: Any = await run([], settings)
    assert resumed.stat("reused") == 1
    assert "/a.xml" in site.targets
    assert "/page" in site.targets


@pytest.mark.parametrize(
    "settings",
    [
        {"ROBOTSTXT_OBEY": False},
        {
            "DOWNLOADER_MIDDLEWARES": {
                "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": 100,
            }
        },
    ],
    ids=["not obeyed", "Scrapy's own"],
)
@ensureDeferred
async def test_mixin_alone_fetches_the_file_itself(site: Site, settings: dict[str, Any]) -> None:
    """Where our middleware is not at work the spider fetches the file itself, and goes by it as Scrapy's does."""
    fill(site, "Sitemap: /a.xml\n")
    await run(site, settings)
    assert set(site.targets) == {"/robots.txt", "/a.xml", "/page", "/private/page"}


@ensureDeferred
async def test_sitemaps_of_a_local_file_are_asked_for(site: Site, tmp_path: Path) -> None:
    """Where a local file decides, its sitemaps are asked for, and robots.txt is not."""
    fill(site, "Sitemap: /b.xml\n")
    file = tmp_path / "robots.txt"
    file.write_text(ROBOTS, encoding="utf-8")
    await run(site, {"ROBOTSTXT_OVERRIDES": {site.url(""): str(file)}})
    assert site.targets == ["/a.xml", "/page"]


@ensureDeferred
async def test_request_goes_to_an_exempt_site(site: Site) -> None:
    """An exempt site's robots.txt is not asked for by the crawl, so the spider's own request goes there."""
    fill(site)
    result = await run(site, {"ROBOTSTXT_EXEMPT": [site.url("")]})
    assert site.fetches == 1
    assert "/private.xml" in site.targets
    assert result.stat("reused") == 0


@ensureDeferred
async def test_answer_is_not_kept_in_the_http_cache(site: Site, tmp_path: Path) -> None:
    """Scrapy's HTTP cache does not keep the answer: it was not fetched."""
    fill(site)
    settings = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path)}
    first = await run(site, settings)
    assert first.stats["httpcache/store"] == 2
    again = await run(site, settings)
    assert again.stats["httpcache/hit"] == 2
    assert again.stat("reused") == 1


@ensureDeferred
async def test_all_kinds_of_sitemaps(site: Site) -> None:
    """An index leads on, a compressed sitemap is read, and the spider's rules, filter and `sitemap_follow` hold."""
    fill(site, "Sitemap: /index.xml\nSitemap: /z.xml.gz\n")
    targets = ("/b.xml", "/left-out.xml")
    site.replies["/index.xml"] = xml("sitemapindex", *(site.url(target) for target in targets))
    site.replies["/b.xml"] = xml("urlset", site.url("/first/1"), site.url("/other/1"), site.url("/filtered"))
    zipped = gzip.compress(xml("urlset", site.url("/first/2")).body)
    site.replies["/z.xml.gz"] = Reply(body=zipped, headers=(("Content-Type", "application/gzip"),))

    class Ruled(Maps):
        sitemap_rules = [("/first/", "parse_first"), ("filtered", "parse_first")]  # noqa: RUF012 - as Scrapy has it
        sitemap_follow = ["b.xml"]  # noqa: RUF012 - as above

        def sitemap_filter(self, entries: Iterable[dict[str, Any]]) -> Iterable[dict[str, Any]]:
            return (entry for entry in entries if "filtered" not in entry["loc"])

        def parse_first(self, response: Response) -> None:
            self.came.append(response)

    result = await run(site, spider=Ruled)
    assert sorted(response.url for response in result.spider.came) == [site.url("/first/1"), site.url("/first/2")]
    assert site.fetches == 1
    assert "/left-out.xml" not in site.targets


@ensureDeferred
async def test_other_start_urls_are_asked_for_as_ever(site: Site) -> None:
    """A sitemap among `sitemap_urls` is asked for as ever, and so is a robots.txt with a callback of the user's own."""
    fill(site)

    class Base(SitemapSpider):
        async def start(self) -> AsyncIterator[Any]:
            yield {"item": 1}
            yield Request(site.url("/robots.txt"), self.parse)
            yield Request(site.url("/a.xml"), self._parse_sitemap)

    class Mixed(RobotsSitemaps, Base):
        name = "mixed"
        came: ClassVar[list[Response]] = []

        def __init__(self, _: Any, **kwargs: Any) -> None:
            super().__init__(**kwargs)

        def parse(self, response: Response, **_: Any) -> None:
            self.came.append(response)

    result: Any = await run([], spider=Mixed)
    assert site.fetches == 2
    assert result.stats["item_scraped_count"] == 1
    assert sorted(response.url for response in Mixed.came) == [site.url("/page"), site.url("/robots.txt")]


@ensureDeferred
async def test_meta_alone_asks_for_the_copy(site: Site) -> None:
    """Any GET for a robots.txt may ask for it by meta: it gets the file's octets; a POST, and one without, go on."""
    body = b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /x # \xff\r\n"
    site.replies["/robots.txt"] = Reply(body=body)
    came: list[Any] = []

    class Keeps(Pages):
        def parse(self, response: Any, **_: Any) -> None:
            came.append(response)

    url, meta = site.url("/robots.txt"), {"robotstxt_reuse": True}
    requests = [Request(url, meta=meta), Request(url), Request(url, method="HEAD", meta=meta)]
    result = await crawl(requests, spider=Keeps)
    [reused] = [response for response in came if "robotstxt" in response.flags]
    assert (reused.url, reused.status, reused.body) == (url, 200, body)
    assert reused.headers["Content-Type"] == b"text/plain; charset=utf-8"
    assert result.stat("reused") == 1
    assert site.fetches == 2  # HEAD is not counted


@ensureDeferred
async def test_asked_with_bad_name(site: Site) -> None:
    """Nobody's name is asked for: one that would fail a page does not fail this."""
    fill(site)

    class Named(Maps):
        async def start(self) -> AsyncIterator[Any]:
            async for item in super().start():
                item.meta["robotstxt_user_agent"] = 5
                yield item

    result = await run(site, spider=Named)
    assert result.stat("reused") == 1
