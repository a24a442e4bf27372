"""The third-party schedulers of `bench.faults`."""

import pickle
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import Any, Self

from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler, Scheduler
from scrapy.crawler import Crawler
from scrapy.pqueues import ScrapyPriorityQueue
from scrapy.utils.misc import load_object
from scrapy.utils.request import request_from_dict

from bench.fault_plan import Plan
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around


class UserScheduler(BaseScheduler):
    """A FIFO scheduler with priorities, which uses only the public interface of Scrapy.

    On close, it writes its requests to a file in JOBDIR.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._filter = load_object(crawler.settings["DUPEFILTER_CLASS"]).from_crawler(crawler)
        folder = crawler.settings["JOBDIR"]
        self._file = Path(folder, "left.pickle") if folder else None
        self._queue: list[tuple[int, int, Request]] = []
        self._numbers = count()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        return cls(crawler)

    def open(self, spider: Spider) -> Any:  # noqa: ANN401 - Scrapy's
        if self._file is not None and self._file.exists():
            for each in pickle.loads(self._file.read_bytes()):
                self._push(request_from_dict(each, spider=spider))
        return self._filter.open()

    def close(self, reason: str) -> Any:  # noqa: ANN401 - Scrapy's
        if self._file is not None:
            left = [each.to_dict(spider=self._crawler.spider) for *_, each in sorted(self._queue)]
            self._file.write_bytes(pickle.dumps(left))
        return self._filter.close(reason)

    def has_pending_requests(self) -> bool:
        return bool(self._queue)

    def enqueue_request(self, request: Request) -> bool:
        if not request.dont_filter and self._filter.request_seen(request):
            return False
        self._push(request)
        return True

    def next_request(self) -> Request | None:
        return heappop(self._queue)[-1] if self._queue else None

    def _push(self, request: Request) -> None:
        heappush(self._queue, (-request.priority, next(self._numbers), request))


class UserQueue(ScrapyPriorityQueue):
    """A third-party SCHEDULER_PRIORITY_QUEUE."""


def scheduler_settings(plan: Plan, middleware: str) -> dict[str, Any]:
    """Return the settings of a third-party scheduler, in front of which few requests are parked."""
    if plan.scheduler == "own":
        return {}
    scheduler: type[BaseScheduler] = UserScheduler if plan.scheduler == "user" else Scheduler
    queue = {"SCHEDULER_PRIORITY_QUEUE": UserQueue} if plan.scheduler == "user-queue" else {}
    if middleware == "ours":
        bound = {"max_parked": plan.settings["MAX_PARKED"]}
        scheduler = type("Bounded", (scheduler_around(scheduler),), bound)
    return {**queue, "SCHEDULER": scheduler}
