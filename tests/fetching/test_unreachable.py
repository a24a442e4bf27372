"""What is logged and counted when robots.txt fails. See also runtimes/."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc._runtime import Runtime
from tests.support.crawling import Pages, close_when, crawl, lines, records
from tests.support.service_crawls import run
from tests.support.site import Reply, Site, failing, robots

if TYPE_CHECKING:
    from scrapy_robots_rfc import RobotsService
    from tests.support.service_crawls import Clock

DAY = 86_400.0
RULES = "User-agent: *\nDisallow: /x\n"
HTML = b"\n<!DOCTYPE html><title>Sorry</title>"


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Return the time of a log line that is some seconds ahead."""
    monkeypatch.setattr(Runtime, "local_time_in", lambda _, seconds: f"1 + {seconds - 1:g} s")


@pytest.mark.parametrize("proxy", [None, "http://127.0.0.1:1"])
@ensureDeferred
async def test_log_says_that_a_dry_run_sends_pages(
    site: Site, caplog: pytest.LogCaptureFixture, proxy: str | None
) -> None:
    """In a dry run, lines about an unreachable file say that pages are sent anyway."""
    site.replies["/robots.txt"] = Reply(503)
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.01], "ROBOTS_DRY_RUN": True}
    await crawl([Request(site.url("/a"), meta={"proxy": proxy})], settings)
    shown = [line for line in lines(caplog, logging.INFO) if " is unreachable (" in line]
    assert len(shown) == (2 if proxy is None else 1)
    assert all(", but pages are sent in this dry run" in line for line in shown)


@pytest.mark.usefixtures("ahead")
@ensureDeferred
async def test_log_says_what_failed_and_how_it_ended(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """INFO says that a site is retried and that it recovered; WARNING that nothing is allowed."""
    site.replies["/robots.txt"] = failing(1, Reply(503))
    other.replies["/robots.txt"] = Reply(500)
    urls = [site.url("/a"), site.url("/x"), other.url("/a"), other.url("/b")]
    await crawl(urls, {"ROBOTS_UNREACHABLE_BACKOFF": [0.01, 0.02], "LOG_LEVEL": "INFO"})
    wait = (
        "and will be retried after 0.01 and 0.02 s while its pages wait. If every attempt fails,"
        " the crawl gives up after about 1.03 s (61 s at most), and nothing is allowed"
    )
    given_up = (
        f"{other.url('/robots.txt')} is unreachable (500), so nothing is allowed; the next attempt"
        " is in 300 s"
    )
    assert records(caplog) == [given_up]
    started, *found = lines(caplog, logging.INFO)
    assert started == "Obeying robots.txt as Scrapy (from USER_AGENT)"
    assert sorted(found[:5]) == sorted(  # either site may come first
        [
            f"{site.url('/robots.txt')} is unreachable (503) {wait}",
            f"{other.url('/robots.txt')} is unreachable (500) {wait}",
            f"{site.url('/robots.txt')} is reachable again (200)",
            (
                f"A page on {site.url('')} is disallowed (robots.txt line 2: Disallow: /x); each"
                " dropped request is logged at DEBUG"
            ),
            given_up,
        ]
    )
    assert found[5:] == [
        "robots.txt summary (spider pages):",
        "  sites: 1 successful; 1 unreachable (500), so nothing is allowed",
        "  requests: 1 allowed, 3 disallowed (1 rule, 2 unreachable)",
        "  sites with the most disallowed requests:",
        f"    2  {other.url('')}",
        f"    1  {site.url('')}",
        "  rules with the most disallowed requests:",
        f"    1  Disallow: /x ({site.url('')} line 2)",
        f"  unreachable: {other.url('')} (500)",
        "  obeyed as: Scrapy (from USER_AGENT)",
    ]


class Again(Pages):
    """Requests another page of a site whose first page was dropped, a minute later."""

    clock: Clock

    def failed(self, failure: Any) -> Any:
        super().failed(failure)
        self.clock.now += 60
        return failure.request.replace(url=failure.request.url.replace("/a", "/b"))


@ensureDeferred
async def test_next_request_asks_again(
    site: Site, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """After ROBOTS_UNREACHABLE_TTL, the next request starts a fetch with the whole backoff. A
    recovery is logged.
    """
    site.replies["/robots.txt"] = failing(3, Reply(503))
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.01], "ROBOTS_UNREACHABLE_TTL": 50}
    result = await crawl([site.url("/a")], settings, spider=Again, clock=clock)
    assert result.verdicts(site.url("/a"), site.url("/b")) == ["unreachable", 200]
    assert site.fetches == 4
    *_, recovered, _ = records(caplog, logging.INFO)
    assert recovered == f"{site.url('/robots.txt')} is reachable again (200)"


