"""Laws about files: what may change in a file, a call or a name without another verdict."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.decision import RuleKind
from scrapy_robots_rfc.core.explanation import groups_of, lines_of, records_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import (
    LINE_ENDS,
    GroupText,
    RuleText,
    bodies,
    body_for,
    body_of,
    groups,
    rules,
    token_lists,
    unmarked_bodies,
    urls,
)


@given(data=st.data(), found=st.lists(groups, max_size=5), url=urls, tokens=token_lists)
def test_order_of_groups(
    data: st.DataObject, found: list[GroupText], url: str, tokens: list[str]
) -> None:
    """Groups in another order give the same verdict."""
    mixed = data.draw(st.permutations(found))
    before = RobotsTxt.parse(body_of(*found)).decide(url, tokens)
    after = RobotsTxt.parse(body_of(*mixed)).decide(url, tokens)
    assert (before.allowed, before.reason, before.token) == (
        after.allowed,
        after.reason,
        after.token,
    )


@given(data=st.data(), found=st.lists(rules, max_size=30), url=urls)
def test_order_of_rules(data: st.DataObject, found: list[RuleText], url: str) -> None:
    """Rules in another order give the same verdict, the first time and later."""
    mixed = data.draw(st.permutations(found))
    one, other = RobotsTxt.parse(body_for(found)), RobotsTxt.parse(body_for(mixed))
    for _ in range(2):
        before, after = one.decide(url, []), other.decide(url, [])
        assert (before.allowed, before.reason) == (after.allowed, after.reason)


def _verdicts(file: list[GroupText], url: str, tokens: list[str]) -> list[bool]:
    robots = RobotsTxt.parse(body_of(*file))
    return [robots.decide(url, tokens).allowed for _ in range(2)]


@given(
    data=st.data(),
    file=st.lists(groups, min_size=1, max_size=4),
    rule=rules,
    url=urls,
    tokens=token_lists,
)
def test_added_rule(
    data: st.DataObject, file: list[GroupText], rule: RuleText, url: str, tokens: list[str]
) -> None:
    """A rule that is added to any group changes a verdict only to its own kind."""
    which = data.draw(st.integers(0, len(file) - 1))
    group = file[which]
    at = data.draw(st.integers(0, len(group.rules)))
    longer = GroupText(group.agents, (*group.rules[:at], rule, *group.rules[at:]))
    before = _verdicts(file, url, tokens)
    after = _verdicts([*file[:which], longer, *file[which + 1 :]], url, tokens)
    assert after in (before, [rule.kind is RuleKind.ALLOW] * 2)


@given(body=unmarked_bodies, end=st.sampled_from(LINE_ENDS), url=urls, tokens=token_lists)
def test_line_end(body: bytes, end: bytes, url: str, tokens: list[str]) -> None:
    """A file with other line ends has the same lines and verdicts."""
    written = RobotsTxt.parse(body)
    rewritten = RobotsTxt.parse(re.sub(rb"\r\n|\r|\n", end, body))
    assert list(lines_of(rewritten)) == list(lines_of(written))
    assert rewritten.decide(url, tokens) == written.decide(url, tokens)


def _whole_lines(body: bytes, size: int) -> bytes:
    """Return the first bytes of a file, without a last line that continues after them."""
    prefix, rest = body[:size], body[size:]
    if not rest or rest.startswith((b"\r", b"\n")):
        return prefix
    ends = [match.end() for match in re.finditer(rb"\r\n|\r|\n", prefix)]
    return prefix[: ends[-1]] if ends else b""


@given(data=st.data(), body=unmarked_bodies, url=urls, tokens=token_lists)
def test_cut_file_reads_as_its_prefix(
    data: st.DataObject, body: bytes, url: str, tokens: list[str]
) -> None:
    """Verdict, groups and records match the complete lines before the limit."""
    size = data.draw(st.integers(0, len(body) + 1))
    cut, prefix = RobotsTxt.parse(body, max_size=size), RobotsTxt.parse(_whole_lines(body, size))
    assert cut.content.truncated is (len(body) > size)
    assert groups_of(cut) == groups_of(prefix)
    assert records_of(cut) == records_of(prefix)
    for _ in range(2):
        assert cut.decide(url, tokens) == prefix.decide(url, tokens)


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
    """A used object, of which groups, records and lines may have been read, answers like a new one,
    and the same the second time.
    """
    fresh = [RobotsTxt.parse(body).decide(url, tokens) for url, tokens in asked]
    for is_read_first in (True, False):
        used = RobotsTxt.parse(body)
        for _ in range(2):
            if is_read_first:
                for read in (groups_of, lines_of, records_of):
                    assert list(read(used)) == list(read(RobotsTxt.parse(body)))
            assert [used.decide(url, tokens) for url, tokens in asked] == fresh


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
