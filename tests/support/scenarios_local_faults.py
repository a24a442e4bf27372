"""Crawls in which a part of the crawl itself fails during the fetch of robots.txt, for
`test_local_faults_and_proxies.py`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import sys
from typing import TYPE_CHECKING, Any

from scrapy import Request, signals
from scrapy.core.downloader import Downloader
from scrapy.exceptions import IgnoreRequest, NotConfigured, StopDownload
from scrapy.utils.misc import load_object

from tests.support.crawling import SETTINGS, Pages, short
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy.crawler import Crawler

    from tests.support.crawling import Run

RULES = "User-agent: *\nDisallow: /x\n"
#: A retry would come so late that the crawl would not end.
NEVER = {"ROBOTS_UNREACHABLE_BACKOFF": [3600]}
SECRET = "http://user:secret@"
#: Download handlers that need no reactor.
HANDLERS = (
    "scrapy.core.downloader.handlers._aiohttp.AiohttpDownloadHandler",
    "scrapy.core.downloader.handlers._httpx.HttpxDownloadHandler",
)


def handlers(run: Run, *, proxies: bool = False) -> list[dict[str, Any]]:
    """Return settings for each download handler that Scrapy has for a runtime.

    :param proxies: return only handlers that support proxies. Without a reactor, older versions of
        Scrapy have none.
    """
    if run.args[0] != "none":  # type: ignore[attr-defined]  # it is a `partial`
        return [{}]
    existing = {
        path: {"DOWNLOAD_HANDLERS": {"http": path, "https": path}}
        for path in HANDLERS
        if _exists(path)
    }
    return [
        settings
        for path, settings in existing.items()
        if not proxies or getattr(load_object(path), "supports_proxies", False)
    ]


def _exists(path: str) -> bool:
    return importlib.util.find_spec(path.rpartition(".")[0]) is not None


@contextlib.contextmanager
def logged() -> Iterator[list[str]]:
    """Collect the warnings and errors of the package, with tracebacks."""
    lines: list[str] = []
    formatter = logging.Formatter("%(levelname)s %(message)s")

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(formatter.format(record))

    logger, handler = logging.getLogger("scrapy_robots_rfc"), Collecting(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield lines
    finally:
        logger.removeHandler(handler)


class Serial(Pages):
    """Requests one page after another."""

    async def start(self) -> AsyncIterator[Any]:
        for request in self.requests[:1]:
            yield self.made(request)

    def made(self, item: str | Request) -> Request:
        request = Request(item) if isinstance(item, str) else item
        return request.replace(callback=self.parse, errback=self.failed, dont_filter=True)

    def parse(self, response: Any, **_: Any) -> Any:
        """Record the page, and request the next one."""
        super().parse(response)
        yield from self.next()

    def failed(self, failure: Any) -> Any:
        """Record the failure, and request the next page."""
        super().failed(failure)
        yield from self.next()

    def next(self) -> Iterator[Request]:
        del self.requests[0]
        yield from map(self.made, self.requests[:1])


class Stopping(Pages):
    """Stops every transfer at its headers, as Scrapy documents."""

    fail = False
    signal: object = signals.headers_received

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Any:
        spider = super().from_crawler(crawler, *args, **kwargs)
        crawler.signals.connect(spider.on_signal, cls.signal)
        return spider

    def on_signal(self) -> None:
        raise StopDownload(fail=self.fail)


class StoppingBody(Stopping):
    """Stops every transfer at the first bytes of its body, as a failure."""

    fail = True
    signal = signals.bytes_received


async def stopped(run: Run) -> dict[str, Any]:
    """Crawl with spiders that stop all transfers."""
    results = []
    for handler in handlers(run):
        for spider in (Stopping, StoppingBody):
            with Site({"/robots.txt": robots("#\n" * 50_000 + RULES)}) as site:
                result = await run(spider, {**NEVER, **handler}, [site.url("/a"), site.url("/x")])
                outcomes = [short(outcome) for _, outcome in sorted(result.outcomes.items())]
                results.append([spider.__name__, outcomes, site.pages])
    return {"found": results}


class Middleware:
    """A middleware that fails for every robots.txt."""

    error: Exception = KeyError("token")

    def process_request(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            raise self.new_error()

    def new_error(self) -> Exception:
        """Return a new error, because an error that is raised again keeps its traceback."""
        return type(self.error)(*self.error.args)


class Dropping(Middleware):
    """A middleware that drops the request."""

    error = IgnoreRequest("not in the list")


class Offline(Middleware):
    """A middleware that uses another server, which refuses connections."""

    error = ConnectionRefusedError(111, "Connection refused")


class Unloadable:
    """A download handler whose library is missing."""

    lazy = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> None:
        raise NotConfigured("needs the `nowhere` library")


class Crashing:
    """A download handler that raises."""

    lazy = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Crashing:
        return cls()

    async def download_request(self, request: Request) -> None:
        raise AttributeError("no attribute `session`")

    async def close(self) -> None:
        """Do nothing."""


class Fading(Middleware):
    """A middleware that fails for every robots.txt but the first."""

    asked = 0

    def process_request(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            Fading.asked += 1
            if Fading.asked > 1:
                raise self.new_error()


def beside(middleware: type) -> dict[str, Any]:
    """Return the settings for another middleware."""
    return {"DOWNLOADER_MIDDLEWARES": {**SETTINGS["DOWNLOADER_MIDDLEWARES"], middleware: 200}}


async def local(run: Run) -> dict[str, Any]:
    """Crawl two pages with a part that fails for robots.txt."""
    path = __name__
    cases: dict[str, dict[str, Any]] = {
        "Middleware": beside(Middleware),
        "Dropping": beside(Dropping),
        "Offline": beside(Offline),
        "Unloadable": {"DOWNLOAD_HANDLERS": {"http": f"{path}.Unloadable"}},
        "Crashing": {"DOWNLOAD_HANDLERS": {"http": f"{path}.Crashing"}},
    }
    results: dict[str, Any] = {}
    for name, settings in cases.items():
        with Site({"/robots.txt": robots(RULES)}) as site, logged() as lines:
            result = await run(Serial, {**NEVER, **settings}, [site.url("/a"), site.url("/b")])
            results[name] = {
                "outcomes": [short(outcome) for outcome in result.outcomes.values()],
                "targets": site.targets,
                "log": [
                    line.replace(site.netloc, "SITE").replace(f"{path}.", "") for line in lines
                ],
                "counted": [result.stat(f"{key}/local") for key in ("forbidden", "result")],
                "asked": result.stat("request_count"),
            }
    return results


_HIDDEN = ("handlers", "slots", "total_concurrency", "_process_queue", "_latercall")


class Own(Downloader):
    """A third-party downloader, as the package sees it: with the interface that the engine uses."""

    def __getattribute__(self, name: str) -> Any:
        if name in _HIDDEN and sys._getframe(1).f_globals["__name__"].startswith(
            "scrapy_robots_rfc"
        ):
            raise AttributeError(f"Own has no `{name}`")
        return super().__getattribute__(name)


async def own_downloader(run: Run) -> dict[str, Any]:
    """Crawl two schemes with a third-party downloader."""
    with Site({"/robots.txt": robots(RULES)}) as site, Site(tls=True) as secure, logged() as lines:
        urls = [site.url("/a"), site.url("/x"), secure.url("/a")]
        result = await run(Pages, {**NEVER, "DOWNLOADER": f"{__name__}.Own"}, urls)
        return {"outcomes": [short(result.outcomes[url]) for url in urls], "log": lines}
