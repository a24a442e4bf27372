"""The base class of the demo's spiders: it records the outcome of every request, and prints a table
when the spider closes.

It shows how a spider gets verdicts and reasons from scrapy_robots_rfc. `report.py` formats the
table.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider
from scrapy.spidermiddlewares.httperror import HttpError

from demo.report import Report, Row
from scrapy_robots_rfc import RobotsDisallowed, RobotsTxt, robots_service, signals

if TYPE_CHECKING:
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from twisted.python.failure import Failure


class ReportingSpider(Spider):
    """A spider that prints a table of its requests, which it makes with `request`."""

    report: Report

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - what the command line gives
        super().__init__(*args, **kwargs)
        self._positions = count()

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - as above
        """Create the spider, and connect to the signal that a fetch of a robots.txt has ended."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.report = Report(crawler.settings["USER_AGENT"])
        crawler.signals.connect(spider.robots_fetched, signals.robots_fetched)
        return spider

    def request(self, url: str, **meta: Any) -> Request:  # noqa: ANN401 - meta has any values
        """Return a request whose outcome becomes a row of the table."""
        meta["position"] = next(self._positions)
        return Request(url, callback=self.parse, errback=self.dropped, meta=meta)

    async def parse(self, response: Response) -> Any:  # noqa: ANN401 - subclasses yield requests
        """Record a page that was fetched, and why it was allowed."""
        await self.record_fetched(response)

    async def record_fetched(self, response: Response) -> None:
        """Add the row of a page that was fetched.

        Its robots.txt is in memory, so this sends no request.
        """
        request = response.request
        assert request is not None
        if not self.settings.getbool("ROBOTSTXT_OBEY"):
            self._add(request, "fetched", "ROBOTSTXT_OBEY is False")
            return
        robots = await robots_service(self.crawler).robots(request.url)
        self._add(request, "allowed", robots.why(robots.decide(request.url)))

    def dropped(self, failure: Failure) -> None:
        """Add the row of a page that was not fetched."""
        request: Request = failure.request  # type: ignore[attr-defined]  # Scrapy puts it there
        error = failure.value
        if isinstance(error, RobotsDisallowed):
            self._add(request, "disallowed", error.why)
        elif isinstance(error, HttpError):
            self._add(request, "allowed", f"the page answered {error.response.status}")
        else:
            self._add(request, "failed", f"{type(error).__name__}: {error}")

    def robots_fetched(
        self, origin: object, status: int | None, error: str | None, body: bytes | None
    ) -> None:
        """Record how the fetch of a robots.txt ended."""
        self.report.access[str(origin)] = (
            str(error) if body is None else f"{status}, {self._size(body)}"
        )

    def _size(self, body: bytes) -> str:
        limit = self.settings.getint("ROBOTS_MAX_SIZE", RobotsTxt.MAX_SIZE)
        return f"more than {limit:,} bytes" if len(body) > limit else f"{len(body):,} bytes"

    def _add(self, request: Request, verdict: str, why: str) -> None:
        meta = request.meta
        row = Row(request.url, verdict, why, meta.get("other_verdict", ""))
        self.report.add(meta["position"], row)

    def closed(self, reason: str) -> None:
        """Print the table."""
        print(*self.report.lines(), sep="\n")
        if reason != "finished":
            print(f"The crawl stopped early ({reason})")
