"""FileReader: from the octets of a file, or a cache entry, to what is known of an origin.

Large files are read on a thread.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import Runtime, Threads
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.memory import LARGE
from scrapy_robots_rfc.core.agents import NOBODY, Agent
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.parser import RfcRobotParser
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.policy.schemes import Dialect
from scrapy_robots_rfc.settings import PARSER_ACCEPTED, Settings

if TYPE_CHECKING:
    from scrapy_robots_rfc.core.gemini import GeminiFile

logger: logging.Logger = logging.getLogger(__name__)

# Seconds to wait for the thread; it takes a second at most for a file, and many may come at once.
_PATIENCE = 60.0


class FileReader:
    """Reads the files of a crawl, by ROBOTSTXT_PARSER.

    :param agent: gives the agent of requests that bring none; large files are read for it.
    :raises SettingError: the parser cannot be loaded or made, or is no parser.
    """

    def __init__(self, crawler: Crawler, settings: Settings, agent: Callable[[], Agent]) -> None:
        self._crawler = crawler
        self._settings = settings
        self._agent = agent
        self._threads = Threads(1, Runtime(), "robots.txt parser")
        try:
            self._parser: type[Any] = load_object(settings.parser)
            # Fails at start if a dependency is missing, or if the class is no parser.
            probe = build_from_crawler(self._parser, crawler, b"")
            probe.allowed  # noqa: B018 - as above
        except Exception as error:
            accepted = f"{PARSER_ACCEPTED} ({type(error).__name__}: {error})"
            raise SettingError("ROBOTSTXT_PARSER", settings.parser, accepted) from error
        # A subclass with an allowed() of its own decides by that method, as a foreign parser does.
        kind = type(probe)
        self._ours = issubclass(kind, RfcRobotParser) and kind.allowed is RfcRobotParser.allowed
        if not self._ours:
            name = f"{kind.__module__}.{kind.__qualname__}"
            text = "ROBOTSTXT_PARSER is %s, which decides alone: verdicts name no rule and no line"
            logger.info(text, name, extra={"spider": crawler.spider})

    def parse(self, body: bytes, origin: Origin) -> ParsedRobots:
        """Return the parsed file of a site; raises whatever a parser of the user's raises."""
        settings = self._settings
        gemini = gemini_file(body, settings, origin.scheme)
        octets = body if gemini is None else gemini.octets
        parser: Any
        if self._parser is RfcRobotParser:  # its from_crawler reads the setting for each file
            parser = RfcRobotParser(octets, max_size=settings.max_size)
        else:
            parser = build_from_crawler(self._parser, self._crawler, octets)
        digest = ""
        if settings.report or settings.archive:
            digest = f"sha256:{sha256(body[: settings.max_size]).hexdigest()}"
        ours = self._ours
        own_delay = not ours or type(parser).crawl_delay is not RfcRobotParser.crawl_delay
        if ours and gemini is not None:
            parser.robots = gemini
        robots = parser.robots if ours else None
        size = len(body)
        return ParsedRobots(parser, robots, own_delay, size, ours and size > LARGE, digest)

    def policy(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Return what is known of an origin by a cache entry; its file is parsed now."""
        validity = entry.validity
        cause = entry.cause
        file = None
        if entry.body is not None:
            try:
                file = self.parse(entry.body, origin)
            except Exception as error:  # a file that cannot be read must not open the origin
                text = "ROBOTSTXT_PARSER failed on %s: the site counts as unreachable"
                logger.exception(text, origin.robots_url)
                cause = f"ROBOTSTXT_PARSER raised {type(error).__name__}"
                validity = Validity(
                    Outcome.UNREACHABLE, validity.fresh_until, unreachable_since=entry.fetched
                )
        return OriginPolicy(
            origin, validity, entry.status, cause, file, self._agent, entry.fetched, entry.for_all
        )

    async def policy_aside(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Do what `policy` does, and read a large file on the thread, for the crawl's own agent."""
        robots = self.policy(origin, entry)
        file = robots.file
        # Without the thread the first pages of a site would stop the event loop for up to a second.
        if file is not None and file.large:
            try:
                agent = self._agent()
            except Exception:  # noqa: BLE001 - the property is the user's, who sees its error when a page is judged
                agent = NOBODY
            await self.read_for(file, agent)
        return robots

    async def read_for(self, file: ParsedRobots, agent: Agent) -> None:
        """Read a file on the thread for an agent. Nothing is read any more when the crawl ends."""

        def read() -> None:
            if not _scrapy.is_closing(self._crawler):
                file.prepare(agent)

        with contextlib.suppress(TimeoutError):  # the next page that needs the file waits again
            await self._threads.call(read, limit=_PATIENCE)

    def stop(self) -> None:
        """Let the thread end."""
        self._threads.stop()


def gemini_file(body: bytes, settings: Settings, scheme: str) -> GeminiFile | None:
    """Return the parsed file of a scheme whose files have the rules of Gemini; else ``None``."""
    known = settings.schemes.get(scheme)
    if known is None or known.dialect is not Dialect.GEMINI:
        return None
    from scrapy_robots_rfc.core.gemini import GeminiFile  # noqa: PLC0415 - few crawls need it

    return GeminiFile(body, max_size=settings.max_size)
