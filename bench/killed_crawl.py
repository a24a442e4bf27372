"""One crawl that can be killed: `python -m bench.killed_crawl QUEUE JOBDIR LOG ORIGINS PAGES`.

It crawls through the proxy in `http_proxy`, and appends a line to LOG for each request that enters
the scheduler ("queued") and for each that leaves it ("sent"), with the time.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import AsyncCrawlerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

SETTINGS: dict[str, Any] = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "LOG_LEVEL": "WARNING",
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "RETRY_TIMES": 3,
    "CONCURRENT_REQUESTS": 16,
    "ROBOTS_UNREACHABLE_BACKOFF": [1, 1],
    "USER_AGENT": "examplebot/1.0 (+https://crawler.example)",
}
#: The queues on disk, and those for start requests.
QUEUES = {
    "LIFO": ("PickleLifoDiskQueue", "PickleFifoDiskQueue"),
    "FIFO": ("PickleFifoDiskQueue", "PickleLifoDiskQueue"),
    "SQLite": ("PickleLifoSQLiteQueue", "PickleFifoSQLiteQueue"),
}


class NotingScheduler(Scheduler):
    """Notes each request that enters and leaves."""

    def enqueue_request(self, request: Request) -> bool:
        """Note a request that the filter of duplicates lets through."""
        is_queued = super().enqueue_request(request)
        if is_queued:
            self._note("queued", request)
        return is_queued

    def next_request(self) -> Request | None:
        """Note a request that leaves."""
        request = super().next_request()
        if request is not None:
            self._note("sent", request)
        return request

    def _note(self, event: str, request: Request) -> None:
        assert self.crawler is not None
        file = self.crawler.settings.getint("LOG_OF_REQUESTS")
        os.write(file, f"{event} {request.url} {time.time()}\n".encode("ascii"))


class Pages(Spider):
    """Crawls the pages of all origins, with two priorities."""

    name = "pages"

    def __init__(self, origins: int, pages: int) -> None:
        super().__init__()
        self._origins, self._pages = origins, pages

    async def start(self) -> AsyncIterator[Request]:
        """Request the first page of each origin."""
        for origin in range(self._origins):
            yield Request(f"http://s{origin}.example/0")

    def parse(self, response: Response) -> Iterator[Request]:
        """Queue the other pages of an origin after its first one."""
        if response.url.endswith("/0"):
            for number in range(1, self._pages):
                yield response.follow(f"/{number}", priority=number % 2)


def main(queue: str, jobdir: str, log: str, origins: str, pages: str) -> None:
    """Crawl."""
    disk, start = (f"scrapy.squeues.{name}" for name in QUEUES[queue])
    process = AsyncCrawlerProcess(
        {
            **SETTINGS,
            "SCHEDULER": NotingScheduler,
            "LOG_OF_REQUESTS": os.open(log, os.O_CREAT | os.O_WRONLY | os.O_APPEND),
            "JOBDIR": jobdir,
            "SCHEDULER_DISK_QUEUE": disk,
            "SCHEDULER_START_DISK_QUEUE": start,
        }
    )
    process.crawl(Pages, origins=int(origins), pages=int(pages))
    process.start()


if __name__ == "__main__":
    main(*sys.argv[1:])
