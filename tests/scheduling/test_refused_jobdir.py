"""JOBDIRs that a crawl must not use: of another crawl, of another queue, damaged, or read-only."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy.pqueues import DownloaderAwarePriorityQueue
from scrapy.utils.defer import maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThread

from scrapy_robots_rfc import OriginPriorityQueue
from scrapy_robots_rfc.errors import JobDirError, SettingError
from tests.support.crawling import Pages, crawl
from tests.support.disk_queues import drained, queue
from tests.support.documents import ROOT, block, settings
from tests.support.processes import python
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FILE = "requests.queue/requests.sqlite"
SCRAPYS = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"}
HASHES = """
import hashlib, pathlib, sys
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*")):
    if path.is_file():
        print(path, hashlib.sha256(path.read_bytes()).hexdigest())
"""


def hashes(folder: Path) -> list[str]:
    """Return the hash of each file. Another process reads them, because a process that closes a
    file loses its locks on it.
    """
    return python("-c", HASHES, str(folder)).stdout.splitlines()


def process(folder: Path, before: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    """Run a crawl in a process of its own.

    :param before: a command that starts it.
    """
    job = ["runspider", str(ROOT / "tests/support/job.py"), "-s", f"JOBDIR={folder}"]
    bytecode = {"PYTHONDONTWRITEBYTECODE": "1"}
    return python("-m", "scrapy", *job, folder=Path("/"), before=before, **bytecode)


async def stopped(site: Site, folder: Path, **other: Any) -> None:
    """Leave a JOBDIR with five of six pages. robots.txt counts as a page, too."""
    pages = [site.url(f"/{number}") for number in range(6)]
    stop = {"JOBDIR": str(folder), "CLOSESPIDER_PAGECOUNT": 2, "CONCURRENT_REQUESTS": 1}
    await crawl(pages, {**stop, **other})


@ensureDeferred
async def test_second_crawl(site: Site, tmp_path: Path) -> None:
    """A second crawl on the same JOBDIR is refused, also one that does not obey robots.txt, and
    changes no file of the running crawl.
    """
    await stopped(site, tmp_path)
    (done,) = site.pages
    refused: list[JobDirError] = []
    files: list[list[str]] = []
    processes = []
    end = threading.Event()

    async def others() -> None:
        files.append(await deferToThread(hashes, tmp_path))
        for obey in (True, False):
            try:
                await crawl([], {"JOBDIR": str(tmp_path), "ROBOTSTXT_OBEY": obey})
            except JobDirError as error:
                refused.append(error)
        processes.append(await deferToThread(process, tmp_path))
        files.append(await deferToThread(hashes, tmp_path))
        end.set()

    class Running(Pages):
        async def start(self) -> Any:
            await maybe_deferred_to_future(Deferred.fromCoroutine(others()))
            for request in self.requests:
                yield request

    for number in range(6):
        if f"/{number}" != done:
            site.replies[f"/{number}"] = Reply(gate=end)
    await crawl([], {"JOBDIR": str(tmp_path)}, spider=Running)
    text = f"Another crawl is using JOBDIR {tmp_path}. Wait until it has ended, or use another"
    assert [str(error) for error in refused] == [f"{text} JOBDIR"] * 2
    assert text in processes[0].stderr
    assert processes[0].returncode == 1
    assert files[0] == files[1]
    names = {Path(line.split()[0]).name for line in files[0]}
    assert names >= {
        "spider.state", "requests.seen", "active.json", "robots.sqlite", "requests.sqlite"
    }  # fmt: skip
    assert len(site.pages) == 6  # the running crawl went on


def foreign(path: Path) -> None:
    """Make another file with SQLite."""
    with sqlite3.connect(path) as file:
        file.execute("CREATE TABLE mine (x)")
    file.close()


def damaged(path: Path) -> None:
    """Overwrite most of the file."""
    path.write_bytes(path.read_bytes()[:2000] + b"\xff" * 9000)


def garbage(path: Path) -> None:
    """Overwrite all of the file."""
    path.write_bytes(b"no database" * 1000)


def of_a_later_version(path: Path) -> None:
    """Change the format."""
    with sqlite3.connect(path) as file:
        file.execute("PRAGMA user_version = 2")
    file.close()


def folder_instead(path: Path) -> None:
    """Replace the file with a folder."""
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (foreign, "is not a file of scrapy_robots_rfc.OriginPriorityQueue. Move it elsewhere"),
        (damaged, "is damaged or is not a file of scrapy_robots_rfc.OriginPriorityQueue"),
        (garbage, "is damaged or is not a file of scrapy_robots_rfc.OriginPriorityQueue"),
        (of_a_later_version, "was written by a later version of scrapy-robots-rfc"),
        (folder_instead, "Cannot write to"),
    ],
)
@ensureDeferred
async def test_file_that_cannot_be_used(
    change: Callable[[Path], None], text: str, site: Site, tmp_path: Path
) -> None:
    """A file of something else, a damaged one, and one of a later version are left alone."""
    await stopped(site, tmp_path)
    path = tmp_path / FILE
    if change is foreign:
        path.unlink()
    change(path)
    before = hashes(tmp_path)
    for obey in (True, False):
        with pytest.raises(JobDirError, match=text) as caught:
            await crawl([], {"JOBDIR": str(tmp_path), "ROBOTSTXT_OBEY": obey})
        assert str(path) in str(caught.value)
        assert "use another JOBDIR" in str(caught.value)
    assert hashes(tmp_path) == before


def test_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A crawl that may not write to JOBDIR ends with a sentence and exit code 1."""
    powerless = []
    if os.getuid() == 0:  # root may write anywhere
        powerless = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search"]
        if shutil.which("setpriv") is None:
            pytest.skip("setpriv is missing")
    tmp_path.chmod(0o555)
    try:
        ended = process(tmp_path, powerless)
    finally:
        tmp_path.chmod(0o755)
    assert ended.returncode == 1
    assert f"Cannot write to {tmp_path / FILE}" in ended.stderr
    assert "Make it writable, or use another JOBDIR" in ended.stderr


