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
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme
from scrapy_robots_rfc.scheduling.disk import MAX_DESCRIPTORS
from scrapy_robots_rfc.scheduling.gate import GATES, Gate, gate_of
from scrapy_robots_rfc.scheduling.throttle import slot_of

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


class Engine:
    """Stands for Scrapy's."""

    downloader = Downloader()


class Turns:
    """Stands for the throttle: no site is paced.

    :param clock: seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.sites: dict[Origin, Any] = {}
        self.on_turn: Callable[[Origin], object] = lambda _: None
        self.clock = clock

    def wake_in(self, _: float) -> None:
        """Wake no engine: the test asks again by itself."""


class Pages(Spider):
    """Has a name."""

    name = "pages"


def crawler(
    known: Callable[[Origin], bool] = lambda _: True,
    *,
    obeys: bool = True,
    clock: Callable[[], float] = lambda: 0.0,
    turns: Any = None,
) -> Crawler:
    """A crawler whose origins are known or not. It obeys a scheme of its own, too."""
    made = Crawler(Pages)
    made.spider = Pages()
    made.stats = MemoryStatsCollector(made)
    made.engine = Engine()  # type: ignore[assignment]  # only the downloader is asked
    if obeys:
        schemes = {**SCHEMES, "own": Scheme(70)}
        turns = turns or Turns(clock)
        GATES[made] = Gate(made, lambda request: Origin.of(request.url, schemes), known, turns)
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
    """Of a queue that has several origins, one request of each unknown origin is handed out, and
    none is lost.
    """
    begun = queue(tmp_path, kind=DownloaderAwarePriorityQueue, obeys=False)
    requests = [
        Request(f"{scheme}://h.example/{number}")
        for number in range(4)
        for scheme in ("http", "https")
    ]
    for request in requests:
        begun.push(request.replace(meta={"download_slot": "one"}))
    found = queue(tmp_path, begun.close(), known=lambda _: False)
    out = [request for _ in range(10) if (request := found.pop()) is not None]
    assert sorted(request.url.partition(":")[0] for request in out) == ["http", "https"]
    assert len(found) == 6


def test_one_of_an_unknown_origin(tmp_path: Path) -> None:
    """Of an origin whose robots.txt is unknown, one request is handed out; all others go."""
    found = queue(tmp_path, known=lambda origin: "known" in str(origin))
    unknown = [Request(f"http://new.example/{number}") for number in range(3)]
    free = Request("http://new.example/free", meta={"dont_obey_robotstxt": True})
    known = [Request(f"http://known.example/{number}") for number in range(2)]
    for request in (*unknown, free, *known):
        found.push(request)
    out = drained(found)
    assert sorted(out) == sorted(
        [free.url, *urls(known), next(url for url in out if "new" in url and "free" not in url)]
    )
    assert len(found) == 2


class PacedTurns(Turns):
    """Stands for a throttle that paces every site: for how many requests it was asked each time."""

    asked_for: list[int]
    crawler: Crawler

    def due(self, origin: Origin) -> float:
        """Let a request go."""
        self.asked_for.append(gate_of(self.crawler).origins[origin].size)
        return 0.0

    def take(self, *_: object) -> bool:
        """Take a turn."""
        return True


def test_no_turn_is_asked_for_without_a_request(tmp_path: Path) -> None:
    """Of an origin with several slots, the turn is asked for only as long as it has requests."""
    turns = PacedTurns(lambda: 0.0)
    turns.asked_for = []
    turns.sites = {Origin("http", "h.example", 80): None}
    known: list[Origin] = []
    made = turns.crawler = crawler(known.__contains__, turns=turns)
    found = queue(tmp_path, crawler=made)
    for number, slot in enumerate("abbcc"):
        found.push(Request(f"http://h.example/{number}", meta={"download_slot": slot}))
    assert len(drained(found)) == 1
    assert found.pop() is None  # all others are lined up by now
    known += turns.sites
    gate = gate_of(made)
    gate.judged(gate.handed_out.popitem()[1])
    assert len(drained(found)) == 4
    assert 0 not in turns.asked_for


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
    now = 0.0
    made = crawler(clock=lambda: now)
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
    now = 1.5
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


def test_a_request_that_comes_back_twice_retains_its_place(tmp_path: Path) -> None:
    """The first request leaves before those that were lined up behind it, however often it comes
    back.
    """
    made = crawler(known=lambda _: False)
    gate = gate_of(made)
    found = queue(tmp_path, crawler=made)
    for request in pages(1, 4):
        found.push(request)
    left = []
    for _ in range(3):
        request = found.pop()
        left.append(request.url)
        assert found.pop() is None  # the others are lined up, and wait
        fetch = PendingFetch(Origin("http", "h0.example", 80))
        out = gate.handed_out.pop(request)
        found.push(gate.send_back(request, out, fetch))
        gate.judged(out)
        assert found.pop() is None
        fetch.over = True
        gate.fetch_over(fetch)
    assert len(set(left)) == 1
    assert len(found) == 4


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
