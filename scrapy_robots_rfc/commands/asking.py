"""The crawl of one command: it asks sites with the project's settings and components, as its crawls do.

What differs from such a crawl is in `_WITHOUT`. The modules of the topics decide what is asked, and print it.
"""

from __future__ import annotations

import math
import signal
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote_to_bytes, urldefrag, urlsplit

from scrapy import Request, Spider, signals
from scrapy.crawler import AsyncCrawlerProcess, Crawler, CrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.cache.stores.opening import sqlite_path
from scrapy_robots_rfc.commands.common import Console, Failed, is_url, origin_of, read, source_name, stripped
from scrapy_robots_rfc.core.agents import NOBODY
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import RobotsDisallowed, RobotsError, SettingError
from scrapy_robots_rfc.fetching.download import MARK
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.fetch import through
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots, gemini_file
from scrapy_robots_rfc.middleware.downloader import robots_service
from scrapy_robots_rfc.policy.access import Access, Asking, Outcome, Successful, target_of
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.schemes import SCHEMES
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


@dataclass(frozen=True, slots=True)
class FoundRobots:
    """What governs an origin, and where that is from.

    :param source: the URL of the robots.txt, or the name of the file that was given in its place.
    :param hops: the redirects that its fetch followed.
    :param declared: the uses that the crawl declared whose archive it is from; ``None``: unknown.
    :param advice: what to do where the file is unreachable, or the crawl itself failed.
    """

    robots: OriginPolicy
    source: str
    hops: tuple[Hop, ...] = ()
    declared: tuple[str, ...] | None = None
    advice: str = ""


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A robots.txt that a command is given, in place of those of sites.

    :param source: a path, a URL, or ``-``.
    :param hops: the redirects that its fetch followed.
    """

    source: str
    file: RobotsTxt
    hops: tuple[Hop, ...] = ()

    def found(self, origin: Origin, settings: Settings) -> FoundRobots:
        """Return what governs an origin by this file: a Gemini page is judged by the rules of Gemini."""
        octets = "\n".join(self.file.raw_lines).encode("latin-1")
        file = ParsedRobots(None, gemini_file(octets, settings, origin.scheme) or self.file)
        validity = Validity(Outcome.SUCCESSFUL, math.inf)
        policy = OriginPolicy(origin, validity, None, "given", file, lambda: NOBODY)
        return FoundRobots(policy, source_name(self.source), self.hops)


def prepared(settings: ScrapySettings) -> Settings:
    """Change the settings of a project to those of a command's crawl, and return those of this package."""
    # A command asks a site once: with the default it would ask an unreachable one again for a minute.
    settings.set("ROBOTS_UNREACHABLE_BACKOFF", [], "command")
    Addon().update_settings(settings)
    cache = read_settings(settings).cache
    path = sqlite_path(cache) if isinstance(cache, str) and not settings["ROBOTS_CACHE"] else None
    if path is not None and not Path(path).exists():
        cache = None  # a command makes no store in the folder of a job
    for name, value in {**_WITHOUT, "ROBOTS_CACHE": cache}.items():
        settings.set(name, value, "cmdline")
    return read_settings(settings)


