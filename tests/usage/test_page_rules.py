"""Rules of pages in real crawls: what spiders read, and what ROBOTS_TAG_OBEY drops."""

from __future__ import annotations

import gc
import logging
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, Spider
from scrapy.downloadermiddlewares.retry import get_retry_request
from scrapy.http import HtmlResponse, TextResponse, XmlResponse
from scrapy.linkextractors import LinkExtractor
from scrapy.settings import Settings
from scrapy.spiders import CrawlSpider, Rule

from scrapy_robots_rfc import PageRules, page_rules
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.settings import read_settings
from scrapy_robots_rfc.usage.page_rules import MAX_DOCUMENT, page_of, unendorsed
from tests.support.case_files import tables
from tests.support.crawling import AsyncLinked, Linked, Starts, crawl, lines, records
from tests.support.reports import read
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable
    from pathlib import Path

    from scrapy.http import Response

META = '<meta name="robots" content="nofollow">'


def obeying(*directives: str, **more: Any) -> dict[str, Any]:
    """The settings of a crawl that obeys some rules of pages."""
    return {
        "ROBOTS_TAG_OBEY": list(directives),
        "SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcPageRulesMiddleware": 1000},
        "USER_AGENT": "demobot/1.0",
        **more,
    }


def page(body: str = "", *headers: str, kind: str = "text/html") -> Reply:
    """A page with X-Robots-Tag lines."""
    tags = tuple(("X-Robots-Tag", value) for value in headers)
    return Reply(body=body.encode(), headers=(("Content-Type", kind), *tags))


def counted(result: Any) -> dict[str, int]:
    """The stats about rules of pages, without their common prefix."""
    prefix = "robotstxt/page/"
    return {
        key.removeprefix(prefix): value
        for key, value in result.stats.items()
        if key.startswith(prefix)
    }


async def run(requests: list[Any], settings: dict[str, Any], spider: Any = Linked) -> Any:
    """Crawl."""
    return await crawl(requests, settings, spider=spider)


# Metas.

