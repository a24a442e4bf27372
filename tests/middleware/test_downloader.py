"""What users see of the middleware: verdicts, log lines, stats, signals and errbacks."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import IgnoreRequest
from scrapy.utils.defer import deferred_from_coro
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc import (
    Decision,
    Reason,
    RfcRobotParser,
    RfcRobotsTxtMiddleware,
    Rule,
    RuleKind,
)
from scrapy_robots_rfc.signals import request_disallowed, robots_fetched
from tests.support.crawling import Crawl, Pages, crawl, listening, plugged, records
from tests.support.processes import python
from tests.support.site import PAGE, Reply, Site, redirect, robots
from tests.support.timed_site import DELAY, gaps, urls

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response

RULES = "# hello\nUser-agent: *\nDisallow: /private\n"


@ensureDeferred
async def test_errback_sees_the_decision(site: Site) -> None:
    """The errback gets an IgnoreRequest with verdict, reason, rule, line, token and origin."""
    site.replies["/robots.txt"] = robots(RULES)
    result = await crawl([site.url("/private/x")])
    error = result.dropped(site.url("/private/x"))
    assert isinstance(error, IgnoreRequest)
    rule = Rule(RuleKind.DISALLOW, "/private", 3)
    assert error.decision == Decision(False, Reason.RULE, rule, "*", site.url(""))
    assert str(error) == "Forbidden by robots.txt (robots.txt line 3: Disallow: /private)"


DROPPED = "; each dropped request is logged at DEBUG"
SENT = ", but is sent in this dry run; each such request is logged at DEBUG"


@pytest.mark.parametrize(
    ("settings", "end"),
    [
        ({"LOG_LEVEL": "INFO"}, DROPPED),
        ({"LOG_LEVEL": "INFO", "ROBOTS_DRY_RUN": True}, SENT),
        ({}, None),
    ],
)
@ensureDeferred
async def test_first_drop_of_an_origin(
    site: Site,
    other: Site,
    caplog: pytest.LogCaptureFixture,
    settings: dict[str, Any],
    end: str | None,
) -> None:
    """At INFO, the log has one line for a site with disallowed pages. At DEBUG, all are shown."""
    site.replies["/robots.txt"] = robots(RULES)
    other.replies["/robots.txt"] = Reply(503)
    pages = [*(site.url(f"/private/{n}") for n in range(3)), other.url("/x")]
    await crawl(pages, settings)
    line = f"A page on {site.url('')} is disallowed (robots.txt line 3: Disallow: /private)"
    shown = [line for line in records(caplog, logging.INFO) if "A page on" in line]
    assert shown == ([] if end is None else [f"{line}{end}"])
    dropped = [line for line in records(caplog, logging.DEBUG) if "Forbidden by" in line]
    assert len(dropped) == 4
    for page, why in (
        (0, "robots.txt line 3: Disallow: /private"),
        (3, "robots.txt unreachable: 503"),
    ):
        assert any(line.endswith(f": <GET {pages[page]}> ({why})") for line in dropped)


@ensureDeferred
async def test_stats(site: Site, other: Site) -> None:
    """Scrapy's stats keep their meaning; ours count the rest."""
    site.replies["/robots.txt"] = robots(RULES)
    other.replies["/robots.txt"] = redirect(site.url("/moved"))
    site.replies["/moved"] = Reply(500)
    pages = [site.url("/a"), site.url("/private"), site.url("/b"), other.url("/x")]
    exempt = Request(site.url("/private/2"), meta={"dont_obey_robotstxt": True})
    result = await crawl([*pages, exempt, "data:,x"], {"CONCURRENT_REQUESTS": 1})
    found = {key: value for key, value in result.stats.items() if key.startswith("robotstxt/")}
    assert found == {
        "robotstxt/request_count": 2,
        "robotstxt/response_count": 2,
        "robotstxt/response_status_count/200": 1,
        "robotstxt/response_status_count/500": 1,
        "robotstxt/result/successful": 1,
        "robotstxt/result/unreachable": 1,
        "robotstxt/allowed": 2,
        "robotstxt/forbidden": 2,
        "robotstxt/forbidden/rule": 1,
        "robotstxt/forbidden/unreachable": 1,
        "robotstxt/cache/misses": 2,
        "robotstxt/origins/successful": 1,
        "robotstxt/origins/unreachable": 1,
        "robotstxt/exempted": 1,
    }
    assert result.outcomes[exempt.url] == 200
    assert result.outcomes["data:,x"] == 200


