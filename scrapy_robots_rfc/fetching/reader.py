"""Create an origin's policy from a cache entry, which includes parsing the file."""

import contextlib
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import error_of_component
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.parser import RfcRobotParser, checked_crawlers
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Dialect, Origin
from scrapy_robots_rfc.settings import PARSER_ACCEPTED, Settings

logger: logging.Logger = logging.getLogger(__name__)

#: Size in bytes above which a file counts as large. Smaller ones take up to 5 ms.
LARGE = 16 * 1024
#: Minimum seconds for which a crawl uses a result, even if the response must not be cached, or the
#: crawl itself failed. Otherwise, each request would need a fetch of its own.
MIN_FRESH = 1.0


class FileReader:
    """Parses a crawl's files using ROBOTSTXT_PARSER.

    :param agent: returns the crawl's own agent.
    :raises SettingError: if the parser cannot be loaded or created, or is not a parser.
    """

    def __init__(self, crawler: Crawler, settings: Settings, agent: Callable[[], Agent]) -> None:
        self._crawler = crawler
        self._settings = settings
        self._agent = agent
        self._runtime = Runtime()
        self._has_read = False  # whether a large file was read in this iteration of the event loop
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
        # For Gemini, a third-party parser gets the file as converted to RFC 9309, without the
        # leading newline that `Content` adds.
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
            return ParsedRobots(parser, None, size=size, digest=digest)
        if gemini is not None:  # it also decides as Gemini's rules say
            parser.robots = gemini
        # A subclass of our parser may override `crawl_delay` alone.
        has_crawl_delay = type(parser).crawl_delay is not RfcRobotParser.crawl_delay
        return ParsedRobots(parser, parser.robots, has_crawl_delay, size, digest)

    def policy(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Create an origin's policy from a cache entry, parsing its file."""
        fresh_until = max(entry.validity.fresh_until, entry.fetched + MIN_FRESH)
        validity = entry.validity._replace(fresh_until=fresh_until)
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
                    Outcome.UNREACHABLE, fresh_until, unreachable_since=entry.fetched
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

    async def read(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Create an origin's policy, and index a large file for the crawl's own agent.

        A hostile file may block the event loop for 100 ms. Let it run between two large files.
        """
        if len(entry.body or b"") <= LARGE:
            return self.policy(origin, entry)
        while self._has_read:
            await self._runtime.sleep(0)
        self._has_read = True
        self._runtime.call_later(0, self._allow_next)
        policy = self.policy(origin, entry)
        if policy.robots is not None:
            with contextlib.suppress(Exception):  # of the spider's agent; a page raises it again
                policy.decide(origin.robots_url)  # the first decision builds the index
        return policy

    def _allow_next(self) -> None:
        """Let `read` parse another large file, because the event loop has run."""
        self._has_read = False


def gemini_file(body: bytes, settings: Settings, scheme: str) -> RobotsTxt | None:
    """Parse a file using Gemini's rules if they apply to the scheme. Otherwise return `None`."""
    known = settings.schemes.get(scheme)
    if known is None or known.rules is not Dialect.GEMINI:
        return None
    from scrapy_robots_rfc.core.gemini import GeminiFile  # noqa: PLC0415 - few crawls need it

    return GeminiFile(body, max_size=settings.max_size)
