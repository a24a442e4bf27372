"""The queue by origin on disk: descriptors, and folders of Scrapy's own queue."""

from __future__ import annotations

import errno
import gc
import json
import resource
import threading
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue
from scrapy.statscollectors import MemoryStatsCollector

from scrapy_robots_rfc import OriginPriorityQueue
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme
from scrapy_robots_rfc.scheduling.disk import MAX_DESCRIPTORS
from scrapy_robots_rfc.scheduling.gate import gate_of
from scrapy_robots_rfc.scheduling.throttle import slot_of
from tests.support.gates import Files, Turns, add_gate
from tests.support.killed_queue import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Everything(set[Request]):
    """Contains every request."""

    def __contains__(self, _: object) -> bool:
        return True


class Downloader:
    """Replaces Scrapy's: all requests that were handed out are under way."""

    slots: dict[str, Any] = {}  # noqa: RUF012 - empty
    active = Everything()

    def get_slot_key(self, request: Request) -> str:
        """Return the slot, for Scrapy's own queue."""
        return slot_of(request)


class Pages(Spider):
    """Has a name."""

    name = "pages"


def crawler(
    known: Callable[[Origin], bool] = lambda _: True, *, obeys: bool = True, turns: Any = None
) -> Crawler:
    """Return a crawler whose origins are known or not. It also obeys a scheme that the user
    added.
    """
    made = Crawler(Pages)
    made.spider = Pages()
    made.stats = MemoryStatsCollector(made)
    schemes = {**SCHEMES, "own": Scheme(70)} if obeys else {}
    add_gate(made, files=Files(known), turns=turns, downloader=Downloader(), schemes=schemes)
    return made


def queue(
    folder: Path, state: Any = None, *, kind: type[Any] = OriginPriorityQueue, **options: Any
) -> Any:
    """Return a queue on disk."""
    disk_queue = options.pop("disk_queue", PickleLifoDiskQueue)
    return kind(
        options.pop("crawler", None) or crawler(**options),
        disk_queue,
        str(folder),
        state,
        start_queue_cls=PickleFifoDiskQueue,
    )


def pages(hosts: int, each: int = 1) -> list[Request]:
    """Return requests for pages of some hosts."""
    return [
        Request(f"http://h{host}.example/{number}")
        for number in range(each)
        for host in range(hosts)
    ]


def drained(found: Any) -> list[str]:
    """Pop until the queue hands out nothing more, as an engine does that is woken."""
    return [request.url for _ in range(200) if (request := found.pop()) is not None]


def urls(requests: Iterable[Request]) -> list[str]:
    """Return the sorted URLs."""
    return sorted(request.url for request in requests)


def open_files(folder: Path) -> int:
    """Return how many files of a folder this process has open."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # a thread may close a file at any time
            count += str(folder) in str(link.readlink())
    return count


def test_descriptors_are_bounded(tmp_path: Path) -> None:
    """The queue opens at most MAX_DESCRIPTORS files for any number of hosts, and loses nothing."""
    requests = pages(200, 2)
    found = queue(tmp_path)
    most = 0
    for request in requests:
        found.push(request)
        most = max(most, open_files(tmp_path))
    assert len(found) == 400
    popped = []
    while (request := found.pop()) is not None:
        popped.append(request.url)
        most = max(most, open_files(tmp_path))
    assert sorted(popped) == urls(requests)
    assert 0 < most <= MAX_DESCRIPTORS
    assert (len(found), found.close()) == (0, {})


@pytest.mark.parametrize("peeks", [False, True])
def test_start_requests_of_hosts_that_had_none(tmp_path: Path, *, peeks: bool) -> None:
    """Start requests are handed out last, also from queues that had none when they were opened."""
    requests = pages(60)
    starts = [
        request.replace(url=f"{request.url}?start", meta={"is_start_request": True})
        for request in requests
    ]
    gate_crawler = crawler(lambda _: not peeks)
    found = queue(tmp_path, crawler=gate_crawler)
    for request in requests:
        found.push(request)
    assert not peeks or found.pop() is None
    for request in starts:
        found.push(request)
    state = json.loads(json.dumps(found.close()))
    popped = drained(queue(tmp_path, state))
    assert sorted(popped) == urls([*requests, *starts])
    assert all("?start" not in url for url in popped[:60])


def test_no_files_for_start_requests_of_hosts_without_one(tmp_path: Path) -> None:
    """A queue is opened without the files of start requests if it never had one."""
    opened = []

    class StartQueue(PickleFifoDiskQueue):  # type: ignore[misc,valid-type]  # Scrapy's has no types
        def __init__(self, crawler: Crawler, key: str) -> None:
            opened.append(key)
            super().__init__(crawler, key)

    found = OriginPriorityQueue(
        crawler(), PickleLifoDiskQueue, str(tmp_path), start_queue_cls=StartQueue
    )
    for request in pages(200, 2):
        found.push(request)
    assert len(drained(found)) == 200
    assert opened == []
    found.push(Request("http://h0.example/start", meta={"is_start_request": True}))
    assert len(set(opened)) == 1
    found.close()


def test_state_goes_on(tmp_path: Path) -> None:
    """A queue resumes from what `close` returns, with start requests, priorities and exempt
    requests.
    """
    requests = pages(50)
    requests[3] = requests[3].replace(priority=7, meta={"is_start_request": True})
    requests[4] = requests[4].replace(meta={"dont_obey_robotstxt": True})
    requests += [
        Request(f"{start}{number}")
        for start in ("own://h.example/", "data:,")
        for number in range(3)
    ]
    found = queue(tmp_path)
    for request in requests:
        found.push(request)
    state = json.loads(json.dumps(found.close()))
    assert open_files(tmp_path) == 0
    again = queue(tmp_path, state)
    assert len(again) == 56
    assert sorted(drained(again)) == urls(requests)


@pytest.mark.parametrize("first", [OriginPriorityQueue, DownloaderAwarePriorityQueue])
def test_scrapys_own_queue_and_this_one_go_on_with_each_other(
    tmp_path: Path, first: type[Any]
) -> None:
    """This queue resumes a folder of Scrapy's own queue without loss, and the reverse."""
    second = DownloaderAwarePriorityQueue if first is OriginPriorityQueue else OriginPriorityQueue
    requests = [*pages(5, 3), *(Request(f"data:,{number}") for number in range(3))]
    begun = queue(tmp_path, kind=first)
    for request in requests:
        begun.push(request)
    gone_on = queue(tmp_path, begun.close(), kind=second)
    assert len(gone_on) == 18
    assert sorted(drained(gone_on)) == urls(requests)


