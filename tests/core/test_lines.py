"""Lines as records: what each line is read as, and a line for each flag."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.core.findings import Flag, Line, lines_of
from scrapy_robots_rfc.core.lines import MAX_LINE, LineKind
from scrapy_robots_rfc.core.robotstxt import RobotsTxt


def lines(body: bytes) -> list[Line]:
    """Return the records of a file."""
    return list(lines_of(RobotsTxt.parse(body)))


def test_each_line_is_a_record() -> None:
    """Each line is a record with number, kind, key and value, whatever its line end."""
    read = lines(
        b"# hello\nUser-agent: Foo # me\rDisallow : /x\r\n\nSitemap: https://e.example/s.xml\nnonsense"
    )
    assert [(line.number, line.kind, line.key, line.value) for line in read] == [
        (1, LineKind.COMMENT, "", ""),
        (2, LineKind.USER_AGENT, "user-agent", "Foo"),
        (3, LineKind.DISALLOW, "disallow", "/x"),
        (4, LineKind.BLANK, "", ""),
        (5, LineKind.RECORD, "sitemap", "https://e.example/s.xml"),
        (6, LineKind.JUNK, "", "nonsense"),
    ]
    assert not any(line.flags for line in read)


@pytest.mark.parametrize(
    ("flag", "line"),
    [
        (Flag.MISSPELT_KEY, b"Dissallow: /x"),
        (Flag.NO_COLON, b"Disallow /x"),
        (Flag.UNKNOWN_KEY, b"Disallowed: /x"),
        (Flag.INVALID_TOKEN, b"User-agent: Foo/2.1"),
        (Flag.NEVER_MATCHES, b"Disallow: x"),
        (Flag.SPACE_IN_PATTERN, b"Disallow: /My Folder/"),
        (Flag.CONTROL_OCTET, b"Disallow: /\x00x"),
        (Flag.NOT_UTF8, b"Disallow: /caf\xe9"),
        (Flag.TOO_LONG, b"Disallow: /" + b"x" * MAX_LINE),
    ],
)
def test_flag(flag: Flag, line: bytes) -> None:
    """A mistake in a line has exactly one flag."""
    assert lines(b"User-agent: *\n" + line)[1].flags == {flag}


def test_rule_outside_any_group() -> None:
    """A rule before the first user-agent line has a flag, and a later one does not."""
    before, _, after = lines(b"Disallow: /x\nUser-agent: *\nDisallow: /x")
    assert before.flags == {Flag.OUTSIDE_GROUP}
    assert not after.flags


def test_cut_line() -> None:
    """A line that is cut by the limit is ignored."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /xyz\n", max_size=26)
    [line] = lines_of(robots)
    assert line.number == 1
    assert robots.content.truncated
    assert robots.decide("/x", "Foo").allowed


def test_limit_at_a_line_end() -> None:
    """A line that ends exactly at the limit counts."""
    robots = RobotsTxt.parse(b"User-agent: *\nDisallow: /xyz\nAllow: /\n", max_size=28)
    assert robots.content.truncated
    assert not robots.decide("/xyz", "Foo").allowed
