"""The user's exceptions in real crawls: exempt sites and local files."""

from __future__ import annotations

import gc
import gzip
import json
import logging
import math
import os
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import Reason, RobotsService
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import crawl, listening, records
from tests.support.parsers import FailsToParse
from tests.support.service_crawls import run
from tests.support.site import Site, redirect, robots
from tests.support.stores import ONE_STORE, OneStore
from tests.support.timed_site import DELAY, gaps, urls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


RULES = "User-agent: *\nDisallow: /private\n"
CLOSED = "User-agent: *\nDisallow: /\n"
DRY = {"ROBOTS_DRY_RUN": True}


# Sites that are not asked.


@ensureDeferred
async def test_exempt_sites_are_not_asked(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """No robots.txt of an exempt site is fetched; each used entry is counted and listed."""
    site.replies["/robots.txt"] = other.replies["/robots.txt"] = robots(CLOSED)
    pages = [*urls(site, 3), other.url("/x")]
    result = await crawl(pages, {"ROBOTS_EXEMPT": [site.url("")]})
    assert result.outcomes.pop(pages[3], None) is not None
    assert result.outcomes == dict.fromkeys(pages[:3], 200)
    assert (site.fetches, other.fetches, other.pages) == (0, 1, [])
    assert (result.stat("exempted"), result.stat(f"exempted/{site.url('')}")) == (3, 3)
    assert (result.stat("allowed"), result.stat("forbidden")) == (0, 1)
    lines = records(caplog, logging.INFO)
    assert f"ROBOTS_EXEMPT: robots.txt is not requested for {site.url('')}" in lines
    end = (
        f"  sites: 1 successful\n  requests: 1 disallowed (1 rule), 3 exempt (3x {site.url('')})\n"
    )
    assert end in lines[-1]


@ensureDeferred
async def test_robots_txt_of_an_exempt_site(site: Site) -> None:
    """A spider's request for the robots.txt of an exempt site counts as allowed."""
    site.replies["/robots.txt"] = robots(CLOSED)
    own = Request(site.url("/robots.txt"))
    result = await crawl([own, site.url("/x")], {"ROBOTS_EXEMPT": [site.url("")]})
    assert result.outcomes == {own.url: 200, site.url("/x"): 200}
    assert (result.stat("exempted"), result.stat("allowed"), site.fetches) == (1, 1, 1)


@ensureDeferred
async def test_service_does_not_ask_exempt_sites_either(site: Site) -> None:
    """The service says which entry exempts a site, the first that covers it, without a fetch."""
    site.replies["/robots.txt"] = robots(CLOSED)
    sent: list[OriginPolicy | None] = []

    async def script(service: RobotsService) -> None:
        known = await service.robots(site.url("/x"))
        assert (known.outcome, known.robots) == (Outcome.UNAVAILABLE, None)
        assert known.exempt == "127.0.0.1"
        decision = known.decide(site.url("/x"))
        assert (decision.allowed, decision.reason) == (True, Reason.EXEMPT)
        assert known.why(decision) == "exempt: `127.0.0.1` of ROBOTS_EXEMPT"
        sent.append(service.fetch(known.origin).policy)
        assert sent == [known]

    await run(script, {"ROBOTS_EXEMPT": ["a.example", "127.0.0.1", site.url("")]})
    assert site.targets == []


@ensureDeferred
async def test_redirect_to_an_exempt_site(site: Site, other: Site) -> None:
    """A robots.txt may redirect to an exempt site."""
    site.replies["/robots.txt"] = redirect(other.url("/robots.txt"))
    other.replies["/robots.txt"] = robots(RULES)
    result = await crawl(
        [site.url("/private"), other.url("/private")], {"ROBOTS_EXEMPT": [other.url("")]}
    )
    assert result.verdicts(site.url("/private")) == ["rule"]
    assert sorted(other.targets) == ["/private", "/robots.txt"]


# Local files.


@pytest.fixture
def local(tmp_path: Path) -> Path:
    """A local file."""
    path = tmp_path / "own.txt"
    path.write_text("# agreed by mail\nUser-agent: *\nDisallow: /local\n", encoding="utf-8")
    return path


@ensureDeferred
async def test_local_file_decides(
    site: Site, other: Site, local: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A local file decides for its site, whose own file is not fetched."""
    site.replies["/robots.txt"] = other.replies["/robots.txt"] = robots(RULES)
    pages = [site.url("/local/x"), site.url("/private"), other.url("/local"), other.url("/private")]
    result = await crawl(pages, {"ROBOTS_OVERRIDES": {site.url(""): local}})
    error, why = result.dropped(pages[0]), f"local file {local} line 3: Disallow: /local"
    assert str(error) == f"Forbidden by robots.txt ({why})"
    assert (error.decision.override, error.decision.origin) == (str(local), site.url(""))
    assert result.dropped(pages[3]).decision.override is None
    assert (site.targets, other.pages) == (["/private"], ["/local"])
    counted = ("overridden", "allowed", "forbidden/rule")
    assert [result.stat(key) for key in counted] == [2, 2, 2]
    lines = records(caplog, logging.DEBUG)
    assert f"Forbidden by robots.txt: <GET {pages[0]}> ({why})" in lines
    assert f"ROBOTS_OVERRIDES: using local files: {local} for {site.url('')}" in lines


@ensureDeferred
async def test_local_file_is_read_at_start(site: Site, local: Path) -> None:
    """A local file is read at start, and not stored."""
    sent: list[object] = []
    OneStore.store = OneStore()

    async def script(service: RobotsService) -> None:
        local.unlink()  # noqa: ASYNC240 - a file of the test's own
        known = await service.robots(site.url("/x"))
        assert (known.outcome, known.status) == (Outcome.SUCCESSFUL, None)
        assert known.override == known.decide(site.url("/local")).override == str(local)
        why = known.why(known.decide(site.url("/x")))
        assert why == f"local file {local}: no rule of the group `*` matches"
        assert service.known.get(known.origin) is known
        assert known.fetched == -math.inf  # no page waits after a fetch that never was

    settings = {**ONE_STORE, "ROBOTS_OVERRIDES": json.dumps({site.url(""): str(local)})}
    pages = [site.url("/local"), site.url("/x")]
    heard = listening(lambda: sent.append(1), robots_fetched)
    result = await run(script, settings, requests=pages, prepare=heard)
    assert result.verdicts(*pages) == ["rule", 200]
    assert site.targets == ["/x"]
    assert sent == []
    assert list(OneStore.store.keys()) == []
    assert "robotstxt/cache/misses" not in result.stats


@ensureDeferred
async def test_pace_of_a_local_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The Crawl-delay of a local file counts, and the log names the file."""
    local = tmp_path / "own.txt"
    local.write_text(f"User-agent: *\nCrawl-delay: {DELAY}\n", encoding="utf-8")
    with Site({"/robots.txt": robots("User-agent: *\nCrawl-delay: 60\n")}) as site:
        result = await crawl(urls(site, 4), {"ROBOTS_OVERRIDES": {site.url(""): str(local)}})
        assert result.outcomes == dict.fromkeys(urls(site, 4), 200)
        assert len(site.targets) == 4
        assert min(gaps(site)) >= DELAY
        expected = (
            f"Crawl-delay {DELAY:g} s (local file {local} line 2) applies to {site.url('')}, so"
            " its requests are spaced accordingly"
        )
    assert expected in records(caplog, logging.INFO)


@ensureDeferred
async def test_which_exception_goes_first(site: Site, local: Path) -> None:
    """Request meta has precedence over a local file, and a local file over an exempt site."""
    settings = {"ROBOTS_OVERRIDES": {site.url(""): str(local)}, "ROBOTS_EXEMPT": ["127.0.0.1"]}
    free = Request(site.url("/local/free"), meta={"dont_obey_robotstxt": True})
    pages = [free, Request(site.url("/local"))]
    result = await crawl(pages, settings)
    assert site.targets == ["/local/free"]
    assert [result.stat(key) for key in ("exempted", "forbidden", "overridden")] == [1, 1, 1]
    result = await crawl(pages, {**settings, **DRY})
    assert sorted(site.targets) == ["/local", "/local/free", "/local/free"]
    assert (result.stat("forbidden"), result.stat("dry_run")) == (1, 1)


@ensureDeferred
async def test_local_file_and_another_parser(site: Site, local: Path) -> None:
    """A third-party parser reads local files, too."""
    settings = {"ROBOTSTXT_PARSER": "scrapy.robotstxt.ProtegoRobotParser"}
    result = await crawl(
        [site.url("/local"), site.url("/x")],
        {**settings, "ROBOTS_OVERRIDES": {site.url(""): str(local)}},
    )
    error = result.dropped(site.url("/local"))
    assert (error.decision.reason, error.decision.override) == (Reason.PARSER, str(local))
    assert error.why == f"local file {local}: ROBOTSTXT_PARSER decided"
    assert site.targets == ["/x"]


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda _: None, "No such file or directory"),
        (lambda path: path.mkdir(), "not a regular file"),
        (os.mkfifo, "not a regular file"),
        (
            lambda path: path.write_bytes(b"#" * 512_001),
            "longer than ROBOTS_MAX_SIZE, 512000 bytes",
        ),
        (lambda path: path.write_bytes(b"x"), "cannot parse"),
    ],
    ids=["missing", "folder", "pipe", "too long", "not to be parsed"],
)
@ensureDeferred
async def test_file_that_cannot_be_read_stops_the_crawl(
    site: Site, tmp_path: Path, make: Callable[[Path], object], problem: str
) -> None:
    """If a local file cannot be read, the crawl does not start, and no store is opened."""
    path = tmp_path / "own.txt"
    make(path)
    settings = {
        "JOBDIR": str(tmp_path / "job"),
        "ROBOTS_OVERRIDES": {site.url(""): str(path)},
        "ROBOTSTXT_PARSER": FailsToParse,
    }
    with pytest.raises(SettingError) as caught:
        await crawl([site.url("/x")], settings)
    start = f"ROBOTS_OVERRIDES['{site.url('')}'] = '{path}' is not accepted"
    assert str(caught.value).startswith(start)
    assert f"({path}: " in str(caught.value)
    assert problem in str(caught.value)
    assert site.targets == []
    assert not (tmp_path / "job" / "robots.sqlite").exists()


