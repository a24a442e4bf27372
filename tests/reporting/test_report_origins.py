"""The record of each origin in a report, with the state of its robots.txt and its requests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc.reporting import report
from tests.support.crawling import Serial, crawl
from tests.support.reports import RULES, private, read, sha256
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.service_crawls import Clock

COUNTS = ("allowed_requests", "disallowed_requests")


async def origins(pages: list[str], path: Path) -> list[dict[str, Any]]:
    """Crawl page by page with a report, and return the records of origins."""
    settings = {"ROBOTS_REPORT": path, "ROBOTS_UNREACHABLE_BACKOFF": []}
    await crawl(pages, settings, spider=Serial)
    return [record for record in read(path, "origin") if record["reason"] == "origin"]


@ensureDeferred
async def test_each_origin_has_a_record(site: Site, other: Site, tmp_path: Path) -> None:
    """Each origin has a record with its state, status, digest, Crawl-delay and requests."""
    body = f"{RULES}Crawl-delay: 0.1\n"
    site.replies["/robots.txt"] = robots(body)
    other.replies["/robots.txt"] = Reply(503)
    pages = [site.url(path) for path in ("/", "/a", "/private")]
    path = tmp_path / "r.jsonl"
    found = await origins([*pages, other.url("/")], path)
    fields = ("outcome", "status", "why", "digest", "robots_url", "crawl_delay", *COUNTS, "count")
    assert {record["origin"]: tuple(record[name] for name in fields) for record in found} == {
        site.url(""): (
            *("successful", 200, "successful (200), so its rules apply"),
            *(sha256(body.encode()), site.url("/robots.txt"), 0.1, 2, 1, 0),
        ),
        other.url(""): (
            *("unreachable", 503, "unreachable (503), so nothing is allowed", None),
            *(other.url("/robots.txt"), None, 0, 1, 0),
        ),
    }
    assert all(list(record) == list(report.FIELDS) for record in found)
    [dropped, _] = read(path)
    assert {record["fetched"] for record in found} >= {dropped["fetched"]}


@ensureDeferred
async def test_requests_of_origins_add_up_to_the_stats(
    site: Site, other: Site, tmp_path: Path
) -> None:
    """The requests of all origins add up to those of the crawl, which are the stats.

    A request that is allowed but refused for its use counts once, and has two records.
    """
    site.replies["/robots.txt"] = robots("User-agent: *\nContent-Usage: /no search=n\nAllow: /\n")
    other.replies["/robots.txt"] = robots(RULES)
    pages = [site.url("/no"), site.url("/yes"), other.url("/private"), other.url("/a")]
    path = tmp_path / "r.jsonl"
    settings = {"ROBOTS_REPORT": {path: {"allowed": True}}, "ROBOTS_USE": ["search"]}
    result = await crawl(pages, settings)
    *_, run = records = read(path, "origin", "run")
    found = [record for record in records if record["reason"] == "origin"]
    assert [sum(record[name] for record in found) for name in COUNTS] == [2, 2]
    assert [run[name] for name in COUNTS] == [2, 2]
    assert (result.stat("allowed"), result.stat("forbidden")) == (2, 2)
    two = [(each["allowed"], each["reason"]) for each in records if each["url"] == pages[0]]
    assert sorted(two) == [(False, "use"), (True, "rule")]


@ensureDeferred
async def test_memory_is_limited(
    site: Site, other: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If there are too many origins, the oldest one gets its record earlier.

    If it gets another one, both add up.
    """
    monkeypatch.setattr(report, "MAX_ORIGINS", 1)
    pages = [site.url("/1"), other.url("/1"), site.url("/2"), other.url("/2")]
    found = await origins(pages, tmp_path / "r.jsonl")
    allowed: Counter[str] = Counter()
    for record in found:
        allowed[record["origin"]] += record["allowed_requests"]
    assert len(found) > 2
    assert allowed == {site.url(""): 2, other.url(""): 2}


@ensureDeferred
async def test_a_stale_copy_is_named(site: Site, clock: Clock, tmp_path: Path) -> None:
    """The records of a request and of its origin say that an earlier copy was used, and why."""
    site.replies["/robots.txt"] = robots(RULES)
    job, path = {"JOBDIR": str(tmp_path / "job")}, tmp_path / "r.jsonl"
    await crawl([site.url("/1")], job)
    clock.now += 90_000
    site.replies["/robots.txt"] = Reply(503)
    await crawl(private(site, 1), {"ROBOTS_REPORT": path, **job})
    found = read(path, "origin")
    digest = sha256(RULES.encode())
    for record in found:
        assert (record["stale"], record["digest"]) == (True, digest)
        assert (record["outcome"], record["status"]) == ("successful", 503)
    why = "robots.txt line 2: Disallow: /private; stale copy, its refresh failed: 503"
    assert [record["why"] for record in found] == [why, "stale (503), so an earlier copy is used"]
