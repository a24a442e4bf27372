"""Queues on disk whose process was killed, or whose files are damaged."""

from __future__ import annotations

import gc
import json
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st
from queuelib.queue import FifoDiskQueue, LifoDiskQueue
from scrapy import Request, Spider
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc.scheduling.disk import QueueFolder
from scrapy_robots_rfc.scheduling.queue import QueueOnDisk
from scrapy_robots_rfc.scheduling.repair import repair
from tests.support.killed_queue import KINDS, call_and_join, open_folder

if TYPE_CHECKING:
    from collections.abc import Iterable


def steps_until_killed(folder: Path, seed: str) -> list[str]:
    """Run the process that pushes and pops, kill it at a random moment, and return its lines."""
    command = [sys.executable, "-m", "tests.support.killed_queue", str(folder), seed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.Random(seed).randrange(300, 1200))]
        process.kill()
        return [line.strip() for line in (*lines, *process.stdout) if line.endswith("\n")]


def drained(queue: Any) -> list[str]:
    """Pop until the queue is empty."""
    urls = []
    while (request := queue.pop()) is not None:
        urls.append(request.url)
    return urls


def all_in(folder: Path, kind: str) -> set[str]:
    """Return the URLs in all queues of a folder."""
    opened = open_folder(folder, kind)
    return {url for key in opened.keys for url in drained(QueueOnDisk(opened, key))}


def test_three_kills(tmp_path: Path) -> None:
    """A killed process loses only what it had popped, and what it had pushed since it was saved."""
    safe: set[str] = set()
    unknown = 0
    for seed in ("a", "b", "c"):
        unsaved: set[str] = set()
        step = ""
        for line in steps_until_killed(tmp_path, seed):
            step, _, url = line.partition(" ")
            if step == "push":
                unsaved.add(url)
            elif step == "popped":
                safe.discard(url)
                unsaved.discard(url)
            elif step == "saved":
                safe |= unsaved
                unsaved.clear()
        unknown += step == "pop"  # it may have popped a request without saying which
    left = {url for kind in KINDS for url in all_in(tmp_path / kind, kind)}
    assert len(safe) > 40
    assert len(safe - left) <= unknown


# Nobody closes the files of a killed process.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("key", ["a.example http://a.example", "a.example *", "another key"])
def test_killed_before_it_was_saved(key: str, tmp_path: Path) -> None:
    """Requests of a site that no saved state names come back, however often that happens."""
    for number in range(3):
        queue = QueueOnDisk(open_folder(tmp_path, "fifo"), key)
        queue.push(Request(f"http://a.example/{number}"))
        del queue
        gc.collect()
    opened = open_folder(tmp_path, "fifo")
    if key != "another key":
        assert opened.keys == [key]
    urls = sorted(url for each in opened.keys for url in drained(QueueOnDisk(opened, each)))
    assert urls == [f"http://a.example/{number}" for number in range(3)]


