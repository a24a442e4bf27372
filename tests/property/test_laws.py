"""Laws about files: what may change in a file, a call or a name without another verdict."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.explanation import groups_of, lines_of, records_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import (
    LINE_ENDS,
    GroupText,
    bodies,
    body_of,
    groups,
    rules,
    token_lists,
    unmarked_bodies,
    urls,
)


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


@given(body=bodies, url=urls, tokens=token_lists)
def test_list_and_tuple_and_header_agree(body: bytes, url: str, tokens: list[str]) -> None:
    """A tuple decides like a list, and a string like a list of one token."""
    robots = RobotsTxt.parse(body)
    assert robots.decide(url, tuple(tokens)) == robots.decide(url, tokens)
    for token in tokens:
        assert robots.decide(url, token) == robots.decide(url, [token])
