"""The crawl of one command: it asks sites with the project's settings and components, as its crawls do.

What differs from such a crawl is in `_WITHOUT`. The modules of the topics decide what is asked, and print it.
"""

from __future__ import annotations

import signal
from base64 import b64encode
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_to_bytes, urldefrag, urlsplit

from scrapy import Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess

from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.cache.stores.opening import sqlite_path
from scrapy_robots_rfc.commands.common import NO_ANSWER, Failed, origin_of, shown, stripped
from scrapy_robots_rfc.errors import DecodingError, RobotsError, SettingError
from scrapy_robots_rfc.fetching.download import MARK
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.fetch import through
from scrapy_robots_rfc.middleware.downloader import robots_service
from scrapy_robots_rfc.policy.access import Asking, Successful, target_of
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import read_settings
from scrapy_robots_rfc.signals import robots_fetched

if TYPE_CHECKING:
    import argparse
    from asyncio import Task
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from scrapy import Request
    from scrapy.crawler import Crawler
    from scrapy.http import Response
    from scrapy.settings import Settings

    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.policy.access import Access
    from scrapy_robots_rfc.settings import Settings as Ours

#: A command asks a site once: with the default it would ask an unreachable one again for a minute.
DEFAULTS: dict[str, Any] = {"ROBOTSTXT_UNREACHABLE_BACKOFF": []}

#: The parts of a project that may write files or open ports, which no command is to do.
_WITHOUT: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "FEEDS": {},
    "ROBOTSTXT_REPORT": {},
    "ITEM_PIPELINES": {},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "JOBDIR": None,
    "HTTPCACHE_ENABLED": False,  # the question is one to the site
    "HTTPCACHE_IGNORE_MISSING": False,
    "SPIDER_LOADER_CLASS": "scrapy.spiderloader.DummySpiderLoader",  # no spider of the project is asked for anything
}

_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


@dataclass(frozen=True, slots=True)
class Hop:
    """A redirect on the way to a robots.txt.

    :param url: the URL that was asked for.
    :param status: of its answer.
    :param target: where that leads; ``None`` where it may not be followed.
    """

    url: str
    status: int
    target: str | None


def prepared(settings: Settings, opts: argparse.Namespace) -> Ours:
    """Change the settings of a project to those of a command's crawl, and return those of this package.

    :param opts: of the command: a log is written where it says so.
    """
    for name, value in DEFAULTS.items():
        settings.set(name, value, "command")
    Addon().update_settings(settings)
    cache = read_settings(settings).cache
    path = sqlite_path(cache) if isinstance(cache, str) and not settings["ROBOTSTXT_CACHE"] else None
    if path is not None and not Path(path).exists():
        cache = None  # a command makes no store in the folder of a job
    settings.set("ROBOTSTXT_CACHE", cache, "cmdline")
    for name, value in _WITHOUT.items():
        settings.set(name, value, "cmdline")
    if not (opts.logfile or opts.loglevel):
        settings.set("LOG_ENABLED", False, "cmdline")
    return read_settings(settings)


class Answer:
    """What a site has for a robots.txt. Await `waiter` until it is there."""

    def __init__(self) -> None:
        self.waiter: Waiter[None] = Waiter()
        self.is_there = False
        #: ``None``: the crawl was stopped first.
        self.robots: OriginPolicy | None = None

    def resolve(self, robots: OriginPolicy | None) -> None:
        """Give the answer to whoever waits."""
        self.robots, self.is_there = robots, True
        self.waiter.resolve(None)