def test_requests_of_a_mixed_queue_wait_for_their_own_origins(tmp_path: Path) -> None:
    """The requests of a queue with several origins wait for the files of these origins."""
    begun = queue(tmp_path, kind=DownloaderAwarePriorityQueue, obeys=False)
    requests = [
        Request(f"{scheme}://h.example/{number}")
        for number in range(4)
        for scheme in ("http", "https")
    ]
    for request in requests:
        begun.push(request.replace(meta={"download_slot": "one"}))
    found = queue(tmp_path, begun.close(), known=lambda _: False)
    assert [found.pop() for _ in range(20)] == [None] * 20
    assert len(found) == 8
    found.close()


def test_full_disk_loses_no_request_of_a_mixed_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """On a full disk, the requests of a queue with several origins stay where they are."""
    begun = queue(tmp_path, kind=DownloaderAwarePriorityQueue, obeys=False)
    requests = pages(2, 3)
    for request in requests:
        begun.push(request)
    turns = Turns()
    found = queue(tmp_path, begun.close(), turns=turns)

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
    begun = queue(tmp_path, kind=DownloaderAwarePriorityQueue, obeys=False)
    requests = [page.replace(body=b"x" * 3000) for page in pages(2, 3)]
    for request in requests:
        begun.push(request)
    turns = Turns()
    found = queue(tmp_path, begun.close(), turns=turns)
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


LONG_HOST = f"{'a' * 63}.{'b' * 60}.example"


@pytest.mark.parametrize("first", [OriginPriorityQueue, DownloaderAwarePriorityQueue])
def test_long_host_names(tmp_path: Path, first: type[Any]) -> None:
    """Requests for hosts with long names are stored on disk and resumed."""
    begun = queue(tmp_path, kind=first)
    requests = [Request(f"https://{LONG_HOST}:81/{number}") for number in range(3)]
    for request in requests:
        begun.push(request)
    found = queue(tmp_path, begun.close())
    assert len(found) == 3
    assert sorted(drained(found)) == urls(requests)


@pytest.mark.parametrize("slot", ["caf\udce9", "a b", "x http://h.example", "é" * 300])
def test_odd_slot_names(tmp_path: Path, slot: str) -> None:
    """Requests are stored on disk and resumed, whatever the name of their slot is."""
    begun = queue(tmp_path)
    requests = [page.replace(meta={"download_slot": slot}) for page in pages(2, 2)]
    for request in requests:
        begun.push(request)
    state = json.loads(json.dumps(begun.close()))
    again = queue(tmp_path, state, known=lambda _: False)
    assert [again.pop() for _ in range(20)] == [None] * 20
    found = queue(tmp_path, again.close())
    assert sorted(drained(found)) == urls(requests)


