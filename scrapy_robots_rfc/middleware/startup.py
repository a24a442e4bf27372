"""Settings at the start of a crawl, and log lines about what is odd in them.

Odd are misspelt names, and middlewares that collide. A value that is not accepted is an error, see
`Settings`.
"""

import logging
from collections.abc import Collection, Iterator, Mapping
from functools import partial
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.python import global_object_name

from scrapy_robots_rfc._scrapy import asks_once
from scrapy_robots_rfc.core.agents import USER_AGENT_KEY
from scrapy_robots_rfc.core.preferences import DECLARED_KEY, USE_ATTRIBUTE
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.download import MARK
from scrapy_robots_rfc.leaves import (
    DOWNLOADER_MIDDLEWARES,
    MIDDLEWARES,
    loaded,
    stands_for,
    value_of,
)
from scrapy_robots_rfc.scheduling.gate import MARK as WAITING
from scrapy_robots_rfc.settings import BACKOFF, TABLE, Settings, read_settings

logger: logging.Logger = logging.getLogger(__name__)

_PREFIXES = ("ROBOTSTXT_", "ROBOTS_")
# Attributes of spiders and keys of metas that users give.
_ATTRIBUTES = (USER_AGENT_KEY, USE_ATTRIBUTE)
_META_KEYS = (USER_AGENT_KEY, DECLARED_KEY, "dont_obey_robotstxt", "dont_obey_robots_tag")
# Keys of metas that this package writes.
_WRITTEN_KEYS = ("robots_tag", "robots_use", "robots_judged_url", MARK, WAITING)
# Only names that contain this are looked at.
_PART = "robot"
# Components of other packages may follow redirects themselves.
_NOT_THIRD_PARTY = ("scrapy", "scrapy_robots_rfc")
# How similar a misspelt name is to the right one: 1 means equal.
_CLOSE = 0.9
# Keys of metas that are remembered; a spider may make up one for each request.
_MOST_KEYS = 1000


def settings_of(crawler: Crawler, ours: type) -> Settings:
    """Read the settings of a crawl, for the class `RfcRobotsTxtMiddleware`; log what is odd.

    :raises NotConfigured: it does not obey robots.txt.
    :raises SettingError: one is not accepted.
    """
    settings = crawler.settings
    read = read_settings(settings)
    _check_leaves(read, settings, ours)
    log = partial(logger.log, extra={"spider": crawler.spider})
    for key, near in _unknown(settings):
        log(
            logging.WARNING,
            "%s is no setting of Scrapy or of scrapy-robots-rfc: it has no effect; a setting with a"
            " similar name: %s",
            key, near,
        )  # fmt: skip
    if not read.obey:
        chosen = settings.getpriority("ROBOTSTXT_OBEY")  # above Scrapy's default: by the user
        log(
            logging.INFO if chosen else logging.WARNING,
            "RfcRobotsTxtMiddleware is in DOWNLOADER_MIDDLEWARES, but ROBOTSTXT_OBEY is not True:"
            " robots.txt is not obeyed; set ROBOTSTXT_OBEY = True, or take the middleware out",
        )
        raise NotConfigured
    for key in _placed(settings, DOWNLOADER_MIDDLEWARES):
        if stands_for(key, RobotsTxtMiddleware):
            log(
                logging.WARNING,
                "%s works beside RfcRobotsTxtMiddleware: each robots.txt is requested twice, and a"
                " page is fetched only if both allow it; set it to None in DOWNLOADER_MIDDLEWARES",
                global_object_name(loaded(key)),
            )
    if read.dry_run:
        text = "ROBOTS_DRY_RUN is on: no request is dropped, not even if robots.txt forbids it"
        log(logging.WARNING, text)
    if asks_once(crawler) and not settings.getpriority(BACKOFF):
        # A command for one page: its user can run it again.
        return read._replace(unreachable_backoff=())
    return read


