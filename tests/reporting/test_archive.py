"""ROBOTS_ARCHIVE: WARC files of real crawls, read and checked by `warcio`."""

from __future__ import annotations

import gzip
import logging
import re
import resource
import zlib
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pytest_twisted import ensureDeferred
from warcio.archiveiterator import ArchiveIterator
from warcio.cli import main as warcio

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.reporting import archive as archives
from tests.support.crawling import Pages, crawl
from tests.support.documents import block, rows, settings
from tests.support.reports import read, sha256
from tests.support.site import Reply, Site, redirect, robots

ROOT = Path(__file__).parents[2]
FILE = "User-agent: *\nDisallow: /x\n"


def records(path: Path) -> list[tuple[str, dict[str, str], bytes]]:
    """Type, WARC headers and block of each record."""
    found = []
    with path.open("rb") as file:
        for record in ArchiveIterator(file):
            headers = dict(record.rec_headers.headers)
            lines = [] if record.http_headers is None else record.http_headers.headers
            status = "" if record.http_headers is None else record.http_headers.statusline
            block = "\n".join(
                [status, *map(": ".join, lines), record.content_stream().read().decode("latin-1")]
            )
            found.append((record.rec_type, headers, block.encode("latin-1")))
    return found


def is_whole(path: Path) -> bool:
    """Whether `warcio check` accepts a file."""
    with redirect_stdout(StringIO()), pytest.raises(SystemExit) as ended:
        warcio(["check", str(path)])
    return not ended.value.code


def outcomes(path: Path) -> list[dict[str, str]]:
    """The fields of the metadata records."""
    blocks = [block.decode() for kind, _, block in records(path) if kind == "metadata"]
    return [
        dict(line.split(": ", 1) for line in block.splitlines() if ": " in line) for block in blocks
    ]


def names_in(folder: Path) -> list[str]:
    """The names of the files in a folder."""
    return sorted(path.name for path in folder.iterdir())


async def archived(path: Path, *urls: str, **settings: Any) -> Any:
    """Crawl with an archive, and check that its files are whole."""
    result = await crawl(list(urls), {"ROBOTS_ARCHIVE": str(path), **settings})
    assert all(is_whole(one) for one in path.parent.glob("*.warc.gz"))
    return result