@pytest.mark.parametrize(
    ("body", "is_text"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", False),
        (gzip.compress(CLOSED.encode()), False),
        (CLOSED.encode("utf-16-le"), False),  # without a mark, it would be read as having no rules
        (CLOSED.encode("utf-16"), True),
        (CLOSED.encode("utf-32"), True),
        (CLOSED.encode("utf-8-sig"), True),
        (CLOSED.encode() + b"Disallow: /\xe9\x1a", True),
        (b"", True),
    ],
    ids=["image", "gzip", "no mark", "UTF-16", "UTF-32", "UTF-8", "Latin-1", "empty"],
)
@ensureDeferred
async def test_file_that_is_not_text(
    site: Site, tmp_path: Path, body: bytes, is_text: bool
) -> None:
    """A local file with NUL bytes stops the crawl, unless a mark says that it is UTF-16 or -32."""
    path = tmp_path / "own.txt"
    path.write_bytes(body)
    settings = {"ROBOTS_OVERRIDES": {site.url(""): str(path)}}
    if is_text:
        result = await crawl([site.url("/x")], settings)
        assert result.verdicts() == ["rule" if body else 200]
        return
    with pytest.raises(SettingError, match=r"own\.txt: it has NUL bytes, so it is not text\)$"):
        await crawl([site.url("/x")], settings)


