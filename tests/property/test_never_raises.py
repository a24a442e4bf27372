"""No file, URL or identification raises an exception (RFC 9309, 2.3.1.5 and 3)."""

from __future__ import annotations

from hypothesis import example, given, strategies as st

from scrapy_robots_rfc.core.agents import product_tokens
from scrapy_robots_rfc.core.explanation import explain, groups_of, lines_of, records_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.parser import RfcRobotParser
from tests.support.strategies import any_bodies, any_urls, token_lists, urls

identifications = st.one_of(
    st.text(max_size=40),
    st.text(st.characters(categories=["Cs", "Cc", "Lu"]), max_size=10),
    st.text("(;/ +:Foo.,)-_http", max_size=40),
    st.binary(max_size=20),
)


@given(body=any_bodies, url=any_urls, tokens=token_lists)
@example(body=b"", url="https://e.example/\ud800", tokens=[])
@example(body=b"User-agent: *\nDisallow: /\xff\x1b[2J", url=b"/\xff\x1b[2J", tokens=[])
def test_any_file_and_any_url_give_a_decision(
    body: bytes, url: str | bytes, tokens: list[str]
) -> None:
    """Any file and any URL give a decision that can be printed, the first time and later."""
    robots = RobotsTxt.parse(body)
    for _ in range(3):
        decision = robots.decide(url, tokens)
        assert decision.allowed in (True, False)
        assert decision.rule is None or str(decision.rule).isprintable()


@given(body=any_bodies, tokens=token_lists)
def test_any_file_can_be_read_as_a_whole(body: bytes, tokens: list[str]) -> None:
    """Any file has lines from number 1 on, groups and records."""
    robots = RobotsTxt.parse(body)
    numbers = [line.number for line in lines_of(robots)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(group.tokens for group in groups_of(robots))
    assert all(record.line in numbers for record in records_of(robots))
    assert (robots.crawl_delay(tokens) or 0) >= 0
    assert explain(robots, "/", tokens).groups or robots.crawl_delay(tokens) is None
    assert all(robots.sitemaps)


@given(body=any_bodies, identification=identifications, url=urls)
def test_any_identification(body: bytes, identification: str | bytes, url: str) -> None:
    """Any identification has tokens, and works with any file in Scrapy's interface."""
    tokens = product_tokens(identification)
    assert all(tokens)
    parser = RfcRobotParser.from_crawler(None, body)
    assert parser.allowed(url, identification) in (True, False)
    assert (parser.crawl_delay(identification) or 0) >= 0
