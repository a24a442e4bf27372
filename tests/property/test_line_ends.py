"""CR, LF and CRLF are equal (RFC 9309, 2.2), and a UTF-8 byte order mark is ignored."""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.findings import lines_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import LINE_ENDS, token_lists, unmarked_bodies, urls


@given(body=unmarked_bodies, end=st.sampled_from(LINE_ENDS), url=urls, tokens=token_lists)
def test_line_end(body: bytes, end: bytes, url: str, tokens: list[str]) -> None:
    """A file with other line ends has the same lines and verdicts."""
    written = RobotsTxt.parse(body)
    rewritten = RobotsTxt.parse(re.sub(rb"\r\n|\r|\n", end, body))
    assert list(lines_of(rewritten)) == list(lines_of(written))
    assert rewritten.decide(url, tokens) == written.decide(url, tokens)