def test_saved_state(tmp_path: Path) -> None:
    """The state written for a killed process has every queue with its priorities."""
    folder = open_folder(tmp_path, "lifo")
    keys = sorted(f"site{number}" for number in range(150))
    for key in keys:
        QueueOnDisk(folder, key).push(Request("data:,", priority=2))
    call_and_join(folder.save)
    assert json.loads((tmp_path / "active.json").read_text()) == {key: [-2] for key in keys}
    assert open_folder(tmp_path, "lifo").keys == keys


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_last_request_of_a_priority(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request that cannot be read costs no request of another priority."""

    class Pages(Spider):
        name = "pages"

        def renamed(self, _: object) -> None:
            """Stand for a callback."""

    crawler = get_crawler(Pages)
    crawler.spider = Pages()
    folder = QueueFolder(crawler, str(tmp_path), KINDS[kind], {})
    queue = QueueOnDisk(folder, "site")
    queue.push(Request("data:,lost", crawler.spider.renamed, priority=1))
    for number in range(10):
        queue.push(Request(f"data:,{number}"))
    monkeypatch.delattr(Pages, "renamed")
    assert sorted(drained(queue)) == [f"data:,{number}" for number in range(10)]
    assert levels(caplog) == ["ERROR"]


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return the levels of what the queue has logged."""
    return [record.levelname for record in caplog.records if "disk" in record.name]


def filled(folder: Path, kind: str) -> None:
    """Leave a queue with ten requests of each of two priorities, and ten start requests."""
    opened = open_folder(folder, kind)
    queue = QueueOnDisk(opened, "site")
    for number in range(10):
        queue.push(Request(f"data:,{number}"))
        queue.push(Request(f"data:,urgent{number}", priority=1))
        queue.push(Request(f"data:,start{number}", meta={"is_start_request": True}))
    (folder / "active.json").write_text(json.dumps(opened.close()))


# queuelib closes no file that it cannot read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("when", ["before", "while"])
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_damaged_priority(
    kind: str, when: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A priority that cannot be read is renamed, with one warning; all others come."""
    filled(tmp_path, kind)
    opened = open_folder(tmp_path, kind) if when == "while" else None
    [folder] = [path for path in tmp_path.iterdir() if path.is_dir()]
    shutil.rmtree(folder / "-1", ignore_errors=True)
    (folder / "-1").unlink(missing_ok=True)
    (folder / "-1").write_bytes(b"no queue" * 1_000_000)
    opened = opened or open_folder(tmp_path, kind)
    queue = QueueOnDisk(opened, "site")
    expected = [f"data:,{kind}{number}" for kind in ("", "start") for number in range(10)]
    assert sorted(drained(queue)) == sorted(expected)
    # With Scrapy 2.15, a line at INFO says that other files were repaired.
    assert [level for level in levels(caplog) if level != "INFO"] == ["WARNING"]
    # Scrapy 2.15 leaves empty queues behind.
    assert {path.name for path in folder.iterdir()} - {"-1", "-1s"} == {"-1.damaged"}


#: The sizes of requests.
SIZES = st.lists(st.integers(0, 40), max_size=8)


def items(sizes: Iterable[int]) -> list[bytes]:
    """Return requests, all different."""
    return [b"request %d " % number + b"x" * size for number, size in enumerate(sizes)]


def complete_before(end: int, start: int, requests: list[bytes]) -> list[bytes]:
    """Return the requests that are complete in a file that was cut."""
    complete = []
    for request in requests:
        start += 4 + len(request)
        if start <= end:
            complete.append(request)
    return complete


def rest(path: Path, kind: type[Any]) -> list[bytes]:
    """Return what is in a queue of queuelib's."""
    queue = kind(str(path))
    requests = [queue.pop() for _ in range(len(queue))]
    queue.close()
    return requests


@given(SIZES, SIZES, st.integers(0, 50))
def test_lifo_file_that_was_cut(saved: list[int], pushed: list[int], cut: int) -> None:
    """Of a LIFO file with a stale size and an incomplete end, all complete requests remain."""
    requests = items([*saved, *pushed])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0"
        queue = LifoDiskQueue(str(path))
        for request in requests:
            queue.push(request)
        queue.f.close()
        content = path.read_bytes()
        content = content[: max(4, len(content) - cut)]
        path.write_bytes(len(saved).to_bytes(4, "big") + content[4:])
        complete = complete_before(len(content), 4, requests)
        if complete or len(content) == 4:
            repair(path, LifoDiskQueue)
            assert rest(path, LifoDiskQueue) == complete[::-1]
            return
        with pytest.raises(ValueError, match="no request"):
            repair(path, LifoDiskQueue)


@given(SIZES.filter(bool), SIZES, st.integers(0, 8), st.integers(0, 50), st.sampled_from([2, 99]))
def test_fifo_files_that_were_cut(
    saved: list[int], pushed: list[int], pops: int, cut: int, chunksize: int
) -> None:
    """Of FIFO files with a stale index, all complete requests remain; those that were popped after
    the index was written come again, unless their file was removed.
    """
    requests = items([*saved, *pushed])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0"
        queue = FifoDiskQueue(str(path), chunksize=chunksize)
        for request in requests[: len(saved)]:
            queue.push(request)
        queue.close()
        queue = FifoDiskQueue(str(path), chunksize=chunksize)
        for request in requests[len(saved) :]:
            queue.push(request)
        popped = [queue.pop() for _ in range(min(pops, len(queue)))]
        queue.headf.close()
        queue.tailf.close()
        last = Path(queue.headf.name)
        content = last.read_bytes()
        last.write_bytes(content[: max(0, len(content) - cut)])
        repair(path, FifoDiskQueue)
        in_last = requests[len(requests) // chunksize * chunksize :]
        complete = complete_before(len(content) - cut, 0, in_last)
        expected = requests[: len(requests) - len(in_last)] + complete
        assert rest(path, FifoDiskQueue) == expected[len(popped) // chunksize * chunksize :]