class Broken:
    """A middleware that cannot be created."""

    def __init__(self) -> None:
        raise RuntimeError("broken")


@pytest.mark.parametrize("failing", ["middleware", "dupefilter", "pipeline", "setting"])
@ensureDeferred
async def test_crawl_that_failed_to_start(failing: str, site: Site, tmp_path: Path) -> None:
    """A JOBDIR can be used again in the same process after a crawl that failed to start."""
    await stopped(site, tmp_path)

    broken: dict[str, dict[str, Any]] = {
        "middleware": {"SPIDER_MIDDLEWARES": {Broken: 1}},
        "dupefilter": {"DUPEFILTER_CLASS": Broken},
        "setting": {"ROBOTS_MAX_SIZE": -1},
        "pipeline": {"ITEM_PIPELINES": {Broken: 1}},
    }
    with pytest.raises((RuntimeError, ValueError)) as caught:
        await crawl([], {"JOBDIR": str(tmp_path), **broken[failing]})
    assert not isinstance(caught.value, JobDirError)
    result = await crawl([], {"JOBDIR": str(tmp_path)})
    assert len(site.pages) == 6
    assert result.stats["finish_reason"] == "finished"


@ensureDeferred
async def test_new_jobdir_of_a_crawl_that_failed_to_start(site: Site, tmp_path: Path) -> None:
    """Scrapy's own queue accepts a new JOBDIR after a crawl of ours that failed to start."""
    with pytest.raises(SettingError):
        await crawl([], {"JOBDIR": str(tmp_path), "ROBOTS_MAX_SIZE": -1})
    result = await crawl([site.url("/a")], {"JOBDIR": str(tmp_path), **SCRAPYS})
    assert result.outcomes == {site.url("/a"): 200}


OTHER_QUEUE = "were stored by another queue. To finish that crawl, set SCHEDULER_PRIORITY_QUEUE to"


@ensureDeferred
async def test_jobdir_of_scrapys_queue(site: Site, tmp_path: Path) -> None:
    """A JOBDIR of Scrapy's own queue is refused, until the setting is the one in the docs."""
    await stopped(site, tmp_path, **SCRAPYS)
    before = hashes(tmp_path)
    with pytest.raises(JobDirError, match=OTHER_QUEUE):
        await crawl([], {"JOBDIR": str(tmp_path)})
    assert hashes(tmp_path) == before
    code = block("docs/switching_on.md", "python", "DownloaderAwarePriorityQueue")
    finish = settings(code)
    await crawl([], {"JOBDIR": str(tmp_path), **finish})
    assert len(site.pages) == 6
    await crawl([site.url("/new")], {"JOBDIR": str(tmp_path)})  # now it is empty
    assert "/new" in site.pages


