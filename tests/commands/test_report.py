"""`scrapy robots report`: what it reads, how it adds up, what it prints, and its exit codes."""

from __future__ import annotations

import json
import re
from collections import Counter
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc.commands.report_sums import MEANINGS
from scrapy_robots_rfc.core.decision import Reason
from tests.support.command_line import run, unread
from tests.support.reports import FEW, crawl, ended, exempt, exported, record, unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.reports import Printed, Report, Sums

pytestmark = pytest.mark.once

# How it adds up.


def test_lists_add_up_to_the_total(sums: Sums) -> None:
    """Each list of dropped requests adds up to the total, in order; exempt ones are apart.

    Names with equal numbers are sorted.
    """
    tied = [record(**dict.fromkeys(("spider", "agent", "origin", "rule"), name)) for name in "zyx"]
    made = [*crawl(), *tied]
    found = sums(made)
    dropped = [item for item in made if item["reason"] not in ("exempt", "origin", "run")]
    assert found["requests"] == len(dropped)
    for field in ("reason", "origin", "spider", "agent"):
        counts = Counter(item[field] for item in dropped)
        rows = found[f"by_{field}"]
        assert {row[field]: row["requests"] for row in rows} == counts
        order = sorted(counts, key=lambda name: (-counts[name], name))
        assert [row[field] for row in rows] == order
    assert sum(group["requests"] for group in found["dropped"]) == len(dropped)
    assert [row["share"] for row in found["by_reason"]] == ["93.3%", "6.7%"]
    rules = Counter(item["rule"] or item["why"] for item in dropped)
    assert {row["rule"]: row["requests"] for row in found["by_rule"]} == rules
    assert found["exempt"] == [
        {"entry": "*.staging.example", "requests": 41},
        {"entry": "intranet.example", "requests": 12},
    ]


def test_every_reason_is_explained(printed: Printed) -> None:
    """Every reason that a dropped request can have is explained."""
    allowed = {Reason.NO_RULE, Reason.NO_GROUP, Reason.ROBOTS_TXT, Reason.UNAVAILABLE}
    reasons = [reason.value for reason in Reason if reason not in {*allowed, Reason.EXEMPT}]
    lines = printed([record(reason=reason) for reason in reasons])
    for reason in reasons:
        assert any(line.endswith(f"  {reason}: {MEANINGS[reason]}") for line in lines)


ONE = exported([record()])
DROPPED, DRY, END = record(), record(dry_run=True), ended(3)


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([END], "No requests were dropped"),
        ([DROPPED], "1 request dropped"),
        ([DRY, DRY], "Dry run: 2 requests would be dropped"),
        ([DRY, DRY, DROPPED], "3 requests disallowed: 1 dropped, 2 in a dry run"),
        ([DROPPED, END], "1 of 4 requests dropped (25.0%)"),
        ([DRY, END], "Dry run: 1 of 4 requests would be dropped (25.0%)"),
        ([DRY, DROPPED, END], "2 of 5 requests disallowed (40.0%): 1 dropped, 1 in a dry run"),
    ],
)
def test_title(printed: Printed, records: list[Any], title: str) -> None:
    """The title says how many of how many requests were dropped; a dry run dropped none."""
    assert printed(records)[0] == title


def test_groups_count_the_requests_of_a_dry_run(printed: Printed, sums: Sums) -> None:
    """Groups and URLs have the number of requests that a dry run sent."""
    a, b = "https://a.example/private/a", "https://a.example/private/b"
    records = [record(url=a, dry_run=True), record(url=a), record(url=b), record(url=b)]
    [group] = sums(records)["dropped"]
    assert (group["requests"], group["dry_run"]) == (4, 1)
    assert group["urls"] == [
        {"url": a, "requests": 2, "dry_run": 1},
        {"url": b, "requests": 2, "dry_run": 0},
    ]
    lines = printed(records)
    assert [line.partition(" (")[2] for line in lines[-3:]] == [
        "rule, group *), 1 in a dry run",
        "2 times), 1 in a dry run",
        "2 times)",
    ]
    assert not any("in a dry run" in line for line in printed(records[:1]))


def test_a_small_share_is_not_zero(sums: Sums) -> None:
    """A share below 0.05% is not shown as 0.0%."""
    rows = sums([record(count=9999), record(reason="local")])["by_reason"]
    assert [row["share"] for row in rows] == ["100.0%", "<0.1%"]


