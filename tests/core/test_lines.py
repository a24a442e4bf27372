"""Lines as records: what each line is read as, and a line for each flag."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.core.explanation import Flag, Line, lines_of
from scrapy_robots_rfc.core.lines import LineKind
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
    "key", ["\u00a0disallow", "disallow\u00a0", "dis\u00adallow", "d\u00cfsallow", "\u00c9tat"]
)
def test_key_outside_ascii(key: str) -> None:
    """A key with other characters is unknown, and these characters are not changed."""
    _, line = lines(f"User-agent: *\n{key}: /x".encode())
    assert (line.kind, line.key, line.value) == (LineKind.RECORD, key, "/x")
    assert line.flags == {Flag.UNKNOWN_KEY}
