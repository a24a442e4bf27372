"""Large groups are read in pieces, whose lines keep their numbers."""

from __future__ import annotations

import random
import re
import time

import pytest

from scrapy_robots_rfc.core.agents import GroupKey
from scrapy_robots_rfc.core.explanation import explain
from scrapy_robots_rfc.core.groups import Section, agent_lines, sections_for
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.ruleset import text_pieces

_PIECE = 65_536  # maximum bytes of a text


def _lines(seed: int, longest: int, total: int = 300_000) -> bytes:
    """Return rules of about some bytes, with some empty and some long lines."""
    rng = random.Random(seed)
    lines, size = [], 0
    while size < total:
        line = rng.choice(
            (
                b"",
                b"# x",
                b"Allow: /%d*x" % size,
                b"Disallow: /%d" % size,
                b"a" * rng.randrange(longest),
            )
        )
        lines.append(line)
        size += len(line) + 1
    return b"\n" + b"\n".join(lines)


@pytest.mark.parametrize("longest", [10, 16_000])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_texts_are_whole_lines_and_the_whole_section(longest: int, end: bytes) -> None:
    """Each piece has at most 64 KiB; together, they have each line once."""
    octets = b"\nUser-agent: *" + _lines(longest, longest) + end
    section = Section(14, len(octets), 1)
    texts = list(text_pieces(octets, section))
    assert len(texts) > 4
    assert "".join(text for _, text in texts).encode() == octets[14:]
    number = 1
    for above, text in texts:
        assert above == number
        assert text.startswith("\n")
        assert len(text) <= _PIECE
        number += text.count("\n")


def test_a_longer_line_is_a_text_of_its_own() -> None:
    """A line that is longer than a piece becomes a separate piece."""
    octets = b"\n# x\n" + b"a" * 3 * _PIECE + b"\nAllow: /"
    texts = list(text_pieces(octets, Section(0, len(octets), 0)))
    assert texts == [(0, "\n# x"), (1, "\n" + "a" * 16_664), (2, "\nAllow: /")]


def test_verdicts_of_a_file_of_many_pieces() -> None:
    """The deciding rule and its line are the same as if the file is read line by line."""
    rules = _lines(3, 10, 150_000)
    body = b"User-agent: other" + _lines(2, 10, 150_000) + b"\nUser-agent: *" + rules
    robots = RobotsTxt.parse(body)
    chosen = random.Random(4)
    numbers = [
        *chosen.sample(re.findall(r"/(\d+)", rules.decode()), 8),
        *chosen.sample(range(150_000), 2),
    ]
    for target in [f"/{number}{end}" for number in numbers for end in ("", "x")]:
        matching = explain(robots, target, []).matches
        assert robots.decide(target, "*").rule == (matching[0] if matching else None)


def test_consecutive_groups_of_a_crawler_are_read_at_once() -> None:
    """Groups that follow each other and are for one crawler are one section, with all rules."""
    one = b"\nUser-agent: a\nDisallow: /x"
    other = b"\nUser-agent: b\nDisallow: /y"
    octets = one + one + other + one
    sections = list(sections_for(octets, agent_lines(octets), GroupKey("a")))
    texts = [octets[section.start : section.end] for section in sections]
    assert texts == [b"\nDisallow: /x" + one, b"\nDisallow: /x"]
    assert [section.lines_before for section in sections] == [1, 7]


def test_blanks_of_a_blank_line_are_not_read() -> None:
    """A line of blanks is stored without them, and counts as a line."""
    robots = RobotsTxt(b" \t\nUser-agent: *\n" + b" " * 40 + b"\r\n\t\nDisallow: /\n  ")
    assert robots.content.data == b"\n\nUser-agent: *\n\n\nDisallow: /\n"
    rule = robots.decide("/", "a").rule
    assert rule is not None
    assert rule.line == 5


def test_group_of_one_of_many_crawlers() -> None:
    """Looking up a crawler's group takes no longer if the file names many crawlers."""
    file = RobotsTxt(b"User-agent: a\n" * 35_000 + b"Crawl-delay: 3\nDisallow: /x\n")
    assert file.select_group(("foo", "bar")) is None

    def seconds() -> float:
        begun = time.process_time()
        file.select_group(("foo", "bar"))
        return time.process_time() - begun

    assert min(seconds() for _ in range(20)) < 0.001
