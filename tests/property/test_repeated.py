"""Earlier calls never change a result, although parsing and indexing are lazy."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.findings import groups_of, lines_of, records_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import GroupText, bodies, body_of, groups, rules, token_lists, urls

_files = st.one_of(
    bodies,
    st.lists(groups, max_size=6).map(lambda found: body_of(*found)),
    st.lists(rules, min_size=30, max_size=40).map(
        lambda found: body_of(GroupText(("*", "FooBot"), tuple(found)))
    ),
)


@given(body=_files, asked=st.lists(st.tuples(urls, token_lists), min_size=1, max_size=8))
def test_answers_do_not_depend_on_earlier_ones(
    body: bytes, asked: list[tuple[str, list[str]]]
) -> None:
    """A used object decides like a new one, and the same the second time."""
    used = RobotsTxt.parse(body)
    fresh = [RobotsTxt.parse(body).decide(url, tokens) for url, tokens in asked]
    assert [used.decide(url, tokens) for url, tokens in asked] == fresh
    assert [used.decide(url, tokens) for url, tokens in asked] == fresh


@given(body=_files, url=urls, tokens=token_lists)
def test_reading_the_whole_file_changes_no_answer(body: bytes, url: str, tokens: list[str]) -> None:
    """Reading groups, records and lines does not change a verdict."""
    used = RobotsTxt.parse(body)
    assert groups_of(used) == groups_of(RobotsTxt.parse(body))
    assert list(lines_of(used)) == list(lines_of(RobotsTxt.parse(body)))
    assert used.decide(url, tokens) == RobotsTxt.parse(body).decide(url, tokens)
    assert records_of(used) == records_of(RobotsTxt.parse(body))
