"""`scrapy robots check` and `show`, with exemptions, local files and stale files."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import scrapy

from scrapy_robots_rfc.cache.entry import encode
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support.command_line import DAY, OPEN, run
from tests.support.entries import changed
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path

SCRAPY = f"Scrapy/{scrapy.__version__} (+https://scrapy.org)"
CLOSED = robots("User-agent: *\nDisallow: /\n")
OWN = "User-agent: *\nDisallow: /x\nCrawl-delay: 90\n"


def test_exempt_site(tmp_path: Path) -> None:
    """URLs of an exempt site are allowed, and nothing is requested."""
    with Site({"/robots.txt": CLOSED}) as site:
        done = run("check", site.url("/x"), "-s", "ROBOTS_EXEMPT=127.0.0.1", folder=tmp_path)
        shown = run("show", site.url("/x"), "-s", "ROBOTS_EXEMPT=127.0.0.1", folder=tmp_path)
        assert site.targets == []
    place = f"  robots.txt {site.url('/robots.txt')} (not requested, ROBOTS_EXEMPT)"
    assert (done.code, done.err) == (0, "")
    assert done.lines == [
        f"allowed      {site.url('/x')}",
        "  why        exempt: `127.0.0.1` of ROBOTS_EXEMPT",
        place,
        f"  agent      {SCRAPY} (from the User-Agent header)",
    ]
    assert (shown.code, shown.lines) == (0, [place])


def test_local_file(tmp_path: Path) -> None:
    """A local file decides and is named, and nothing is requested."""
    (tmp_path / "own.txt").write_text(OWN, encoding="utf-8")
    with Site({"/robots.txt": CLOSED}) as site:
        override = ("-s", f"ROBOTS_OVERRIDES={json.dumps({site.url(''): 'own.txt'})}")
        done = run("check", site.url("/x"), *override, folder=tmp_path)
        shown = run("show", site.url("/x"), *override, folder=tmp_path)
        assert site.targets == []
    place = (
        f"  robots.txt local file own.txt (replaces {site.url('/robots.txt')}, ROBOTS_OVERRIDES)"
    )
    assert (done.code, done.err) == (1, "")
    assert done.lines[:3] == [
        f"disallowed   {site.url('/x')}",
        "  why        local file own.txt line 2: Disallow: /x",
        place,
    ]
    assert (shown.code, shown.lines[0]) == (0, place)
    assert not [line for line in shown.lines if "fresh for" in line]


def test_stale_file(tmp_path: Path) -> None:
    """A stale file decides, and the output says so."""
    with Site({"/robots.txt": Reply(503)}) as site:
        store = SqliteStore(tmp_path / "robots.sqlite")
        store.open()
        then = time.time() - 2 * DAY
        copy = changed(OPEN, fetched=then, fresh_until=then + DAY, confirmed=then, validators=None)
        store.put(site.url("").rstrip("/"), encode(copy), 30 * DAY)
        store.close()
        options = ("-s", "ROBOTS_CACHE=sqlite:///robots.sqlite", "-s", "RETRY_ENABLED=False")
        done = run("check", site.url("/x"), *options, folder=tmp_path)
        checked = run("check", site.url("/x"), *options, "--json", folder=tmp_path).records[0]
        shown = run("show", site.url("/x"), *options, "--json", folder=tmp_path).records[0]
    assert done.code == 1
    assert (
        done.lines[1]
        == "  why        robots.txt line 2: Disallow: /x; stale copy, its refresh failed: 503"
    )
    assert (checked["verdict"], checked["reason"]) == ("disallowed", "rule")
    assert checked["robots_txt"]["stale"] is shown["stale"] is True
