"""The summary at the end of a crawl, from what was counted."""

from __future__ import annotations

from typing import Any

import pytest

from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.reporting.summary import MAX_PAIRS, REMEMBERED, Summary
from tests.support.entries import origin


def disallowed(origin: str, line: int | None = None, pattern: str = "/x") -> Decision:
    """Return a decision against a request."""
    rule = None if line is None else Rule(RuleKind.DISALLOW, pattern, line)
    return Decision(False, Reason.UNREACHABLE if rule is None else Reason.RULE, rule, "*", origin)


class Counted(Summary):
    """A summary of decisions that a test makes up."""

    def add(self, decision: Decision) -> None:
        """Count a decision."""
        assert decision.origin is not None
        self.disallowed(decision, decision.origin)

    def lines(self, counted: dict[str, Any] | None = None) -> list[str]:
        """Return the lines below the heading."""
        text = self.text(counted or {}, "shop")
        return [] if text is None else text.splitlines()[1:]


def test_nothing_to_say_is_no_text() -> None:
    """A crawl without requests has no summary."""
    assert Counted().text({"robotstxt/exempted": 3}, "shop") is None


def test_rules_of_local_files_name_the_file() -> None:
    """A rule of a local file is listed with the name of the file."""
    summary = Counted()
    summary.add(disallowed("https://a.example", 2)._replace(override="mine.txt"))
    lines = summary.lines({"robotstxt/overridden": 3})
    assert lines[0] == "  decided by local files (ROBOTS_OVERRIDES): 3"
    assert lines[-1] == "    1  Disallow: /x (https://a.example local file mine.txt line 2)"


def test_ten_sites_are_listed() -> None:
    """The ten sites with the most disallowed requests are listed with aligned counts."""
    summary = Counted()
    for number in range(12):
        for _ in range(number + 1):
            summary.add(disallowed(f"https://{number:02}.example"))
    lines = summary.lines()
    assert len(lines) == 12
    assert lines[:2] == ["  sites with the most disallowed requests:", "    12  https://11.example"]
    assert lines[-2:] == ["     3  https://02.example", "    and 2 more"]


def test_rules_are_summed_over_sites() -> None:
    """Equal rules of several sites are counted together."""
    summary = Counted()
    for number in range(180):
        for _ in range(5):
            summary.add(disallowed(f"https://{number}.example", number, "/private/"))
    summary.add(disallowed("https://1.example", 7, "/tmp"))
    assert summary.lines()[-3:] == [
        "  rules with the most disallowed requests:",
        "    900  Disallow: /private/ (180 sites)",
        "      1  Disallow: /tmp (https://1.example line 7)",
    ]


def test_equal_counts_are_in_order() -> None:
    """Sites, and rules, with equal counts are sorted."""
    summary = Counted()
    for name in "ba":
        summary.add(disallowed(f"https://{name}.example", 1, f"/{name}"))
    places = [line.split()[1:] for line in summary.lines() if line.startswith("    1")]
    assert places == [
        ["https://a.example"],
        ["https://b.example"],
        ["Disallow:", "/a", "(https://a.example", "line", "1)"],
        ["Disallow:", "/b", "(https://b.example", "line", "1)"],
    ]


def test_counts_that_may_be_too_low_say_so() -> None:
    """With more sites or rules than are remembered, the largest are listed with the error."""
    summary = Counted()
    for number in range(2 * REMEMBERED + 1):
        summary.add(disallowed(f"https://{number}.example", 1, f"/{number}"))
        summary.add(disallowed("https://large.example", 1, "/large"))
    lines = summary.lines()
    count = 2 * REMEMBERED
    assert lines[0].endswith("disallowed requests (each count may be too low by up to 1):")
    assert lines[1] == f"    {count:,}  https://large.example"
    [rule] = [line for line in lines if "Disallow: /large" in line]
    assert rule == f"    {count:,}  Disallow: /large (https://large.example line 1)"
    assert lines[-1] == "    and more"


def test_sites_of_a_rule_are_bounded() -> None:
    """With very many pairs of a rule and a site, the summary says `at least`."""
    summary = Counted()
    for number in range(MAX_PAIRS + 1):
        summary.add(disallowed(f"https://{number}.example", 1))
    assert summary.lines()[-1] == f"    {MAX_PAIRS + 1:,}  Disallow: /x (at least 100,000 sites)"


def test_failing_and_stale_sites_are_named() -> None:
    """Ten sites are named with their last causes, and the others are counted once each."""
    summary = Counted()
    for number in [*range(12), *range(12)]:
        summary.concluded(origin(f"{number:02}.example"), Outcome.UNREACHABLE, "503")
    summary.stale.add("https://s.example", "DownloadTimeoutError")
    unreachable, stale = summary.lines()
    assert unreachable.startswith("  unreachable: https://00.example (503), ")
    assert unreachable.endswith(", https://09.example (503) and 2 more")
    assert stale == "  stale: https://s.example (DownloadTimeoutError)"


def test_hostile_text_is_escaped_and_shortened() -> None:
    """Control characters in rules and causes are escaped, and long texts are shortened."""
    summary = Counted()
    summary.add(disallowed("https://a.example", 1, "/\x1b[2J\u202e\r" + "y" * 10_000))
    cause = "bad\n\x1b]0;owned\x07" + "z" * 10_000
    summary.concluded(origin("b.example"), Outcome.UNREACHABLE, cause)
    lines = summary.lines({"robotstxt/origins/unreachable": 1})
    assert len(lines) == 6
    assert all(line.isprintable() and len(line) < 200 for line in lines)
    assert "Disallow: /\\x1b[2J\\u202e\\ryyy" in lines[4]
    assert "(bad\\n\\x1b]0;owned\\x07zzz" in lines[0]


def test_sites_that_were_still_retried() -> None:
    """Sites whose pages were waiting for a retry at the end are not called disallowed."""
    summary = Counted()
    summary.concluded(origin("a.example"), Outcome.UNREACHABLE, "503")
    summary.concluded(origin("b.example"), Outcome.UNREACHABLE, "500", is_final=False)
    assert summary.lines({"robotstxt/origins/unreachable": 2})[0] == (
        "  sites: 1 unreachable (503), so nothing is allowed; 1 unreachable so far (500), so pages"
        " were waiting"
    )


@pytest.mark.parametrize(
    ("sites", "shown"),
    [
        (1, "1 site paced, 240 s added"),
        (3, "3 sites paced, 240 s added in total, but sites wait at the same time"),
    ],
)
def test_delays_of_several_sites(sites: int, shown: str) -> None:
    """The sum of all delays may be longer than the crawl, and the summary says so."""
    counted = {"robotstxt/crawl_delay/sites": sites, "robotstxt/crawl_delay/added_seconds": 240}
    assert Counted().lines(counted) == [f"  delays: {shown}"]
