"""A URL on the command line is judged like a request for it."""

from __future__ import annotations

from hypothesis import example, given, strategies as st
from scrapy import Request

from scrapy_robots_rfc import RobotsTxt
from scrapy_robots_rfc.commands.common import as_url
from scrapy_robots_rfc.policy.origins import Origin

FILE = RobotsTxt.parse(
    b"User-agent: *\nDisallow: /a\nDisallow: /*?b\nDisallow: /%C3%A9\nDisallow: /*b$\nAllow: /a/b\n"
)

TEXTS = r"http:// HTTPS:// h h:81 / \ a b é %61 % %2F ? # ; * $ [ | .. ."
PIECES = tuple(TEXTS.split())
BLANKS = (" ", "\t", "\n", "\r", "\x00", "\x1f", "\x7f", "\x0b", "\xa0", "\u2003")


@example("b?#", "http://h/")
@given(
    st.lists(st.sampled_from(PIECES + BLANKS)).map("".join),
    st.sampled_from(("http://h/", "http://h", "", " \x01http://h/")),
)
def test_as_a_request(rest: str, start: str) -> None:
    """A URL has the origin and the verdict of a request for the same text."""
    typed = start + rest
    try:
        asked = Request(typed).url
    except ValueError:  # a crawl cannot ask for it at all
        return
    judged = as_url(typed)
    assert Origin.of(judged) == Origin.of(asked)
    if Origin.of(asked) is not None:
        assert FILE.decide(judged, ()) == FILE.decide(asked, ())