def has_third_party(settings: BaseSettings) -> bool:
    """Whether a crawl has a third-party download handler, downloader or downloader middleware."""
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS").values()
    components = [*handlers, settings["DOWNLOADER"], *_placed(settings, DOWNLOADER_MIDDLEWARES)]
    paths = (
        component if isinstance(component, str) else component.__module__
        for component in components
        if component is not None
    )
    return any(path.partition(".")[0] not in _NOT_THIRD_PARTY for path in paths)


class Misspelt:
    """Warns once of each attribute of a spider, and key of a meta, that has no effect.

    It is almost one of ours, or needs a setting.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler = crawler
        self._needs = (USE_ATTRIBUTE, DECLARED_KEY) if settings.use is None else ()
        #: Keys of metas that were looked at; a meta with others is given to `look_at`. Few requests
        #: have others.
        self.seen: set[object] = set(_WRITTEN_KEYS)

    def look_at_spider(self, spider: Spider) -> None:
        """Warn of the attributes of a spider that have no effect."""
        for name in dir(spider):
            if name not in self._needs or getattr(spider, name) is not None:
                self._warn_of(name, _ATTRIBUTES, "The spider's attribute")

    def look_at(self, meta: Mapping[Any, object]) -> None:
        """Warn of the keys of a meta that have no effect."""
        for key in meta:
            if key not in self.seen and len(self.seen) < _MOST_KEYS:
                self.seen.add(key)
                self._warn_of(key, _META_KEYS, "Request meta")

    def _warn_of(self, name: object, known: Collection[str], what: str) -> None:
        extra = {"spider": self._crawler.spider}
        if name in self._needs:
            text = "%s %r has no effect without the setting ROBOTS_USE: set ROBOTS_USE = []"
            logger.warning(text, what, name, extra=extra)
        if not isinstance(name, str) or name in known or _PART not in name.lower():
            return
        for near in _similar(name.lower(), known, cutoff=_CLOSE):
            text = "%s %r has no effect; the nearest name that has one is %r"
            logger.warning(text, what, name, near, extra=extra)


def _check_leaves(settings: Settings, scrapy_settings: BaseSettings, ours: type) -> None:
    """Check that a crawl has the middlewares that its settings need, or subclasses, behind ours.

    :raises SettingError: one is missing, or stands before ours.
    """
    for key, leaf in MIDDLEWARES.items():
        behind = leaf.setting == DOWNLOADER_MIDDLEWARES
        # Without ROBOTSTXT_OBEY a downloader middleware is not at work, as ours is not.
        if not leaf.asked_for(value_of(settings, key)) or (behind and not settings.obey):
            continue
        there = _placed(scrapy_settings, leaf.setting)
        if behind:
            while there and not stands_for(there[0], ours):
                del there[0]
        if not leaf.is_among(there):
            place = "behind RfcRobotsTxtMiddleware" if behind else f"at {leaf.position}"
            accepted = f"unset, or {leaf.setting} must have {leaf.path!r} {place}"
            raise SettingError(key, scrapy_settings[key], accepted)


def _unknown(settings: BaseSettings) -> Iterator[tuple[str, str]]:
    """Yield the user's settings that begin like ours and do not exist, with a similar one."""
    names = {row.key.partition("_")[2]: row.key for row in TABLE}
    for key in sorted(map(str, settings)):
        ours = key.startswith(_PREFIXES) and key not in names.values()
        if ours and settings.getpriority(key):
            near = _similar(key.partition("_")[2], names)
            yield key, names[near[0]] if near else "none"


def _similar(name: str, known: Collection[str], cutoff: float = 0.6) -> list[str]:
    """Return the known name that is most like another one, if any is like it."""
    from difflib import get_close_matches  # noqa: PLC0415 - loaded for a wrong name only

    return get_close_matches(name, known, n=1, cutoff=cutoff)


def _placed(settings: BaseSettings, name: str) -> list[Any]:
    """Return the keys of the components that are on, in their order.

    :param name: of the setting, without ``_BASE``; the components of that one count as well.
    """
    # Scrapy 2.15 has `getwithbase` only.
    get = getattr(settings, "get_component_priority_dict_with_base", settings.getwithbase)
    places = {key: place for key, place in get(name).items() if place is not None}
    return sorted(places, key=places.__getitem__)
