"""Requests on disk: files, values, and crawls that resume an earlier one with other settings."""

from __future__ import annotations

import logging
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given, strategies as st
from pytest_twisted import ensureDeferred
from scrapy import Request, squeues

from scrapy_robots_rfc import OriginPriorityQueue
from tests.support.crawling import Pages, close_when, crawl, records
from tests.support.disk_queues import crawler, drained, pages, queue, stored, urls
from tests.support.site import HANG

if TYPE_CHECKING:
    from tests.support.site import Site

LARGEST = 2**63 - 1


def open_files(folder: Path) -> int:
    """Return how many files of a folder this process has open."""
    count = 0
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # a thread may close a file at any time
            count += str(folder) in str(link.readlink())
    return count


def test_three_descriptors(tmp_path: Path) -> None:
    """The queue opens at most three files for any number of hosts, and an empty one leaves none."""
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
    assert 0 < most <= 3
    assert (len(found), found.close(), open_files(tmp_path)) == (0, {}, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["active.json"]


def test_hosts_that_differ_by_a_dot(tmp_path: Path) -> None:
    """Origins whose URLs are read as the same origin are both resumed."""
    requests = [
        Request(f"http://h.example{dots}/{number}", meta={"download_slot": "one"})
        for dots in ("", ".", "..")
        for number in range(3)
    ]
    state = stored(tmp_path, requests)
    assert sorted(drained(queue(tmp_path, state))) == urls(requests)


def test_priorities_of_64_bits(tmp_path: Path) -> None:
    """Priorities of 64 bits are kept. Larger ones are stored, too, next to the largest."""
    ordered = (LARGEST + 2, LARGEST - 1, 5, 0, -LARGEST, -LARGEST - 1)
    for number, priorities in enumerate((ordered, (10**100, 0, -(10**100)))):
        found = queue(tmp_path / str(number))
        for priority in sorted(priorities, key=abs):
            found.push(Request(f"http://a.example/{priority}", priority=priority))
        found = queue(tmp_path / str(number), found.close())
        assert drained(found) == [f"http://a.example/{priority}" for priority in priorities]


class Unpicklable:
    """Raises an exception when it is pickled."""

    def __reduce__(self) -> Any:
        raise MemoryError("as if there were no memory")


@ensureDeferred
async def test_values_that_cannot_be_stored(
    site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Requests that cannot be stored stay in memory, and are sent. If the spider closes first, they
    count as undecided, like those that are stored, and the log says how many were lost.
    """
    values: list[Any] = [lambda: None, Unpicklable(), site, 1]
    requests = [
        Request(site.url(f"/{number}"), cb_kwargs={"value": value})
        for number, value in enumerate(values)
    ]
    result = await crawl(requests, {"JOBDIR": str(tmp_path / "1")})
    assert list(result.outcomes.values()) == [200] * 4
    assert result.stats["scheduler/unserializable"] == 3
    assert result.stats["scheduler/dequeued/disk"] == 1
    assert not records(caplog, logging.ERROR)
    site.replies["/robots.txt"] = HANG
    stop = close_when(lambda crawler: crawler.stats.get_value("scheduler/enqueued") == 4)
    closed = await crawl(requests, {"JOBDIR": str(tmp_path / "2")}, prepare=stop)
    assert closed.stat("undecided") == 4
    assert (
        "When the spider closed, 4 requests had not been sent yet. Requests in JOBDIR will be"
        " checked when the crawl resumes; others are dropped"
    ) in records(caplog, logging.INFO)
    assert records(caplog, logging.ERROR) == [
        "Lost requests that could not be written to JOBDIR: 3"
    ]


SCHEMES = ("http://h.example/", "https://h.example/", "http://h.example:81/", "ftp://h.example/")


@pytest.mark.parametrize("obeyed", [(True, False), (False, True), (True, True)])
def test_other_schemes(obeyed: tuple[bool, bool], tmp_path: Path) -> None:
    """Several origins in one slot are resumed with and without robots.txt, and wait only with."""
    requests = [
        Request(f"{start}{number}", meta={"download_slot": "one", **meta})
        for start in SCHEMES
        for number, meta in enumerate(({}, {"dont_obey_robotstxt": True}))
    ]
    first, second = obeyed
    state = stored(tmp_path, requests, obeys=first)
    found = queue(tmp_path, state, known=lambda _: False, obeys=second)
    exempt = [request.url for request in requests if second and len(request.meta) > 1]
    assert sorted(drained(found)) == sorted(exempt or urls(requests))
    again = queue(tmp_path, found.close(), obeys=first)
    assert sorted(drained(again)) == sorted({*urls(requests)} - {*exempt} if exempt else [])


@given(
    st.one_of(
        st.text(st.characters(codec=None), max_size=30),
        st.integers(),
        st.binary(max_size=5),
        st.tuples(st.integers(), st.text(max_size=3)),
    ),
    st.from_regex(r"[a-z0-9+]{1,5}:(//)?[!-~]{0,12}", fullmatch=True),
)
@example("é" * 300, "http://h.example/")
@example("one", f"https://{'a' * 63}.{'b' * 60}.example:81/")
def test_any_slot_and_url(slot: Any, url: str) -> None:
    """A slot may be of any type, and contain any characters."""
    try:
        request = Request(url, meta={"download_slot": slot})
    except ValueError:
        return
    with tempfile.TemporaryDirectory() as folder:
        state = stored(Path(folder), [request, request.replace(priority=1)])
        found = queue(Path(folder), state)
        assert len(found) == 2
        popped = [found.pop() for _ in range(2)]
        assert [each.priority for each in popped] == [1, 0]
        assert popped[0].meta["download_slot"] == slot
        assert found.close() == {}


class First(Pages):
    """Has a callback that later runs do not have."""

    def later(self, response: Any) -> None:
        """Do nothing."""


@ensureDeferred
async def test_renamed_callback(
    proxy: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """All requests of a site are lost if their callback was renamed. The log has one traceback and
    a number, and the site's robots.txt isn't requested. Other requests are sent.
    """
    made = crawler()
    spider = made.spider = First()
    found = OriginPriorityQueue(made, squeues.PickleLifoDiskQueue, str(tmp_path / "requests.queue"))
    for number in range(5):
        found.push(Request(f"http://lost.example/{number}", spider.later))
    for number in range(3):
        found.push(Request(f"http://kept.example/{number}", spider.parse))
    found.close()
    await crawl([], {"JOBDIR": str(tmp_path)})
    kept = [f"http://kept.example/{name}" for name in ("0", "1", "2", "robots.txt")]
    assert sorted(proxy.targets) == kept
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [bool(record.exc_info) for record in errors] == [True, False]
    first, second = records(caplog, logging.ERROR)
    assert first.startswith("Lost a request of http://lost.example that cannot be restored from")
    assert second.startswith(
        "Lost more requests in the same way: 4 (ValueError: Method 'later' not found in"
    )
