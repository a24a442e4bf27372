"""Where requests wait for their turns: in the scheduler's own queues, or else in a line in memory.

`throttle.py` says when the next request of a site may go.
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import TYPE_CHECKING, Any

from scrapy.pqueues import DownloaderAwarePriorityQueue

from scrapy_robots_rfc._scrapy import key_by
from scrapy_robots_rfc.throttling.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.pqueues import ScrapyPriorityQueue


class _Alarms:
    """When to ask again for sites whose turn had not come.

    :param throttle: wakes the engine at the earliest of them.
    """

    def __init__(self, throttle: Throttle) -> None:
        self._throttle = throttle
        self._always: list[str] = []
        self._timed: list[tuple[float, str]] = []

    def put(self, key: str, seconds: float | None) -> None:
        """Ask again for a key after so many seconds; ``None``: each time that anybody asks."""
        if seconds is None:
            self._always.append(key)
        else:
            heapq.heappush(self._timed, (self._throttle.clock() + seconds, key))

    def take(self) -> list[str]:
        """Return the keys for which to ask now. Those that have to wait on are to be put again."""
        now = self._throttle.clock()
        keys, self._always = self._always, []
        while self._timed and self._timed[0][0] <= now:
            keys.append(heapq.heappop(self._timed)[1])
        return keys

    def set(self) -> None:
        """Have the engine ask again when the earliest time has come."""
        if self._timed:
            self._throttle.wake_in(max(0.0, self._timed[0][0] - self._throttle.clock()))


class PacedPriorityQueue(DownloaderAwarePriorityQueue):
    """SCHEDULER_PRIORITY_QUEUE that hands out only requests whose site's turn has come.

    It is Scrapy's queue otherwise, in memory and on disk: the requests of each site are a queue of their own, and those
    of sites that have to wait are out of its sight. Without `RfcRobotsTxtMiddleware`, or ROBOTSTXT_CRAWL_DELAY, it
    hands out everything. See Scrapy for the parameters.
    """

    def __init__(self, crawler: Crawler, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - Scrapy's
        super().__init__(crawler, *args, **kwargs)
        self._asleep: dict[str, ScrapyPriorityQueue] = {}
        throttle = Throttle.of(crawler)
        self._key = None if throttle is None else key_by(crawler, self, throttle.name)
        self._throttle = throttle if self._key is not None else None
        if self._throttle is not None:
            self._alarms = _Alarms(self._throttle)
            self._throttle.queues.append(self)

    def push(self, request: Request) -> None:
        """Queue a request; raises what the queue below raises."""
        asleep = self._asleep.get(self._key(request)) if self._key is not None and self._asleep else None
        if asleep is None:
            super().push(request)
        else:
            asleep.push(request)

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its site's turn; ``None``: there is none."""
        throttle = self._throttle
        if throttle is None or not throttle.names:
            return super().pop()
        for key in self._alarms.take():
            self.pqueues[key] = self._asleep.pop(key)
        for key in [key for key in self.pqueues if key.rpartition(" ")[2] in throttle.names]:  # there may be many
            seconds = throttle.due(_site(key))
            if seconds != 0:
                self._asleep[key] = self.pqueues.pop(key)
                self._alarms.put(key, seconds)
        self._alarms.set()
        request = super().pop()
        if request is not None:
            throttle.take(request)
        return request

    def waiting(self) -> Iterator[tuple[str, int]]:
        """Yield sites whose turn has not come, and how many of their requests are queued."""
        for key, queue in self._asleep.items():
            yield _site(key), len(queue)

    def close(self) -> dict[str, list[int]]:
        """Close all queues, and return what is needed to go on with those on disk."""
        if self._throttle is not None:
            for site, count in self.waiting():
                self._throttle.left_over[site] += count
        self.pqueues |= self._asleep
        self._asleep = {}
        return super().close()

    def __len__(self) -> int:
        return super().__len__() + sum(map(len, self._asleep.values()))

    def __contains__(self, slot: str) -> bool:
        return super().__contains__(slot) or slot in self._asleep


class WaitingLine:
    """Requests that left the scheduler before their turn, where its queue is none of ours.

    :param throttle: of the crawl.
    """

    def __init__(self, throttle: Throttle) -> None:
        self._throttle, self._alarms = throttle, _Alarms(throttle)
        self._requests: dict[str, deque[Request]] = {}

    def push(self, request: Request) -> None:
        """Put a request at the end of the line of its site."""
        name = self._throttle.name(request)
        if name not in self._requests:
            self._requests[name] = deque()
            self._alarms.put(name, None)
        self._requests[name].append(request)

    def pop(self) -> Request | None:
        """Return a request that may go now, which takes its site's turn; ``None``: there is none."""
        names = self._alarms.take()
        while names:
            name = names.pop()
            seconds = self._throttle.due(name)
            line = self._requests[name]
            found = line.popleft() if seconds == 0 else None
            if line:
                self._alarms.put(name, seconds or None)
            else:
                del self._requests[name]
            if found is not None:
                for other in names:
                    self._alarms.put(other, None)
                self._throttle.take(found)
                return found
        self._alarms.set()
        return None

    def clear(self) -> list[Request]:
        """Return all requests, and forget them."""
        requests = [request for line in self._requests.values() for request in line]
        self._requests, self._alarms = {}, _Alarms(self._throttle)
        return requests

    def waiting(self) -> Iterator[tuple[str, int]]:
        """Yield sites, and how many requests wait for the turn of each."""
        return ((name, len(line)) for name, line in self._requests.items())


def _site(key: str) -> str:
    """The origin in a key, see `key_by`."""
    return key.rpartition(" ")[2]
