"""The user's exceptions, from ROBOTS_EXEMPT and ROBOTS_OVERRIDES.

The robots.txt of an exempt origin is not fetched. An override is a local file that is used instead
of the site's own. `policy/origins.py` parses the site names.
"""

import logging
import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from pathlib import Path

from scrapy.crawler import Crawler

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.lines import content_of
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin, Site
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

# Maximum origins to cache, so that a crawl of many hosts doesn't run out of memory.
_MAX_CACHED = 10_000

# Maximum exceptions of each kind to name in a log line.
_MAX_NAMED = 10


class Overrides:
    """A crawl's exceptions, as a `FixedPolicies`. The local files are read by the constructor.

    :param parse: parses a file, and may raise an exception.
    :param agent: returns the crawl's own agent.
    :raises SettingError: if a file from ROBOTS_OVERRIDES cannot be read or parsed.
    """

    def __init__(
        self,
        crawler: Crawler,
        settings: Settings,
        parse: Callable[[bytes, Origin], ParsedRobots],
        agent: Callable[[], Agent],
    ) -> None:
        self._exempt_policy = lru_cache(_MAX_CACHED)(partial(_exempted, settings.exempt, agent))
        self._overrides: dict[Origin, OriginPolicy] = {}
        for origin, path in settings.overrides.items():
            try:
                file = parse(_read(Path(path), settings.max_size), origin)
            except Exception as error:  # a third-party parser may raise any exception
                reason = getattr(error, "strerror", None) or error  # an OSError without its path
                problem = str(reason) or type(error).__name__
                accepted = (
                    f"the path of a file that can be read ({Path(path).absolute()}: {problem})"
                )
                raise SettingError(f"ROBOTS_OVERRIDES[{str(origin)!r}]", path, accepted) from error
            for_ever = Validity(Outcome.SUCCESSFUL, math.inf)
            self._overrides[origin] = OriginPolicy(
                origin, for_ever, status=None, cause=path, file=file, _agent=agent, override=path
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

    def policy(self, origin: Origin) -> OriginPolicy | None:
        """Return the policy of an origin if the user made an exception for it, or `None`.

        A local file takes precedence, because an exemption may cover many origins.
        """
        return self._overrides.get(origin) or self._exempt_policy(origin)


def _exempted(
    sites: Iterable[Site], agent: Callable[[], Agent], origin: Origin
) -> OriginPolicy | None:
    """Return the policy for an origin if ROBOTS_EXEMPT covers it, or `None`."""
    site = next((site for site in sites if site.covers(origin)), None)
    if site is None:
        return None
    for_ever = Validity(Outcome.UNAVAILABLE, math.inf)  # so everything is allowed
    return OriginPolicy(
        origin,
        for_ever,
        status=None,
        cause="not requested",
        file=None,
        _agent=agent,
        exempt=site.text,
    )


def _first(names: list[str]) -> str:
    """Format names for a log line, showing the first few and the number of remaining ones."""
    more = f", and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def _read(path: Path, max_size: int) -> bytes:
    """Read a local file."""
    if path.exists() and not path.is_file():  # reading a pipe would block
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        body = file.read(max_size + 1)
    # A site's file would be truncated, but here the user must be told that rules would be ignored.
    if len(body) > max_size:
        raise ValueError(f"longer than ROBOTS_MAX_SIZE, {max_size} bytes")
    # Without a byte order mark, UTF-16 has them, too, and no rule in it would be found.
    if b"\0" in content_of(body, max_size).data:
        raise ValueError("it has NUL bytes, so it is not text")
    return body
