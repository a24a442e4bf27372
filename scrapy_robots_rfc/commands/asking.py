"""The crawl of one command: it asks sites with the project's settings and components.

`_WITHOUT` says how it differs from the project's own crawls.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.commands.common import Failed, stripped
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import RobotsDisallowed, RobotsError, SettingError
from scrapy_robots_rfc.fetching.download import through
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots, gemini_file
from scrapy_robots_rfc.middleware.downloader import robots_service
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings, read_settings

T = TypeVar("T")

#: What could write files, open ports or run spiders of the project, which no command may do. A
#: store in the job directory is not used, either.
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
    # The one that `AsyncCrawlerProcess` installs.
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
}
#: What else can be done where a site has no file.
_COPY = "or take a copy of its file: check --robots FILE, lint FILE"


@dataclass(frozen=True, slots=True)
class FoundRobots:
    """What governs an origin, and where that is from."""

    robots: OriginPolicy
    source: str  # the URL of the robots.txt, or the name of a file that replaces it
    declared: tuple[str, ...] | None = None  # the uses of an archived crawl; `None`: unknown
    advice: str = ""  # where the file is unreachable, or the crawl itself failed


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
    for name, value in _WITHOUT.items():
        settings.set(name, value, "cmdline")
    return read_settings(settings)


class Inquirer(Spider):
    """The spider of the crawl: it does some work once it has begun, and yields nothing."""

    name = "robots"
    work: Callable[[Inquirer], Awaitable[None]]

    async def start(self) -> AsyncIterator[Any]:
        """Do the work."""
        await self.work(self)
        for request in list[Any]():  # a `yield` makes this the generator that Scrapy wants
            yield request

    async def find(self, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
        """Return what governs origins; the service limits how many are asked at a time."""
        service = robots_service(self.crawler)
        found = {}
        for wait in [service.fetch(origin) for origin in origins]:
            robots = await wait.result()
            if robots is None:  # the crawl ends
                raise Failed("stopped")
            advice = "see whether the site is up"
            if robots.outcome is Outcome.LOCAL:
                known = service.origin_log.local_advice
                advice = known.get(robots.cause, "mend the crawl's settings")
            url = robots.origin.robots_url
            found[robots.origin] = FoundRobots(robots, url, advice=f"{advice}, {_COPY}")
        return found

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
    failures: list[Exception] = []
    results: list[T] = []

    async def guarded(inquirer: Inquirer) -> None:
        try:
            results.append(await work(inquirer))
        except Exception as error:  # noqa: BLE001 - raised again below, where nothing logs it
            failures.append(error)

    # A crawl does not remove its signal handlers, and they call an event loop that has ended.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        process = AsyncCrawlerProcess(settings)
        task = process.crawl(Inquirer, work=guarded)
        process.start()
        if task.done() and not task.cancelled():
            task.result()
    except Exception as error:  # noqa: BLE001 - any part that the project's settings name raises
        failures.append(error)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if failures:
        raise _as_failed(failures[0])
    if not results:
        raise Failed("stopped")
    return results[0]


def found_about(settings: ScrapySettings, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
    """Return what governs origins, by their own robots.txt. The settings are prepared."""
    return crawl(settings, lambda inquirer: inquirer.find(origins))


def _as_failed(failure: Exception) -> Exception:
    """Return the exception that ends the command: one of the project's code becomes one line."""
    # Scrapy may fail once more, without a cause, when it ends a crawl that could not begin.
    while isinstance(failure, RuntimeError) and isinstance(failure.__context__, Exception):
        failure = failure.__context__
    if isinstance(failure, (Failed, SettingError)):
        return failure
    is_sentence = isinstance(failure, (RobotsError, RuntimeError))
    text = str(failure) if is_sentence else f"{type(failure).__name__}: {failure}"
    return Failed(f"no crawl is possible with these settings: {text}")


def parsed(octets: bytes, scheme: str, settings: Settings) -> ParsedRobots:
    """Return a file as it counts for pages of a scheme: Gemini has rules of its own."""
    gemini = gemini_file(octets, settings, scheme)
    return ParsedRobots(None, gemini or RobotsTxt.parse(octets, max_size=settings.max_size))
