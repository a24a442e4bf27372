"""The queue by origin on disk: descriptors, keys, and folders of Scrapy's own queue."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from scrapy import Request

from tests.support.disk_queues import crawler, drained, pages, queue, stored, urls

LONG_HOST = f"{'a' * 63}.{'b' * 60}.example"


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
    assert (len(found), found.close()) == (0, {})
    assert [path.name for path in tmp_path.iterdir()] == ["active.json"]


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


def test_long_host_names(tmp_path: Path) -> None:
    """Requests for hosts with long names are stored on disk and resumed."""
    requests = [Request(f"https://{LONG_HOST}:81/{number}") for number in range(3)]
    state = stored(tmp_path, requests)
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