@ensureDeferred
async def test_exchange_and_what_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting in docs/report.md archives a response, a request, and a metadata record with the
    result of the fetch, whose fields the page lists.
    """
    monkeypatch.chdir(tmp_path)
    [path] = settings(block("docs/report.md", "python", "ROBOTS_ARCHIVE")).values()
    with Site({"/robots.txt": robots(FILE)}) as site:
        result = await archived(Path(path), site.url("/x"), site.url("/y"))
        found, (fields,) = records(Path(path)), outcomes(Path(path))
        assert [kind for kind, _, _ in found] == ["warcinfo", "response", "request", "metadata"]
        _, response, request, metadata = found
        assert b"robots: obey" in found[0][2]
        assert {headers["WARC-Target-URI"] for _, headers, _ in found[1:]} == {
            site.url("/robots.txt")
        }
        assert response[1]["WARC-Concurrent-To"] == request[1]["WARC-Record-ID"]
        assert metadata[1]["WARC-Refers-To"] == response[1]["WARC-Record-ID"]
        assert response[2].startswith(b"200 OK\n")
        assert response[2].endswith(FILE.encode())
        assert request[2].startswith(b"/robots.txt HTTP/1.1\n")
        assert b"User-Agent: " in request[2]
        shown = [row[0].strip("`") for row in rows("docs/report.md", "metadata field |")]
        assert [*fields] == shown
        assert fields["outcome"] == "successful"
        assert fields["digest"] == sha256(FILE.encode())
        assert (fields["status"], fields["stale"], fields["agent"]) == ("200", "no", "Scrapy")
        assert fields["fresh-until"].endswith("Z")
        assert result.stat("archive/records") == 3


class ForSearch(Pages):
    """A spider that declares a use."""

    robots_use = "search"


@ensureDeferred
async def test_declared_uses(site: Site, tmp_path: Path) -> None:
    """The first record has the run, as in the report, and the uses that the crawl declares, if any.

    The spider declares them, or else the setting.
    """
    report = tmp_path / "r.jsonl"
    cases: list[Any] = [
        (["train-ai", "tdm"], Pages, "train-ai, tdm"),
        (["tdm"], ForSearch, "search"),
        (None, Pages, None),
    ]
    for number, (setting, spider, declared) in enumerate(cases):
        path = tmp_path / f"{number}.warc.gz"
        outputs = {"ROBOTS_ARCHIVE": str(path), "ROBOTS_REPORT": report}
        await crawl([site.url("/y")], {**outputs, "ROBOTS_USE": setting}, spider=spider)
        first = records(path)[0][2].decode()
        run = read(report, "run")[-1]["run"]
        assert f"run: {run}\r\nspider: pages\r\n" in first
        assert re.findall("^use: (.*)\r", first, re.MULTILINE) == [declared] * bool(declared)
    assert len({record["run"] for record in read(report, "run")}) == len(cases)


@ensureDeferred
async def test_redirects_and_failures(tmp_path: Path) -> None:
    """Each redirect, error and broken connection is archived."""
    path = tmp_path / "robots.warc.gz"
    replies: list[dict[str, Any]] = [
        {"/robots.txt": redirect("/other"), "/other": redirect("/last"), "/last": robots(FILE)},
        {"/robots.txt": Reply(404)},
        {"/robots.txt": Reply(503)},
        {"/robots.txt": Reply(reset=True)},
    ]
    for number, answers in enumerate(replies):
        with Site(answers) as site:
            await archived(path.with_name(f"{number}.warc.gz"), site.url("/y"))
    kinds = [
        [kind for kind, _, _ in records(path.with_name(f"{number}.warc.gz"))][1:]
        for number in range(4)
    ]
    assert kinds[0] == ["response", "request"] * 3 + ["metadata"]
    assert kinds[1] == kinds[2] == ["response", "request", "metadata"]
    assert kinds[3] == ["request", "metadata"]
    found = [outcomes(path.with_name(f"{number}.warc.gz"))[0]["outcome"] for number in range(4)]
    assert found == ["successful", "unavailable", "unreachable", "unreachable"]


@ensureDeferred
async def test_body_as_it_came(tmp_path: Path) -> None:
    """A body is stored with its content coding, but without its transfer coding."""
    path = tmp_path / "robots.warc.gz"
    headers = (("Content-Encoding", "gzip"), ("Content-Type", "text/plain"))
    body = gzip.compress(FILE.encode())
    with Site({"/robots.txt": Reply(200, headers=headers, chunks=(body[:5], body[5:]))}) as site:
        result = await archived(path, site.url("/x"))
        assert result.stat("forbidden") == 1
    (_, _, block) = next(record for record in records(path) if record[0] == "response")
    assert b"Content-Encoding: gzip" in block
    assert block.endswith(FILE.encode())  # warcio has undone the coding
    assert b"Transfer-Encoding" not in block


@ensureDeferred
async def test_no_secrets(tmp_path: Path) -> None:
    """The archive has no credentials and no cookies of the crawl."""
    path = tmp_path / "robots.warc.gz"
    with Site({"/robots.txt": robots(FILE)}) as site:
        url = site.url("/y").replace("://", "://user:secret@")
        headers = {"Authorization": "secret", "Cookie": "a=secret"}
        await archived(
            path, url, DEFAULT_REQUEST_HEADERS=headers, HTTPPROXY_AUTH_ENCODING="latin-1"
        )
        assert [asked.headers.get("Authorization") for asked in site.asked][:1] == ["secret"]
    assert b"secret" not in gzip.decompress(path.read_bytes())


@ensureDeferred
async def test_long_file(tmp_path: Path) -> None:
    """A body that was cut off at the limit is marked as truncated."""
    path = tmp_path / "robots.warc.gz"
    with Site({"/robots.txt": Reply(200, endless=True)}) as site:
        await archived(path, site.url("/y"))
    (_, headers, _) = next(record for record in records(path) if record[0] == "response")
    assert headers["WARC-Truncated"] == "length"


@ensureDeferred
async def test_another_file_when_one_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a file gets too large, another file is started. Existing files are not overwritten."""
    path = tmp_path / "robots.warc.gz"
    path.touch()
    with Site({"/robots.txt": robots(FILE)}) as site:
        monkeypatch.setattr(archives.Archive, "MAX_SIZE", 1000)
        await archived(path, site.url("/y"))
    names = names_in(tmp_path)
    assert names == ["robots-2.warc.gz", "robots-3.warc.gz", "robots.warc.gz"]
    assert path.read_bytes() == b""
    kinds = [record[0] for name in names[:2] for record in records(tmp_path / name)]
    assert sorted(kinds) == ["metadata", "request", "response", "warcinfo", "warcinfo"]


@ensureDeferred
async def test_full_disk(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """If the disk is full, incomplete records are removed, and one error is logged."""
    path = tmp_path / "robots.warc.gz"
    with Site({"/robots.txt": robots(FILE)}) as site, caplog.at_level(logging.ERROR):
        await archived(tmp_path / "whole.warc.gz", site.url("/x"), site.url("/y"))
        third = members(tmp_path / "whole.warc.gz")[2]
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (third + 60, before[1]))
        try:
            result = await archived(path, site.url("/x"), site.url("/y"))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert result.stat("forbidden") == 1
    assert result.stat("archive/errors") == 2
    assert len([record for record in caplog.records if "ROBOTS_ARCHIVE" in record.message]) == 1
    assert [kind for kind, _, _ in records(path)] == ["warcinfo", "response"]
    assert members(path)[-1] == path.stat().st_size


def members(path: Path) -> list[int]:
    """Where each gzip member of a file starts, and where the last whole one ends."""
    data, begins = path.read_bytes(), [0]
    while data:
        member = zlib.decompressobj(31)
        member.decompress(data)
        if not member.eof:
            break
        begins.append(begins[-1] + len(data) - len(member.unused_data))
        data = member.unused_data
    return begins


@ensureDeferred
async def test_path_that_cannot_be_written(tmp_path: Path) -> None:
    """A path that cannot be created stops the crawl at start."""
    refusal = r"ROBOTS_ARCHIVE = .* is not accepted. It must be a writable file path"
    with pytest.raises(SettingError, match=refusal):
        await crawl([], {"ROBOTS_ARCHIVE": str(tmp_path / "none" / "robots.warc.gz")})
