"""What happens when robots.txt fails.

Under every runtime (scenarios_unreachable.py), and what the log says of it.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pytest_twisted import ensureDeferred
from scrapy.signals import response_downloaded
from scrapy.utils.defer import deferred_from_coro

from scrapy_robots_rfc._runtime import LATE, Runtime
from tests.support.crawling import Pages, crawl, lines, records
from tests.support.scenarios_unreachable import Failing, short
from tests.support.service_crawls import run
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy_robots_rfc import RobotsService
    from tests.support.runtimes import Results
    from tests.support.service_crawls import Clock

DAY = 86_400.0
RULES = "User-agent: *\nDisallow: /x\n"
HTML = b"\n<!DOCTYPE html><title>Sorry</title>"


def test_asked_again_until_it_is_there(results: Results) -> None:
    """A file that fails twice is asked for after each delay of the backoff, once, and its
    requests wait that long.
    """
    assert results["recovers"] == {
        "outcomes": [200, 200, 200, "rule"],
        "first": ["/robots.txt"] * 3,
        "paused": [True, True],
        "soon": True,
        "counted": [3, 2],
        "origins": [1, 0],
    }


def test_disallowed_after_the_last_attempt(results: Results) -> None:
    """A file that fails for good is asked for as often as the backoff says.

    All that waited are disallowed.
    """
    assert results["gives_up"] == {
        "outcomes": ["unreachable"] * 5,
        "fetches": 2,
        "pages": [],
        "origins": 1,
    }


def test_retry_after_makes_a_delay_longer(results: Results) -> None:
    """Retry-After makes a delay longer, never shorter; nonsense is none."""
    gaps, outcomes = zip(*results["retry_after"]["gaps"], strict=True)
    assert outcomes == (200,) * 3
    for gap, least in zip(gaps, (1, 0.5, 0.01), strict=True):
        assert least <= gap < least + 0.9


def test_unknown_host_is_disallowed_at_once(results: Results) -> None:
    """A host that does not resolve is disallowed at once."""
    assert results["at_once"] == {"outcome": "unreachable", "requests": 1}


def test_many_failing_hosts_delay_no_other(results: Results) -> None:
    """While forty hosts fail and their requests wait, another site is crawled to its end."""
    assert results["many_failing"] == {
        "pages": 20,
        "others": 0,
        "undecided": True,
        "reason": "enough",
    }


def test_hanging_hosts_give_way_to_others(results: Results) -> None:
    """Hosts that never answer give way to others, however many they are, and count as failed for
    that no sooner.
    """
    assert results["many_hanging"] == {"pages": 10, "failed": 0, "reason": "enough"}


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """Times that log lines show are seconds from when they are written.

    One, and what was added up.
    """
    monkeypatch.setattr(Runtime, "at", lambda _, seconds: f"1 + {seconds - 1:g} s")


@pytest.mark.reactor
@pytest.mark.usefixtures("ahead")
@ensureDeferred
async def test_log_says_what_failed_and_how_it_ended(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """INFO says that a site is retried and that it recovered; WARNING that nothing is allowed."""
    site.replies["/robots.txt"] = Failing(1, Reply(503))
    other.replies["/robots.txt"] = Failing(float("inf"), Reply(500))
    urls = [site.url("/a"), site.url("/x"), other.url("/a"), other.url("/b")]
    await crawl(urls, {"ROBOTS_UNREACHABLE_BACKOFF": [0.01, 0.02]})
    wait = (
        "its pages wait while it is retried after 0.01 and 0.02 s; if every attempt fails, the"
        " crawl gives up in about 1.03 s (61 s at most), and nothing is allowed"
    )
    given_up = (
        f"{other.url('/robots.txt')} is unreachable (500): nothing is allowed; the next attempt is"
        " in 300 s"
    )
    assert records(caplog) == [given_up]
    found = lines(caplog, logging.INFO)
    assert sorted(found[:5]) == sorted(  # either site may come first
        [
            f"{site.url('/robots.txt')} is unreachable (503): {wait}",
            f"{other.url('/robots.txt')} is unreachable (500): {wait}",
            f"{site.url('/robots.txt')} is reachable again (200)",
            (
                f"A page of {site.url('')} is disallowed (robots.txt line 2: Disallow: /x); each"
                " dropped request is logged at DEBUG"
            ),
            given_up,
        ]
    )
    assert found[5:] == [
        "robots.txt summary (spider pages):",
        "  sites: 1 successful, 1 unreachable (500): nothing is allowed",
        "  requests: 1 allowed, 3 disallowed (1 rule, 2 unreachable)",
        "  sites with most disallowed requests:",
        f"    2  {other.url('')}",
        f"    1  {site.url('')}",
        "  rules with most disallowed requests:",
        f"    1  Disallow: /x ({site.url('')} line 2)",
        f"  unreachable: {other.url('')} (500)",
    ]


class Again(Pages):
    """Asks for another page of a site whose first one was dropped."""

    def failed(self, failure: Any) -> Any:
        """Ask."""
        super().failed(failure)
        return failure.request.replace(url=failure.request.url.replace("/a", "/b"))


@pytest.mark.reactor
@ensureDeferred
async def test_next_request_asks_again(site: Site) -> None:
    """After ROBOTS_UNREACHABLE_TTL the next request has the file fetched again, with the same
    patience.
    """
    failing = site.replies["/robots.txt"] = Failing(3, Reply(503))
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.01], "ROBOTS_UNREACHABLE_TTL": 1e-9}
    result = await crawl([site.url("/a")], settings, spider=Again)
    assert {url: short(outcome) for url, outcome in result.outcomes.items()} == {
        site.url("/a"): "unreachable",
        site.url("/b"): 200,
    }
    assert len(failing.arrived) == 4


@pytest.mark.reactor
@pytest.mark.usefixtures("ahead")
@ensureDeferred
async def test_one_more_attempt_is_one(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """One more is one."""
    site.replies["/robots.txt"] = Failing(1, Reply(503))
    await crawl([site.url("/a")], {"ROBOTS_UNREACHABLE_BACKOFF": [0.01]})
    wait = (
        "its pages wait while it is retried after 0.01 s; if every attempt fails, the crawl gives"
        " up in about 1.01 s (31 s at most), and nothing is allowed"
    )
    retrying = f"{site.url('/robots.txt')} is unreachable (503): {wait}"
    assert records(caplog, logging.INFO)[:2] == [
        retrying,
        f"{site.url('/robots.txt')} is reachable again (200)",
    ]


@pytest.mark.reactor
@ensureDeferred
async def test_recovery_after_a_pause_is_logged(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A site that answers when the next request tries again is logged at INFO."""
    site.replies["/robots.txt"] = Failing(1, Reply(503))
    await crawl([site.url("/a")], {"ROBOTS_UNREACHABLE_TTL": 1e-9}, spider=Again)
    failed, recovered, *_ = records(caplog, logging.INFO)
    assert failed.startswith(f"{site.url('/robots.txt')} is unreachable (503): nothing is allowed")
    assert recovered == f"{site.url('/robots.txt')} is reachable again (200)"


