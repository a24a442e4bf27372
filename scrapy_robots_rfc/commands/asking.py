"""The crawl of one command: it asks sites with the project's settings and components.

`_WITHOUT` says how it differs from the project's own crawls.
"""

from __future__ import annotations

import math
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, CrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.cache.stores.opening import sqlite_path
from scrapy_robots_rfc.commands.common import Failed, source_name, stripped
from scrapy_robots_rfc.core.agents import NOBODY
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import RobotsDisallowed, RobotsError, SettingError
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.fetching.reading import gemini_file
from scrapy_robots_rfc.fetching.routes import through
from scrapy_robots_rfc.middleware.downloader import robots_service
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings, read_settings

T = TypeVar("T")

#: What could write files, open ports or run spiders of the project, which no command may do.
_WITHOUT: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "FEEDS": {},
    "ROBOTS_REPORT": {},
    "ROBOTS_ARCHIVE": None,
    "ITEM_PIPELINES": {},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "JOBDIR": None,
    "HTTPCACHE_ENABLED": False,  # the site is asked, not the HTTP cache
    "HTTPCACHE_IGNORE_MISSING": False,
    "SPIDER_LOADER_CLASS": "scrapy.spiderloader.DummySpiderLoader",
}
#: What else can be done where a site has no file.
_COPY = "or take a copy of its file: check --robots FILE, lint FILE"
_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


@dataclass(frozen=True, slots=True)
class FoundRobots:
    """What governs an origin, and where that is from.

    :param source: the URL of the robots.txt, or the name of a file that replaces it.
    :param declared: the uses that an archived crawl declared; ``None``: unknown.
    :param advice: what to do where the file is unreachable, or the crawl itself failed.
    """

    robots: OriginPolicy
    source: str
    declared: tuple[str, ...] | None = None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why it is not known what governs a URL, and what to do."""

    why: str
    advice: str


def prepared(settings: ScrapySettings) -> Settings:
    """Change a project's settings to those of a command's crawl, and return this package's."""
    # A command asks a site once. By default it would go on for a minute.
    settings.set("ROBOTS_UNREACHABLE_BACKOFF", [], "command")
    Addon().update_settings(settings)
    cache = read_settings(settings).cache
    if isinstance(cache, str) and not settings["ROBOTS_CACHE"]:
        path = sqlite_path(cache)
        if path is not None and not Path(path).exists():
            cache = None  # a command makes no store in the folder of a job
    for name, value in {**_WITHOUT, "ROBOTS_CACHE": cache}.items():
        settings.set(name, value, "cmdline")
    return read_settings(settings)


class Inquirer(Spider):
    """The spider of the crawl: it does some work once it has begun, and yields nothing."""

    name = "robots"
    work: Callable[[Inquirer], Awaitable[None]]

    async def start(self) -> AsyncIterator[Any]:
        """Do the work."""
        self._service = robots_service(self.crawler)
        await self.work(self)
        for request in list[Any]():  # a `yield` makes this the generator that Scrapy wants
            yield request

    async def find(self, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
        """Return what governs origins; the service limits how many are asked at a time."""
        waits = [self._service.fetch(origin) for origin in origins]
        found = {}
        for wait in waits:
            robots = await wait.result()
            if robots is None:  # the crawl ends
                raise Failed("stopped")
            found[robots.origin] = self._found(robots)
        return found

    def _found(self, robots: OriginPolicy) -> FoundRobots:
        advice = "see whether the site is up"
        if robots.outcome is Outcome.LOCAL:
            known = self._service.origin_log.local_advice
            advice = known.get(robots.cause, "mend the crawl's settings")
        return FoundRobots(robots, robots.origin.robots_url, advice=f"{advice}, {_COPY}")

    async def page(self, url: str) -> Response:
        """Return the answer for a page; robots.txt is obeyed, and redirects are followed."""
        request = Request(stripped(url))
        assert self.crawler.engine is not None
        timeout = read_settings(self.settings).timeout
        try:
            return await self.crawler.engine.download_async(request)
        except Exception as error:
            refused = isinstance(error, RobotsDisallowed)
            cause = error if refused else through(access_after(error, timeout), request).cause
            raise Failed(f"{stripped(url)} cannot be read: {cause}") from error


def crawl(settings: ScrapySettings, work: Callable[[Inquirer], Awaitable[T]]) -> T:
    """Run a crawl that does some work, and return the result of that. The settings are prepared.

    The work prints nothing: while the crawl runs, Ctrl-C ends the crawl.
    """
    failures: list[BaseException | None] = []
    results: list[T] = []

    async def guarded(inquirer: Inquirer) -> None:
        try:
            results.append(await work(inquirer))
        except Exception as error:  # noqa: BLE001 - raised again below, where nothing logs it
            failures.append(error)

    # A crawl does not remove its signal handlers, and they call an event loop that has ended.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _begin(settings, guarded, failures.append).start()
    except Exception as error:  # noqa: BLE001 - any part that the project's settings name raises
        failures.append(error)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for failure in filter(None, failures):
        raise _as_failed(failure)
    if not results:
        raise Failed("stopped")
    return results[0]


def found_about(settings: ScrapySettings, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
    """Return what governs origins, by their own robots.txt. The settings are prepared."""
    return crawl(settings, lambda inquirer: inquirer.find(origins))


def _begin(
    settings: ScrapySettings,
    work: Callable[[Inquirer], Awaitable[None]],
    ended: Callable[[BaseException | None], None],
) -> CrawlerProcess | AsyncCrawlerProcess:
    """Begin a crawl in the kind of process that Scrapy's own commands choose."""
    forced = settings.getbool("FORCE_CRAWLER_PROCESS")
    on_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO and not forced
    if on_asyncio or not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        process = AsyncCrawlerProcess(settings)
        task = process.crawl(Inquirer, work=work)
        task.add_done_callback(lambda task: ended(None if task.cancelled() else task.exception()))
        return process
    other = CrawlerProcess(settings)
    other.crawl(Inquirer, work=work).addErrback(lambda failure: ended(failure.value))
    return other


def _as_failed(failure: BaseException) -> BaseException:
    """Return the exception that ends the command: one of the project's code becomes one line."""
    # Scrapy may fail once more, without a cause, when it ends a crawl that could not begin.
    while isinstance(failure, RuntimeError) and not failure.__cause__ and failure.__context__:
        failure = failure.__context__
    if isinstance(failure, (Failed, SettingError)) or not isinstance(failure, Exception):
        return failure
    is_sentence = isinstance(failure, (RobotsError, RuntimeError))
    text = str(failure) if is_sentence else f"{type(failure).__name__}: {failure}"
    return Failed(f"no crawl is possible with these settings: {text}")


def parsed(octets: bytes, scheme: str, settings: Settings) -> ParsedRobots:
    """Return a file as it counts for pages of a scheme: Gemini has rules of its own."""
    gemini = gemini_file(octets, settings, scheme)
    return ParsedRobots(None, gemini or RobotsTxt.parse(octets, max_size=settings.max_size))


def given(file: ParsedRobots, source: str, origin: Origin) -> FoundRobots:
    """Return what governs an origin by a file of the command line: a path, or ``-``."""
    validity = Validity(Outcome.SUCCESSFUL, math.inf)
    robots = OriginPolicy(origin, validity, None, "given", file, lambda: NOBODY)
    return FoundRobots(robots, source_name(source))