def test_slots_that_look_like_keys(tmp_path: Path) -> None:
    """Slot names of Scrapy's own queue that look like our keys name no origin."""
    begun = queue(tmp_path, kind=DownloaderAwarePriorityQueue)
    slots = (
        "a http://b.example/1/",
        "a http://b.example/2/",
        "a http://[b]c",
        "a http://b.example",
    )
    requests = [
        page.replace(meta={"download_slot": slot})
        for slot, page in zip(slots * 2, pages(4, 2), strict=True)
    ]
    for request in requests:
        begun.push(request)
    asked = []
    turns = Turns()

    def known(origin: Origin) -> bool:
        asked.append(origin.host)
        return True

    found = queue(tmp_path, begun.close(), known=known, turns=turns)
    assert len(found) == 8
    assert sorted(drained(found)) == urls(requests)
    assert set(asked) == {f"h{number}.example" for number in range(4)}


def test_hosts_that_differ_by_a_dot(tmp_path: Path) -> None:
    """Origins whose URLs are read as the same origin are both resumed."""
    begun = queue(tmp_path)
    requests = [
        Request(f"http://h.example{dots}/{number}", meta={"download_slot": "one"})
        for dots in ("", ".", "..")
        for number in range(3)
    ]
    for request in requests:
        begun.push(request)
    assert sorted(drained(queue(tmp_path, begun.close()))) == urls(requests)


def test_crawl_that_did_not_obey(tmp_path: Path) -> None:
    """Requests stored without ROBOTSTXT_OBEY wait for their files if the resumed crawl obeys."""
    begun = queue(tmp_path, obeys=False)
    requests = pages(3, 2)
    for request in requests:
        begun.push(request)
    found = queue(tmp_path, begun.close(), known=lambda _: False)
    assert [found.pop() for _ in range(20)] == [None] * 20
    assert len(found) == 6
    assert sorted(drained(queue(tmp_path, found.close()))) == urls(requests)


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


class NoPeek(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]  # Scrapy makes it
    """A third-party disk queue that doesn't support `peek`."""

    def peek(self) -> Request | None:
        raise NotImplementedError


def test_queue_class_without_peek(tmp_path: Path) -> None:
    """A queue whose class has no `peek` is resumed by its key, in the same order."""
    begun = queue(tmp_path, disk_queue=NoPeek)
    requests = pages(1, 5)
    for request in requests:
        begun.push(request)
    waits = queue(tmp_path, begun.close(), known=lambda _: False, disk_queue=NoPeek)
    assert [waits.pop() for _ in range(10)] == [None] * 10
    found = queue(tmp_path, waits.close(), disk_queue=NoPeek)
    assert drained(found) == [request.url for request in reversed(requests)]


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
    begun = queue(tmp_path, kind=DownloaderAwarePriorityQueue, obeys=False)
    requests = pages(2, 3)
    for request in requests:
        begun.push(request)
    turns = Turns()
    found = queue(tmp_path, begun.close(), turns=turns, disk_queue=FailsToPop)
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


class Elsewhere(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]  # Scrapy makes it
    """A third-party disk queue that has its files elsewhere, one of which cannot be opened."""

    damaged = ""

    def __init__(self, _: Any, path: str) -> None:
        if self.damaged and path.endswith(self.damaged):
            raise ValueError("cannot be read")
        super().__init__(_, f"{path}.file")


def test_damaged_file_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a third-party queue fails to open a priority, the other priorities are resumed."""
    begun = queue(tmp_path, disk_queue=Elsewhere)
    requests = pages(1, 4)
    for number, request in enumerate(requests):
        begun.push(request.replace(priority=number % 2))
    state = begun.close()
    monkeypatch.setattr(Elsewhere, "damaged", "/0")
    assert sorted(drained(queue(tmp_path, state, disk_queue=Elsewhere))) == urls(requests[1::2])


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
    begun = queue(tmp_path, kind=DownloaderAwarePriorityQueue, obeys=False)
    requests = pages(2, 3)
    for request in requests:
        begun.push(request)
    turns = Turns()
    found = queue(tmp_path, begun.close(), turns=turns, disk_queue=FullAtClose)
    popped = []
    with monkeypatch.context() as patch:
        patch.setattr(FullAtClose, "is_full", True)
        for _ in range(5):
            popped += drained(found)
            turns.now += 1.5
    assert sorted(popped + drained(found)) == urls(requests)


def save(made: Crawler) -> None:
    """Save the queue on disk of a crawl, and wait until its state is written."""
    before = threading.enumerate()
    save = gate_of(made).save
    assert save is not None
    save()
    for thread in threading.enumerate():
        if thread not in before:
            thread.join()


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


def test_one_queue_makes_room_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If descriptors lack, the queue that was used longest ago is closed."""
    allowed = 9

    def push(self: Any, request: Request) -> None:
        if open_files(tmp_path) > allowed:
            raise OSError(errno.EMFILE, "Too many open files")
        pushed(self, request)

    pushed = ScrapyPriorityQueue.push
    monkeypatch.setattr(ScrapyPriorityQueue, "push", push)
    found = queue(tmp_path)
    requests = pages(20, 2)
    for request in requests:
        found.push(request)
    assert open_files(tmp_path) <= allowed + 2
    assert sorted(drained(found)) == urls(requests)
