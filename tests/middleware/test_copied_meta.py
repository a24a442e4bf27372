"""Callbacks that copy `response.meta`, with the keys that this package writes."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from tests.support.crawling import Pages, crawl
from tests.support.site import PAGE, Reply, Site, redirect, robots

if TYPE_CHECKING:
    from scrapy.http import Response

RULES = robots("User-agent: *\nDisallow: /x\nContent-Signal: ai-train=no, search=yes\n")
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
    site.replies |= {"/robots.txt": RULES, "/": redirect("/1"), "/1": TAGGED}
    settings = {
        "ROBOTS_USE": ["search"],
        "ROBOTS_TAG_OBEY": ["noindex"],
        "SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcPageRulesMiddleware": 1000},
        "DOWNLOADER_MIDDLEWARES": {
            "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware": None,
            "scrapy_robots_rfc.RfcRobotsTxtMiddleware": 100,
            Redirecting: 600,
        },
    }
    result = await crawl([site.url("/")], settings, spider=Copying)
    assert result.spider.keys >= {"robots_tag", "robots_use"}
    assert site.targets == ["/robots.txt", "/", "/1", "/2"]
    assert result.stat("forbidden/rule") == 1
    warnings = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    assert not [line for line in warnings if re.search("(?i)robots", line)]
