"""Large groups are read in pieces, whose lines keep their numbers."""

from __future__ import annotations

import random
import time

import pytest

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


@pytest.mark.parametrize(("count", "is_allowed"), [(100, True), (400, False)])
def test_many_rules_that_share_text(count: int, is_allowed: bool) -> None:
    """Beyond the limit of rules that are compared with a URL, each Disallow counts as a match.

    In the end, the most specific one decides, even if it doesn't match.
    """
    patterns = [
        f"*a*{number:09b}*".replace("0", "*|").replace("1", "*^") for number in range(count)
    ]
    rules = "".join(f"Allow: {pattern}/longer\n" for pattern in patterns) + "Disallow: *a*|*^\n"
    decision = RobotsTxt(f"User-agent: *\n{rules}").decide("/a/longer", "foo")
    assert decision.allowed is is_allowed
    assert decision.rule is None or decision.rule.line == count + 2


def test_hostile_rules_are_compared_quickly() -> None:
    """A file full of rules that share all their text is decided in 100 ms, and then in 20 ms."""
    patterns = ["*".join("|^"[number >> bit & 1] for bit in range(14)) for number in range(14_628)]
    text = "User-agent: *\n" + "".join(f"Allow:*{pattern}\n" for pattern in patterns)

    def seconds(file: RobotsTxt, url: str) -> float:
        begun = time.process_time()
        file.decide(url, "foo")
        return time.process_time() - begun

    # Three times as long, and the fastest of three, because the machine may be busy.
    files = [RobotsTxt(text) for _ in range(3)]
    assert min(seconds(file, "/") for file in files) < 0.3
    assert min(seconds(files[0], f"/{number}") for number in range(5)) < 0.02