@ensureDeferred
async def test_jobdir_of_our_queue(site: Site, tmp_path: Path) -> None:
    """A crawl with Scrapy's own queue refuses our JOBDIR, also without our middleware."""
    await stopped(site, tmp_path)
    before = hashes(tmp_path)
    with pytest.raises(JobDirError, match=r"were stored by .*\. Set SCHEDULER_PRIORITY_QUEUE"):
        await crawl([], {"JOBDIR": str(tmp_path), **SCRAPYS})
    alone: dict[str, Any] = {
        **SCRAPYS,
        "DOWNLOADER_MIDDLEWARES": {},
        "ROBOTSTXT_OBEY": False,
        # Scrapy doesn't close its own dupefilter if the queue cannot be opened.
        "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
    }
    assert hashes(tmp_path) == before
    with pytest.raises(ValueError, match="created by an incompatible priority queue"):
        await crawl([], {"JOBDIR": str(tmp_path), **alone})
    go_on = settings(block("docs/switching_on.md", "python", "to resume"))
    await crawl([], {"JOBDIR": str(tmp_path), **alone, **go_on})
    assert len(site.pages) == 6


@pytest.mark.parametrize("first", [DownloaderAwarePriorityQueue, OriginPriorityQueue])
def test_killed_crawl_of_another_queue(first: type[Any], tmp_path: Path) -> None:
    """The queues refuse each other's JOBDIR also if the first process was killed."""
    folder = tmp_path / "requests.queue"
    code = (
        "import os; from pathlib import Path; from scrapy import Request;"
        f"from tests.support.disk_queues import queue; from {first.__module__} import"
        f" {first.__name__} as kind; q = queue(Path({str(folder)!r}), kind=kind);"
        "q.push(Request('http://a.example/')); os.kill(os.getpid(), 9)"
    )
    assert python("-c", code).returncode == -9
    if first is OriginPriorityQueue:
        state = int((folder / "active.json").read_text())
        with pytest.raises(ValueError, match="created by an incompatible priority queue"):
            queue(folder, state, kind=DownloaderAwarePriorityQueue)
        assert len(queue(folder)) == 1
    else:
        with pytest.raises(JobDirError, match="whose process was killed"):
            queue(folder)


def test_two_crawls_that_start_together(tmp_path: Path) -> None:
    """Of crawls that open a new JOBDIR at the same time, one gets it."""
    code = (
        "import sys; from pathlib import Path; from tests.support.disk_queues import queue;"
        "print(flush=True); sys.stdin.readline()\n"
        f"try: q = queue(Path({str(tmp_path / 'requests.queue')!r}))\n"
        "except Exception as error: print(error, flush=True)\n"
        "else: print('opened', flush=True)\n"
        "sys.stdin.readline()"
    )
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    started: list[Any] = [subprocess.Popen([sys.executable, "-c", code], **pipes) for _ in range(2)]
    for turn in ("ready", "go"):
        for each in started:
            if turn == "go":
                each.stdin.write("\n")
                each.stdin.flush()
        lines = [each.stdout.readline().strip() for each in started]
    for each in started:
        each.communicate("\n")
    assert lines.count("opened") == 1
    assert any(line.startswith("Another crawl is using JOBDIR") for line in lines)


def test_crawl_that_waits_for_one_that_is_closing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl that waited while another one removed its empty file stores requests in a new one."""
    closing = queue(tmp_path)
    connect = sqlite3.connect

    def connect_and_wait(*args: Any, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(*args, **options)
        monkeypatch.undo()
        assert closing.close() == {}
        return connection

    monkeypatch.setattr(sqlite3, "connect", connect_and_wait)
    waiting = queue(tmp_path)
    waiting.push(Request("http://a.example/"))
    resumed = queue(tmp_path, waiting.close())
    assert drained(resumed) == ["http://a.example/"]
    assert resumed.close() == {}


def test_crawl_that_starts_while_another_one_closes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A crawl that removes its empty file doesn't remove the journal of one that starts then."""
    closing = queue(tmp_path)
    unlink, started = Path.unlink, []

    def unlink_and_start(path: Path, **options: Any) -> None:
        unlink(path, **options)
        if path.name == "requests.sqlite":
            started.append(queue(tmp_path))

    monkeypatch.setattr(Path, "unlink", unlink_and_start)
    assert closing.close() == {}
    assert len(started) == 1
    assert (tmp_path / "requests.sqlite-journal").exists()
    monkeypatch.undo()
    started[0].close()
