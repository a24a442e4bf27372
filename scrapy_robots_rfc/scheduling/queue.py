"""Where requests wait for their turns: in the scheduler's own queues, or else in a line in memory.

`throttle.py` says when the next request of a site may go.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, deque
from collections.abc import Callable, Sized
from typing import Any, Generic, TypeVar

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.pqueues import DownloaderAwarePriorityQueue, ScrapyPriorityQueue

from scrapy_robots_rfc._scrapy import key_by
from scrapy_robots_rfc.scheduling.throttle import Throttle

_Q = TypeVar("_Q", bound=Sized)

# Seconds: queues whose times differ by less are woken together, as those of several slots of one site.
_AT_ONCE = 0.001

# Seconds after which a queue that sleeps is asked again at the latest: its site may ask for less by then.
_LONGEST_SLEEP = 5.0


class _Sites(Generic[_Q]):
    """The queues of sites by their keys, see `key_by`. Those whose turn has not come sleep.

    A broad crawl has very many. To find the next one, it is enough to look at the slots that have pages under way, and
    at queues that lie down or wake up.

    :param throttle: wakes the engine at the earliest time at which a queue is to wake.
    :param awake: the queues that do not sleep; call `add` for a new one.
    """

    def __init__(self, throttle: Throttle, awake: dict[str, _Q]) -> None:
        self._throttle, self._awake = throttle, awake
        #: The queues that sleep.
        self.asleep: dict[str, _Q] = {}
        #: Sites whose robots.txt is waited for -> numbers and keys of their queues: they sleep until `go_on` is called.
        self.awaited: dict[str, list[tuple[int, str]]] = {}
        # The slots, and the keys of the queues of each that are awake, in the order in which they are asked.
        self._slots: deque[str] = deque()
        self._keys: dict[str, deque[str]] = {}
        # Numbers and keys of those that sleep; who lay down first has the lowest number, and is asked first. Some are
        # asked each time, since nobody knows when their turn comes; the others from a time on.
        self._each_time: list[tuple[int, str]] = []
        self._timed: list[tuple[float, tuple[int, str]]] = []
        self._number = 0
        for key in awake:
            self.add(key)

    def add(self, key: str, *, in_front: bool = False) -> None:
        """Put a queue that is awake last, or first."""
        slot = _slot(key)
        keys = self._keys.get(slot)
        if keys is None:
            keys = self._keys[slot] = deque()
            (self._slots.appendleft if in_front else self._slots.append)(slot)
        (keys.appendleft if in_front else keys.append)(key)

    def first(self, active: Callable[[str], int]) -> str | None:
        """Return the key of the queue that hands out the next request; ``None``: none may.

        :param active: returns how many requests of a slot are under way. Slots with the fewest come first.
        """
        self._wake()
        slots, best, fewest = self._slots, None, math.inf
        for _ in range(len(slots)):
            slot = slots[0]
            keys = self._keys[slot]
            while keys and self._sleeps(keys[0]):
                keys.popleft()
            if not keys:
                del self._keys[slots.popleft()]
                continue
            count = active(slot)
            if not count:
                return keys[0]
            if count < fewest:
                best, fewest = slot, count
            slots.rotate(-1)
        if best is None:
            return None
        slots.remove(best)
        slots.appendleft(best)
        return self._keys[best][0]

    def gone(self) -> None:
        """Note that the queue that `first` has named, if any, has handed out a request: the others come first now."""
        if not self._slots:
            return
        slot = self._slots.popleft()
        keys = self._keys.pop(slot)
        key = keys.popleft()
        if keys:
            self._slots.append(slot)
            self._keys[slot] = keys
        if key in self._awake:  # else that was its last one
            self.add(key)

    def go_on(self, site: str) -> None:
        """Let the queues of a site be asked again that was waited for."""
        self._each_time += self.awaited.pop(site, ())

    def paced(self) -> Counter[str]:
        """Return how many requests each site has that asks for an interval now, and whose robots.txt is there."""
        return self._count(lambda site: site not in self.awaited and self._throttle.interval(site))

    def undecided(self) -> Counter[str]:
        """Return how many requests each site has whose robots.txt is waited for."""
        return self._count(self.awaited.__contains__)

    def _count(self, wanted: Callable[[str], object]) -> Counter[str]:
        """Return how many requests each of some sites has, asleep or not; none is asked whether its turn has come."""
        found: Counter[str] = Counter()
        for queues in (self._awake, self.asleep):
            for key, queue in queues.items():
                if wanted(site := _site(key)):
                    found[site] += len(queue)  # a site may be in several slots
        return found

    def clear(self) -> dict[str, _Q]:
        """Return all queues, and forget them."""
        queues = {**self._awake, **self.asleep}
        for each in (self._awake, self.asleep, self.awaited, self._slots, self._keys, self._each_time, self._timed):
            each.clear()
        return queues

    def _sleeps(self, key: str) -> bool:
        """Put a queue to sleep if nothing of its site may go now: then the caller takes its key out of the order."""
        site = _site(key)
        awaited = self.awaited.get(site)
        seconds = self._throttle.due(site) if awaited is None else None
        if seconds == 0:
            return False
        self.asleep[key] = self._awake.pop(key)
        self._number += 1
        if seconds is None:
            (self._each_time if awaited is None else awaited).append((self._number, key))
        else:
            seconds = min(seconds, _LONGEST_SLEEP)
            heapq.heappush(self._timed, (self._throttle.clock() + seconds, (self._number, key)))
            self._throttle.wake_in(seconds)
        return True

    def _wake(self) -> None:
        """Wake those whose turn may have come; they are asked first."""
        if not self._each_time and not self._timed:
            return
        due, self._each_time = self._each_time, []
        now = self._throttle.clock()
        while self._timed and self._timed[0][0] <= now + _AT_ONCE:
            due.append(heapq.heappop(self._timed)[1])
        for _, key in sorted(due, reverse=True):
            self._awake[key] = self.asleep.pop(key)
            self.add(key, in_front=True)
        if self._timed:
            self._throttle.wake_in(self._timed[0][0] - now)


class PacedPriorityQueue(DownloaderAwarePriorityQueue):
    """SCHEDULER_PRIORITY_QUEUE that hands out only requests whose site's turn has come.

    It is Scrapy's queue otherwise, in memory and on disk: the requests of each site are a queue of their own, and those
    of sites that have to wait are out of its sight. Sites with as many requests under way take turns. Without
    `RfcRobotsTxtMiddleware`, or with ROBOTS_CRAWL_DELAY_MAX = 0, it is Scrapy's queue. See Scrapy for the parameters.
    """

    def __init__(self, crawler: Crawler, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Scrapy's
        super().__init__(crawler, *args, **kwargs)
        throttle = Throttle.of(crawler)
        self._sites: _Sites[ScrapyPriorityQueue] | None = None
        if throttle is not None:
            sites = _Sites(throttle, self.pqueues)
            key = key_by(crawler, self, throttle.name, sites.first)
            if key is not None:
                self._sites, self._key, self._throttle = sites, key, throttle
                throttle.queues.append(self)

    def push(self, request: Request) -> None:
        """Queue a request; raises what the queue below raises."""
        if self._sites is None:
            super().push(request)
        elif self._sites.asleep and (asleep := self._sites.asleep.get(self._key(request))) is not None:
            asleep.push(request)
        else:
            known = len(self.pqueues)
            try:
                super().push(request)
            finally:
                if len(self.pqueues) > known:
                    self._sites.add(next(reversed(self.pqueues)))

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its site's turn; ``None``: there is none."""
        if self._sites is None:
            return super().pop()
        try:
            request = super().pop()  # which asks for the first of the sites
        finally:
            self._sites.gone()
        if request is not None and self._throttle.origins:
            self._throttle.take(request)
        return request

    def hold(self, site: str) -> None:
        """Hand out no request of a site until `go_on` is called: its robots.txt is waited for.

        Its requests count as undecided if the queue is closed before.
        """
        assert self._sites is not None
        self._sites.awaited.setdefault(site, [])

    def save(self, request: Request) -> None:
        """Write to disk the queue that a request was pushed to: queuelib writes how long one is only in `close`."""
        assert self._sites is not None
        key = self._key(request)
        for queues in (self._sites.asleep, self.pqueues):
            if key in queues and self.key:  # a queue in memory has no `key`, and would be lost
                queues[key] = self.pqfactory(key, queues[key].close())

    def go_on(self, site: str) -> None:
        """Hand out requests of a site again."""
        assert self._sites is not None
        self._sites.go_on(site)

    def waiting(self) -> Counter[str]:
        """Return how many requests of each site are queued that asks for an interval, and whose robots.txt is there."""
        assert self._sites is not None
        return self._sites.paced()

    def undecided(self) -> Counter[str]:
        """Return how many requests of each site are queued whose robots.txt is waited for."""
        assert self._sites is not None
        return self._sites.undecided()

    def close(self) -> dict[str, list[int]]:
        """Close all queues, and return what is needed to go on with those on disk."""
        if self._sites is not None:
            self._throttle.left_over += self.waiting()
            self._throttle.undecided += self.undecided()
            self.pqueues.update(self._sites.clear())
        return super().close()

    def __len__(self) -> int:
        return super().__len__() + sum(map(len, self._sites.asleep.values() if self._sites is not None else ()))


