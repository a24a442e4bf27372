"""CR, LF and CRLF are equal (RFC 9309, 2.2), and a UTF-8 byte order mark is ignored."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.findings import Flag, lines_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import LINE_ENDS, token_lists, unmarked_bodies, urls

_MARK = b"\xef\xbb\xbf"


@given(body=unmarked_bodies, end=st.sampled_from(LINE_ENDS), url=urls, tokens=token_lists)
def test_line_end(body: bytes, end: bytes, url: str, tokens: list[str]) -> None:
    """A file with other line ends has the same lines and verdicts."""
    written = RobotsTxt.parse(body)
    rewritten = RobotsTxt.parse(re.sub(rb"\r\n|\r|\n", end, body))
    assert list(lines_of(rewritten)) == list(lines_of(written))
    assert rewritten.decide(url, tokens) == written.decide(url, tokens)


@given(body=unmarked_bodies, url=urls, tokens=token_lists)
def test_byte_order_mark(body: bytes, url: str, tokens: list[str]) -> None:
    """A file with a UTF-8 byte order mark differs only by the flag for the mark."""
    plain, marked = RobotsTxt.parse(body), RobotsTxt.parse(_MARK + body)
    mark = frozenset({Flag.BYTE_ORDER_MARK})
    assert [line._replace(flags=line.flags - mark) for line in lines_of(marked)] == list(
        lines_of(plain)
    )
    assert marked.decide(url, tokens) == plain.decide(url, tokens)