@ensureDeferred
async def test_longest_local_file_counts_to_its_end(site: Site, tmp_path: Path) -> None:
    """A file as long as ROBOTS_MAX_SIZE counts to its last byte."""
    path = tmp_path / "own.txt"
    rule = b"\nUser-agent: *\nDisallow: /local"
    path.write_bytes(b"#" * (512_000 - len(rule)) + rule)
    result = await crawl([site.url("/local")], {"ROBOTS_OVERRIDES": {site.url(""): str(path)}})
    assert result.verdicts() == ["rule"]


def values() -> int:
    """Return how many origins have a value in memory."""
    return sum(type(found) is OriginPolicy for found in gc.get_objects())


@ensureDeferred
async def test_many_exempt_sites_fill_no_memory(caplog: pytest.LogCaptureFixture) -> None:
    """Many exempt hosts do not fill the memory."""
    exempt = [f"{number}.example" for number in range(12)]

    async def script(service: RobotsService) -> None:
        gc.collect()
        before = values()
        for number in range(10_100):
            origin = Origin("http", f"{number}.below.example", 80)
            known = service.known.get(origin)
            assert known is not None
            assert known.exempt == "*.below.example"
        assert 9_000 < values() - before <= 10_000

    await run(script, {"ROBOTS_EXEMPT": [*exempt, "*.below.example"]})
    [line] = [line for line in records(caplog, logging.INFO) if line.startswith("ROBOTS_EXEMPT")]
    assert line.endswith(" 8.example, 9.example, and 3 more")