def test_header_says_when_and_who(printed: Printed) -> None:
    """The header has the time, runs, spiders, agents, and requests that were not dropped."""
    records = [
        record(),
        record(agent="foobot", time="2026-11-22T01:02:03.456Z"),
        record(allowed=True, spider="shops"),
        exempt("a.example", 3),
    ]
    *lines, created = printed(records)[:10]
    assert lines == [
        "2 requests dropped",
        "  file       r.jsonl (4 records)",
        "  time       2026-11-21 22:40:01 to 2026-11-22 01:02:03 UTC",
        "  runs       2",
        "  spider     news",
        "  agents     foobot (1), newsbot (1)",
        "  version    scrapy-robots-rfc 0.1.0",
        "  allowed    not known, because the crawl has not written its last records",
        "  exempt     3 requests, not judged by robots.txt",
    ]
    package = f"scrapy-robots-rfc {version('scrapy-robots-rfc')}"
    assert re.fullmatch(rf"  created    20\d\d-\d\d-\d\d \d\d:\d\d:\d\d UTC by {package}", created)


def test_each_page_counts_once(printed: Printed) -> None:
    """A page that was dropped for its use is not also counted as allowed."""
    refused = "robots.txt line 2: refuses train-ai (Content-Usage: train-ai=n)"
    dropped = record(reason="use", rule=None, why=refused)
    records = [record(allowed=True), record(allowed=True), dropped]
    lines = printed(records)
    assert lines[0] == "1 of 2 requests dropped (50.0%)"
    assert "  allowed    1 request" in lines
    assert "          1 100.0%  https://a.example (1 allowed)" in lines
    assert printed([dropped])[0] == "1 request dropped"


def second_run(**fields: Any) -> dict[str, Any]:
    """A record of a later run of the same spider."""
    time = "2026-11-22T08:00:00.000Z"
    return record(run=time, time=time, **fields)


def test_a_second_run_is_shown_as_such(printed: Printed, sums: Sums) -> None:
    """The runs in a file are listed, and can be summed up separately."""
    records = [record(), *(second_run(line=line) for line in (3, 4)), exempt("a.example", 1)]
    records.append(ended(5))
    lines = printed(records)
    heading = lines.index("runs (use --run N to show only one)")
    assert lines[heading + 1 : heading + 3] == [
        "          1  run 1: news, 2026-11-21 22:40:01 UTC, ended (finished), 5 requests allowed",
        "          2  run 2: news, 2026-11-22 08:00:00 UTC, no end recorded",
    ]
    assert sums(records)["requests"] == 3
    second = sums(records, "--run", "2")
    assert (second["run"], second["requests"], second["exempt"]) == (2, 2, [])
    assert second["first"] == "2026-11-22T08:00:00.000Z"
    assert [run["requests"] for run in second["runs"]] == [1, 2]
    assert (second["runs"][1]["allowed"], second["runs"][1]["disallowed"]) == (None, None)
    assert "  run        only run 2 of 2" in printed(records, "--run", "2")


def test_a_run_that_dropped_nothing(printed: Printed, sums: Sums) -> None:
    """The report of a crawl that dropped nothing has its time, spider, agent and end."""
    assert printed([ended(7)])[:-1] == [
        "No requests were dropped",
        "  file       r.jsonl (1 record)",
        "  time       2026-11-21 22:40:01 UTC",
        "  run        ended (finished), 7 requests allowed",
        "  spider     news",
        "  agent      newsbot",
        "  version    scrapy-robots-rfc 0.1.0",
        "  allowed    7 requests",
    ]
    [run] = sums([ended(7)])["runs"]
    assert (run["spider"], run["requests"], run["end"]) == (
        *("news", 0),
        "ended (finished), 7 requests allowed",
    )


# Dropped URLs.


def test_dropped_urls_are_listed_by_reason_and_rule(printed: Printed, sums: Sums) -> None:
    """The text lists the first URLs of each rule and says how many more; JSON has all of them."""
    urls = [f"https://a.example/private/{number}" for number in range(2000)]
    records = [record(url=url) for url in urls]
    other = record(url="https://a.example/b", line=3, why="robots.txt line 3: Disallow: /b")
    lines = printed([*records, other, other])
    heading = lines.index("dropped URLs, by reason and rule (--json lists every URL)")
    indent = " " * 22
    title = "https://a.example: robots.txt line 2: Disallow: /private/ (rule, group *)"
    assert lines[heading + 1 :] == [
        f"      2,000  99.9%  {title}",
        *(indent + url for url in urls[:3]),
        f"{indent}and 1,997 more requests",
        "          2   0.1%  https://a.example: robots.txt line 3: Disallow: /b (rule, group *)",
        f"{indent}https://a.example/b (2 times)",
    ]
    first, second = sums([*records, other, other])["dropped"]
    assert [row["url"] for row in first["urls"]] == urls
    assert second["urls"] == [{"url": "https://a.example/b", "requests": 2, "dry_run": 0}]
    assert (first["more"], second["more"], second["line"]) == (0, 0, 3)


