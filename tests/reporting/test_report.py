"""ROBOTS_REPORT, written by real crawls: records, formats and places."""

from __future__ import annotations

import json
import logging
import re
import shutil
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.extensions.feedexport import ItemFilter
from scrapy.signals import spider_opened

from scrapy_robots_rfc.reporting.report import FIELDS
from tests.support.crawling import crawl, records
from tests.support.reports import RULES, private, read, sha256, values
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from scrapy.crawler import Crawler


CLOSED = "User-agent: *\nDisallow: /\n"
PROTEGO = "scrapy.robotstxt.ProtegoRobotParser"


async def reported(
    pages: list[Any], path: Path, settings: dict[str, Any] | None = None, **options: Any
) -> dict[str, dict[str, Any]]:
    """Crawl; return the records by the path of their URL."""
    await crawl(pages, {"ROBOTS_REPORT": {path: options}, **(settings or {})})
    return {
        re.sub(r"^\w+://[^/]*", "", record["url"] or record["rule"]): record
        for record in read(path)
    }


# Records.


@ensureDeferred
async def test_record_of_a_rule_has_every_field(site: Site, tmp_path: Path) -> None:
    """The record of a disallowed request has every field, in order, and no password."""
    body = f"# {'x' * 600_000}\n".encode()
    site.replies["/robots.txt"] = Reply(body=RULES.encode() + body)
    page = Request(
        site.url("/private/x").replace("//", "//me:secret@"),
        headers={"Referer": "https://me:secret@a.example/\x1b"},
    )
    path = tmp_path / "r.jsonl"
    [record] = (await reported([page, site.url("/a")], path, allowed="false")).values()
    assert list(record) == list(FIELDS)
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["time"])
    fresh_until = datetime.fromisoformat(record.pop("fresh_until"))
    fetched = datetime.fromisoformat(record.pop("fetched"))
    assert timedelta(0) <= datetime.now(UTC) - fetched < timedelta(minutes=1)
    assert timedelta(hours=23) < fresh_until - datetime.now(UTC) < timedelta(hours=25)
    assert datetime.fromisoformat(record.pop("run")) <= datetime.fromisoformat(record.pop("time"))
    unset = ("crawl_delay", "allowed_requests", "disallowed_requests")
    assert record == {
        **dict.fromkeys(unset),
        **dict.fromkeys(("stale", "dry_run", "allowed"), False),
        "spider": "pages",
        "agent": "Scrapy",
        "url": site.url("/private/x"),
        "referrer": "https://a.example/\\x1b",
        "origin": site.url(""),
        "token": "*",
        "reason": "rule",
        "line": 2,
        "rule": "Disallow: /private",
        "why": "robots.txt line 2: Disallow: /private",
        "robots_url": site.url("/robots.txt"),
        "digest": sha256((RULES.encode() + body)[:512_000]),
        "outcome": "successful",
        "status": 200,
        "version": version("scrapy-robots-rfc"),
        "count": 1,
    }


@ensureDeferred
async def test_records_without_a_file_have_a_cause(site: Site, tmp_path: Path) -> None:
    """Without a file, a record has a reason and a cause, but no rule and no digest."""
    site.replies["/robots.txt"] = Reply(503)
    hostless = Request("http:///y", meta={"robotstxt_user_agent": 3})  # this names no agent
    found = await reported([site.url("/x"), hostless], tmp_path / "r.jsonl")
    assert (found["/x"]["agent"], found["/y"]["agent"]) == ("Scrapy", None)
    known = ("origin", "reason", "line", "rule", "why", "robots_url", "digest", "token")
    assert [found["/x"][name] for name in known] == [
        *(site.url(""), "unreachable", None, None, "robots.txt unreachable: 503"),
        *(site.url("/robots.txt"), None, None),
    ]
    why = "robots.txt unreachable: no valid authority"
    assert [found["/y"][name] for name in known] == [
        *(None, "unreachable", None, None, why, None, None, None)
    ]


