"""Steering: the user's exceptions from what sites say. Origins that are not asked, and local files in place of theirs.

In here: what is known of such an origin, from the start of the crawl on. How the names of sites are read is
`policy/origins.py`; a dry run is the middleware's.
"""

from __future__ import annotations

import logging
import math
import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Sites

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.parsed import ParsedRobots
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

# Exempt origins whose value is kept, so that a request costs a look-up; a crawl of many hosts must not fill the memory.
_KEPT = 10_000

# How many of a kind are named at the start of a crawl.
_NAMED = 10

_EXEMPT = Validity(Outcome.UNAVAILABLE, math.inf)
_OVERRIDDEN = Validity(Outcome.SUCCESSFUL, math.inf)


class Overrides:
    """The exceptions of a crawl. Files are read here, once.

    :param parse: parses a file; may raise.
    :param agent: the agent of a request that brings none of its own.
    :raises SettingError: a file of ROBOTSTXT_OVERRIDES is missing, or cannot be read or parsed.
    """

    def __init__(self, settings: Settings, parse: Callable[[bytes], ParsedRobots], agent: Callable[[], Agent]) -> None:
        self._agent = agent
        self._overrides: dict[Origin, OriginPolicy] = {}
        self._octets: dict[Origin, bytes] = {}
        for origin, path in settings.overrides.items():
            file, octets = _file(origin, path, settings, parse)
            self._overrides[origin] = OriginPolicy(origin, _OVERRIDDEN, None, path, file, agent, -math.inf, path)
            self._octets[origin] = zlib.compress(octets)
        self._sites = Sites(settings.exempt)
        self._exempt: dict[Origin, OriginPolicy | None] = {}

    def robots(self, origin: Origin) -> OriginPolicy | None:
        """Return what is known of an origin that the user made an exception of; ``None``: it is none.

        A local file goes before an exemption: it names its origin, and a pattern may mean many.
        """
        found = self._overrides.get(origin)
        if found is not None:
            return found
        try:
            return self._exempt[origin]
        except KeyError:
            if len(self._exempt) >= _KEPT:
                self._exempt.clear()
            found = self._exempt[origin] = self._exempted(origin)
            return found

    def octets(self, origin: Origin) -> bytes | None:
        """Return the local file of an origin, as it was read; ``None`` where there is none."""
        packed = self._octets.get(origin)
        return None if packed is None else zlib.decompress(packed)

    def _exempted(self, origin: Origin) -> OriginPolicy | None:
        site = self._sites.first(origin)
        if site is None:
            return None
        return OriginPolicy(origin, _EXEMPT, None, "not asked", None, self._agent, -math.inf, exempt=site.text)


def overrides_of(
    settings: Settings, parse: Callable[[bytes], ParsedRobots], agent: Callable[[], Agent]
) -> Overrides | None:
    """Return the exceptions of a crawl; ``None`` where there are none. Parameters and errors as for `Steering`."""
    return Overrides(settings, parse, agent) if settings.exempt or settings.overrides else None


def announcements(settings: Settings) -> Iterator[tuple[int, str]]:
    """Yield what a crawl says of its exceptions at start, and at which level."""
    if settings.dry_run:
        yield logging.WARNING, "ROBOTSTXT_DRY_RUN: no request is dropped, also none that robots.txt forbids"
    if settings.exempt:
        yield (
            logging.INFO,
            f"ROBOTSTXT_EXEMPT: not asked for their robots.txt are {_listed(site.text for site in settings.exempt)}",
        )
    if settings.overrides:
        named = _listed(f"{path} for {origin}" for origin, path in settings.overrides.items())
        yield logging.INFO, f"ROBOTSTXT_OVERRIDES: local files decide: {named}"


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = len(every) - _NAMED
    return ", ".join(every[:_NAMED]) + (f", and {more} more" if more > 0 else "")


def _file(
    origin: Origin, path: str, settings: Settings, parse: Callable[[bytes], ParsedRobots]
) -> tuple[ParsedRobots, bytes]:
    try:
        octets = _octets(Path(path), settings.max_size)
        return parse(octets), octets
    except Exception as error:  # whatever a parser of the user's raises, too
        problem = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        accepted = f"the path of a file that can be read ({Path(path).absolute()}: {problem or type(error).__name__})"
        raise SettingError(f"ROBOTSTXT_OVERRIDES[{str(origin)!r}]", path, accepted) from error


def _octets(path: Path, most: int) -> bytes:
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would be waited for
        raise ValueError("not a regular file")
    with path.open("rb") as file:
        body = file.read(most + 1)
    if len(body) > most:  # of a site's file the beginning counts; of one's own, nothing is to be lost unseen
        raise ValueError(f"longer than ROBOTSTXT_MAX_SIZE, {most} octets")
    return body