def test_rules_of_pages_are_one_group(sums: Sums) -> None:
    """Requests that rules of pages dropped are grouped by the rule instead of the page."""
    why = "nofollow of https://a.example/{}, X-Robots-Tag: foobot: nofollow, noindex"
    pages = [
        record(reason="page", rule=None, line=None, token=None, why=why.format(number))
        for number in range(3)
    ]
    [group] = sums(pages)["dropped"]
    assert group["why"] == "nofollow: X-Robots-Tag: foobot: nofollow, noindex"


def test_passwords_are_left_out(sums: Sums) -> None:
    """Possible passwords in URLs are removed."""
    url, origin = "https://me:secret@a.example/x", "https://me:sec\x1bret@a.example"
    why = "no answer from proxy http://{}@a.example:1"
    found = sums([unreachable(why.format("me:secret"), url=url, origin=origin)])
    assert "ret@" not in json.dumps(found)
    assert found["dropped"][0]["origin"] == "https://a.example"
    assert found["dropped"][0]["urls"][0]["url"] == "https://a.example/x"
    assert found["by_rule"][0]["rule"] == f"robots.txt unreachable: {why.format('***')}"


def test_long_lists_say_how_much_is_left_out(printed: Printed, sums: Sums) -> None:
    """A list has 10 rows in the text and 1,000 as JSON, and says how many more there are."""
    records = [record(origin=f"https://{number}.example") for number in range(1001)]
    assert printed(records).count("        and 991 more") == 2  # sites, groups of URLs
    found = sums(records)
    assert (len(found["by_origin"]), len(found["dropped"])) == (1000, 1001)
    assert {name: more for name, more in found["more"].items() if more} == {"by_origin": 1}


# What is read.


@pytest.mark.parametrize(
    "fields",
    [["rule", "origin"], ["why", "time"], ["count", "reason"], ["robots_url", "spider", "token"]],
)
def test_records_with_few_fields_count(fields: list[str], sums: Sums) -> None:
    """Records with missing or reordered fields are counted."""
    found = sums(exported(FEW[:3], fields))
    assert (found["requests"], len(found["runs"])) == (3, 1)
    reasons = {entry["reason"]: entry["requests"] for entry in found["by_reason"]}
    known = {"rule": 2, "unreachable": 1} if "reason" in fields else {"rule": 2, "not given": 1}
    assert reasons == (known if {"rule", "reason"} & set(fields) else {"not given": 3})


@pytest.mark.parametrize(
    ("octets", "broken", "requests"),
    [
        (ONE + ONE[:-100], 1, 1),
        (ONE + ONE[:-100] + ONE + ONE, 1, 2),
        (ONE + b'{"time": 2026\n' + ONE + b"oops\n", 2, 2),
        (ONE + b'{"title": "x"}\n', 1, 1),
    ],
    ids=["cut off", "continued", "broken lines", "another kind"],
)
def test_broken_lines_are_counted_and_left_out(
    octets: bytes, broken: int, requests: int, report: Report
) -> None:
    """Lines that are not records are counted on stderr, and the other lines are summed up."""
    done = report(octets, "--json")
    found = done.records[0]
    assert (done.code, found["broken"]) == (0, broken)
    assert found["requests"] == found["records"] == requests
    plural = "s" * (broken > 1)
    assert done.err == f"scrapy robots report: r.jsonl: ignored {broken} broken record{plural}\n"
    assert f"  broken     {broken} record{plural} ignored" in report(octets).lines


# The streams and files of the command.


def test_a_closed_output_is_no_failure_and_a_full_disk_is(tmp_path: Path) -> None:
    """The exit code is 0 if the reader closes the output early, and 2 if the disk is full."""
    (tmp_path / "r").write_bytes(exported(FEW))
    done = unread("report", "r", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        done = run("report", "r", folder=tmp_path, stdout=full.fileno())
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "the output cannot be written: No space left on device" in done.err


def test_no_terminal_acts(report: Report) -> None:
    """Control characters in a report are escaped."""
    evil = "\x1b[2J\u202e\x07\ud800\r\n"
    names = ("run", "spider", "agent", "url", "origin", "token", "reason", "rule", "why")
    done = report([record(**dict.fromkeys(names, evil)), unreachable(evil), exempt(evil, 1)])
    assert (done.code, done.err) == (0, "")
    assert not {"\x1b", "\x07", "\u202e", "\r"} & set(done.out)
    assert done.out.count("\\x1b[2J\\u202e\\x07\\ud800\\r\\n") >= 7
