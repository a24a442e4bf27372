"""The arguments of the signals about decisions and exchanges."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import signals
from scrapy_robots_rfc.policy.access import Outcome
from tests.support.crawling import crawl, listening, records
from tests.support.site import Reply, Site, redirect, robots

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from scrapy.crawler import Crawler


class Heard:
    """Keeps the arguments of each time that a signal is sent."""

    def __init__(self, signal: object) -> None:
        self.sent: list[dict[str, Any]] = []
        self.prepare = listening(self.hear, signal)

    def hear(self, **arguments: Any) -> None:
        self.sent.append(arguments)


@ensureDeferred
async def test_disallowed(site: Site) -> None:
    """A disallowed request has its reason, the policy of its origin, and the line that decided."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    heard = Heard(signals.request_disallowed)
    await crawl([site.url("/private"), site.url("/a")], prepare=heard.prepare)
    [sent] = heard.sent
    assert (sent["why"], sent["line"]) == ("robots.txt line 2: Disallow: /private", 2)
    assert str(sent["policy"].origin) == sent["decision"].origin == site.url("")


@ensureDeferred
async def test_the_line_of_a_use(site: Site) -> None:
    """If a record about use refuses a page, its line is given, without a rule."""
    site.replies["/robots.txt"] = robots("User-agent: *\nContent-Usage: train-ai=n\nAllow: /\n")
    heard = Heard(signals.request_disallowed)
    await crawl([site.url("/a")], {"ROBOTS_USE": ["train-ai"]}, prepare=heard.prepare)
    assert [(sent["decision"].rule, sent["line"]) for sent in heard.sent] == [(None, 2)]


@ensureDeferred
async def test_allowed_is_sent_only_for_a_report(site: Site, tmp_path: Path) -> None:
    """An allowed request has a signal only if there is a report."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    found = []
    for report in (None, tmp_path / "r.jsonl"):
        heard = Heard(signals.request_allowed)
        await crawl(
            [site.url("/private"), site.url("/a")], {"ROBOTS_REPORT": report}, prepare=heard.prepare
        )
        found.append(
            [(sent["request"].url, sent["decision"].allowed, sent["line"]) for sent in heard.sent]
        )
    assert found == [[], [(site.url("/a"), True, None)]]


@ensureDeferred
async def test_exchanges(site: Site, other: Site) -> None:
    """Redirects and failed exchanges are signalled, too, with the origin they are for."""
    site.replies["/robots.txt"] = redirect(other.url("/rules"))
    other.replies["/rules"] = robots("User-agent: *\nDisallow: /private\n")
    other.replies["/robots.txt"] = Reply(503)
    heard = Heard(signals.robots_exchanged)
    settings: dict[str, Any] = {"ROBOTS_UNREACHABLE_BACKOFF": []}
    await crawl([site.url("/private"), "http://127.0.0.1:1/a"], settings, prepare=heard.prepare)
    found = [
        (
            str(sent["origin"]),
            sent["request"].url,
            None if sent["response"] is None else sent["response"].status,
        )
        for sent in heard.sent
    ]
    assert sorted(found) == sorted([
        (site.url(""), site.url("/robots.txt"), 302),
        (site.url(""), other.url("/rules"), 200),
        ("http://127.0.0.1:1", "http://127.0.0.1:1/robots.txt", None),
    ])  # fmt: skip
    assert {(tuple(sent["codings"]), sent["cut_off"]) for sent in heard.sent} == {((), False)}


@ensureDeferred
async def test_fetched(site: Site, other: Site) -> None:
    """The end of a fetch has its result, the request that it was for, and the new policy."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    other.replies["/robots.txt"] = Reply(503)
    heard = Heard(signals.robots_fetched)
    await crawl([site.url("/a"), other.url("/b")], prepare=heard.prepare)
    by_request = {sent["request"].url: sent for sent in heard.sent}
    fetched, failed = by_request[site.url("/a")], by_request[other.url("/b")]
    assert (fetched["result"], fetched["status"]) == (Outcome.SUCCESSFUL, 200)
    assert (fetched["body"][:10], fetched["error"]) == (b"User-agent", None)
    assert not fetched["policy"].decide(site.url("/private")).allowed
    assert (failed["result"], failed["status"]) == (Outcome.UNREACHABLE, 503)
    assert (failed["body"], failed["error"]) == (None, "503")


@ensureDeferred
async def test_attempted(site: Site, other: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Each attempt is signalled, even if a handler fails."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    other.replies["/robots.txt"] = Reply(404)
    heard = Heard(signals.robots_attempted)

    def fail(**_: object) -> None:
        raise ValueError("mine")

    def prepare(crawler: Crawler) -> None:
        listening(fail, signals.robots_attempted)(crawler)
        heard.prepare(crawler)

    result = await crawl([site.url("/a"), other.url("/a")], prepare=prepare)
    origins = {str(sent["policy"].origin) for sent in heard.sent}
    assert origins == {site.url(""), other.url("")}
    assert set(result.outcomes.values()) == {200}
    failed = f"Cannot handle a signal for {site.url('/robots.txt')}; the crawl continues"
    assert failed in records(caplog, logging.ERROR)


@ensureDeferred
async def test_paced(site: Site) -> None:
    """The interval of a site is signalled once."""
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 9\n")
    heard = Heard(signals.site_paced)
    pages = [site.url("/a"), site.url("/b")]
    await crawl(pages, {"ROBOTS_CRAWL_DELAY_MAX": 0.01}, prepare=heard.prepare)
    assert [(sent["bound"].seconds, sent["interval"]) for sent in heard.sent] == [(9, 0.01)]
