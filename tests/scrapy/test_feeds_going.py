"""The report as the crawl goes: records at once, full batches too; and what becomes of it where a place fails."""

from __future__ import annotations

import gzip
import json
import logging
import os
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.closing import Closing
from scrapy_robots_rfc.feeds import STORED_AT_ONCE
from tests.scrapy.crawling import Pages, crawl, records
from tests.scrapy.site import Reply, Site, robots
from tests.scrapy.storages import Broken, Uploading

pytestmark = pytest.mark.reactor

RULES = "User-agent: *\nDisallow: /private\n"


def read(path: Path) -> list[dict[str, Any]]:
    """The records of a file of JSON lines."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def private(site: Site, count: int) -> list[str]:
    """Pages that are forbidden."""
    return [site.url(f"/private/{number}") for number in range(count)]


class Looking(Pages):
    """Looks into the report when a page is refused."""

    path: ClassVar[Path]
    seen: ClassVar[list[bool]]

    def failed(self, failure: Any) -> None:
        """Find its record."""
        self.seen.append(failure.request.url in {record["url"] for record in read(self.path)})


@ensureDeferred
async def test_written_as_the_crawl_goes(site: Site, tmp_path: Path) -> None:
    """A record is in the file when the request is refused: its errback can read it there."""
    site.replies["/robots.txt"] = robots(RULES)
    Looking.path, Looking.seen = tmp_path / "r.jsonl", []
    await crawl(private(site, 3), {"ROBOTSTXT_REPORT": {Looking.path: {}}}, spider=Looking)
    assert Looking.seen == [True] * 3


BATCHES = {"up://x/%(batch_id)d.jsonl": {"batch_item_count": 2}}


@ensureDeferred
async def test_batches_are_stored_as_the_crawl_goes(site: Site) -> None:
    """A batch that is full is where it belongs before the crawl ends, with every version of Scrapy."""
    settings = Uploading.prepare()
    Uploading.gate.set()
    stored = threading.Event()
    original = Uploading._store_in_thread

    def last(asked: Any) -> Reply:
        assert stored.wait(50)
        return Reply(body=b"late")

    def keep(self: Any, file: Any) -> None:
        original(self, file)
        stored.set()

    site.replies.update({"/robots.txt": robots(RULES), "/last": last})
    Uploading._store_in_thread = keep  # type: ignore[method-assign]  # told when it is done
    try:
        result = await crawl([*private(site, 2), site.url("/last")], {**settings, "ROBOTSTXT_REPORT": BATCHES})
    finally:
        Uploading._store_in_thread = original  # type: ignore[method-assign]
    assert result.outcomes[site.url("/last")] == 200
    assert list(Uploading.stored) == ["up://x/1.jsonl"]


@ensureDeferred
async def test_batches_of_local_files(site: Site, tmp_path: Path) -> None:
    """A file that needs no upload is closed at once: each has as many records as are asked for."""
    site.replies["/robots.txt"] = robots(RULES)
    report = {str(tmp_path / "%(batch_id)02d.jsonl"): {"batch_item_count": 1}}
    await crawl(private(site, 30), {"ROBOTSTXT_REPORT": report})
    assert [len(read(path)) for path in sorted(tmp_path.iterdir())] == [1] * 30  # noqa: ASYNC240 - short


class Shy(Pages):
    """Has an attribute that is only there when the crawl is under way."""

    @property
    def under_way(self) -> str:
        """Fail before."""
        assert self.crawler.engine is not None
        return "yes"


@ensureDeferred
async def test_attributes_of_the_spider(site: Site, tmp_path: Path) -> None:
    """A spider is asked for its attributes only where the URI has placeholders."""
    site.replies["/robots.txt"] = robots(RULES)
    await crawl(private(site, 1), {"ROBOTSTXT_REPORT": {tmp_path / "r.jsonl": {}}}, spider=Shy)
    assert len(read(tmp_path / "r.jsonl")) == 1


@ensureDeferred
async def test_batches_are_bounded(site: Site) -> None:
    """While uploads hang, few files are open and the current batch grows; in the end no record is missing."""
    settings = Uploading.prepare()

    def last(asked: Any) -> Reply:
        Uploading.gate.set()
        return Reply(body=b"late")

    site.replies.update({"/robots.txt": robots(RULES), "/last": last})
    pages = [*private(site, 60), site.url("/last")]
    result = await crawl(pages, {**settings, "CONCURRENT_REQUESTS": 1, "ROBOTSTXT_REPORT": BATCHES})
    assert Uploading.most_open <= STORED_AT_ONCE + 1
    urls = [json.loads(line)["url"] for body in Uploading.stored.values() for line in body.splitlines()]
    assert sorted(urls) == sorted(private(site, 60))
    assert (result.stat("report/records"), result.stat("report/errors")) == (60, 0)
    assert all(file.closed for file in Uploading.opened)


# What fails.


BROKEN = {"FEED_STORAGES": {"broken": "tests.scrapy.storages.Broken"}}


@pytest.mark.parametrize(("where", "errors"), [("open", 6), ("store", 1)])
@ensureDeferred
async def test_failing_storage(
    site: Site,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    where: str,
    errors: int,
) -> None:
    """Every page is refused all the same, the other feed has all, and there is one error that says what to do."""
    monkeypatch.chdir(tmp_path)
    Broken.where = where
    site.replies["/robots.txt"] = robots(RULES)
    report = {"broken:x": {"format": "jsonlines"}, "r.jsonl": {}}
    result = await crawl(private(site, 5), {**BROKEN, "ROBOTSTXT_REPORT": report})
    assert all(isinstance(result.outcomes[page], RobotsDisallowed) for page in private(site, 5))
    assert len(read(Path("r.jsonl"))) == 5
    assert (result.stat("report/errors"), result.stat("report/records")) == (errors, 5 if where == "open" else 10)
    [error] = records(caplog, logging.ERROR)
    assert error.startswith("ROBOTSTXT_REPORT: broken:x cannot be written (OSError: ")
    assert error.endswith("Look for a full disk, missing rights, or a server that is down")
    assert "secret" not in caplog.text


@ensureDeferred
async def test_batch_that_cannot_be_begun(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch whose storage cannot be made just then is made with the next record; none is lost."""
    monkeypatch.chdir(tmp_path)
    Broken.where, Broken.made = "third", 0
    site.replies["/robots.txt"] = robots(RULES)
    report = {"broken:%(batch_id)d": {"format": "jsonlines", "batch_item_count": 2}}
    result = await crawl(private(site, 8), {**BROKEN, "ROBOTSTXT_REPORT": report})
    files = {path.name: len(read(path)) for path in sorted(tmp_path.iterdir())}  # noqa: ASYNC240 - short
    assert files == {f"broken:{number}": 2 for number in (1, 2, 3, 4)}
    assert (result.stat("report/records"), result.stat("report/errors")) == (7, 1)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")  # noqa: PTH110 - a device
