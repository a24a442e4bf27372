"""The crawl of one command: it asks sites with the project's settings and components, as its crawls do.

What differs from such a crawl is in `_WITHOUT`. The modules of the topics decide what is asked, and
print it.
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

#: The parts of a project that may write files or open ports, which no command is to do.
_WITHOUT: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "FEEDS": {},
    "ROBOTS_REPORT": {},
    "ITEM_PIPELINES": {},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "JOBDIR": None,
    "HTTPCACHE_ENABLED": False,  # the question is one to the site
    "HTTPCACHE_IGNORE_MISSING": False,
    "SPIDER_LOADER_CLASS": "scrapy.spiderloader.DummySpiderLoader",  # no spider of the project is asked for anything
}

#: What else may be done where a site has no file.
_COPY = "or take a copy of its file: check --robots FILE, lint FILE"
_ASYNCIO = "twisted.internet.asyncioreactor.AsyncioSelectorReactor"


@dataclass(frozen=True, slots=True)
class FoundRobots:
    """What governs an origin, and where that is from.

    :param source: the URL of the robots.txt, or the name of the file that was given in its place.
    :param declared: the uses that the crawl declared whose archive it is from; ``None``: unknown.
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
    """Change the settings of a project to those of a command's crawl, and return those of this package."""
    # A command asks a site once: with the default it would ask an unreachable one again for a
    # minute.
    settings.set("ROBOTS_UNREACHABLE_BACKOFF", [], "command")
    Addon().update_settings(settings)
    cache = read_settings(settings).cache
    path = sqlite_path(cache) if isinstance(cache, str) and not settings["ROBOTS_CACHE"] else None
    if path is not None and not Path(path).exists():
        cache = None  # a command makes no store in the folder of a job
    for name, value in {**_WITHOUT, "ROBOTS_CACHE": cache}.items():
        settings.set(name, value, "cmdline")
    return read_settings(settings)


class Inquirer(Spider):
    """The spider of the crawl: it asks, and yields nothing.

    :param work: what it does, once it has begun.
    """

    name = "robots"
    work: Callable[[Inquirer], Awaitable[None]]

    async def start(self) -> AsyncIterator[Any]:
        """Do the work."""
        self._service = robots_service(self.crawler)
        await self.work(self)
        for request in list[Any]():
            yield request

    async def find(self, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
        """Return what governs origins; the service limits how many are asked at a time."""
        waits = [self._service.fetch(origin) for origin in origins]
        results = [await wait.result() for wait in waits]
        if None in results:
            raise Failed("stopped")
        return {robots.origin: self._found(robots) for robots in results if robots is not None}

    def _found(self, robots: OriginPolicy) -> FoundRobots:
        advice = "see whether the site is up"
        if robots.outcome is Outcome.LOCAL:
            advice = self._service.origin_log.local_advice.get(
                robots.cause, "mend the crawl's settings"
            )
        return FoundRobots(robots, robots.origin.robots_url, advice=f"{advice}, {_COPY}")

    async def page(self, url: str) -> Response:
        """Return the answer for a page, as a crawl gets it: robots.txt is obeyed, and redirects are followed.

        :raises Failed: there is none, or robots.txt forbids to ask for it.
        """
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
    """Run a crawl that does some work, and return what that gives.

    The work prints nothing: while the crawl runs, Ctrl-C ends the crawl.

    :param settings: prepared.
    :raises Failed: it could not begin, or was stopped.
    """
    failures: list[BaseException | None] = []
    given: list[T] = []

    async def guarded(inquirer: Inquirer) -> None:
        try:
            given.append(await work(inquirer))
        except Exception as error:  # noqa: BLE001 - raised again below, where nothing logs it
            failures.append(error)

    # A crawl leaves its own signal handlers, which call an event loop that has ended.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _begin(settings, guarded, failures.append).start()
    except Exception as error:  # noqa: BLE001 - it is what the project's settings name that raises here
        failures.append(error)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    for failure in filter(None, failures):
        raise _as_failed(failure)
    if not given:
        raise Failed("stopped")
    return given[0]


def found_about(settings: ScrapySettings, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
    """Return what governs origins, by their own robots.txt.

    :param settings: prepared.
    """
    return crawl(settings, lambda inquirer: inquirer.find(origins))


def _begin(
    settings: ScrapySettings,
    work: Callable[[Inquirer], Awaitable[None]],
    ended: Callable[[BaseException | None], None],
) -> CrawlerProcess | AsyncCrawlerProcess:
    """Begin a crawl in the kind of process that Scrapy's own commands choose.

    `ended` gets what kept it from that.
    """
    on_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO and not settings.getbool(
        "FORCE_CRAWLER_PROCESS"
    )
    if on_asyncio or not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        process = AsyncCrawlerProcess(settings)
        task = process.crawl(Inquirer, work=work)
        task.add_done_callback(lambda task: ended(None if task.cancelled() else task.exception()))
        return process
    other = CrawlerProcess(settings)
    other.crawl(Inquirer, work=work).addErrback(lambda failure: ended(failure.value))
    return other


def parsed(octets: bytes, scheme: str, settings: Settings) -> ParsedRobots:
    """Return a file that is given, as it counts for pages of a scheme.

    Gemini has rules of its own.
    """
    robots = gemini_file(octets, settings, scheme) or RobotsTxt.parse(
        octets, max_size=settings.max_size
    )
    return ParsedRobots(None, robots)


def given(file: ParsedRobots, source: str, origin: Origin) -> FoundRobots:
    """Return what governs an origin by a file that is given.

    :param source: the path of the file, or ``-``.
    """
    validity = Validity(Outcome.SUCCESSFUL, math.inf)
    policy = OriginPolicy(origin, validity, None, "given", file, lambda: NOBODY)
    return FoundRobots(policy, source_name(source))


def _as_failed(failure: BaseException) -> BaseException:
    """Return the exception that ends the command.

    One of the project's own code becomes a `Failed` with one line.
    """
    while (
        isinstance(failure, RuntimeError)
        and failure.__cause__ is None
        and failure.__context__ is not None
    ):
        failure = (
            failure.__context__
        )  # Scrapy may fail once more when it ends a crawl that could not begin
    if isinstance(failure, (Failed, SettingError)) or not isinstance(failure, Exception):
        return failure
    text = (
        str(failure)
        if isinstance(failure, (RobotsError, RuntimeError))
        else f"{type(failure).__name__}: {failure}"
    )
    return Failed(f"no crawl is possible with these settings: {text}")