class Inquirer:
    """Asks within the crawl.

    :param crawler: it runs.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._service = robots_service(crawler)
        self._settings = read_settings(crawler.settings)
        #: URL -> its redirect; few files have one, and there may be many files.
        self._hops: dict[str, Hop] = {}
        crawler.signals.connect(self._downloaded, signals.response_downloaded)

    async def find(self, origins: Iterable[Origin], found: dict[Origin, FoundRobots], console: Console) -> None:
        """Find out what governs origins; the service limits how many are asked at a time.

        :param found: what is known, as far as the crawl came before it was stopped.
        """
        waits = [self._service.ask(origin) for origin in origins]
        for number, wait in enumerate(waits):
            console.progress(number, len(waits))
            if (robots := await wait.result()) is not None:
                source, advice = robots.origin.robots_url, "see whether the site is up"
                if robots.outcome is Outcome.LOCAL:
                    advice = self._service.origin_log.local_advice.get(robots.cause, "mend the crawl's settings")
                found[robots.origin] = FoundRobots(robots, source, self._redirects(source), advice=advice)

    def _redirects(self, url: str) -> tuple[Hop, ...]:
        """Return the redirects that were followed from a URL; none where its file came out of a store."""
        found: list[Hop] = []
        while (hop := self._hops.get(url)) is not None and hop not in found:
            found.append(hop)
            url = hop.target or ""
        return tuple(found)

    async def download(self, url: str) -> GivenFile:
        """Return the file that a URL has; it is fetched as a robots.txt is.

        Userinfo is sent as a browser sends it (RFC 7617), to its own origin.

        :raises Failed: it has none.
        """
        first = Asking(urldefrag(stripped(url)).url, scheme=SCHEMES[urlsplit(url).scheme])
        mark = object()
        clock = Runtime().clock
        end = clock() + self._settings.timeout
        authorization = _authorization(url)
        state: Asking | Access = first
        while isinstance(state, Asking):
            request = self._service.download.request(state.url, timeout=max(end - clock(), 0.1), mark=mark)
            if Origin.of(state.url) == Origin.of(url):
                request.headers.update(authorization)
            try:
                response, body = await self._service.download.send(request)
            except Exception as error:  # noqa: BLE001 - whatever a download raises: it is told below
                state = through(access_after(error, self._settings.timeout), request)
            else:
                location = response.headers.get(b"Location")
                statuses = self._settings.unreachable_statuses
                state = state.answered(response.status, location, body, unreachable_statuses=statuses)
        if not isinstance(state, Successful):
            because = f"its server answers {state.cause}" if state.cause == str(state.status) else state.cause
            advice = "check the address, see what its server sends, or name a copy of the file"
            raise Failed(f"{stripped(url)} cannot be fetched: {because}; {advice}")
        file = RobotsTxt.parse(state.body, max_size=self._settings.max_size)
        return GivenFile(url, file, self._redirects(first.url))

    async def page(self, url: str) -> Response:
        """Return the answer for a page, as a crawl gets it: robots.txt is obeyed, and redirects are followed.

        :raises Failed: there is none, or robots.txt forbids to ask for it.
        """
        request = Request(stripped(url), headers=_authorization(url))
        assert self._crawler.engine is not None
        try:
            return await self._crawler.engine.download_async(request)
        except Exception as error:
            refused = isinstance(error, RobotsDisallowed)
            cause = error if refused else through(access_after(error, self._settings.timeout), request).cause
            raise Failed(f"{stripped(url)} cannot be read: {cause}") from error

    def _downloaded(self, request: Request, response: Response) -> None:
        if MARK in request.meta and response.status // 100 == 3 and response.status != 304:
            url = stripped(request.url)
            self._hops[url] = Hop(url, response.status, target_of(request.url, response.headers.get("Location")))


def _authorization(url: str) -> dict[str, bytes]:
    """Return the header that the userinfo of a URL stands for; none without userinfo."""
    userinfo, at, _ = urlsplit(url).netloc.rpartition("@")
    user, _, password = userinfo.partition(":")
    said = b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password))
    return {"Authorization": b"Basic " + said} if at else {}


class _Spider(Spider):
    name = "robots"
    work: Callable[[Crawler], Awaitable[None]]

    async def start(self) -> AsyncIterator[Any]:
        await self.work(self.crawler)
        for request in list[Any]():
            yield request


def crawl(settings: ScrapySettings, work: Callable[[Inquirer], Awaitable[T]]) -> T | None:
    """Run a crawl that does some work, and return what that gives; ``None``: it was stopped before.

    The work prints no answers: while the crawl runs, Ctrl-C ends what waits for sites, and nothing else.

    :param settings: prepared.
    :raises Failed: it could not begin.
    """
    failures: list[BaseException | None] = []
    given: list[T] = []

    async def guarded(crawler: Crawler) -> None:
        try:
            given.append(await work(Inquirer(crawler)))
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
    return given[0] if given else None


def found_about(settings: ScrapySettings, origins: Iterable[Origin], console: Console) -> dict[Origin, FoundRobots]:
    """Return what governs origins, by their own robots.txt, as far as a crawl found it out before it was stopped.

    :param settings: prepared.
    """
    found: dict[Origin, FoundRobots] = {}
    crawl(settings, lambda inquirer: inquirer.find(origins, found, console))
    return found


def _begin(
    settings: ScrapySettings, work: Callable[[Crawler], Awaitable[None]], ended: Callable[[BaseException | None], None]
) -> CrawlerProcess | AsyncCrawlerProcess:
    """Begin a crawl in the kind of process that Scrapy's own commands choose; `ended` gets what kept it from that."""
    on_asyncio = settings["TWISTED_REACTOR"] == _ASYNCIO and not settings.getbool("FORCE_CRAWLER_PROCESS")
    if on_asyncio or not settings.getbool("TWISTED_REACTOR_ENABLED", True):
        process = AsyncCrawlerProcess(settings)
        task = process.crawl(_Spider, work=work)
        task.add_done_callback(lambda task: ended(None if task.cancelled() else task.exception()))
        return process
    other = CrawlerProcess(settings)
    other.crawl(_Spider, work=work).addErrback(lambda failure: ended(failure.value))
    return other


def given_file(settings: ScrapySettings, source: str, console: Console) -> GivenFile:
    """Read a file, or fetch it from a URL, as a project fetches pages: its proxies, its identification.

    :param settings: prepared.
    :raises Failed: it is not there, or the crawl was stopped before.
    """
    if not is_url(source):
        max_size = read_settings(settings).max_size
        return GivenFile(source, RobotsTxt.parse(read(source, console, max_size), max_size=max_size))
    origin_of(source)
    parts = urlsplit(source)
    url = source
    if parts.path in ("", "/") and not parts.query:  # a site stands for its file
        url = parts._replace(path="/robots.txt", fragment="").geturl()
    if (found := crawl(settings, lambda inquirer: inquirer.download(url))) is None:
        raise Failed(f"stopped before {stripped(url)} was there")
    return found


def _as_failed(failure: BaseException) -> BaseException:
    """Return the exception that ends the command: one of the project's own code becomes a `Failed` with one line."""
    while isinstance(failure, RuntimeError) and failure.__cause__ is None and failure.__context__ is not None:
        failure = failure.__context__  # Scrapy may fail once more when it ends a crawl that could not begin
    if isinstance(failure, (Failed, SettingError)) or not isinstance(failure, Exception):
        return failure
    text = str(failure) if isinstance(failure, (RobotsError, RuntimeError)) else f"{type(failure).__name__}: {failure}"
    return Failed(f"no crawl is possible with these settings: {text}")
