"""A file that is cut at the limit equals the lines before it, without an incomplete line (RFC 9309,
2.5).
"""

from __future__ import annotations

import re

from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.findings import groups_of, records_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from tests.support.strategies import token_lists, unmarked_bodies, urls


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
