"""Third-party parsers in ROBOTSTXT_PARSER, in real crawls."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import Reason, RfcRobotParser, robots_service
from tests.support.crawling import Pages, crawl, records
from tests.support.parsers import Fixed
from tests.support.site import Reply, Site, robots
from tests.support.timed_site import DELAY, gaps, urls

if TYPE_CHECKING:
    from scrapy.http import Response


@ensureDeferred
async def test_parser_of_the_users(site: Site) -> None:
    """A third-party parser gives the verdicts; failures and redirects are handled as usual."""
    Fixed.asked.clear()
    site.replies["/robots.txt"] = robots("")
    settings = {
        "ROBOTSTXT_PARSER": "tests.support.parsers.Fixed",
        "USER_AGENT": "FooBot/1.0 (+http://foo.example)",
    }
    result = await crawl([site.url("/yes"), site.url("/no")], settings)
    decision = result.dropped(site.url("/no")).decision
    assert (decision.reason, decision.rule) == (Reason.PARSER, None)
    assert result.outcomes[site.url("/yes")] == 200
    assert set(Fixed.asked) == {"FooBot"}
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl([site.url("/yes")], settings)
    assert result.verdicts() == ["unreachable"]


class Undecided(Fixed):
    """Returns a string, which is not a verdict but true in Python."""

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        return "no"  # type: ignore[return-value]  # the mistake that is tested


class Failing(Fixed):
    """Raises for every URL and every agent."""

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        raise RuntimeError("cannot decide")

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        raise RuntimeError("cannot tell")


@pytest.mark.parametrize("parser", [Undecided, Failing])
@ensureDeferred
async def test_parser_without_a_verdict(site: Site, parser: type) -> None:
    """A parser that raises, or returns neither True nor False, disallows the page."""
    site.replies["/robots.txt"] = robots("")
    result = await crawl([site.url("/x")], {"ROBOTSTXT_PARSER": parser})
    assert result.verdicts() == ["parser"]


class WithoutDelay(Fixed):
    """Raises when it is asked for a delay."""

    crawl_delay = Failing.crawl_delay


@pytest.mark.parametrize(("parser", "paced"), [(Fixed, True), (WithoutDelay, False)])
@ensureDeferred
async def test_interval_of_a_parser(site: Site, parser: type, paced: bool) -> None:
    """The interval of a third-party parser counts; if it raises, there is none."""
    site.replies["/robots.txt"] = robots("")
    pages = [f"{url}yes" for url in urls(site, 4)]
    result = await crawl(pages, {"ROBOTSTXT_PARSER": parser})
    assert result.verdicts() == [200] * 4
    assert (min(gaps(site)) >= DELAY) is paced
    assert result.stat("crawl_delay/sites") == paced


class Lenient(RfcRobotParser):
    """Allows one more page."""

    def allowed(self, url: str | bytes, user_agent: str | bytes) -> bool:
        return "special" in str(url) or super().allowed(url, user_agent)


class Slower(RfcRobotParser):
    """Adds a tenth of a second to the delay."""

    def crawl_delay(self, user_agent: str | bytes) -> float | None:
        return 0.1 + (super().crawl_delay(user_agent) or 0.0)


@pytest.mark.parametrize(
    ("parser", "named"),
    [
        ("scrapy.robotstxt.ProtegoRobotParser", "scrapy.robotstxt.ProtegoRobotParser"),
        (Lenient, f"{__name__}.Lenient"),
        (f"{__name__}.Slower", None),
        ("scrapy_robots_rfc.RfcRobotParser", None),
    ],
)
@ensureDeferred
async def test_another_parser_has_a_line_at_start(
    site: Site, caplog: pytest.LogCaptureFixture, parser: Any, named: str | None
) -> None:
    """If verdicts name no rule, one line at start names the parser."""
    await crawl([site.url("/x")], {"ROBOTSTXT_PARSER": parser})
    logged = [line for line in records(caplog, logging.INFO) if "ROBOTSTXT_PARSER" in line]
    text = f"ROBOTSTXT_PARSER is {named}, so decisions do not include a rule or line"
    assert logged == ([] if named is None else [text])


@ensureDeferred
async def test_subclass_with_a_delay_of_its_own(site: Site) -> None:
    """The `crawl_delay` of a subclass of our parser is used, and verdicts keep their rules."""
    site.replies["/robots.txt"] = robots("User-agent: *\nCrawl-delay: 0.2\nDisallow: /x\n")
    delays: list[float | None] = []

    class Asks(Pages):
        async def parse(self, response: Response, **_: Any) -> None:
            delays.append((await robots_service(self.crawler).robots(response.url)).crawl_delay())

    result = await crawl(
        [site.url("/y"), site.url("/x")], {"ROBOTSTXT_PARSER": Slower}, spider=Asks
    )
    assert result.verdicts(site.url("/x")) == ["rule"]
    assert delays == [pytest.approx(0.3)]


@ensureDeferred
async def test_subclass_of_our_parser(site: Site) -> None:
    """The `allowed` of a subclass of our parser is used."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    result = await crawl([site.url("/special"), site.url("/x")], {"ROBOTSTXT_PARSER": Lenient})
    assert result.verdicts(site.url("/special"), site.url("/x")) == [200, "parser"]
