"""Parsing and deciding take linear time, even for hostile files.

Four times the size takes four times as long, or sixteen times if the time is quadratic. The limit
is between the two, because machines are busy. The tests measure CPU time, the minimum of several
runs.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.core.explanation import groups_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import without_credentials

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST = 9.0  # between 4 and 16
_RUNS = 3


def _fill(
    unit: bytes, *, head: bytes = b"User-agent: *\n", tail: bytes = b""
) -> Callable[[int], bytes]:
    """Return a function that creates a file of any size by repeating a unit."""
    return lambda size: head + unit * (size // len(unit)) + tail


#: Files with a repeated unit that a parser might read again and again.
HOSTILE: dict[str, Callable[[int], bytes]] = {
    "user-agent lines without rules": _fill(
        b"User-agent: FooBot\n", head=b"", tail=b"Disallow: /\n"
    ),
    "groups of one token": _fill(b"User-agent: FooBot\nDisallow: /a\n", head=b""),
    "groups of two crawlers in turn": _fill(
        b"User-agent: FooBot\nDisallow: /a\nUser-agent: Bar2\nDisallow: /b\n", head=b""
    ),
    "names with digits": _fill(b"User-agent: FooBot2\n", head=b"", tail=b"Disallow: /\n"),
    "nearly user-agent lines": _fill(b"x user-agent FooBot\n"),
    "the word agent in one line": _fill(b"agent "),
    "lone carriage returns": _fill(b"\r"),
    "blank lines": _fill(b"\n"),
    "lines of blanks": _fill(b" \t\n"),
    "byte order marks": _fill(b"\xef\xbb\xbf", head=b""),
    "line ends turned round": _fill(b"\n\r"),
    "one endless line": _fill(b"a"),
    "one endless line of blanks": _fill(b" \t"),
    "one endless comment": _fill(b"#"),
    "colons": _fill(b":"),
    "bytes outside ASCII": _fill(b"\xff"),
    "percent signs": _fill(b"%", head=b"User-agent: *\nDisallow: /"),
    "plain rules, one within the next": lambda size: (
        b"User-agent: *\n"
        + b"".join(b"Disallow: /%s\n" % (b"a" * (n % 200)) for n in range(size // 112))
    ),
    "plain rules": lambda size: (
        b"User-agent: *\n" + b"".join(b"Disallow: /%d\n" % n for n in range(size // 16))
    ),
    "wildcard rules": lambda size: (
        b"User-agent: *\n" + b"".join(b"Disallow: /*%d/\n" % n for n in range(size // 18))
    ),
    "wildcard rules alike": _fill(b"Disallow: /*a*a*a*b\n"),
    "other records": _fill(b"Sitemap: /s\n"),
    "rules outside any group": _fill(b"Disallow: /a\n", head=b""),
}
_URLS = ["https://e.example/" + "a" * 200, "https://e.example/a?b=%2F", "https://e.example/1/2/3"]


def _seconds(call: Callable[[], object]) -> float:
    """Return the minimum time of several calls."""
    times = []
    for _ in range(_RUNS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def _read(body: bytes) -> None:
    """Parse a file and decide."""
    robots = RobotsTxt.parse(body)
    for _ in range(2):
        for url in _URLS:
            robots.decide(url, ["FooBot"])
    assert all(group.tokens for group in groups_of(robots))


def _assert_linear(call: Callable[[int], object], small: int) -> None:
    """Assert that four times the size takes less than nine times as long."""
    large = _seconds(lambda: call(4 * small))
    assert large <= _MOST * max(_seconds(lambda: call(small)), 0.001)


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_no_faster_than_the_file(name: str) -> None:
    """Four times the size takes less than nine times as long."""
    _assert_linear(lambda size: _read(HOSTILE[name](size)), 6_000)


def test_time_of_a_wildcard_rule_grows_with_url_and_rule() -> None:
    """With many wildcards, a URL of four times the length takes less than nine times as long."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /" + b"*a" * 200 + b"*b$\n")
    _assert_linear(lambda length: robots.decide("https://e.example/" + "a" * length, []), 50_000)


@pytest.mark.parametrize(
    "unit", [":", "a:/", ":@ ", "@:", "redis://u:p", "password=", "username=a", " ", "x"]
)
def test_time_of_hiding_credentials_grows_with_the_text(unit: str) -> None:
    """Hiding credentials in four times the text takes less than nine times as long."""
    _assert_linear(lambda length: without_credentials(unit * (length // len(unit))), 12_000)