@ensureDeferred
async def test_records_of_allowed_requests(site: Site, tmp_path: Path) -> None:
    """With the option `allowed`, allowed requests have a record, too, with their reason.

    In a dry run, only the records of disallowed requests are marked.
    """
    site.replies["/robots.txt"] = robots(RULES + "Allow: /private/open\n")
    pages = [site.url(path) for path in ("/private/x", "/private/open", "/y", "/robots.txt")]
    dry_run = {"ROBOTS_DRY_RUN": True}
    found = await reported(pages, tmp_path / "r.jsonl", dry_run, allowed="true")
    decided = {
        path: (record["allowed"], record["dry_run"], record["reason"], record["line"])
        for path, record in found.items()
    }
    assert decided == {
        "/private/x": (False, True, "rule", 2),
        "/private/open": (True, False, "rule", 3),
        "/y": (True, False, "no_rule", None),
    }
    assert found["/y"]["why"] == "robots.txt: no rule of the group `*` matches"
    assert found["/y"]["digest"] == found["/private/x"]["digest"]


LONGER = "Crawl-delay 90 s (robots.txt line 2) is more than ROBOTS_CRAWL_DELAY_MAX, 60 s"


@pytest.mark.parametrize(
    ("rule", "key", "value", "reason", "why"),
    [
        (
            "Disallow: /",
            "ROBOTSTXT_PARSER",
            PROTEGO,
            "parser",
            "robots.txt: ROBOTSTXT_PARSER decided",
        ),
        ("Crawl-delay: 90", "ROBOTS_CRAWL_DELAY_OVER", "forbid", "crawl_delay", LONGER),
    ],
)
@ensureDeferred
async def test_records_without_a_rule_have_a_reason(
    site: Site, tmp_path: Path, rule: str, key: str, value: str, reason: str, why: str
) -> None:
    """The record of a decision without a rule has the reason and the digest of the file."""
    body = f"User-agent: *\n{rule}\n"
    site.replies["/robots.txt"] = robots(body)
    [record] = (await reported([site.url("/x")], tmp_path / "r.jsonl", {key: value})).values()
    names = ("rule", "line", "digest", "reason", "why")
    assert [record[name] for name in names] == [None, None, sha256(body.encode()), reason, why]


