"""Third-party parsers in ROBOTSTXT_PARSER, in real crawls."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import Reason, RfcRobotParser, RobotsDisallowed, robots_service
from tests.support.crawling import Pages, crawl, records
from tests.support.parsers import Fixed
from tests.support.site import Reply, Site, robots

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
    error = result.outcomes[site.url("/no")]
    assert isinstance(error, RobotsDisallowed)
    assert (error.decision.reason, error.decision.rule) == (Reason.PARSER, None)
    assert result.outcomes[site.url("/yes")] == 200
    assert set(Fixed.asked) == {"FooBot"}
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl([site.url("/yes")], settings)
    assert isinstance(result.outcomes[site.url("/yes")], RobotsDisallowed)


@pytest.mark.parametrize("name", ["Undecided", "FailsToDecide"])
@ensureDeferred
async def test_parser_without_a_verdict(site: Site, name: str) -> None:
    """A parser that raises, or returns neither True nor False, disallows the page."""
    site.replies["/robots.txt"] = robots("")
    result = await crawl([site.url("/x")], {"ROBOTSTXT_PARSER": f"tests.support.parsers.{name}"})
    outcome = result.outcomes[site.url("/x")]
    assert isinstance(outcome, RobotsDisallowed)
    assert outcome.decision.reason is Reason.PARSER


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
    error = result.outcomes[site.url("/x")]
    assert isinstance(error, RobotsDisallowed)
    assert error.decision.reason is Reason.RULE
    assert delays == [pytest.approx(0.3)]


@ensureDeferred
async def test_subclass_of_our_parser(site: Site) -> None:
    """The `allowed` of a subclass of our parser is used."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    result = await crawl([site.url("/special"), site.url("/x")], {"ROBOTSTXT_PARSER": Lenient})
    assert result.outcomes[site.url("/special")] == 200
    assert isinstance(result.outcomes[site.url("/x")], RobotsDisallowed)
