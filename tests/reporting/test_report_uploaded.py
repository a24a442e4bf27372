"""Reports that are uploaded to a real FTP server, and with the real S3 client."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from tests.support.crawling import crawl, records
from tests.support.ftp_site import PASSWORD
from tests.support.site import Site, robots
from tests.support.uploads import ftp_server, s3_server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.reactor


def private(site: Site, count: int) -> list[str]:
    """Disallowed pages of a site."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    return [site.url(f"/private/{number}") for number in range(count)]


def urls(*files: bytes) -> list[list[str]]:
    """The URLs in files of JSON lines."""
    records = [[json.loads(line) for line in file.splitlines()] for file in files]
    return [sorted(record["url"] for record in file if record["url"]) for file in records]


def contents(folder: Path) -> dict[str, bytes]:
    """The contents of the files in a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@ensureDeferred
async def test_files_go_to_ftp(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The file is uploaded at the end, and the log does not contain the password."""
    pages = private(site, 5)
    with ftp_server(tmp_path) as address:
        result = await crawl(pages, {"ROBOTS_REPORT": {f"{address}/all.jsonl": {}}})
    files = contents(tmp_path)
    assert (list(files), urls(*files.values())) == (["all.jsonl"], [pages])
    assert (result.stat("report/records"), result.stat("report/errors")) == (5, 0)
    assert PASSWORD not in "".join(records(caplog, logging.DEBUG))
    assert records(caplog, logging.WARNING) == []


@ensureDeferred
async def test_a_file_goes_to_s3(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is uploaded to S3 with the credentials and endpoint of Scrapy's settings."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    pages = private(site, 3)
    with s3_server() as (endpoint, stored):
        settings = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_REGION_NAME": "us-east-1",
        }
        report: dict[str, Any] = {"s3://bucket/%(name)s.jsonl": {}}
        result = await crawl(pages, {**settings, "ROBOTS_REPORT": report})
    assert sorted(stored) == ["/bucket/pages.jsonl"]
    assert urls(*stored.values()) == [pages]
    assert (result.stat("report/records"), result.stat("report/errors")) == (3, 0)
