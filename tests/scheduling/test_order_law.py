"""Law: the queue hands out the request that Scrapy's own queue would give then.

The test has no event loop. It pushes, pops, ends fetches, lets files become stale, lets time
pass, and closes and resumes the queues on disk.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from itertools import filterfalse, product
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from scrapy import Request, Spider
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.squeues import (
    FifoMemoryQueue,
    LifoMemoryQueue,
    MarshalLifoDiskQueue,
    PickleFifoDiskQueue,
    PickleLifoDiskQueue,
)
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc import OriginPriorityQueue
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.gates import Files, Turns, add_gate

try:
    from scrapy.squeues import PickleFifoSQLiteQueue, PickleLifoSQLiteQueue
except ImportError:  # Scrapy before 2.19
    SQLITE = []
else:
    SQLITE = [(PickleFifoSQLiteQueue, PickleLifoSQLiteQueue)]

SITES = 3
INTERVAL = 10.0
#: The class for requests, and the class for start requests.
MEMORY = [
    (FifoMemoryQueue, LifoMemoryQueue),
    (LifoMemoryQueue, FifoMemoryQueue),
    (LifoMemoryQueue, None),
]
DISK = [
    (PickleFifoDiskQueue, PickleLifoDiskQueue),
    (PickleLifoDiskQueue, PickleFifoDiskQueue),
    (MarshalLifoDiskQueue, None),
    *SQLITE,
]
#: The disk queue classes that hand out the last request first.
LIFO = [MarshalLifoDiskQueue, PickleLifoDiskQueue, *(kind for _, kind in SQLITE)]
#: A priority, and whether it is a start request.
REQUESTS = st.lists(st.tuples(st.integers(-1, 1), st.booleans()), min_size=1, max_size=5)


class Pages(Spider):
    """A spider with a callback."""

    name = "pages"

    def later(self, _: object) -> None:
        """Do nothing."""


def origin(site: int) -> Origin:
    """Return the origin of a site."""
    return Origin("http", f"site{site}.example", 80)


class Order(RuleBasedStateMachine):
    """Queues in memory and on disk that share their sites, beside Scrapy's queues."""

    @initialize(memory=st.sampled_from(MEMORY), disk=st.sampled_from(DISK), kinds=REQUESTS)
    def begin(self, memory: Any, disk: Any, kinds: list[tuple[int, bool]]) -> None:
        self.folder = Path(tempfile.mkdtemp())
        self.classes = {"memory": memory, "disk": disk}
        self.known: set[Origin] = set()
        self.owed: set[Origin] = set()
        self.unanswered: set[Origin] = set()
        self.turns = Turns(self.due)
        self.last: dict[Origin, float] = {}
        self.number = 0
        self.queued: Counter[str] = Counter()
        self.plain: dict[tuple[str, str, str], ScrapyPriorityQueue] = {}
        self.state: Any = None
        self.resume()
        for place, site in product(self.classes, range(SITES)):
            self.push(place, site, 0, kinds)

    def due(self, site: Origin) -> bool:
        """Return whether the turn of a site has come; the first site is not paced."""
        if site == origin(0):
            return True
        is_answered = site not in self.unanswered
        return is_answered and self.last.get(site, -INTERVAL) + INTERVAL <= self.turns.now

    def resume(self) -> None:
        """Make the queues of a process."""
        crawler = get_crawler(Pages)
        crawler.spider = Pages()
        self.files = Files(lambda site: site in self.known, most=2)
        add_gate(crawler, files=self.files, turns=self.turns)
        self.ours: dict[str, Any] = {}
        for place, (kind, start_kind) in self.classes.items():
            folder = str(self.folder / "ours") if place == "disk" else ""
            state = self.state if place == "disk" else None
            self.ours[place] = OriginPriorityQueue(
                crawler, kind, folder, state, start_queue_cls=start_kind
            )
        self.crawler = crawler

    def reference(self, place: str, request: Request) -> ScrapyPriorityQueue:
        """Return Scrapy's queue for the site and slot of a request."""
        site = request.url.split("/")[2]
        key = place, site, str(request.meta["download_slot"])
        if key not in self.plain:
            kind, start_kind = self.classes[place]
            folder = str(self.folder / "plain" / "-".join(key)) if place == "disk" else ""
            self.plain[key] = ScrapyPriorityQueue(
                self.crawler, kind, folder, start_queue_cls=start_kind
            )
        return self.plain[key]

    @rule(
        place=st.sampled_from(["memory", "disk"]),
        site=st.integers(0, SITES - 1),
        slot=st.integers(0, 1),
        kinds=REQUESTS,
    )
    def push(self, place: str, site: int, slot: int, kinds: list[tuple[int, bool]]) -> None:
        for priority, start in kinds:
            self.number += 1
            url = f"http://site{site}.example/{self.number}"
            meta = {"download_slot": str(slot), "is_start_request": start}
            requests = [Request(url, priority=priority, meta=dict(meta)) for _ in range(2)]
            self.ours[place].push(requests[0])
            self.reference(place, requests[1]).push(requests[1])
            self.queued[url] += 1

    @rule(answers=st.booleans())
    def pop(self, answers: bool) -> None:
        """Take the next request, as the scheduler does: from memory first."""
        for place in ("memory", "disk"):
            request = self.ours[place].pop()
            if request is None:
                continue
            site = Origin.of(request.url)
            assert site is not None
            # After each fetch one request is handed out, even if the fetch brought no file.
            assert site in self.known | self.owed
            self.owed.discard(site)
            assert self.due(site)
            self.last[site] = self.turns.now
            if not answers:
                self.unanswered.add(site)
            expected = self.reference(place, request).pop()
            assert expected is not None
            assert request.url == expected.url
            self.queued[request.url] -= 1
            return

    @precondition(lambda self: self.files.fetches)
    @rule(data=st.data(), comes=st.booleans())
    def end_fetch(self, data: st.DataObject, comes: bool) -> None:
        site = data.draw(st.sampled_from(sorted(self.files.fetches)))
        source = self.files.fetches[site].page
        if source is not None:
            assert Origin.of(source.url) == site
        if comes:
            self.known.add(site)
        self.owed.add(site)
        self.files.end(site)

    @rule(site=st.integers(0, SITES - 1))
    def becomes_stale(self, site: int) -> None:
        self.known.discard(origin(site))

    @rule(site=st.integers(0, SITES - 1))
    def answer(self, site: int) -> None:
        self.unanswered.discard(origin(site))
        self.turns.on_turn(origin(site))

    @rule(seconds=st.sampled_from([1.0, INTERVAL]))
    def wait(self, seconds: float) -> None:
        self.turns.passes(seconds)

    @rule(data=st.data())
    def close_and_resume(self, data: st.DataObject) -> None:
        """Stop and resume the crawl: what is in memory is stored on disk, in the same order."""
        self.state = json.loads(json.dumps(self.ours["disk"].close()))
        for key in [key for key in self.plain if key[0] == "memory"]:
            queue = self.plain.pop(key)
            popped = list(iter(queue.pop, None))
            lifo = filter(self.leaves_last_first, reversed(popped))
            for request in (*lifo, *filterfalse(self.leaves_last_first, popped)):
                self.reference("disk", request).push(request)
        self.resume()

    def leaves_last_first(self, request: Request) -> bool:
        """Return whether the class that stores a request on disk hands out the last one first."""
        kind, start_kind = self.classes["disk"]
        is_start = start_kind is not None and request.meta["is_start_request"]
        return (start_kind if is_start else kind) in LIFO

    @invariant()
    def lengths(self) -> None:
        """Check that nothing is lost and nothing is doubled."""
        if hasattr(self, "ours"):
            assert sum(map(len, self.ours.values())) == self.queued.total()
            assert min(self.queued.values(), default=0) >= 0

    def teardown(self) -> None:
        """Hand out all that is left: every wait ends."""
        if not hasattr(self, "ours"):
            return
        for site in range(SITES):
            self.answer(site)
        for _ in range(20 * self.queued.total() + 40):
            self.pop(answers=True)
            for fetched in list(self.files.fetches):
                self.known.add(fetched)
                self.owed.add(fetched)
                self.files.end(fetched)
            self.turns.passes(INTERVAL)
        assert self.queued.total() == 0
        for queue in self.plain.values():
            queue.close()
        self.ours["disk"].close()
        shutil.rmtree(self.folder)


TestOrder = Order.TestCase
TestOrder.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None,
    phases=(Phase.explicit, Phase.generate),  # to shrink a failure takes minutes
    suppress_health_check=[HealthCheck.too_slow],
)  # fmt: skip
