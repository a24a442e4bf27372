"""The end of a crawl: what the log says of what was counted."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Any

from scrapy.settings import Settings

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.policy.access import Outcome, Unreachable
from scrapy_robots_rfc.reporting.origin_log import NAMED, Names, OriginLog
from scrapy_robots_rfc.reporting.summary import REMEMBERED, Summary
from scrapy_robots_rfc.settings import read_settings
from tests.support.crawling import Pages, make_crawler
from tests.support.policies import fetch, policy

if TYPE_CHECKING:
    import pytest


def refusal(origin: str, line: int | None = None, pattern: str = "/x") -> Decision:
    """A decision against a request."""
    rule = None if line is None else Rule(RuleKind.DISALLOW, pattern, line)
    return Decision(False, Reason.UNREACHABLE if rule is None else Reason.RULE, rule, "*", origin)


class Still(Runtime):
    """Time that does not pass."""

    def clock(self) -> float:
        """Return the start of all times."""
        return 0.0


def troubles() -> OriginLog:
    """One that counts nowhere."""
    return OriginLog(make_crawler(Pages), read_settings(Settings()), Still())


def summary() -> Summary:
    """A summary that has counted nothing."""
    return Summary(make_crawler(Pages), read_settings(Settings()))


def text(
    counted: dict[str, Any] | None = None,
    *,
    log: OriginLog | None = None,
    cost: Summary | None = None,
) -> list[str]:
    """The lines below the heading."""
    found = (cost or summary()).text(counted or {}, log or troubles(), "shop")
    return [] if found is None else found.splitlines()[1:]


def failed(log: OriginLog, host: str, cause: str, outcome: Outcome = Outcome.UNREACHABLE) -> None:
    """An origin becomes unreachable, or with the other outcome begins to obey an earlier copy."""
    log.attempted(policy(cause, host, outcome), fetch(host), None, ())


def test_nothing_to_say_is_no_text() -> None:
    """A crawl without requests says nothing."""
    assert summary().text({"robotstxt/exempted": 3}, troubles(), "shop") is None


def test_a_quiet_crawl_has_two_lines() -> None:
    """Where nothing was forbidden, slow or failing, two lines say so."""
    counted = {
        "robotstxt/origins/successful": 1,
        "robotstxt/origins/unavailable": 2,
        "robotstxt/allowed": 9,
    }
    log = troubles()
    log.causes[Outcome.UNAVAILABLE]["404"] = 2
    assert text(counted, log=log) == [
        "  origins: 1 successful, 2 unavailable (404): everything is allowed",
        "  requests: 9 allowed",
    ]


def test_requests_that_local_files_decided_are_counted() -> None:
    """How many requests local files decided.

    A rule of one is not named as if it stood in the site's own.
    """
    cost = summary()
    cost.refused(refusal("https://a.example", 2)._replace(override="mine.txt"))
    lines = text({"robotstxt/overridden": 3}, cost=cost)
    assert lines[0] == "  decided by local files of ROBOTS_OVERRIDES: 3"
    assert lines[-1] == "    1  https://a.example local file mine.txt line 2: Disallow: /x"


def test_names_that_begin_alike_stay_apart() -> None:
    """Names are shortened where they are shown, and counted as they are."""
    counted = {
        f"robotstxt/exempted/{'x' * 100}.{name}.example": count
        for name, count in (("a", 5), ("b", 3))
    }
    shown = f"{'x' * 97}..."
    assert text(counted) == [f"  requests: 8 exempt (5 {shown}, 3 {shown})"]


def test_ten_are_listed() -> None:
    """The ten origins and rules that cost most, the most first, with counts below each other."""
    cost = summary()
    for number in range(12):
        for _ in range(number + 1):
            cost.refused(refusal(f"https://{number:02}.example", number))
    lines = text(cost=cost)
    assert len(lines) == 22
    assert lines[:2] == ["  origins that cost most requests:", "    12  https://11.example"]
    assert lines[10:13] == [
        "     3  https://02.example",
        "  rules that cost most requests:",
        "    12  https://11.example line 11: Disallow: /x",
    ]


def test_counts_that_may_be_too_low_say_so() -> None:
    """More origins than are remembered.

    The largest is listed all the same, with how much may be missing.
    """
    cost = summary()
    for number in range(2 * REMEMBERED + 1):
        cost.refused(refusal(f"https://{number}.example"))
        cost.refused(refusal("https://large.example"))
    lines = text(cost=cost)
    assert lines[:2] == [
        "  origins that cost most requests (each may have cost up to 1 more):",
        f"    {2 * REMEMBERED}  https://large.example",
    ]


def test_delays_are_summed_up() -> None:
    """How many sites were paced, and how much time that took."""
    counted = {
        "robotstxt/crawl_delay/sites": 2,
        "robotstxt/crawl_delay/added_seconds": 130.26,
    }
    assert text(counted) == ["  delays: 2 sites paced, 130.3 s added"]


def test_failing_and_stale_origins_are_named() -> None:
    """Ten names with the last cause, and how many more there were."""
    log = troubles()
    for number in range(12):
        failed(log, f"{number:02}.example", "503")
    failed(log, "s.example", "DownloadTimeoutError", Outcome.SUCCESSFUL)
    unreachable, stale = text(log=log)
    assert unreachable.startswith("  unreachable: https://00.example (503), ")
    assert unreachable.endswith(", https://09.example (503), and 2 more")
    assert stale == "  stale: https://s.example (DownloadTimeoutError)"


def test_names_are_counted_beyond_the_first_ones() -> None:
    """A name that comes again is counted, also when no others are remembered any more."""
    names, first = Names(), [f"a{number}" for number in range(NAMED)]
    for name in (*first, "b", *first, "b"):
        names.add(name, f"{name} {names.more}")
    assert (names.named, names.more) == ({name: f"{name} 1" for name in first}, 2)


def test_hostile_text_is_escaped_and_shortened() -> None:
    """Rules and causes can neither begin a line, nor act on a terminal, nor fill it."""
    cost, log = summary(), troubles()
    cost.refused(refusal("https://a.example", 1, "/\x1b[2J\u202e\r" + "y" * 10_000))
    failed(log, "b.example", "bad\n\x1b]0;owned\x07" + "z" * 10_000)
    counted = {"robotstxt/origins/unreachable": 1}
    lines = text(counted, log=log, cost=cost)
    assert len(lines) == 6
    assert all(line.isprintable() and len(line) < 200 for line in lines)
    assert "Disallow: /\\x1b[2J\\u202e\\ryyy" in lines[4]
    assert lines[4].endswith("y...")
    assert "(bad\\n\\x1b]0;owned\\x07zzz" in lines[0]


def test_seconds_in_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    """A time of ten seconds or more is whole, although a busy machine has used up some of it.

    A short one is exact.
    """
    caplog.set_level(logging.INFO)
    for again in (299.981, 0.5, 9.99):
        troubles().attempted(policy("503", until=again), fetch(), None, ())
    troubles().attempted(policy("503"), fetch(), Unreachable(503, "503"), [0.25, 119.994])
    times = [
        re.findall(r"(?:after|in|about) ([0-9.]+(?: and [0-9.]+)?) s", record.getMessage())
        for record in caplog.records
    ]
    assert times == [
        ["300"],
        ["0.5"],
        ["9.99"],
        ["0.25 and 120", "121", "182"],
    ]
