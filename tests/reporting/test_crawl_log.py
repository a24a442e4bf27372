"""The log of a broad crawl sums up what happens to single sites."""

from __future__ import annotations

import logging
import os
import re
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc.policy.access import Outcome, Unreachable
from scrapy_robots_rfc.reporting import crawl_log
from scrapy_robots_rfc.reporting.crawl_log import CrawlLog
from scrapy_robots_rfc.settings import read_settings
from tests.support.crawling import Pages, crawl, lines, make_crawler, records
from tests.support.entries import fetch, policy
from tests.support.site import Reply, failing, robots

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy.crawler import Crawler

    from tests.support.site import Asked, Site

#: `SITES=300 pytest tests/reporting/test_crawl_log.py` shows a broad crawl.
SITES = int(os.environ.get("SITES", "60"))
PRIVATE = "User-agent: *\nDisallow: /private\n"


def reply(number: int) -> Reply | Callable[[Asked], Reply]:
    """Return the robots.txt of one of many sites."""
    replies: list[Reply | Callable[[Asked], Reply]] = [
        failing(1, Reply(503)),
        Reply(503),
        Reply(body=b"<!doctype html><html><p>page</html>"),
        robots(f"{PRIVATE}Crawl-delay: 0.01\n"),
        robots("User-agent: *\nCrawl-delay: 3600\n"),
        Reply(302, headers=(("Location", "/robots.txt"),)),
    ]
    return replies[number] if number < len(replies) else robots(PRIVATE)


@ensureDeferred
async def test_log_of_many_sites(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A broad crawl has at most 60 lines at INFO and above, and DEBUG has every event."""
    pages = []
    for number in range(SITES):
        site = f"http://{number}.example"
        proxy.replies[f"{site}/robots.txt"] = reply(number % 10)
        pages += [f"{site}/private", f"{site}/"]
    settings = {
        "CONCURRENT_REQUESTS": 64,
        "LOG_LEVEL": "INFO",
        "LOGSTATS_INTERVAL": 600,
        "ROBOTS_CRAWL_DELAY_MAX": 0.01,
        "ROBOTS_UNREACHABLE_BACKOFF": [0.01],
    }
    result = await crawl(pages, settings)
    assert result.stat("origins/unreachable") == SITES / 10
    shown = lines(caplog, logging.INFO)
    assert len(shown) <= 60
    of_kind = "robots.txt is unreachable, so nothing is allowed"
    [summed] = [line for line in records(caplog) if of_kind in line]
    assert summed.startswith(f"{SITES // 10 - 3} more sites: {of_kind} (http://")
    assert summed.endswith("); each is logged at DEBUG")
    assert sum("is unreachable (503), so nothing" in line for line in records(caplog)) == 3
    every = records(caplog, logging.DEBUG)
    for text, count in (
        ("is unreachable (503), so nothing is allowed", SITES / 10),
        ("is reachable again (200)", SITES / 10),
        ("so its requests are spaced accordingly", SITES / 10),
        ("exceeds ROBOTS_CRAWL_DELAY_MAX, so its", SITES / 10),
        ("is a web page instead of a robots.txt file", SITES / 10),
        ("is unavailable (redirect loop)", SITES / 10),
        ("A page on http", SITES / 2),
    ):
        assert sum(text in line for line in every) == count
    assert f"  {SITES // 2}  Disallow: /private ({SITES // 2} sites)" in "\n".join(shown)


@contextmanager
def watched_log(react: Callable[[str], object]) -> Iterator[None]:
    """Call a function with each line of the crawl's log."""
    logger = logging.getLogger(crawl_log.__name__)

    def watch(record: logging.LogRecord) -> bool:
        react(record.getMessage())
        return True

    logger.addFilter(watch)
    try:
        yield
    finally:
        logger.removeFilter(watch)


@ensureDeferred
async def test_sites_are_counted_from_time_to_time(
    proxy: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """Every LOGSTATS_INTERVAL, a line counts the sites without lines of their own."""
    counted = threading.Event()
    page = Reply(body=b"<!doctype html><html><p>page</html>")
    hosts = [f"http://{host}.example" for host in "abcd"]
    proxy.replies = {f"{host}/robots.txt": page for host in hosts}
    proxy.replies["http://last.example/robots.txt"] = Reply(gate=counted)

    def react(line: str) -> None:
        if "web page, so everything is allowed (" in line:
            counted.set()

    with watched_log(react):
        await crawl([*hosts, "http://last.example"], {"LOGSTATS_INTERVAL": 0.05})
    assert counted.is_set()
    assert sum("is a web page instead" in line for line in records(caplog, logging.INFO)) == 3


@ensureDeferred
async def test_all_waiting_sites_are_logged_soon(
    proxy: Site, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites in line for a fetch are counted, and the line is repeated early if there are many."""
    monkeypatch.setattr(crawl_log, "MIN_WAIT", 0.01)
    crawlers: list[Crawler] = []
    answered = threading.Event()
    hosts = [f"http://{number}.example" for number in range(40)]
    proxy.replies = {f"{host}/robots.txt": Reply(404, gate=answered) for host in hosts}

    def react(line: str) -> None:
        if line.startswith("1 request waiting for the robots.txt of 1 site ("):
            for host in hosts[1:]:
                crawlers[0].engine.crawl(Request(host))
        sites = re.search(r"requests waiting for the robots.txt of (\d+) sites \(", line)
        if sites and int(sites[1]) > 16:  # more than fetches at once
            answered.set()

    with watched_log(react):
        settings = {"CONCURRENT_REQUESTS": 1, "CLOSESPIDER_TIMEOUT": 10}
        await crawl(hosts[:1], settings, prepare=crawlers.append)
    assert answered.is_set()
    assert sum("waiting for" in line for line in records(caplog, logging.INFO)) <= 6


def test_sites_are_counted_once(caplog: pytest.LogCaptureFixture) -> None:
    """Several events of a site count once, and the first sites get a line in each interval."""
    caplog.set_level(logging.INFO)
    crawler = make_crawler(Pages)
    log = CrawlLog(crawler, read_settings(crawler.settings))
    access = Unreachable(503, "503")
    for host in "abcdebddfggga":
        log.attempted(policy("503", host, Outcome.SUCCESSFUL), fetch(host), access, ())
    log.count_sites()
    log.attempted(policy("503", "a", Outcome.SUCCESSFUL), fetch("a"), access, ())
    log.count_sites()
    lines = [
        f"https://{host}/robots.txt is unreachable (503), so an earlier copy is used; the next"
        for host in "abca"
    ]
    lines.insert(
        3,
        "4 more sites: robots.txt is unreachable, so an earlier copy is used (https://d,"
        " https://e, https://f and 1 more); each is logged at DEBUG",
    )
    assert [line.partition(" attempt is")[0] for line in records(caplog, logging.INFO)] == lines