@ensureDeferred
async def test_exception_stat_is_scrapys(site: Site) -> None:
    """Exceptions are counted under the keys of Scrapy's own middleware."""
    site.replies["/robots.txt"] = Reply(reset=True)
    ours = await crawl([site.url("/x")])
    theirs = await crawl([site.url("/x")], {"DOWNLOADER_MIDDLEWARES": {RobotsTxtMiddleware: 100}})
    ours_keys, keys = (
        {key for key in result.stats if "exception_count/<" in key} for result in (ours, theirs)
    )
    assert ours_keys == keys != set()


@pytest.mark.skipif(
    not hasattr(signals, "robots_parsed"), reason="Scrapy before 2.18 has no robots_parsed"
)
@ensureDeferred
async def test_robots_parsed_is_sent_as_scrapy_sends_it(site: Site, other: Site) -> None:
    """Scrapy's robots_parsed has the parser and the request, once for each file."""
    site.replies["/robots.txt"] = robots(f"{RULES}Sitemap: https://a.example/sitemap.xml\n")
    sent: list[tuple[Any, str]] = []

    def on_parsed(robotparser: Any, request: Request) -> None:
        sent.append((robotparser, request.url))

    heard = listening(on_parsed, signals.robots_parsed)
    await crawl([site.url("/1"), site.url("/2"), other.url("/3")], prepare=heard)
    assert len(sent) == 1
    assert isinstance(sent[0][0], RfcRobotParser)
    assert sent[0][0].allowed(site.url("/private"), "Scrapy") is False
    assert list(sent[0][0].sitemaps()) == ["https://a.example/sitemap.xml"]
    assert sent[0][1] in (site.url("/1"), site.url("/2"))


