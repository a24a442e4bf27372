"""The first token of a list that has a group decides alone (2.2.1)."""

from __future__ import annotations

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import GroupText, bodies, body_of, groups, token_lists, urls


@given(
    body=st.one_of(bodies, st.lists(groups, max_size=4).map(lambda found: body_of(*found))),
    url=urls,
    tokens=token_lists,
)
def test_first_token_with_a_group_decides(body: bytes, url: str, tokens: list[str]) -> None:
    """A list decides like its first token that is in the file, or like no token."""
    robots = RobotsTxt.parse(body)
    named = []
    for token in tokens:
        found = RobotsTxt.parse(body).decide(url, [token]).token
        if found is not None and token.startswith(found):  # `FooBot2` may have the group of FooBot
            named.append(token)
    assert robots.decide(url, tokens) == RobotsTxt.parse(body).decide(url, named[:1])


@given(found=st.lists(groups, max_size=4), url=urls, tokens=token_lists)
def test_case_of_tokens_does_not_matter(
    found: list[GroupText], url: str, tokens: list[str]
) -> None:
    """Tokens in another case give the same verdict by the same rule."""
    robots = RobotsTxt.parse(body_of(*found))
    one, other = (
        robots.decide(url, tokens),
        robots.decide(url, [token.swapcase() for token in tokens]),
    )
    assert (one.allowed, one.reason, one.rule) == (other.allowed, other.reason, other.rule)


@given(body=bodies, url=urls, tokens=token_lists)
def test_list_and_tuple_and_header_agree(body: bytes, url: str, tokens: list[str]) -> None:
    """A tuple decides like a list, and a string like a list of one token."""
    robots = RobotsTxt.parse(body)
    assert robots.decide(url, tuple(tokens)) == robots.decide(url, tokens)
    for token in tokens:
        assert robots.decide(url, token) == robots.decide(url, [token])
