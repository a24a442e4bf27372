"""Large groups are read in pieces, because no other thread runs while one call goes through a
text.
"""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import Any

import pytest

from scrapy_robots_rfc.core import ruleset, scan
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.scan import Section

_PIECE = scan._PIECE


def _lines(seed: int, longest: int) -> bytes:
    """About 300,000 octets of rules; some lines are blank, and some as long as is asked for."""
    rng = random.Random(seed)
    lines, size = [], 0
    while size < 300_000:
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


@pytest.mark.parametrize("longest", [10, 3 * _PIECE])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_pieces_are_whole_lines_and_the_whole_section(longest: int, end: bytes) -> None:
    """Each has 64 KiB or one line at most; together they have every line once, with its number."""
    octets = b"User-agent: *" + _lines(longest, longest) + end
    section = Section(octets, 13, len(octets), 1)
    pieces = section.pieces()
    assert (pieces[0].start, pieces[-1].end) == (section.start, section.end)
    for piece, following in pairwise(pieces):
        assert piece.end - 1 == following.start
        assert octets[following.start : following.end].startswith(b"\n")
    for piece in pieces:
        inside = octets[piece.start + 1 : piece.end - 1]
        assert len(inside) < _PIECE or b"\n" not in inside
        assert piece.agent_line == 1 + octets.count(b"\n", 0, piece.start)


def test_no_call_goes_through_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of 300,000 octets is made of texts of 64 KiB."""
    sizes: list[int] = []

    def noted(text: str) -> list[str | Any]:
        sizes.append(len(text))
        return scan.divide_at_rules(text)

    monkeypatch.setattr(ruleset, "divide_at_rules", noted)
    RobotsTxt.parse(b"User-agent: *" + _lines(1, 10)).prepare("*")
    assert len(sizes) > 4
    assert max(sizes) <= _PIECE + 1


def test_sections_without_rules_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40,000 user-agent lines above a rule, the index keeps and reads only what stands below
    the last one.
    """
    texts: list[str] = []

    def noted(text: str) -> list[str | Any]:
        texts.append(text)
        return scan.divide_at_rules(text)

    monkeypatch.setattr(ruleset, "divide_at_rules", noted)
    robots = RobotsTxt.parse(b"User-agent: *\n" + b"user-agent:\n" * 40_000 + b"Disallow: /x\n")
    robots.prepare("*")
    decision = robots.decide("/x", "*")
    assert (decision.rule and decision.rule.line, texts) == (40_002, ["\nDisallow: /x\n"])


@pytest.mark.parametrize("prepared", [False, True])
def test_verdicts_of_a_file_of_many_pieces(prepared: bool) -> None:
    """The rule, and its line, are those that reading line by line gives."""
    rules = _lines(3, 10)
    body = b"User-agent: other" + _lines(2, 10) + b"\nUser-agent: *" + rules
    robots = RobotsTxt.parse(body)
    if prepared:
        robots.prepare("*")
    chosen = random.Random(4)
    numbers = [
        *chosen.sample(re.findall(r"/(\d+)", rules.decode()), 12),
        *chosen.sample(range(300_000), 4),
    ]
    for target in [f"/{number}{end}" for number in numbers for end in ("", "x")]:
        matching = robots.matching(target, "*")
        assert robots.decide(target, "*").rule == (matching[0] if matching else None)


def test_rules_of_a_literal_that_many_share_are_parsed_beforehand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A question to a file that was prepared parses few rules, even if 20,000 share what its
    target has.
    """
    words = [f"{number:05x}" for number in range(20_000)]
    robots = RobotsTxt.parse(
        b"User-agent: *\n" + b"".join(b"Disallow: /*aaaaaaaa*%s\n" % w.encode() for w in words)
    )
    robots.prepare("*")
    parsed: list[str] = []

    def noted(pattern: str) -> Pattern:
        parsed.append(pattern)
        return parse_pattern(pattern)

    monkeypatch.setattr(ruleset, "parse_pattern", noted)
    assert not robots.decide("/aaaaaaaa/00abc", "*").allowed
    assert len(parsed) < 10