@pytest.mark.reactor
@ensureDeferred
async def test_exception_in_signal_handlers(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A signal handler that raises changes no verdict and leaves no request waiting."""
    site.replies["/robots.txt"] = robots(RULES)

    def fail() -> None:
        raise RuntimeError("handler")

    def prepare(crawler: Crawler) -> None:
        for signal in (robots_fetched, request_disallowed):
            crawler.signals.connect(fail, signal)

    pages = [site.url("/x"), site.url("/private")]
    assert (await crawl(pages, prepare=prepare)).verdicts(*pages) == [200, "rule"]
    assert sum("Error caught on signal handler" in r.getMessage() for r in caplog.records) == 2


@ensureDeferred
async def test_what_the_request_for_robots_txt_carries(site: Site) -> None:
    """The robots.txt request has the crawl's User-Agent and codings, and nothing of the page."""
    page = Request(
        site.url("/x"),
        headers={"X-Mine": "1", "Authorization": "Basic eA==", "Cookie": "a=b"},
        cookies={"c": "d"},
        meta={"cookiejar": 1},
    )
    await crawl([page], {"USER_AGENT": "FooBot/1.0"})
    headers, of_the_page = (asked.headers for asked in site.asked)
    assert site.targets == ["/robots.txt", "/x"]
    assert headers["User-Agent"] == "FooBot/1.0"
    assert headers["Accept-Encoding"] == of_the_page["Accept-Encoding"]
    assert not {"X-Mine", "Authorization", "Cookie"} & set(headers)


@ensureDeferred
async def test_no_meta_refresh_and_no_cookies(site: Site) -> None:
    """If robots.txt is an HTML page, its meta refresh and cookies are ignored."""
    html = b'<meta http-equiv="refresh" content="0;url=/other">\nUser-agent: *\nDisallow: /x\n'
    headers = (("Content-Type", "text/html"), ("Set-Cookie", "a=b"))
    site.replies["/robots.txt"] = Reply(body=html, headers=headers)
    await crawl([site.url("/x"), site.url("/y")], {"METAREFRESH_ENABLED": True})
    assert site.targets == ["/robots.txt", "/y"]
    assert "Cookie" not in site.asked[1].headers


@ensureDeferred
async def test_proxy_is_inherited(site: Site, other: Site) -> None:
    """The file is fetched through the proxy of the page, with its credentials."""
    with Site() as proxy:
        proxy.replies[site.url("/robots.txt")] = redirect(other.url("/r"))
        proxy.replies[other.url("/r")] = robots(RULES)
        url = f"http://user:pass@{proxy.netloc}"
        result = await crawl([Request(site.url("/private"), meta={"proxy": url})])
        assert result.verdicts() == ["rule"]
        assert proxy.targets == [site.url("/robots.txt"), other.url("/r")]
        accounts = {asked.headers["Proxy-Authorization"] for asked in proxy.asked}
        assert accounts == {"Basic dXNlcjpwYXNz"}
    assert site.targets == other.targets == []


@ensureDeferred
async def test_retries_are_scrapys(site: Site) -> None:
    """RetryMiddleware retries robots.txt within one fetch."""
    answers = iter([Reply(503), robots(RULES)])
    site.replies["/robots.txt"] = lambda _: next(answers)
    result = await crawl([site.url("/private")], {"RETRY_ENABLED": True})
    assert result.verdicts() == ["rule"]
    assert site.fetches == 2
    assert result.stat("request_count") == 1
    assert result.stats["retry/count"] == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:0/x", "http:///x", "http://a_b%2fc.example/x"])
@ensureDeferred
async def test_no_valid_authority(url: str) -> None:
    """A URL without a valid authority is not fetched (2.3)."""
    result = await crawl([url])
    error = result.dropped(next(iter(result.outcomes)))
    assert error.decision == Decision(False, Reason.UNREACHABLE)
    assert str(error) == "Forbidden by robots.txt (robots.txt unreachable: no valid authority)"
    assert result.stat("forbidden/unreachable") == 1


@pytest.mark.reactor
@ensureDeferred
async def test_a_crawl_that_is_closed_before_it_is_opened(caplog: pytest.LogCaptureFixture) -> None:
    """A crawl may be closed before it is opened."""
    crawler = get_crawler(settings_dict={"ROBOTSTXT_OBEY": True})
    middleware = RfcRobotsTxtMiddleware.from_crawler(crawler)  # the signals know it weakly
    send = crawler.signals.send_catch_log_async
    await deferred_from_coro(send(signals.spider_closed, spider=None, reason="shutdown"))
    assert middleware.service is not None
    assert (
        "RfcRobotsTxtMiddleware._spider_closed" not in caplog.text
    )  # Scrapy's own extensions raise


CRAWL = """
import gc, sys
from weakref import ref
from scrapy import Spider
from scrapy.crawler import AsyncCrawlerProcess

class Pages(Spider):
    name = "pages"
    start_urls = [sys.argv[1]]

    def parse(self, response):
        print(response.status)

settings = {"ADDONS": {"scrapy_robots_rfc.Addon": 500}, "LOG_LEVEL": "CRITICAL"}
process = AsyncCrawlerProcess({**settings, "TELNETCONSOLE_ENABLED": False})
crawler = process.create_crawler(Pages)
ended = ref(crawler)
process.crawl(crawler)
del crawler
process.start()
gc.collect()
print(ended() is None)
"""


def test_a_crawl_that_has_ended_is_freed(site: Site) -> None:
    """A process that runs many crawls does not keep those that have ended."""
    # In another process, because pytest keeps log records, which refer to the spider.
    assert python("-c", CRAWL, site.url("/")).stdout.split() == ["200", "True"]


# Dry runs.

DRY = {"ROBOTS_DRY_RUN": True}


def stats_of(result: Crawl) -> dict[str, Any]:
    """Return our stats, except those that depend on the order of requests."""
    timing = ("waits", "added_seconds")
    return {
        key: value
        for key, value in result.stats.items()
        if key.startswith("robotstxt/") and not key.endswith(timing)
    }


@ensureDeferred
async def test_dry_run_drops_nothing(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Disallowed pages are fetched, and counted, signalled and logged as in a real run."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    other.replies["/robots.txt"] = Reply(503)
    pages = [site.url("/private/1"), site.url("/a"), site.url("/private/2"), other.url("/x")]
    sent: dict[str, tuple[bool, Reason]] = {}

    def keep(request: Request, decision: Decision) -> None:
        sent[request.url] = (decision.allowed, decision.reason)

    real = await crawl(pages)
    dry = await crawl(pages, DRY, prepare=listening(keep, request_disallowed))
    assert dry.outcomes == dict.fromkeys(pages, 200)
    assert stats_of(dry) == {**stats_of(real), "robotstxt/dry_run": 3}
    assert sent == {
        pages[0]: (False, Reason.RULE),
        pages[2]: (False, Reason.RULE),
        pages[3]: (False, Reason.UNREACHABLE),
    }
    reason = "robots.txt line 2: Disallow: /private"
    line = f"Forbidden by robots.txt, let through (dry run): <GET {pages[0]}> ({reason})"
    assert line in records(caplog, logging.DEBUG)


@pytest.mark.parametrize(
    ("settings", "text", "reason"),
    [
        ({}, f"Disallow: /\nCrawl-delay: {DELAY}\n", "rule"),
        (
            {"ROBOTS_CRAWL_DELAY_MAX": DELAY, "ROBOTS_CRAWL_DELAY_OVER": "forbid"},
            "Crawl-delay: 60\n",
            "crawl_delay",
        ),
    ],
    ids=["all disallowed", "too slow"],
)
@ensureDeferred
async def test_dry_run_keeps_the_interval(settings: dict[str, Any], text: str, reason: str) -> None:
    """Disallowed pages that are let through keep the Crawl-delay of their site."""
    with Site({"/robots.txt": robots(f"User-agent: *\n{text}")}) as site:
        result = await crawl(urls(site, 4), {**DRY, **settings})
        assert result.outcomes == dict.fromkeys(urls(site, 4), 200)
        assert (result.stat("dry_run"), result.stat(f"forbidden/{reason}")) == (4, 4)
        assert min(gaps(site)) >= DELAY


# Callbacks that copy `response.meta`, with the keys that this package writes.

SIGNAL = robots("User-agent: *\nDisallow: /x\nContent-Signal: ai-train=no, search=yes\n")
TAGGED = Reply(body=PAGE.body, headers=(*PAGE.headers, ("X-Robots-Tag", "nofollow")))


class Copying(Pages):
    """A spider that copies the meta of its first page."""

    def parse(self, response: Response, **_: Any) -> Any:
        super().parse(response)
        self.keys = {*response.meta}
        if response.url.endswith("/1"):
            for target in ("/2", "/x"):
                url = response.urljoin(target)
                yield Request(url, self.parse, meta=response.meta, errback=self.failed)


class Redirecting:
    """A third-party middleware, because of which final URLs are judged."""


@ensureDeferred
async def test_copied_meta(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A callback that copies the meta of a page causes no warning that names our keys, and its
    requests are judged by their own URLs.
    """
    site.replies |= {"/robots.txt": SIGNAL, "/": redirect("/1"), "/1": TAGGED}
    settings = plugged(
        Redirecting,
        600,
        ROBOTS_USE=["search"],
        ROBOTS_TAG_OBEY=["noindex"],
        SPIDER_MIDDLEWARES={"scrapy_robots_rfc.RfcPageRulesMiddleware": 1000},
    )
    result = await crawl([site.url("/")], settings, spider=Copying)
    assert result.spider.keys >= {"robots_tag", "robots_use"}
    assert site.targets == ["/robots.txt", "/", "/1", "/2"]
    assert result.stat("forbidden/rule") == 1
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert not [line for line in warnings if re.search("(?i)robots", line)]