@ensureDeferred
async def test_local_files_are_named_by_their_uri(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A local file that decides is named by its URI, even if its folder is gone."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    Path("own.txt").write_text(CLOSED, encoding="utf-8")  # noqa: ASYNC240 - short

    def prepare(crawler: Crawler) -> None:
        crawler.signals.connect(lambda: shutil.rmtree(folder), spider_opened, weak=False)

    overrides = {"ROBOTS_OVERRIDES": {site.url(""): "own.txt"}}
    report = {"ROBOTS_REPORT": tmp_path / "r.jsonl"}
    await crawl([site.url("/x")], {**overrides, **report}, prepare=prepare)
    [record] = read(tmp_path / "r.jsonl")
    assert record["robots_url"] == (folder / "own.txt").as_uri()
    assert record["digest"] == sha256(CLOSED.encode())


@ensureDeferred
async def test_a_dry_run_and_exempt_sites_are_reported(
    site: Site, other: Site, tmp_path: Path
) -> None:
    """Records mark a dry run, and the last records count the requests of each exempt entry."""
    other.replies["/robots.txt"] = robots(RULES)
    settings = {"ROBOTS_DRY_RUN": True, "ROBOTS_EXEMPT": [site.url(""), "unused.example"]}
    result = await crawl(
        [site.url("/1"), site.url("/2"), *private(other, 1)],
        {"ROBOTS_REPORT": {tmp_path / "r.jl": {"format": "jsonl"}}, **settings},
    )
    assert result.stat("report/records") == 1  # the last records are not decisions
    refused, exempt = read(tmp_path / "r.jl")
    assert (refused["reason"], refused["dry_run"]) == ("rule", True)
    assert list(exempt) == list(FIELDS)
    assert exempt["time"] >= refused["time"]
    assert exempt["run"] == refused["run"]
    assert exempt == {
        **FIELDS,
        **{name: exempt[name] for name in ("time", "run")},
        "spider": "pages",
        "version": version("scrapy-robots-rfc"),
        "reason": "exempt",
        "rule": site.url(""),
        "why": f"exempt: `{site.url('')}` of ROBOTS_EXEMPT",
        "count": 2,
    }


# Formats and places.


#: All fields that are the same in each crawl.
UNTIMED = {"fields": [name for name in FIELDS if not name.startswith(("time", "run", "f"))]}


@ensureDeferred
async def test_all_formats_say_the_same(site: Site, tmp_path: Path) -> None:
    """All formats have the same values, without control characters from a robots.txt or a URL.

    Settings for feeds of items do not apply.
    """
    hostile = "User-agent: *\nDisallow: /p*\x1b[2J\u202e<&\"',\x07\udcff"
    site.replies["/robots.txt"] = Reply(body=hostile.encode("utf-8", "surrogateescape"))
    page = site.url("/p\x1b[2J\u202e<&\"',\x07/a") + "%FF"
    pages = [page, site.url("/p%1B[2J%E2%80%AE<&\"',%07%FF")]
    items = {
        "FEED_EXPORT_FIELDS": ["price"],
        "FEED_EXPORT_BATCH_ITEM_COUNT": 1,
        "FEED_EXPORT_ENCODING": "utf-16",
        "FEED_EXPORT_INDENT": 8,
    }
    found = []
    for name in ("jsonl", "json", "csv", "xml"):
        path = tmp_path / f"r.{name}"
        result = await crawl(pages, {**items, "ROBOTS_REPORT": {path: UNTIMED}})
        found.append((result.stat("report/records"), result.stat("report/errors")))
        text = path.read_text(encoding="utf-8")
        assert all(character.isprintable() or character in "\r\n" for character in text)
    assert found == [(1, 0)] * 4
    lines = values(tmp_path / "r.jsonl")
    assert [line["rule"] for line in lines] == [
        *("Disallow: /p*\\x1b[2J\\u202e<&\"',\\x07\\xff", None, None)
    ]
    assert values(tmp_path / "r.json") == lines
    for name, nothing in (("r.csv", ""), ("r.xml", "None")):
        assert values(tmp_path / name) == [
            {key: nothing if value is None else str(value) for key, value in line.items()}
            for line in lines
        ]


@ensureDeferred
async def test_options_of_a_feed_are_obeyed(site: Site, tmp_path: Path) -> None:
    """Fields, exporter arguments, filters and overwriting work as in FEEDS."""
    site.replies["/robots.txt"] = robots(RULES)
    paths = [tmp_path / name for name in ("r.csv", "none.jsonl", "new.jsonl")]
    paths[2].write_text("old\n", encoding="utf-8")
    report = {
        paths[0]: {
            "fields": ["rule", "line"],
            "item_export_kwargs": {"include_headers_line": False},
        },
        paths[1]: {"item_filter": Nothing, "store_empty": False},
        paths[2]: {"overwrite": True},
    }
    items = {"FEEDS": {tmp_path / "items.csv": {"format": "csv", "store_empty": True}}}
    counted = [
        (await crawl(private(site, 2), {**items, "ROBOTS_REPORT": {path: options}})).stat(
            "report/records"
        )
        for path, options in report.items()
    ]
    assert (tmp_path / "items.csv").exists()
    assert paths[0].read_text(encoding="utf-8").split() == ["Disallow:", "/private,2"] * 2
    assert not paths[1].exists()
    assert len(read(paths[2])) == 2
    assert counted == [2, 0, 2]


class Nothing(ItemFilter):
    """Accepts nothing."""

    def accepts(self, item: Any) -> bool:
        """Reject an item."""
        return False


@ensureDeferred
async def test_places_are_written_to(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfdbinary: pytest.CaptureFixture[bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Paths, `file:` URIs and standard output work, with or without options.

    Missing folders are created, and the suffix of a path is the format.
    """
    caplog.set_level(logging.INFO)
    monkeypatch.chdir(tmp_path)
    site.replies["/robots.txt"] = robots(RULES)
    for place in (tmp_path / "r.csv", "as.jsonl", "None", ""):
        await crawl(private(site, 1), {"ROBOTS_REPORT": place})
    assert (tmp_path / "r.csv").read_text(encoding="utf-8").startswith(",".join(FIELDS))
    assert [record["reason"] for record in read(tmp_path / "as.jsonl")] == ["rule"]
    uris = ["plain.jsonl", (tmp_path / "new" / "a.jsonl").as_uri(), "of/%(name)s.jsonl", "stdout:"]
    for uri in uris:
        options = {"format": "jsonlines", "fields": ["url", "why"]}
        await crawl(private(site, 1), {"ROBOTS_REPORT": json.dumps({uri: options})})
    texts = {Path(name).read_bytes() for name in ("plain.jsonl", "new/a.jsonl", "of/pages.jsonl")}  # noqa: ASYNC240 - short
    assert len(texts) == 1
    assert capfdbinary.readouterr().out in texts
    assert "ROBOTS_REPORT: wrote 1 decision to of/pages.jsonl; failed writes: 0" in records(
        caplog, logging.INFO
    )


@ensureDeferred
async def test_records_name_the_agent(site: Site, tmp_path: Path) -> None:
    """A record names the agent of the request and the group."""
    site.replies["/robots.txt"] = robots("User-agent: foobot\nUser-agent: *\nDisallow: /\n")
    pages = [
        Request(site.url("/meta"), meta={"robotstxt_user_agent": ["foobot-news", "foobot"]}),
        Request(site.url("/header"), headers={"User-Agent": "Mozilla/5.0 (compatible; Bar/1)"}),
        Request(site.url("/browser"), headers={"User-Agent": "Mozilla/5.0 (X11)"}),
    ]
    found = await reported(pages, tmp_path / "r.jsonl", {"ROBOTSTXT_USER_AGENT": None})
    assert {path: (record["agent"], record["token"]) for path, record in found.items()} == {
        "/meta": ("foobot-news,foobot", "foobot"),
        "/header": ("Bar", "*"),
        "/browser": ("Mozilla/5.0 (X11)", "*"),
    }


@ensureDeferred
async def test_placeholders_are_filled_in(site: Site, tmp_path: Path) -> None:
    """The user's function provides the values of placeholders, and %20 is not one."""
    site.replies["/robots.txt"] = robots(RULES)
    uri = f"{tmp_path.as_uri()}/%(shop)s%20a.jsonl"
    await crawl(private(site, 1), {"ROBOTS_REPORT": {uri: {"uri_params": shop}}})
    assert [path.name for path in tmp_path.iterdir()] == ["pages-1 a.jsonl"]  # noqa: ASYNC240 - short


def shop(params: dict[str, Any], spider: Any) -> dict[str, Any]:
    """Add a value."""
    return {**params, "shop": f"{spider.name}-1"}


@ensureDeferred
async def test_the_last_record_shows_that_a_crawl_ended(site: Site, tmp_path: Path) -> None:
    """The last record has the agent and the number of allowed requests.

    Without `store_empty`, a crawl that drops nothing leaves no file.
    """
    path = tmp_path / "r.jsonl"
    await crawl([site.url("/x")], {"ROBOTS_REPORT": path, "ROBOTSTXT_USER_AGENT": "foobot"})
    [record] = read(path, "run")
    assert list(record) == list(FIELDS)
    assert [record[name] for name in ("spider", "agent", "reason", "why", "count")] == [
        *("pages", "foobot", "run", "ended (finished), 1 request allowed", 0)
    ]
    assert (record["allowed_requests"], record["disallowed_requests"]) == (1, 0)
    path.unlink()
    await crawl([site.url("/x")], {"ROBOTS_REPORT": {path: {"store_empty": False}}})
    assert not path.exists()