@ensureDeferred
async def test_old_enough_is_not_reached(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is unreachable beyond ROBOTS_UNREACHABLE_MAX_AGE has not recovered."""
    site.replies["/robots.txt"] = Reply(503)
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.05], "ROBOTS_UNREACHABLE_MAX_AGE": 0.01}
    result = await crawl([site.url("/a")], settings)
    assert result.outcomes == {site.url("/a"): 200}
    counted = [result.stat(key) for key in ("origins/unavailable", "origins/unreachable")]
    assert counted == [1, 0]
    [shown] = records(caplog)
    assert "for longer than ROBOTS_UNREACHABLE_MAX_AGE, so everything is allowed" in shown


@ensureDeferred
async def test_unreachable_origin_counts_once(site: Site, clock: Clock) -> None:
    """An origin that stays unreachable counts once, also if the crawl ends between attempts."""
    site.replies["/robots.txt"] = Reply(503)
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.5], "ROBOTS_UNREACHABLE_TTL": 50}
    stop = close_when(
        lambda crawler: crawler.stats.get_value("robotstxt/response_status_count/503") == 3
    )
    result = await crawl([site.url("/a")], settings, spider=Again, clock=clock, prepare=stop)
    assert result.stats["finish_reason"] == "test"
    assert (result.stat("undecided"), result.stat("origins/unreachable")) == (1, 1)


def lines_about(site: Site, caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what the log says about a robots.txt."""
    start = site.url("/robots.txt")
    return [line for line in records(caplog, logging.INFO) if line.startswith(start)]


@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (
            robots(RULES + "# filler\n" * 60_000),
            "is longer than ROBOTS_MAX_SIZE, so only its first 512000 bytes are read",
        ),
        (
            Reply(body=HTML, headers=(("Content-Type", "text/html"),)),
            "is a web page instead of a robots.txt file, so everything is allowed",
        ),
        (Reply(302, headers=(("Location", "/robots.txt?again"),)), "is unavailable ("),
        (robots("<html>\nUser-agent: *\nDisallow: /x\n"), None),
        (Reply(404), None),
        (robots(""), None),
    ],
    ids=["cut", "page", "redirects", "page with rules", "missing", "empty"],
)
@ensureDeferred
async def test_files_that_do_not_say_all(
    site: Site, reply: Reply, line: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    """One INFO line says that a file was cut, is a web page, or has too many redirects."""
    caplog.set_level(logging.INFO)
    site.replies["/robots.txt"] = site.replies["/robots.txt?again"] = reply
    await crawl([site.url("/a"), site.url("/b")])
    found = lines_about(site, caplog)
    assert len(found) == (line is not None)
    assert all(f"{site.url('/robots.txt')} {line}" in shown for shown in found)


@ensureDeferred
async def test_file_that_becomes_a_page(
    site: Site, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that becomes a web page or too long is logged once."""
    page = "is a web page instead of a robots.txt file, so everything is allowed"
    long = "is longer than ROBOTS_MAX_SIZE, so only its first 512000 bytes are read"
    days = [robots(RULES), Reply(body=HTML), Reply(body=HTML), robots(RULES + "#\n" * 300_000)]

    async def script(service: RobotsService) -> None:
        for reply in days:
            site.replies["/robots.txt"] = reply
            await service.robots(site.url("/"))
            clock.now += DAY

    await run(script)
    found = lines_about(site, caplog)
    assert found == [f"{site.url('/robots.txt')} {text}" for text in (page, long)]


@ensureDeferred
async def test_summary_counts_causes(caplog: pytest.LogCaptureFixture) -> None:
    """The summary counts the causes of missing files."""
    with Site({"/robots.txt": Reply(404)}) as one, Site({"/robots.txt": Reply(403)}) as other:
        await crawl([one.url("/"), other.url("/")])
    assert "  sites: 2 unavailable (1x 403, 1x 404), so everything is allowed" in lines(
        caplog, logging.INFO
    )
