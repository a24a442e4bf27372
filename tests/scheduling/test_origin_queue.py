"""The queue by origin, on disk.

Descriptors, what Scrapy's own queue has begun, and what a killed process leaves.
"""

from __future__ import annotations

import errno
import gc
import json
import threading
from contextlib import contextmanager
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class Everything(set[Request]):
    """Has every request."""

    def __contains__(self, _: object) -> bool:
        return True


class Downloader:
    """Stands for Scrapy's: what was handed out is under way."""

    slots: dict[str, Any] = {}  # noqa: RUF012 - empty
    active = Everything()

    def get_slot_key(self, request: Request) -> str:
        """Return the slot, as Scrapy's own queue asks for it."""
        return slot_of(request)


class Pages(Spider):
    """Has a name."""

    name = "pages"


def crawler(
    known: Callable[[Origin], bool] = lambda _: True, *, obeys: bool = True, turns: Any = None
) -> Crawler:
    """A crawler whose origins are known or not. It obeys a scheme of its own, too."""
    made = Crawler(Pages)
    made.spider = Pages()
    made.stats = MemoryStatsCollector(made)
    schemes = {**SCHEMES, "own": Scheme(70)} if obeys else {}
    add_gate(made, files=Files(known), turns=turns, downloader=Downloader(), schemes=schemes)
    return made


def queue(
    folder: Path, state: Any = None, *, kind: type[Any] = OriginPriorityQueue, **options: Any
) -> Any:
    """A queue on disk."""
    return kind(
        options.pop("crawler", None) or crawler(**options),
        PickleLifoDiskQueue,
        str(folder),
        state,
        start_queue_cls=PickleFifoDiskQueue,
    )


def pages(hosts: int, each: int = 1) -> list[Request]:
    """Requests for pages of some hosts."""
    return [
        Request(f"http://h{host}.example/{number}")
        for number in range(each)
        for host in range(hosts)
    ]


def drained(found: Any) -> list[str]:
    """Pop until there is nothing."""
    urls = []
    while (request := found.pop()) is not None:
        urls.append(request.url)
    return urls


def urls(requests: Iterable[Request]) -> list[str]:
    """Their URLs, sorted."""
    return sorted(request.url for request in requests)