class Late:
    """A download handler of another package: what it asks for comes too late."""

    error: ClassVar[type[Exception]] = TimeoutError
    lazy = False

    @classmethod
    def from_crawler(cls, _: Any) -> Late:
        """Make one."""
        return cls()

    async def download_request(self, *_: Any) -> Any:
        """Give up."""
        raise self.error("too late")

    async def close(self) -> None:
        """Have nothing to close."""


@pytest.mark.reactor
@pytest.mark.parametrize("error", LATE)
@ensureDeferred
async def test_no_answer_in_time(error: type[Exception], caplog: pytest.LogCaptureFixture) -> None:
    """Whoever gave up first, a fetch that took too long has one name."""
    Late.error = error
    settings = {"DOWNLOAD_HANDLERS": {"http": Late}, "ROBOTS_UNREACHABLE_BACKOFF": []}
    await crawl(["http://a.example/a"], settings)
    assert "http://a.example/robots.txt is unreachable (no answer in 30 s): " in records(caplog)[0]


@pytest.mark.reactor
@ensureDeferred
async def test_old_enough_is_not_reached(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A file that is unreachable for so long that it counts as unavailable has not recovered.

    No line says so.
    """
    site.replies["/robots.txt"] = Reply(503)
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.05], "ROBOTS_UNREACHABLE_MAX_AGE": 0.01}
    result = await crawl([site.url("/a")], settings)
    assert result.outcomes == {site.url("/a"): 200}
    counted = [result.stat(key) for key in ("origins/unavailable", "origins/unreachable")]
    assert counted == [1, 0]
    [shown] = records(caplog)
    assert "for longer than ROBOTS_UNREACHABLE_MAX_AGE: everything is allowed" in shown


class CloseWhileItFails(Again):
    """Closes when the file of the site has failed so many times."""

    failing: Failing
    times = 3

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the first page, and look at the failures."""
        self.crawler.signals.connect(self.looked, response_downloaded)
        async for request in super().start():
            yield request

    def looked(self) -> None:
        """Close, without waiting for the next attempt."""
        if len(self.failing.arrived) == self.times:
            deferred_from_coro(self.crawler.engine.close_spider_async(reason="enough"))


@pytest.mark.reactor
@ensureDeferred
async def test_unreachable_origin_counts_once(site: Site) -> None:
    """An origin that goes on being unreachable counts once, also when the crawl ends between two
    attempts.
    """
    CloseWhileItFails.failing = site.replies["/robots.txt"] = Failing(float("inf"), Reply(503))
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [0.5], "ROBOTS_UNREACHABLE_TTL": 1e-9}
    result = await crawl([site.url("/a")], settings, spider=CloseWhileItFails)
    assert result.stats["finish_reason"] == "enough"
    assert (result.stat("undecided"), result.stat("origins/unreachable")) == (1, 1)


