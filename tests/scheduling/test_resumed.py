"""Requests that an earlier crawl left in a JOBDIR: their order, and crawls with other settings."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, strategies as st
from pytest_twisted import ensureDeferred
from scrapy import Request, squeues
from scrapy.pqueues import ScrapyPriorityQueue

from scrapy_robots_rfc import OriginPriorityQueue
from tests.support.crawling import Pages, crawl, records
from tests.support.disk_queues import crawler, drained, queue, stored, urls
from tests.support.killed_queue import KINDS
from tests.support.site import robots

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.site import Site

LARGEST = 2**63 - 1
#: Pairs of a priority, and whether it is a start request.
STEPS = [
    (0, False),
    (1, True),
    (0, True),
    (-1, False),
    (1, False),
    (0, False),
    (1, True),
    (-1, True),
]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("start_kind", ["its own", None])
def test_order_after_a_resume(kind: str, start_kind: str | None, tmp_path: Path) -> None:
    """Requests leave in the order of Scrapy's own queue with the same classes, also after it was
    closed and opened again.
    """
    disk_queue, start_queue = KINDS[kind]
    if start_kind is None:
        start_queue = None

    def order(made: Callable[..., Any], folder: Path) -> list[str]:
        popped = []
        state: Any = ()
        for run in range(3):
            opened = made(crawler(), disk_queue, str(folder), state, start_queue_cls=start_queue)
            for number, (priority, is_start) in enumerate(STEPS):
                url = f"http://a.example/{run}/{number}"
                meta = {"is_start_request": is_start}
                opened.push(Request(url, priority=priority, meta=meta))
            popped += [opened.pop().url for _ in range(3)]
            if run < 2:
                state = opened.close()
        return popped + drained(opened)

    ours = order(OriginPriorityQueue, tmp_path / "ours")
    (tmp_path / "scrapy").mkdir()
    assert ours == order(ScrapyPriorityQueue, tmp_path / "scrapy")
    assert len(ours) == 24


def test_priorities_of_64_bits(tmp_path: Path) -> None:
    """Priorities of 64 bits are kept. A larger one is refused, so Scrapy keeps it in memory."""
    found = queue(tmp_path)
    for priority in (0, LARGEST, -LARGEST, 5):
        found.push(Request(f"http://a.example/{priority}", priority=priority))
    for priority in (LARGEST + 2, -LARGEST - 1, 10**100):
        with pytest.raises(ValueError, match="too large"):
            found.push(Request("http://a.example/", priority=priority))
    found = queue(tmp_path, found.close())
    expected = [f"http://a.example/{priority}" for priority in (LARGEST, 5, 0, -LARGEST)]
    assert drained(found) == expected


class Unpicklable:
    """Raises an exception when it is pickled."""

    def __reduce__(self) -> Any:
        raise MemoryError("as if there were no memory")


@ensureDeferred
async def test_values_that_cannot_be_stored(site: Site, tmp_path: Path) -> None:
    """Requests that cannot be stored stay in memory, and are sent."""
    values: list[Any] = [lambda: None, Unpicklable(), site, 1]
    requests = [
        Request(site.url(f"/{number}"), cb_kwargs={"value": value})
        for number, value in enumerate(values)
    ]
    requests.append(Request(site.url("/urgent"), priority=LARGEST + 2))
    result = await crawl(requests, {"JOBDIR": str(tmp_path)})
    assert list(result.outcomes.values()) == [200] * 5
    assert result.stats["scheduler/unserializable"] == 4
    assert result.stats["scheduler/dequeued/disk"] == 1


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


@ensureDeferred
async def test_obeying_again(site: Site, tmp_path: Path) -> None:
    """Requests of a crawl that did not obey robots.txt are judged if the resumed crawl does, and
    the other way round.
    """
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /3\n")
    stop = {"CLOSESPIDER_PAGECOUNT": 1, "CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": 0.01}
    requests = [site.url(f"/{number}") for number in range(6)]
    settings: dict[str, Any] = {"JOBDIR": str(tmp_path), "ROBOTSTXT_OBEY": False}
    await crawl(requests, {**settings, **stop})
    assert site.fetches == 0
    await crawl([], {**settings, **stop, "ROBOTSTXT_OBEY": True})
    assert site.fetches == 1
    await crawl([], {**settings, "ROBOTS_EXEMPT": [site.netloc]})
    assert site.pages == [f"/{number}" for number in range(6)]


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