def open_files(folder: Path) -> int:
    """How many files of a folder this process has open."""
    links = [link for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return sum(str(folder) in str(link.readlink()) for link in links)


def test_descriptors_are_bounded(tmp_path: Path) -> None:
    """However many hosts have requests on disk, the queue has no more files open than it may,
    and loses nothing.
    """
    requests = pages(300, 2)
    found = queue(tmp_path)
    most = 0
    for request in requests:
        found.push(request)
        most = max(most, open_files(tmp_path))
    assert len(found) == 600
    popped = []
    while (request := found.pop()) is not None:
        popped.append(request.url)
        most = max(most, open_files(tmp_path))
    assert sorted(popped) == urls(requests)
    assert 0 < most <= MAX_DESCRIPTORS
    assert (len(found), found.close()) == (0, {})


def test_state_goes_on(tmp_path: Path) -> None:
    """What `close` returns is enough to go on with all requests: with start requests, priorities,
    and requests that no robots.txt decides about.
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
    """A folder that one of the two has begun is gone on with by the other, and nothing is lost."""
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


def test_unknown_origin(tmp_path: Path) -> None:
    """Requests of an origin whose robots.txt is unknown stay in the queue; all others leave."""
    found = queue(tmp_path, known=lambda origin: "known" in str(origin))
    unknown = [Request(f"http://new.example/{number}") for number in range(3)]
    free = Request("http://new.example/free", meta={"dont_obey_robotstxt": True})
    known = [Request(f"http://known.example/{number}") for number in range(2)]
    for request in (*unknown, free, *known):
        found.push(request)
    assert sorted(drained(found)) == sorted([free.url, *urls(known)])
    assert len(found) == 3


def test_no_turn_is_asked_for_without_a_request(tmp_path: Path) -> None:
    """The turn of an origin with several slots is asked for only as long as it has requests."""
    sizes: list[int] = []

    def due(origin: Origin) -> float:
        sizes.append(gate_of(made).origins[origin].size)
        return 0.0

    made = crawler(turns=Turns(due))
    found = queue(tmp_path, crawler=made)
    for number, slot in enumerate("abbcc"):
        found.push(Request(f"http://h.example/{number}", meta={"download_slot": slot}))
    assert len(drained(found)) == 5
    assert sizes
    assert 0 not in sizes


def save(made: Crawler) -> None:
    """Save the queue on disk of a crawl, until its state is written, too."""
    before = threading.enumerate()
    save = gate_of(made).save
    assert save is not None
    save()
    for thread in threading.enumerate():
        if thread not in before:
            thread.join()


def left_by_a_killed_process(
    folder: Path, requests: Iterable[Request], *, pops: int = 0
) -> set[str]:
    """Push, save, pop so many, and never close; return what was popped."""
    made = crawler()
    found = queue(folder, crawler=made)
    for request in requests:
        found.push(request)
    save(made)
    return {found.pop().url for _ in range(pops)}


def queue_as_saved(folder: Path) -> Any:
    """Go on with a folder by the state that was saved in it."""
    return queue(folder, json.loads((folder / "active.json").read_text()))


def test_what_a_killed_process_leaves(tmp_path: Path) -> None:
    """After `save`, nothing that was pushed before is lost, though the queue is never closed."""
    requests = pages(40, 2)
    left_by_a_killed_process(tmp_path, requests)
    assert sorted(drained(queue_as_saved(tmp_path))) == urls(requests)


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let no file be opened, as where connections have all descriptors."""
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_connections_have_all_descriptors(tmp_path: Path) -> None:
    """Nothing is lost, and nothing is logged as lost, where no file can be opened for a while."""
    turns = Turns()
    made = crawler(turns=turns)
    requests = pages(3, 2)
    found = queue(tmp_path, crawler=made)
    for request in requests:
        found.push(request)
    save(made)
    with no_descriptors():
        assert found.pop() is None
        with pytest.raises(ValueError, match="open files"):  # Scrapy has it wait in memory
            found.push(Request("http://other.example/"))
    assert found.pop() is None  # they are looked at again a second later
    turns.now = 1.5
    assert sorted(drained(found)) == urls(requests)


def test_one_queue_makes_room_for_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that cannot have a descriptor gets those of the one that was used longest ago."""
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


def test_what_was_popped_after_it_was_saved(tmp_path: Path) -> None:
    """A queue whose process was killed after it had popped ends, and has all that was not
    popped.
    """
    requests = pages(3, 10)
    popped = left_by_a_killed_process(tmp_path, requests, pops=7)
    left = drained(queue_as_saved(tmp_path))
    assert {request.url for request in requests} - popped <= set(left)


def test_a_request_that_cannot_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A request whose callback is not there any more is lost alone, with a line that says so."""

    def renamed(_spider: Spider, _response: Any) -> None:
        """Stand for a callback."""

    monkeypatch.setattr(Pages, "renamed", renamed, raising=False)
    made = crawler()
    found = queue(tmp_path, crawler=made)
    requests = pages(1, 5)
    lost = requests.pop(2)
    callback = made.spider.renamed  # type: ignore[union-attr]  # set above
    for request in (*requests, lost.replace(callback=callback)):
        found.push(request)
    state = found.close()
    monkeypatch.undo()
    assert sorted(drained(queue(tmp_path, state))) == urls(requests)
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def broken(folder: Path, name: str) -> None:
    """Leave a file of a priority in pieces, in the folder of each part of a queue."""
    for part in folder.iterdir():
        if part.is_dir():
            (part / name).write_bytes(b"\0")


# queuelib closes no file that it cannot read.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", ["0", "-5"])
def test_a_file_in_pieces(tmp_path: Path, name: str) -> None:
    """What a killed process has left in pieces, of a priority that was saved or not, is given up.

    New requests take its place.
    """
    left_by_a_killed_process(tmp_path, pages(2))
    broken(tmp_path, name)
    found = queue_as_saved(tmp_path)
    old = drained(found)
    assert old == ([] if name == "0" else ["http://h0.example/0", "http://h1.example/0"])
    new = [Request(f"http://h0.example/new{priority}", priority=priority) for priority in (0, 5)]
    for request in new:
        found.push(request)
    assert sorted(drained(found)) == urls(new)
    gc.collect()  # its files are closed now, and not in another test