@pytest.mark.parametrize("format_", ["jsonlines", "csv", "json", "xml"])
@ensureDeferred
async def test_full_disk(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture, format_: str) -> None:
    """A disk without room costs records, counted, and one error; no verdict, and not the crawl."""
    site.replies["/robots.txt"] = robots(RULES)
    pages = [*private(site, 3), site.url("/a")]
    result = await crawl(pages, {"ROBOTSTXT_REPORT": {"/dev/full": {"format": format_}}})
    assert result.outcomes[pages[3]] == 200
    assert result.stat("forbidden") == 3
    assert (result.stat("report/errors"), result.stat("report/records")) == (4, 0)
    assert records(caplog, logging.INFO)[-1] == "ROBOTSTXT_REPORT: 0 records in /dev/full; writes that failed: 4"
    [error] = records(caplog, logging.ERROR)
    assert "/dev/full cannot be written (OSError: [Errno 28] No space left on device)" in error


@ensureDeferred
async def test_no_last_words(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the crawl cannot be summed up, as with stats of somebody else's, its report is complete all the same."""

    def fails(_: Closing) -> str:
        raise RuntimeError("these stats have no items")

    monkeypatch.setattr(Closing, "text", fails)
    site.replies["/robots.txt"] = robots(RULES)
    packed = {"format": "jsonlines", "postprocessing": ["scrapy.extensions.postprocessing.GzipPlugin"]}
    await crawl(private(site, 3), {"ROBOTSTXT_REPORT": {tmp_path / "r.jsonl.gz": packed}})
    with gzip.open(tmp_path / "r.jsonl.gz") as file:
        assert len(file.readlines()) == 3
