"""The user's exceptions from what sites say: ROBOTS_EXEMPT and ROBOTS_OVERRIDES.

An exempt origin is not asked for its robots.txt; a local file decides in place of that of its
origin. `policy/origins.py` says how the names of sites are read.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

from scrapy import signals
from scrapy.crawler import Crawler

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

# Exempt origins whose value is cached: a crawl of many hosts must not fill the memory.
_MOST_CACHED = 10_000

# How many of a kind are named at the start of a crawl.
_NAMED = 10


class Overrides:
    """The exceptions of a crawl, a `Source`. The local files are read once, by the constructor.

    :param parse: parses a file; may raise.
    :param agent: the agent of a request without an agent of its own.
    :raises SettingError: a file of ROBOTS_OVERRIDES is missing, or cannot be read or parsed.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        parse: Callable[[bytes, Origin], ParsedRobots],
        agent: Callable[[], Agent],
    ) -> None:
        self._crawler = crawler
        self._agent = agent
        self._sites = settings.exempt
        self._exempt = lru_cache(_MOST_CACHED)(self._exempted)
        self._overrides: dict[Origin, OriginPolicy] = {}
        for origin, path in settings.overrides.items():
            try:
                file = parse(_read(Path(path), settings.max_size), origin)
            except Exception as error:  # a parser of the user's may raise anything
                problem = str(getattr(error, "strerror", None) or error) or type(error).__name__
                accepted = (
                    f"the path of a file that can be read ({Path(path).absolute()}: {problem})"
                )
                raise SettingError(f"ROBOTS_OVERRIDES[{str(origin)!r}]", path, accepted) from error
            validity = Validity(Outcome.SUCCESSFUL, math.inf)
            self._overrides[origin] = OriginPolicy(
                origin, validity, None, path, file, agent, override=path
            )
        crawler.signals.connect(self._opened, signals.spider_opened)

    def robots(self, origin: Origin) -> OriginPolicy | None:
        """Return what is known of an origin if the user made an exception of it; else ``None``.

        A local file wins over an exemption: it is for this origin, and the pattern of an exemption
        may be for many.
        """
        return self._overrides.get(origin) or self._exempt(origin)

    def _opened(self) -> None:
        """Log which exceptions there are."""
        exempt = [site.text for site in self._sites]
        files = [f"{robots.override} for {origin}" for origin, robots in self._overrides.items()]
        self._log("ROBOTS_EXEMPT: not asked for their robots.txt are %s", exempt)
        self._log("ROBOTS_OVERRIDES: local files decide: %s", files)

    def _log(self, text: str, names: Sequence[str]) -> None:
        if names:
            more = len(names) - _NAMED
            named = ", ".join(names[:_NAMED]) + (f", and {more} more" if more > 0 else "")
            logger.info(text, named, extra={"spider": self._crawler.spider})

    def _exempted(self, origin: Origin) -> OriginPolicy | None:
        site = next((site for site in self._sites if site.covers(origin)), None)
        if site is None:
            return None
        validity = Validity(Outcome.UNAVAILABLE, math.inf)
        return OriginPolicy(
            origin, validity, None, "not asked", None, self._agent, exempt=site.text
        )


def _read(path: Path, most: int) -> bytes:
    if path.exists() and not path.is_file():  # to read a pipe would block
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        body = file.read(most + 1)
    # A site's file would be cut off; here the user has to know of rules that would not count.
    if len(body) > most:
        raise ValueError(f"longer than ROBOTS_MAX_SIZE, {most} octets")
    return body
