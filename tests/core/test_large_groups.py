"""Large groups are read in pieces, whose lines keep their numbers."""

from __future__ import annotations

import random
import time

from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.robotstxt import RobotsTxt


def test_rules_of_a_group_of_many_pieces() -> None:
    """Each rule of a large group decides, with the number of its line, also beside lines that are
    longer than a piece.
    """
    chosen = random.Random(1)
    lines = ["User-agent: other", "Allow: /", "User-agent: *"]
    for number in range(15_000):
        lines += chosen.choices(["", "# x", "a: b"], k=chosen.randrange(3))
        lines.append(f"Disallow: /{number}x")
        if number % 6_000 == 5_000:
            lines.append("a" * 70_000)
    robots = RobotsTxt.parse("\n".join(lines))
    for line, text in enumerate(lines, 1):
        kind, _, path = text.partition(": /")
        if kind == "Disallow":
            assert robots.decide(f"/{path}", "*").rule == Rule(RuleKind.DISALLOW, f"/{path}", line)
    assert not robots.content.truncated


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
