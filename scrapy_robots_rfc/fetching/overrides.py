"""The user's exceptions: ROBOTS_EXEMPT and ROBOTS_OVERRIDES.

The robots.txt of an exempt origin is not fetched. A local file decides instead of the origin's own.
`policy/origins.py` reads the names of sites.
"""

import logging
import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path

from scrapy.crawler import Crawler

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin, Site
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

# Maximum origins that are cached, so that a crawl of many hosts does not fill the memory.
_MAX_CACHED = 10_000

# Maximum exceptions of a kind in a log line.
_MAX_NAMED = 10


class Overrides:
    """The exceptions of a crawl, a `Source`. The constructor reads the local files.

    :param parse: parses a file; may raise.
    :param agent: returns the crawl's own agent.
    :raises SettingError: if a file of ROBOTS_OVERRIDES cannot be read or parsed.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        parse: Callable[[bytes, Origin], ParsedRobots],
        agent: Callable[[], Agent],
    ) -> None:
        self._exempt = lru_cache(_MAX_CACHED)(partial(_exempted, settings.exempt, agent))
        self._overrides: dict[Origin, OriginPolicy] = {}
        for origin, path in settings.overrides.items():
            try:
                file = parse(_read(Path(path), settings.max_size), origin)
            except Exception as error:  # a third-party parser may raise anything
                problem = str(getattr(error, "strerror", None) or error) or type(error).__name__
                accepted = (
                    f"the path of a file that can be read ({Path(path).absolute()}: {problem})"
                )
                raise SettingError(f"ROBOTS_OVERRIDES[{str(origin)!r}]", path, accepted) from error
            for_ever = Validity(Outcome.SUCCESSFUL, math.inf)
            self._overrides[origin] = OriginPolicy(
                origin, for_ever, None, path, file, agent, override=path
            )
        exempt = [site.text for site in settings.exempt]
        files = [f"{path} for {origin}" for origin, path in settings.overrides.items()]
        spider = {"spider": crawler.spider}
        if exempt:
            logger.info(
                "ROBOTS_EXEMPT: robots.txt is not requested for %s", _first(exempt), extra=spider
            )
        if files:
            logger.info("ROBOTS_OVERRIDES: using local files: %s", _first(files), extra=spider)

    def robots(self, origin: Origin) -> OriginPolicy | None:
        """Return the policy of an origin if the user made an exception for it, or `None`.

        A local file has priority, because it is for one origin, and an exemption may be for many.
        """
        return self._overrides.get(origin) or self._exempt(origin)


def _exempted(
    sites: Iterable[Site], agent: Callable[[], Agent], origin: Origin
) -> OriginPolicy | None:
    """Return the policy of an origin that an entry of ROBOTS_EXEMPT covers, or `None`."""
    site = next((site for site in sites if site.covers(origin)), None)
    if site is None:
        return None
    for_ever = Validity(Outcome.UNAVAILABLE, math.inf)
    return OriginPolicy(origin, for_ever, None, "not asked", None, agent, exempt=site.text)


def _first(names: list[str]) -> str:
    """Return the first names for a log line, and the number of the others."""
    more = f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _read(path: Path, max_size: int) -> bytes:
    """Return the bytes of a local file."""
    if path.exists() and not path.is_file():  # to read a pipe would block
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        body = file.read(max_size + 1)
    # A site's file would be cut, but the user must know about rules that would not count.
    if len(body) > max_size:
        raise ValueError(f"longer than ROBOTS_MAX_SIZE, {max_size} bytes")
    return body