DOCUMENTS = [*tables("page_rules")["document"], ["<!-- -->" * (MAX_DOCUMENT // 8) + META, []]]


@pytest.mark.parametrize(("document", "names"), DOCUMENTS)
def test_metas_of_the_head(document: str, names: list[str]) -> None:
    """Metas count in the head, or before a `<body>` tag, if a browser would read them."""
    response = HtmlResponse("https://a.example/", body=document.encode(), encoding="utf-8")
    assert [name for name, _ in page_of(response).metas] == names


@pytest.mark.parametrize(("root", "names"), [("html", ["a"]), ("feed", [])])
def test_xhtml_that_is_sent_as_xml(root: str, names: list[str]) -> None:
    """XHTML with a content type of XML is read like HTML, and other XML is not."""
    body = f"<?xml version='1.0'?><{root}><head><meta name='a' content='x'/></head></{root}>"
    response = XmlResponse("https://a.example/", body=body.encode())
    assert [name for name, _ in page_of(response).metas] == names


@pytest.mark.parametrize(
    ("kind", "content_type"),
    [
        (HtmlResponse, "text/html; charset=hex"),
        (HtmlResponse, "text/html; charset=undefined"),
        (TextResponse, "text/plain"),
    ],
)
def test_other_documents_have_no_metas(kind: type[TextResponse], content_type: str) -> None:
    """Documents that are not HTML, or cannot be decoded, have neither metas nor links."""
    headers = {"Content-Type": content_type}
    response = kind("https://a.example/", body=(META + LINKS).encode(), headers=headers)
    assert page_of(response).metas == []
    assert unendorsed(response) == set()


def test_a_page_is_forgotten_with_its_response() -> None:
    """A page and its text are freed with the response, without the garbage collector."""
    response = HtmlResponse("https://a.example/", body=(META + "<body>" + LINKS).encode())
    page = weakref.ref(page_of(response))
    gc.disable()
    try:
        del response
        assert page() is None
    finally:
        gc.enable()


# What spiders read.


class Reads(Spider):
    """Stores the rules of each page, and those in its meta."""

    name = "reads"

    def __init__(self, requests: Iterable[Request], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.requests = list(requests)
        self.rules: dict[str, PageRules] = {}
        self.in_meta: dict[str, Any] = {}

    async def start(self) -> AsyncIterator[Any]:
        for request in self.requests:
            yield request

    def parse(self, response: Response, **_: Any) -> Any:
        self.rules[response.url] = page_rules(response, self.crawler)
        assert page_rules(response, self.crawler) is self.rules[response.url]
        self.in_meta[response.url] = response.meta.get("robots_tag")


@ensureDeferred
async def test_spiders_read_rules_without_any_setting(site: Site) -> None:
    """`page_rules` returns the rules for every crawler and for the request's token."""
    site.replies["/"] = page(
        '<meta name=DemoBot content="max-snippet: 5"><meta name=otherbot content=noarchive>',
        "noindex, otherbot: nosnippet",
        "demobot: nofollow",
    )
    result = await run([Request(site.url())], {"USER_AGENT": "demobot/1.0"}, spider=Reads)
    rules = result.spider.rules[site.url()]
    assert dict(rules.directives) == {"max-snippet": "5", "nofollow": None, "noindex": None}
    assert rules.where("max-snippet") == ("meta DemoBot: max-snippet: 5",)
    assert result.spider.in_meta == {site.url(): None}
    assert counted(result) == {}


@ensureDeferred
async def test_tokens_are_those_of_the_request(site: Site) -> None:
    """The token of a request selects the rules, and copied rules of another page are replaced."""
    site.replies["/a"] = page("", "one: nofollow, two: noindex")
    requests = [
        Request(site.url("/a"), meta={"robotstxt_user_agent": "one"}),
        Request(site.url("/b"), meta={"robots_tag": "of another page"}),
    ]
    result = await run(requests, obeying("nofollow"), spider=Reads)
    assert set(result.spider.rules[site.url("/a")].directives) == {"nofollow"}
    assert result.spider.in_meta == result.spider.rules


# What is dropped.


@pytest.mark.parametrize("spider", [Linked, AsyncLinked])
@pytest.mark.parametrize(
    ("reply", "source", "where"),
    [
        (page("", "none"), "header", "X-Robots-Tag: none"),
        (page(META), "meta", "meta robots: nofollow"),
        (page("", "nofollow", kind="application/pdf"), "header", "X-Robots-Tag: nofollow"),
    ],
)
@ensureDeferred
async def test_nofollow(
    site: Site, caplog: pytest.LogCaptureFixture, spider: Any, reply: Reply, source: str, where: str
) -> None:
    """Requests from a page with nofollow are dropped, and the log says why; its items pass."""
    site.replies["/"] = reply
    result = await run(
        [site.url(), site.url("/a"), site.url("/b")], obeying("nofollow"), spider=spider
    )
    assert site.pages == ["/"]
    assert counted(result) == {f"nofollow/{source}": 2}
    assert result.stats["item_scraped_count"] == 1
    why = f"nofollow of {site.url()}, {where}"
    assert f"Forbidden by its page: <GET {site.url('/a')}> ({why})" in records(
        caplog, logging.DEBUG
    )
    assert f"  page rules: 2 nofollow (2 {source})" in lines(caplog, logging.INFO)


@pytest.mark.parametrize("spider", [Linked, AsyncLinked])
@ensureDeferred
async def test_noindex(site: Site, caplog: pytest.LogCaptureFixture, spider: Any) -> None:
    """Items of a page with noindex are dropped; its links are followed."""
    site.replies["/"] = page("", "noindex")
    result = await run([site.url(), site.url("/a")], obeying("noindex"), spider=spider)
    assert site.pages == ["/", "/a"]
    assert counted(result) == {"noindex/header": 1}
    assert "item_scraped_count" not in result.stats
    text = f"Forbidden by its page: an item (noindex of {site.url()}, X-Robots-Tag: noindex)"
    assert text in records(caplog, logging.DEBUG)


@ensureDeferred
async def test_what_the_setting_does_not_name_stays(site: Site) -> None:
    """Rules that the setting does not name are not obeyed."""
    site.replies["/"] = page('<a href="/a" rel=nofollow>', "nofollow")
    result = await run([site.url(), site.url("/a")], obeying("noindex"))
    assert site.pages == ["/", "/a"]
    assert counted(result) == {}


class Again(Linked):
    """Requests its page again in several ways, and another page."""

    def first(self, response: Response) -> Iterable[Any]:
        assert response.request is not None
        yield response.request.replace(callback=self.parse, dont_filter=True)
        yield Request(response.urljoin("/from"), self.parse, dont_filter=True)
        yield Request(f"{response.url}#part", self.parse, dont_filter=True)
        retry = get_retry_request(response.request, spider=self, reason="again")
        assert retry is not None
        yield retry.replace(callback=self.parse)
        yield Request(response.urljoin("/other"), self.parse)


@ensureDeferred
async def test_what_nofollow_does_not_stop(site: Site) -> None:
    """Start requests, redirects, retries and requests for the page itself are not dropped."""
    site.replies["/from"] = Reply(302, headers=(("Location", "/"), ("X-Robots-Tag", "nofollow")))
    site.replies["/"] = page("", "nofollow")
    result = await run([site.url("/from")], obeying("nofollow"), spider=Again)
    assert site.pages == ["/", "/", "/", "/", "/", "/from", "/from"]
    assert counted(result) == {"nofollow/header": 1}
    starts = await run([site.url("/a"), site.url()], obeying("nofollow"), spider=Starts)
    assert counted(starts) == {}


@ensureDeferred
async def test_rules_of_a_redirect_are_not_those_of_its_target(site: Site) -> None:
    """The rules of a redirect do not count for its target."""
    site.replies["/from"] = Reply(302, headers=(("Location", "/"), ("X-Robots-Tag", "nofollow")))
    await run([site.url("/from"), site.url("/a")], obeying("nofollow"))
    assert site.pages == ["/", "/a", "/from"]


LINKS = """\
<a href="/plain">x</a><a rel="noopener NoFollow" href="/nofollow">x</a>
<a rel=ugc href="ugc?b=2&amp;a=1#top">x</a>
<area rel="sponsored,x" href=" /sponsored "><a rel=unfollow href="/unfollow">x</a>
<a rel=nofollow href="http://[">x</a>
<a rel=nofollow href="/both">x</a><a href="/both">x</a>
<a rel=nofollow href="/caf\N{LATIN SMALL LETTER E WITH ACUTE}">x</a>
"""
FOLLOWED = ["/both", "/from", "/plain", "/unfollow"]


class Follows(Linked):
    """Follows all links with Scrapy's shortcut."""

    def first(self, response: Response) -> Iterable[Any]:
        assert isinstance(response, HtmlResponse)
        hrefs = [
            href.strip()
            for href in response.css("a::attr(href), area::attr(href)").getall()
            if "[" not in href
        ]
        yield from response.follow_all(hrefs, self.parse)


class Rules(CrawlSpider):
    """Follows all links with a rule."""

    name = "rules"
    rules = (Rule(LinkExtractor()),)

    def __init__(self, requests: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.start_urls = requests


@pytest.mark.parametrize("spider", [Follows, Rules])
@ensureDeferred
async def test_links(site: Site, spider: Any) -> None:
    """A URL that a page links only with nofollow, ugc or sponsored is not followed."""
    site.replies["/from"] = page(LINKS, kind="text/html; charset=utf-8")
    result = await run([site.url("/from")], obeying("link-nofollow"), spider=spider)
    assert site.pages == FOLLOWED
    assert counted(result) == {"link-nofollow/link": 4}


@ensureDeferred
async def test_a_page_with_more_links_than_are_read(site: Site) -> None:
    """A page with more links than are read is counted once."""
    site.replies["/"] = page("<body><a rel=ugc href=/a>x</a>" + "<a href=/x>x</a>" * 4000)
    result = await run([site.url(), site.url("/a")], obeying("link-nofollow"))
    assert counted(result) == {"link-nofollow/link": 1, "cut": 1}


class Sends(Linked):
    """Sends a form to a linked URL, and requests it."""

    def first(self, response: Response) -> Iterable[Any]:
        yield Request(response.urljoin("/login"), self.parse, method="POST")
        yield Request(response.urljoin("/login"), self.parse)


@ensureDeferred
async def test_a_form_is_not_a_link(site: Site) -> None:
    """A POST request does not follow a link."""
    site.replies["/"] = page("<a rel=nofollow href=/login>x</a>")
    result = await run([site.url()], obeying("link-nofollow"), spider=Sends)
    assert counted(result) == {"link-nofollow/link": 1}
    assert result.stats["downloader/request_method_count/POST"] == 1


# Exceptions.


@ensureDeferred
async def test_dry_run(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A dry run counts and logs what it would have dropped, and drops nothing."""
    site.replies["/"] = page("", "none")
    settings = obeying("nofollow", "noindex", ROBOTS_DRY_RUN=True)
    result = await run([site.url(), site.url("/a")], settings)
    assert (site.pages, result.stats["item_scraped_count"]) == (["/", "/a"], 1)
    assert counted(result) == {"nofollow/header": 1, "noindex/header": 1}
    assert "Forbidden by its page, let through (dry run): an item" in caplog.text


@ensureDeferred
async def test_report(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The report has a record for each dropped request and item, with its page as referrer."""
    site.replies["/"] = page("", "none, \x1b[2J")
    file = tmp_path / "robots.jsonl"
    settings = obeying("nofollow", "noindex", ROBOTS_REPORT={str(file): {"format": "jsonlines"}})
    own = Request(site.url("/b"), headers={"Referer": "https://e.example/"})
    await run([site.url(), site.url("/a"), own], settings)
    assert site.pages == ["/"]
    found = read(file)
    assert [each["referrer"] for each in found] == [site.url(), "https://e.example/", None]
    del found[1]
    where = "X-Robots-Tag: none, \\x1b[2J"
    assert where in "".join(records(caplog, logging.DEBUG))
    assert "\x1b" not in "".join(records(caplog, logging.DEBUG))
    assert [(each["url"], each["origin"], each["reason"], each["why"]) for each in found] == [
        (site.url("/a"), site.url(""), "page", f"nofollow of {site.url()}, {where}"),
        (site.url(), site.url(""), "page", f"noindex of {site.url()}, {where}"),
    ]


@ensureDeferred
async def test_without_robots_txt(site: Site) -> None:
    """Rules of pages are obeyed even if robots.txt is not."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    site.replies["/"] = page("", "nofollow")
    settings = obeying("nofollow", ROBOTSTXT_OBEY=False)
    result = await run([site.url(), site.url("/a")], settings)
    assert (site.targets, counted(result)) == (["/"], {"nofollow/header": 1})


# Start.


@pytest.mark.parametrize("obey", [True, False])
@ensureDeferred
async def test_without_the_middleware(site: Site, obey: bool) -> None:
    """Without the middleware, the setting stops the crawl at start."""
    settings = obeying("nofollow", SPIDER_MIDDLEWARES={}, ROBOTSTXT_OBEY=obey)
    with pytest.raises(
        SettingError, match=r"ROBOTS_TAG_OBEY = \['nofollow'\].*RfcPageRulesMiddleware' at 1000"
    ):
        await run([site.url()], settings)
    assert site.asked == []


@ensureDeferred
async def test_an_empty_setting_costs_nothing(site: Site) -> None:
    """With an empty setting the middleware is disabled, and sets no meta."""
    site.replies["/"] = page("", "nofollow")
    result = await run([Request(site.url())], obeying(), spider=Reads)
    assert result.spider.in_meta == {site.url(): None}


@pytest.mark.parametrize("value", [["follow"], {"nofollow": 1}, [None]])
def test_values_that_are_not_accepted(value: Any) -> None:
    """A value that is not the name of a rule stops the start."""
    with pytest.raises(SettingError, match="'nofollow', 'noindex' or 'link-nofollow'"):
        read_settings(Settings({"ROBOTS_TAG_OBEY": value}))
