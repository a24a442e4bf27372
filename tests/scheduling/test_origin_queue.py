"""The queue by origin on disk: descriptors, keys, and folders of Scrapy's own queue."""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue
from scrapy.squeues import PickleFifoDiskQueue, PickleLifoDiskQueue

from scrapy_robots_rfc import OriginPriorityQueue
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.disk import MAX_DESCRIPTORS
from tests.support.disk_queues import crawler, drained, pages, queue, stored, urls

LONG_HOST = f"{'a' * 63}.{'b' * 60}.example"


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
    state = stored(tmp_path, requests, kind=first)
    gone_on = queue(tmp_path, state, kind=second)
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


@pytest.mark.parametrize("first", [OriginPriorityQueue, DownloaderAwarePriorityQueue])
def test_long_host_names(tmp_path: Path, first: type[Any]) -> None:
    """Requests for hosts with long names are stored on disk and resumed."""
    requests = [Request(f"https://{LONG_HOST}:81/{number}") for number in range(3)]
    state = stored(tmp_path, requests, kind=first)
    found = queue(tmp_path, state)
    assert len(found) == 3
    assert sorted(drained(found)) == urls(requests)


@pytest.mark.parametrize("slot", ["caf\udce9", "a b", "x http://h.example", "é" * 300])
def test_odd_slot_names(tmp_path: Path, slot: str) -> None:
    """Requests are stored on disk and resumed, whatever the name of their slot is."""
    requests = [page.replace(meta={"download_slot": slot}) for page in pages(2, 2)]
    state = json.loads(json.dumps(stored(tmp_path, requests)))
    again = queue(tmp_path, state, known=lambda _: False)
    assert [again.pop() for _ in range(20)] == [None] * 20
    found = queue(tmp_path, again.close())
    assert sorted(drained(found)) == urls(requests)


def test_slots_that_look_like_keys(tmp_path: Path) -> None:
    """Slot names of Scrapy's own queue that look like our keys name no origin."""
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
    state = stored(tmp_path, requests, kind=DownloaderAwarePriorityQueue)
    asked = []

    def known(origin: Origin) -> bool:
        asked.append(origin.host)
        return True

    found = queue(tmp_path, state, known=known)
    assert len(found) == 8
    assert sorted(drained(found)) == urls(requests)
    assert set(asked) == {f"h{number}.example" for number in range(4)}


def test_hosts_that_differ_by_a_dot(tmp_path: Path) -> None:
    """Origins whose URLs are read as the same origin are both resumed."""
    requests = [
        Request(f"http://h.example{dots}/{number}", meta={"download_slot": "one"})
        for dots in ("", ".", "..")
        for number in range(3)
    ]
    state = stored(tmp_path, requests)
    assert sorted(drained(queue(tmp_path, state))) == urls(requests)


def test_crawl_that_did_not_obey(tmp_path: Path) -> None:
    """Requests stored without ROBOTSTXT_OBEY wait for their files if the resumed crawl obeys."""
    requests = pages(3, 2)
    state = stored(tmp_path, requests, obeys=False)
    found = queue(tmp_path, state, known=lambda _: False)
    assert [found.pop() for _ in range(20)] == [None] * 20
    assert len(found) == 6
    assert sorted(drained(queue(tmp_path, found.close()))) == urls(requests)


class NoPeek(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]  # Scrapy makes it
    """A third-party disk queue that doesn't support `peek`."""

    def peek(self) -> Request | None:
        raise NotImplementedError


def test_queue_class_without_peek(tmp_path: Path) -> None:
    """A queue whose class has no `peek` is resumed by its key, in the same order."""
    requests = pages(1, 5)
    state = stored(tmp_path, requests, disk_queue=NoPeek)
    waits = queue(tmp_path, state, known=lambda _: False, disk_queue=NoPeek)
    assert [waits.pop() for _ in range(10)] == [None] * 10
    found = queue(tmp_path, waits.close(), disk_queue=NoPeek)
    assert drained(found) == [request.url for request in reversed(requests)]


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