class Inquirer:
    """Asks within the crawl.

    :param crawler: it runs.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._service = robots_service(crawler)
        self._settings = read_settings(crawler.settings)
        self._under_way: dict[object, list[Hop]] = {}
        self._hops: dict[str, tuple[Hop, ...]] = {}
        crawler.signals.connect(self._downloaded, signals.response_downloaded)
        crawler.signals.connect(self._fetched, robots_fetched)

    def ask(self, origin: Origin) -> Answer:
        """Begin to find out about an origin."""
        answer = Answer()
        robots = self._service.at_hand(origin)
        if robots is None:
            self._service.ask(origin).listen(answer.resolve)
        else:
            answer.resolve(robots)
        return answer

    def redirects(self, origin: Origin) -> tuple[Hop, ...]:
        """Return the redirects that the fetch of an origin's file followed; none where it came out of a store."""
        return self._hops.get(origin.robots_url, ())

    async def download(self, url: str) -> tuple[bytes, tuple[Hop, ...]]:
        """Return the octets that a URL has, and the redirects on the way; it is fetched as a robots.txt is.

        Userinfo is sent as a browser sends it (RFC 7617), to its own origin.

        :raises Failed: it has nothing.
        """
        first, mark = origin_of(url), object()
        runtime, authorization = Runtime(), _authorization(url)
        end = runtime.clock() + self._settings.timeout
        state: Asking | Access = Asking(urldefrag(stripped(url)).url)
        while isinstance(state, Asking):
            request = self._service.download.request(state.url, timeout=max(end - runtime.clock(), 0.1), mark=mark)
            if authorization is not None and Origin.of(state.url) == first:
                request.headers[b"Authorization"] = authorization
            try:
                response, body = await self._service.download.send(request)
            except Exception as error:
                cause = through(access_after(error, self._settings.timeout), request).cause
                raise _unfetched(url, cause, isinstance(error, DecodingError)) from error
            location, statuses = response.headers.get(b"Location"), self._settings.unreachable_statuses
            state = state.answered(response.status, location, body, unreachable_statuses=statuses)
        hops = self._under_way.pop(mark, [])
        if not isinstance(state, Successful):
            because = f"its server answers {state.cause}" if state.cause == str(state.status) else state.cause
            raise _unfetched(url, because)
        return state.body, tuple(hop for hop in hops if hop.status // 100 == 3)

    def _downloaded(self, request: Request, response: Response) -> None:
        transfer = request.meta.get(MARK)
        if transfer is not None:
            hops = self._under_way.setdefault(transfer.mark, [])
            if not hops or hops[-1].url != stripped(request.url):  # a retry asks the same again
                target = target_of(request.url, response.headers.get("Location"))
                hops.append(Hop(stripped(request.url), response.status, target))

    def _fetched(self, origin: Origin) -> None:
        for mark, hops in list(self._under_way.items()):
            if hops[0].url == origin.robots_url:
                del self._under_way[mark]
                found = tuple(hop for hop in hops if hop.status // 100 == 3 and hop.status != 304)
                self._hops.pop(origin.robots_url, None)
                if found:  # few files have any, and there may be many files
                    self._hops[origin.robots_url] = found


def _authorization(url: str) -> bytes | None:
    """Return the value of the Authorization header that the userinfo of a URL stands for; ``None`` without userinfo."""
    userinfo, at, _ = urlsplit(url).netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    return b"Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password)) if at else None


def _unfetched(url: str, because: str, is_there: bool = False) -> Failed:
    """Return the error that a URL has no file.

    :param is_there: it has one, which cannot be decoded.
    """
    advice = "see what its server sends, or name a copy of the file" if is_there else "check the address"
    return Failed(f"{shown(url)} cannot be fetched: {because}; {advice}", NO_ANSWER)


class _Spider(Spider):
    name = "robots"
    work: Callable[[Crawler], Awaitable[None]]

    async def start(self) -> AsyncIterator[Any]:
        await self.work(self.crawler)
        nothing: tuple[Any, ...] = ()
        for request in nothing:
            yield request


def crawl(settings: Settings, work: Callable[[Inquirer], Awaitable[None]]) -> None:
    """Run a crawl that does some work and ends.

    :param settings: prepared.
    :raises Failed: it could not begin.
    """
    failures: list[BaseException] = []

    async def guarded(crawler: Crawler) -> None:
        try:
            await work(Inquirer(crawler))
        except KeyboardInterrupt as error:
            failures.append(error)
            if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                signal.raise_signal(signal.SIGINT)  # the crawl ends as by one that comes while it waits
        except OSError as error:  # that of an output, for instance: the command's own, and not the project's
            failures.append(error)
        except Exception as error:  # noqa: BLE001 - raised again below, where nobody logs it
            failures.append(_said(error))

    try:
        with _handlers_kept():
            process = _begin(settings, guarded, failures)
            if not any(isinstance(failure, KeyboardInterrupt) for failure in failures):  # there is no work left
                process.start()
    except Exception as error:  # noqa: BLE001 - it is what the project's settings name that raises here
        failures.append(_said(error))
    if failures:
        raise failures[0]


def downloaded(settings: Settings, urls: list[str]) -> dict[str, bytes]:
    """Return what URLs have, by URL.

    :param settings: prepared.
    :raises Failed: one has nothing, or the crawl was stopped before.
    """
    found: dict[str, bytes] = {}

    async def work(inquirer: Inquirer) -> None:
        for url in urls:
            found[url], _ = await inquirer.download(url)

    crawl(settings, work)
    for url in urls:
        if url not in found:
            raise Failed(f"stopped before {shown(url)} was there", NO_ANSWER)
    return found


@contextmanager
def stoppable() -> Iterator[None]:
    """Make Ctrl-C raise KeyboardInterrupt at once, in code that does not wait, such as printing.

    The crawl's own handler acts when the event loop goes on, which is when all is printed.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _handlers_kept() -> Iterator[None]:
    """Restore the signal handlers after a crawl: it leaves its own, which call an event loop that has ended."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


def _begin(
    settings: Settings, work: Callable[[Crawler], Awaitable[None]], failures: list[BaseException]
) -> CrawlerProcess | AsyncCrawlerProcess:
    """Begin a crawl in the kind of process that Scrapy's own commands choose; add why it could not to `failures`."""

    def ended(task: Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            failures.append(_said(error))

    on_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO and not settings.getbool("FORCE_CRAWLER_PROCESS")
    if on_asyncio or not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        process = AsyncCrawlerProcess(settings)
        process.crawl(_Spider, work=work).add_done_callback(ended)
        return process

    def failed(failure: Any) -> None:  # noqa: ANN401 - Twisted's
        failures.append(_said(failure.value))

    other = CrawlerProcess(settings)
    other.crawl(_Spider, work=work).addErrback(failed)
    return other


def _said(failure: BaseException) -> BaseException:
    """Return the exception that ends the command: one of the project's own code becomes a `Failed` with one line."""
    while isinstance(failure, RuntimeError) and failure.__cause__ is None and failure.__context__ is not None:
        failure = failure.__context__  # Scrapy may fail once more when it ends a crawl that could not begin
    if isinstance(failure, (Failed, SettingError)) or not isinstance(failure, Exception):
        return failure
    text = str(failure) if isinstance(failure, (RobotsError, RuntimeError)) else f"{type(failure).__name__}: {failure}"
    return Failed(f"no crawl is possible with these settings: {text}", NO_ANSWER)
