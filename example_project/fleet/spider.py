"""The spider of a worker: it takes URLs from Redis and follows every link.

Nothing in it is about robots.txt.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

from scrapy import Request
from scrapy.http import TextResponse
from scrapy_redis.spiders import RedisSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response


class FleetSpider(RedisSpider):  # type: ignore[misc]  # scrapy-redis has no types
    """Crawls the URLs in the list ``fleet:start_urls``, and all pages that they link to.

    Every worker takes requests from the same queue, so the pages of a site are shared among them.
    """

    name = "fleet"
    redis_key = "fleet:start_urls"
    ready_key = "fleet:ready"
    stats_key = "fleet:stats"
    redis_batch_size = 10

    async def start(self) -> AsyncIterator[Any]:
        """Wait for the first URLs. Without this, scrapy-redis checks only every 5 s."""
        self.server.incr(self.ready_key)
        requests: list[Request] = []
        while not requests:
            await asyncio.sleep(0.1)
            requests = list(self.next_requests())
        for request in requests:
            yield request

    def make_request_from_data(self, data: bytes) -> Request:
        """Return the request for an entry of the list, which is a URL."""
        return Request(data.decode())

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:  # noqa: ANN401 - Scrapy's signature
        """Follow all links. Disallowed ones are dropped by the middleware."""
        # scrapy-redis closes a spider that has been idle for too long since this time.
        self.spider_idle_start_time = int(time.time())
        if isinstance(response, TextResponse):
            yield from response.follow_all(css="a")

    def closed(self, _reason: str) -> None:
        """Add the stats of this worker to the sums of the fleet."""
        assert self.crawler.stats is not None
        for key, value in self.crawler.stats.get_stats().items():
            if key.startswith("robotstxt/") and isinstance(value, int):
                self.server.hincrby(self.stats_key, key, value)
