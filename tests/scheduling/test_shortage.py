"""Disk queues while the disk is full or file descriptors are missing."""

from __future__ import annotations

import errno
import gc
import resource
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.squeues import PickleLifoDiskQueue

from tests.support.disk_queues import crawler, drained, pages, queue, save, stored, urls
from tests.support.gates import Turns
from tests.support.killed_queue import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterator


def test_full_disk_loses_no_request_of_a_mixed_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk, the requests of a queue with several origins stay where they are."""
    requests = pages(2, 3)
    state = stored(tmp_path, requests, kind=DownloaderAwarePriorityQueue, obeys=False)
    turns = Turns()
    found = queue(tmp_path, state, turns=turns)

    def push(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(ScrapyPriorityQueue, "push", push)
        assert [found.pop() for _ in range(5)] == [None] * 5
        turns.now += 1.5
        assert found.pop() is None
    assert len(found) == 6
    [text] = [record.getMessage() for record in caplog.records if "JOBDIR" in record.getMessage()]
    assert "so requests wait ([Errno 28] No space left on device)" in text
    turns.now += 1.5
    assert sorted(drained(found)) == urls(requests)


# queuelib leaves a file open whose last write failed.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_full_disk_that_is_noticed_late(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """On a disk that is full when a buffered write ends, no request of a mixed queue is lost."""
    requests = [page.replace(body=b"x" * 3000) for page in pages(2, 3)]
    state = stored(tmp_path, requests, kind=DownloaderAwarePriorityQueue, obeys=False)
    turns = Turns()
    found = queue(tmp_path, state, turns=turns)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        popped = [found.pop() for _ in range(5)]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert popped == [None] * 5
    turns.now += 1.5
    assert sorted(drained(found)) == urls(requests)
    # This file is to be closed here, and not in another test. Log records refer to it.
    del found
    caplog.clear()
    gc.collect()


class FullAtOpen(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]  # Scrapy makes it
    """A disk queue that cannot be opened while the disk is full."""

    is_full = False

    def __init__(self, *args: Any, **options: Any) -> None:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        super().__init__(*args, **options)


def test_full_disk_damages_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests whose files cannot be opened on a full disk wait, and the log says so once."""
    turns = Turns()
    made = crawler(turns=turns)
    found = queue(tmp_path, crawler=made, disk_queue=FullAtOpen)
    requests = pages(3, 2)
    for request in requests:
        found.push(request)
    save(made)
    with monkeypatch.context() as patch:
        patch.setattr(FullAtOpen, "is_full", True)
        assert [found.pop() for _ in range(5)] == [None] * 5
    assert not list(tmp_path.glob("*/*damaged*"))
    [record] = [record for record in caplog.records if "JOBDIR" in record.getMessage()]
    assert (record.levelname, "so requests wait" in record.getMessage()) == ("ERROR", True)
    turns.now += 1.5
    assert sorted(drained(found)) == urls(requests)


class FailsToPop(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]  # Scrapy makes it
    """A disk queue that cannot remove requests for some time."""

    is_failing = False

    def pop(self) -> Request | None:
        if self.is_failing:
            raise OSError(errno.EMFILE, "Too many open files")
        popped: Request | None = super().pop()
        return popped


def test_copied_request_is_not_copied_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that was moved to its own queue, but could not be removed, is not repeated."""
    requests = pages(2, 3)
    state = stored(tmp_path, requests, kind=DownloaderAwarePriorityQueue, obeys=False)
    turns = Turns()
    found = queue(tmp_path, state, turns=turns, disk_queue=FailsToPop)
    with monkeypatch.context() as patch:
        patch.setattr(FailsToPop, "is_failing", True)
        for _ in range(4):
            assert [found.pop() for _ in range(5)] == [None] * 5
            turns.now += 1.5
    popped = []
    for _ in range(3):
        popped += drained(found)
        turns.now += 1.5
    assert sorted(popped) == urls(requests)


# queuelib leaves a file open that it cannot read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_empty_file(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """An empty file, which a full disk may leave, is not taken for a damaged one."""
    made = crawler()
    found = queue(tmp_path, crawler=made)
    requests = [page.replace(meta={"is_start_request": True}) for page in pages(2, 2)]
    for request in requests:
        found.push(request)
    save(made)
    for path in tmp_path.glob("*/0s"):
        path.with_name("0").touch()
    assert sorted(drained(found)) == urls(requests)
    assert not list(tmp_path.glob("*/*damaged*"))
    assert not caplog.records
    gc.collect()


class FullAtClose(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]  # Scrapy makes it
    """A disk queue that stores its requests, but fails to close if it has several origins."""

    is_full = False

    def close(self) -> None:
        has_requests = len(self) > 0
        super().close()
        if self.is_full and has_requests and "http" not in self.path:
            raise OSError(errno.ENOSPC, "No space left on device")


def test_full_disk_doubles_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that was stored is not stored again because the close of another queue fails."""
    requests = pages(2, 3)
    state = stored(tmp_path, requests, kind=DownloaderAwarePriorityQueue, obeys=False)
    turns = Turns()
    found = queue(tmp_path, state, turns=turns, disk_queue=FullAtClose)
    popped = []
    with monkeypatch.context() as patch:
        patch.setattr(FullAtClose, "is_full", True)
        for _ in range(5):
            popped += drained(found)
            turns.now += 1.5
    assert sorted(popped + drained(found)) == urls(requests)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open no file, as if connections had all descriptors."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_connections_have_all_descriptors(tmp_path: Path, kind: str) -> None:
    """Nothing is lost, or logged as lost, while no file can be opened."""
    turns = Turns()
    made = crawler(turns=turns)
    requests = pages(3, 2)
    found = queue(tmp_path, crawler=made, disk_queue=KINDS[kind][0])
    for request in requests:
        found.push(request)
    save(made)
    with no_descriptors():
        assert found.pop() is None
        with pytest.raises(ValueError, match="open"):  # Scrapy has it wait in memory
            found.push(Request("http://other.example/"))
    assert found.pop() is None  # the queue tries again a second later
    turns.now = 1.5
    assert sorted(drained(found)) == urls(requests)
    assert not list(tmp_path.glob("*/*damaged*"))