class WaitingLine:
    """Requests that left the scheduler before their turn, where its queue is none of ours.

    :param throttle: of the crawl.
    """

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._awake: dict[str, deque[Request]] = {}
        self._sites = _Sites(throttle, self._awake)
        throttle.queues.append(self)

    def push(self, request: Request) -> None:
        """Put a request at the end of the line of its site."""
        name = self._throttle.name(request)
        line = self._sites.asleep.get(name) or self._awake.get(name)
        if line is None:
            line = self._awake[name] = deque()
            self._sites.add(name)
        line.append(request)

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its site's turn; ``None``: there is none."""
        name = self._sites.first(lambda _: 0)
        if name is None:
            return None
        request = self._awake[name].popleft()
        if not self._awake[name]:
            del self._awake[name]
        self._sites.gone()
        self._throttle.take(request)
        return request

    def clear(self) -> list[Request]:
        """Return all requests, and forget them."""
        return [request for line in self._sites.clear().values() for request in line]

    def waiting(self) -> Counter[str]:
        """Return how many requests of each site are in the line that asks for an interval."""
        return self._sites.paced()


def _site(key: str) -> str:
    """The origin in a key, see `key_by`."""
    return key.rpartition(" ")[2]


def _slot(key: str) -> str:
    """The slot in a key; a queue on disk that was begun by Scrapy's own has the slot alone."""
    slot, space, _ = key.rpartition(" ")
    return slot if space else key
