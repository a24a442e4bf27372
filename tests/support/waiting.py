"""A spider whose requests wait for robots.txt, and have everything that a request can have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy import Request, signals

from tests.support.crawling import Pages

if TYPE_CHECKING:
    import threading
    from collections.abc import AsyncIterator

FEW = "User-agent: *\nDisallow: /\nAllow: /few/\n"

#: Meta keys that Scrapy and this package add.
ADDED = {
    "download_timeout",
    "download_slot",
    "download_latency",
    "depth",
    "is_start_request",
    "robots_judged_url",
}


def snapshot(request: Request) -> dict[str, Any]:
    """Return everything that a request has, except what Scrapy adds."""
    names = [name for name in request.attributes if name not in ("meta", "headers")]
    carried = {name: getattr(request, name) for name in names}
    carried["meta"] = {key: value for key, value in request.meta.items() if key not in ADDED}
    carried["header"] = request.headers["X-Test"]
    return carried


class Faithful(Pages):
    """Requests each page twice, and sets `gate` when all requests are queued.

    Records the requests, the duplicates, and the requests that callbacks and errbacks got.
    """

    allowed_domains = ("127.0.0.1",)
    gate: threading.Event

    async def start(self) -> AsyncIterator[Any]:
        self.sent: list[tuple[Request, dict[str, Any]]] = []
        self.came: list[Request] = []
        self.arguments: list[int] = []
        self.dropped: list[str] = []
        self.scheduled = 0
        self.crawler.signals.connect(self.on_dropped, signals.request_dropped)
        self.crawler.signals.connect(self.on_scheduled, signals.request_scheduled)
        for number, item in enumerate([*self.requests, *self.requests]):
            request = Request(
                item.url,
                callback=self.parse,
                errback=self.failed,
                headers={"X-Test": "yes"},
                cookies={"a": "b"},
                meta={"own": 1},
                priority=number % 3 - 1,
                flags=["flag"],
                cb_kwargs={"argument": 2},
            )
            self.sent.append((request, snapshot(request)))
            yield request

    def on_scheduled(self) -> None:
        self.scheduled += 1
        if self.scheduled == 2 * len(self.requests):
            self.gate.set()

    def on_dropped(self, request: Request) -> None:
        self.dropped.append(request.url)

    def parse(self, response: Any, argument: int = 0, **_: Any) -> None:
        super().parse(response)
        self.came.append(response.request)
        self.arguments.append(argument)

    def failed(self, failure: Any) -> None:
        super().failed(failure)
        self.came.append(failure.request)
