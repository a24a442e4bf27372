"""Create an origin's policy from a cache entry, which includes parsing the file."""

import contextlib
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import Runtime, Threads
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.memory import LARGE
from scrapy_robots_rfc.core.agents import NO_AGENT, Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import error_of_component
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.parser import RfcRobotParser, checked_crawlers
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Dialect, Origin
from scrapy_robots_rfc.settings import PARSER_ACCEPTED, Settings

logger: logging.Logger = logging.getLogger(__name__)

# Seconds to wait for the thread. A file takes up to a second, but many may be queued.
_PATIENCE = 60.0


class FileReader:
    """Parses a crawl's files using ROBOTSTXT_PARSER.

    :param agent: returns the crawl's own agent, which large files are prepared for.
    :raises SettingError: if the parser cannot be loaded or created, or is not a parser.
    """

    def __init__(self, crawler: Crawler, settings: Settings, agent: Callable[[], Agent]) -> None:
        self._crawler = crawler
        self._settings = settings
        self._agent = agent
        self._threads = Threads(1, Runtime(), "robots.txt parser")
        self._failures = set[str]()  # exception names that were already logged
        # Otherwise our parser would warn that it is used without the middleware.
        checked_crawlers.add(crawler)
        try:
            self._parser: type[Any] = load_object(settings.parser)
            # Fail at startup if a dependency is missing.
            probe = build_from_crawler(self._parser, crawler, b"")
            probe.allowed  # noqa: B018 - raises if the class is not a parser
        except Exception as error:
            raise error_of_component(
                "ROBOTSTXT_PARSER", settings.parser, PARSER_ACCEPTED, error
            ) from error
        # A subclass that overrides allowed() is treated like a third-party parser.
        kind = type(probe)
        self._is_ours = issubclass(kind, RfcRobotParser) and kind.allowed is RfcRobotParser.allowed
        if not self._is_ours:
            name = f"{kind.__module__}.{kind.__qualname__}"
            text = "ROBOTSTXT_PARSER is %s, so decisions do not include a rule or line"
            logger.info(text, name, extra={"spider": crawler.spider})

    def parse(self, body: bytes, origin: Origin) -> ParsedRobots:
        """Parse a site's file. Any exception from a third-party parser is raised."""
        settings = self._settings
        gemini = gemini_file(body, settings, origin.scheme)
        # A third-party parser gets the converted file, without the newline that `Content` adds.
        text = body if gemini is None else gemini.content.data[1:]
        parser: Any
        if self._parser is RfcRobotParser:  # its from_crawler would read the setting for every file
            parser = RfcRobotParser(text, max_size=settings.max_size)
        else:
            parser = build_from_crawler(self._parser, self._crawler, text)
        digest = ""
        if settings.report or settings.archive:
            digest = f"sha256:{sha256(body[: settings.max_size]).hexdigest()}"
        size = len(body)
        if not self._is_ours:
            return ParsedRobots(parser, None, has_crawl_delay=True, size=size, digest=digest)
        if gemini is not None:
            parser.robots = gemini
        # A subclass of our parser may only override `crawl_delay`.
        has_crawl_delay = type(parser).crawl_delay is not RfcRobotParser.crawl_delay
        is_large = size > LARGE
        return ParsedRobots(parser, parser.robots, has_crawl_delay, size, is_large, digest)

    def policy(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Create an origin's policy from a cache entry, parsing its file."""
        validity = entry.validity
        cause = entry.cause
        file = None
        if entry.body is not None:
            try:
                file = self.parse(entry.body, origin)
            except Exception as error:  # an unreadable file must not allow everything
                name = type(error).__name__
                cause = f"ROBOTSTXT_PARSER raised {name}"
                if name not in self._failures:  # a broken parser fails on many sites
                    self._failures.add(name)
                    text = "ROBOTSTXT_PARSER failed on %s, which counts as unreachable"
                    logger.exception(text, origin.robots_url)
                validity = Validity(
                    Outcome.UNREACHABLE, validity.fresh_until, unreachable_since=entry.fetched
                )
        return OriginPolicy(
            origin,
            validity,
            entry.status,
            cause,
            file,
            self._agent,
            entry.fetched,
            entry.for_all_routes,
        )

    async def prepared_policy(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Create an origin's policy, and prepare a large file for the crawl's own agent.

        Otherwise a site's first page could block the event loop for a second.
        """
        robots = self.policy(origin, entry)
        file = robots.file
        if file is not None and file.large:
            try:
                agent = self._agent()
            except Exception:  # noqa: BLE001 - raised again when a page is checked
                agent = NO_AGENT
            await self.prepare(file, agent)
        return robots

    async def prepare(self, file: ParsedRobots, agent: Agent) -> None:
        """Prepare a large file for an agent on a thread, unless the crawl is closing."""

        def prepare_if_needed() -> None:
            # The file may have been prepared for another request in the meantime.
            if file.needs_thread(agent) and not _scrapy.is_closing(self._crawler):
                file.prepare(agent)

        # If this takes too long, the thread continues, and requests that need the file wait again.
        with contextlib.suppress(TimeoutError):
            await self._threads.call(prepare_if_needed, limit=_PATIENCE)

    def stop(self) -> None:
        """Stop the thread."""
        self._threads.stop()


def gemini_file(body: bytes, settings: Settings, scheme: str) -> RobotsTxt | None:
    """Parse a file using Gemini's rules if they apply to the scheme. Otherwise return `None`."""
    known = settings.schemes.get(scheme)
    if known is None or known.rules is not Dialect.GEMINI:
        return None
    from scrapy_robots_rfc.core.gemini import GeminiFile  # noqa: PLC0415 - few crawls need it

    return GeminiFile(body, max_size=settings.max_size)
