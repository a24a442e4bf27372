"""The spider of a worker: takes URLs from Redis, follows every link.

Nothing in here is about robots.txt.
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
    """Crawls what it finds in the list ``fleet:start_urls``, and what that links to.

    Whichever worker is free takes the next request: the links of one page are fetched by all of
    them.
    """

    name = "fleet"
    redis_key = "fleet:start_urls"
    stats_key = "fleet:stats"
    redis_batch_size = 10

    async def start(self) -> AsyncIterator[Any]:
        """Wait for the first URLs.

        Scrapy looks after an idle spider, which asks for more, every five seconds only.
        """
        requests: list[Request] = []
        while not requests:
            await asyncio.sleep(0.1)
            requests = list(self.next_requests())
        for request in requests:
            yield request

    def make_request_from_data(self, data: bytes) -> Request:
        """Return the request for an entry of the list: an URL."""
        return Request(data.decode())

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:  # noqa: ANN401 - Scrapy's signature
        """Follow all links; those that robots.txt disallows are dropped on their way."""
        self.spider_idle_start_time = int(
            time.time()
        )  # scrapy-redis counts from here how long there was nothing to do
        if isinstance(response, TextResponse):
            yield from response.follow_all(css="a")

    def closed(self, _reason: str) -> None:
        """Add what this worker has counted to the sums of the fleet."""
        assert self.crawler.stats is not None
        for key, value in self.crawler.stats.get_stats().items():
            if key.startswith("robotstxt/") and isinstance(value, int):
                self.server.hincrby(self.stats_key, key, value)