@pytest.mark.reactor
@pytest.mark.parametrize(
    ("reply", "line"),
    [
        (
            robots(RULES + "# filler\n" * 60_000),
            "is longer than ROBOTS_MAX_SIZE: only its first 512000 bytes count",
        ),
        (
            Reply(body=HTML, headers=(("Content-Type", "text/html"),)),
            "is a web page, not a robots.txt file: it has no rules, so everything is allowed",
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
    """One INFO line says that a file was cut, is a web page, or is behind too many redirects."""
    caplog.set_level(logging.INFO)
    site.replies["/robots.txt"] = site.replies["/robots.txt?again"] = reply
    await crawl([site.url("/a"), site.url("/b")])
    found = [
        shown
        for shown in records(caplog, logging.INFO)
        if shown.startswith(site.url("/robots.txt"))
    ]
    assert len(found) == (line is not None)
    assert all(f"{site.url('/robots.txt')} {line}" in shown for shown in found)


@pytest.mark.reactor
@ensureDeferred
async def test_file_that_becomes_a_page(
    site: Site, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """A file in whose place a web page comes later, or a longer file, is logged once, when
    that comes.
    """
    page = "is a web page, not a robots.txt file: it has no rules, so everything is allowed"
    long = "is longer than ROBOTS_MAX_SIZE: only its first 512000 bytes count"
    days = [robots(RULES), Reply(body=HTML), Reply(body=HTML), robots(RULES + "#\n" * 300_000)]

    async def script(service: RobotsService) -> None:
        for reply in days:
            site.replies["/robots.txt"] = reply
            await service.robots(site.url("/"))
            clock.now += DAY

    await run(script)
    found = [
        shown
        for shown in records(caplog, logging.INFO)
        if shown.startswith(site.url("/robots.txt"))
    ]
    assert found == [f"{site.url('/robots.txt')} {text}" for text in (page, long)]


@pytest.mark.reactor
@ensureDeferred
async def test_summary_counts_causes(caplog: pytest.LogCaptureFixture) -> None:
    """Where files are not there for several causes, the sums say how often each was the cause."""
    with Site({"/robots.txt": Reply(404)}) as one, Site({"/robots.txt": Reply(403)}) as other:
        await crawl([one.url("/"), other.url("/")])
    assert "  sites: 2 unavailable (1 403, 1 404): everything is allowed" in lines(
        caplog, logging.INFO
    )


@pytest.mark.reactor
@ensureDeferred
async def test_summary_says_what_unavailable_means(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The sums name the causes of files that are not there, and say that everything is allowed."""
    caplog.set_level(logging.INFO)
    await crawl([site.url("/a")])
    assert "  sites: 1 unavailable (404): everything is allowed" in lines(caplog, logging.INFO)
