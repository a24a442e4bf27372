"""FileReader: from a cache entry to what is known of an origin.

Large files are read on a thread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc._runtime import Runtime, Threads
from scrapy_robots_rfc.core.agents import NOBODY
from scrapy_robots_rfc.fetching.parsed import FileParser, OriginPolicy, ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.pending import Crawl
    from scrapy_robots_rfc.policy.origins import Origin

# Seconds to wait for the thread, which takes a second at most for a file of 500 KiB; many may come
# at once. After that, a file is read when it is needed, on the event loop.
_PATIENCE = 60.0


class FileReader:
    """Reads the files of a crawl.

    :param parse: parses them.
    :param crawl: gives the agent that large files are read for.
    :param runtime: of the thread.
    :param closing: whether the crawl is ending, so that nothing is read any more.
    """

    def __init__(
        self, parse: FileParser, crawl: Crawl, runtime: Runtime, closing: Callable[[], bool]
    ) -> None:
        self._parse = parse
        self._crawl = crawl
        self._closing = closing
        self._threads = Threads(1, runtime, "robots.txt parser")

    def policy(
        self, origin: Origin, entry: CacheEntry, file: ParsedRobots | str | None = None
    ) -> OriginPolicy:
        """Return what is known of an origin by a cache entry.

        :param file: what `parsed` gave for the body of the entry; ``None``: it is parsed now.
        """
        validity = entry.validity
        cause = entry.cause
        if entry.body is None:
            file = None
        elif file is None:
            file = self._parse.tried(origin, entry.body)
        if isinstance(file, str):  # a file that cannot be read must not open the origin
            unreachable = Outcome.UNREACHABLE
            validity = Validity(unreachable, validity.fresh_until, unreachable_since=entry.fetched)
            cause = file
            file = None
        agent = self._crawl.agent
        return OriginPolicy(origin, validity, entry.status, cause, file, agent, entry.fetched)

    async def policy_aside(
        self, origin: Origin, entry: CacheEntry, file: ParsedRobots | str | None = None
    ) -> OriginPolicy:
        """Do what `policy` does, but read a large file on the thread."""
        if file is None and entry.body is not None:
            file = await self.parsed(origin, entry.body)
        return self.policy(origin, entry, file)

    async def parsed(self, origin: Origin, body: bytes) -> ParsedRobots | str:
        """Return a parsed file, or why it cannot be parsed.

        A large one is read on the thread for the crawl's own agent before it is handed out:
        otherwise the first pages of a site would stop the event loop for up to a second.
        """
        file = self._parse.tried(origin, body)
        agent = self._agent()
        if isinstance(file, ParsedRobots) and file.unread(agent) and not self._closing():
            try:
                await self._read(file, agent)
            except TimeoutError:  # the thread may still be at work on this one
                file = self._parse.tried(origin, body)
                if isinstance(file, ParsedRobots):
                    file.at_once = True
        return file

    async def read_for(self, file: ParsedRobots, agent: Agent) -> None:
        """Read a file on the thread for one more agent."""
        try:
            await self._read(file, agent)
        except TimeoutError:
            file.at_once = True

    def stop(self) -> None:
        """Let the thread end."""
        self._threads.stop()

    async def _read(self, file: ParsedRobots, agent: Agent) -> None:
        def read() -> None:
            if not self._closing():
                file.prepare(agent)

        await self._threads.call(read, limit=_PATIENCE)

    def _agent(self) -> Agent:
        try:
            return self._crawl.agent()
        except Exception:  # noqa: BLE001 - the property is the user's, who sees its error when a page is judged
            return NOBODY
