"""`scrapy robots report`: sites with their robots.txt, allowed requests, and sums that differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.reports import ended, record, site, unreachable

if TYPE_CHECKING:
    from tests.support.reports import Printed, Report, Sums

pytestmark = pytest.mark.once

A, DIGEST = "https://a.example", f"sha256:{0:064x}"
FETCHED = "2026-11-21T22:40:01.100Z"
LISTED = record(allowed=True, reason="no_rule", rule=None, line=None, why="robots.txt: no rule")


# Allowed requests.


def test_allowed_requests_count_once(sums: Sums) -> None:
    """Allowed requests that have records and are counted at the end count once."""
    records = [record(), LISTED, LISTED, site(A, 2), ended(2)]
    found = sums(records)
    assert found["allowed"] == 2
    assert [row["allowed"] for row in found["by_origin"]] == [2]


def test_runs_add_up(sums: Sums) -> None:
    """The allowed requests of several runs add up, if all of them are known."""
    later = {"run": "2026-11-22T08:00:00.000Z"}
    records = [record(), site(A, 2), ended(2), record(**later), site(A, 3, **later)]
    assert sums(records)["allowed"] is None
    whole = sums([*records, ended(3, **later)])
    assert (whole["allowed"], whole["by_origin"][0]["allowed"]) == (5, 5)
    assert sums(records, "--run", "1")["allowed"] == 2


# Sites.


def test_a_site_has_its_robots_txt(printed: Printed, sums: Sums) -> None:
    """A site has its state, status, delay and allowed requests, and each file that was used."""
    newer = {"digest": f"sha256:{1:064x}", "fetched": "2026-11-22T22:40:01.100Z"}
    again = {"fetched": "2026-11-21T23:40:01.100Z"}
    records = [record(), record(**again), record(**newer), site(A, 3, crawl_delay=2.5, **newer)]
    [found] = sums(records)["by_origin"]
    url = f"{A}/robots.txt"
    assert found == {
        "origin": A,
        "requests": 3,
        "share": "100.0%",
        "allowed": 3,
        "outcome": "successful",
        "status": 200,
        "why": "successful (200), so its rules apply",
        "crawl_delay": 2.5,
        "files": [
            {"robots_url": url, "digest": DIGEST, "first_fetched": FETCHED, **again},
            {"robots_url": url, "first_fetched": newer["fetched"], **newer},
        ],
    }
    lines = printed(records)
    indent = " " * 22
    start = lines.index("          3 100.0%  https://a.example (3 allowed)")
    assert lines[start + 1 : start + 4] == [
        f"{indent}robots.txt successful (200), so its rules apply; Crawl-delay 2.5 s",
        (
            f"{indent}{url}, sha256:000000000000...,"
            " requested 2026-11-21 22:40:01 UTC to 2026-11-21 23:40:01 UTC"
        ),
        f"{indent}{url}, sha256:000000000000..., requested 2026-11-22 22:40:01 UTC",
    ]


def test_urls_have_their_robots_txt(printed: Printed, sums: Sums) -> None:
    """If a site had several files, each URL is below the file that decided about it."""
    newer = {"digest": f"sha256:{'a' * 64}", "url": f"{A}/private/b"}
    other = record(origin="https://b.example")
    records = [record(), record(**newer), other]
    groups = sums(records)["dropped"]
    assert [(group["digest"], [row["url"] for row in group["urls"]]) for group in groups] == [
        (DIGEST, [record()["url"]]),
        (newer["digest"], [newer["url"]]),
        (DIGEST, [other["url"]]),
    ]
    why = "robots.txt line 2: Disallow: /private/ (rule, group *"
    assert printed(records)[-6::2] == [
        f"          1  33.3%  {A}: {why}, sha256:000000000000...)",
        f"          1  33.3%  {A}: {why}, sha256:aaaaaaaaaaaa...)",
        f"          1  33.3%  https://b.example: {why})",
    ]


def test_a_site_without_dropped_requests_is_listed(sums: Sums) -> None:
    """A site whose requests were all allowed is listed after the others."""
    records = [site("https://b.example", 7), unreachable(), site(A, 0), ended(7)]
    rows = sums(records)["by_origin"]
    assert [(row["origin"], row["requests"], row["allowed"]) for row in rows] == [
        (A, 1, 0),
        ("https://b.example", 0, 7),
    ]


def test_a_killed_crawl_has_sites(printed: Printed) -> None:
    """Without the last records, a site has what the records of its requests say."""
    lines = printed([unreachable(robots_url="file:///tmp/own.txt")])
    assert lines[lines.index("by site (--json has whole digests)") + 1 :][:3] == [
        "          1 100.0%  https://a.example",
        f"{' ' * 22}robots.txt unreachable",
        f"{' ' * 22}file:///tmp/own.txt, requested 2026-11-21 22:40:01 UTC",
    ]


@pytest.mark.parametrize("delay", [-1, 0, 10**400, 1e300, True, "2", None, [2]])
def test_an_odd_delay_is_ignored(sums: Sums, delay: object) -> None:
    """A delay that is not a number of seconds above 0 is ignored."""
    [found] = sums([site(A, 1, crawl_delay=delay)])["by_origin"]
    assert found["crawl_delay"] is None


def test_a_site_keeps_few_files(sums: Sums) -> None:
    """A site with very many files keeps the first ten."""
    records = [record(digest=f"sha256:{number:064x}") for number in range(20)]
    [found] = sums(records)["by_origin"]
    assert [file["digest"] for file in found["files"]] == [row["digest"] for row in records[:10]]


# Sums that differ from those of the log.


def test_the_report_says_why_its_sums_differ(printed: Printed, sums: Sums) -> None:
    """A line says how many requests only the report counts, and how many only the log counts."""
    page = record(reason="page", outcome=None, rule=None, why="nofollow of https://a.example/1, x")
    same = [record(), record(), ended(1, disallowed_requests=2)]
    assert not [line for line in printed(same) if line.startswith("  dropped")]
    records = [record(), record(), page, ended(1, disallowed_requests=5)]
    assert (
        "  dropped    2 because of robots.txt, 1 because of their pages; 3 more have no record"
        " (failed writes, or an item_filter)"
    ) in printed(records)
    assert sums(records)["lost"] == 3


# Allowed URLs.


def test_allowed_urls_are_listed(printed: Printed, sums: Sums) -> None:
    """`--allowed` lists every allowed URL by reason and rule, also as JSON."""
    urls = [f"https://a.example/{number}" for number in range(1002)]
    records = [record(), *({**LISTED, "url": url} for url in urls), ended(1002)]
    lines = printed(records, "--allowed")
    start = lines.index("allowed URLs, by reason and rule")
    assert lines[start + 1] == (
        "      1,002 100.0%  https://a.example: robots.txt: no rule (no_rule, group *)"
    )
    assert [line.strip() for line in lines[start + 2 :]] == urls
    [group] = sums(records, "--allowed")["allowed_urls"]
    assert [row["url"] for row in group["urls"]] == urls
    assert sums(records)["allowed_urls"] is None


def test_how_to_record_allowed_requests(report: Report) -> None:
    """If a crawl did not record allowed requests, `--allowed` says how to record them."""
    other = {"run": "2026-11-22T08:00:00.000Z"}
    records = [{**LISTED, **other}, ended(1, **other)]
    for name, before, options in (("r.jsonl", [], []), ("run 2 of r.jsonl", records, ["--run=2"])):
        done = report([*before, record(), ended(3)], "--allowed", *options)
        assert (done.code, done.out) == (2, "")
        assert done.err == (
            f"scrapy robots report: {name} has no records of allowed requests; to write them, crawl"
            ' with the option `allowed`: ROBOTS_REPORT = {"robots.jsonl": {"allowed": True}}\n'
        )


def test_refused_uses_are_not_allowed(printed: Printed, sums: Sums) -> None:
    """A page whose use was refused is not an allowed URL, even if robots.txt allows the page.

    It is still one if it was requested again, without that use.
    """
    pages = [{**LISTED, "url": f"{A}/{number}"} for number in (1, 1, 2, 3)]
    refused = [record(reason="use", rule=None, url=f"{A}/{number}") for number in (1, 2, 4)]
    records = [*pages, *refused, record(allowed=True, url=f"{A}/2"), refused[1]]
    [group] = sums(records, "--allowed")["allowed_urls"]
    assert {row["url"]: row["requests"] for row in group["urls"]} == {f"{A}/1": 1, f"{A}/3": 1}
    assert (group["requests"], group["reason"]) == (2, "no_rule")
    whole = [*pages[2:3], refused[1], ended(0)]
    assert not any("allowed URLs" in line for line in printed(whole, "--allowed"))


def test_nothing_was_allowed(printed: Printed) -> None:
    """If nothing was allowed, `--allowed` has nothing to list, which is not an error."""
    assert printed([record(), ended(0)], "--allowed")[0] == "1 of 1 request dropped (100.0%)"
