"""Settings at the start of a crawl, and log lines about what is odd in them.

Those are misspelt names, and middlewares and parsers that collide. A value that is not accepted is
an error, see `Settings`.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object

from scrapy_robots_rfc._scrapy import asks_once
from scrapy_robots_rfc.core.agents import USER_AGENT_KEY
from scrapy_robots_rfc.core.labels import DECLARED_KEY, USE_ATTRIBUTE
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.download import MARK
from scrapy_robots_rfc.leaves import DOWNLOADER_MIDDLEWARES, MIDDLEWARES, value_of
from scrapy_robots_rfc.parser import RfcRobotParser
from scrapy_robots_rfc.scheduling.gate import MARK as WAITING
from scrapy_robots_rfc.settings import BACKOFF, BY_FIELD, TABLE, Settings, read_settings, written

logger: logging.Logger = logging.getLogger(__name__)

_PREFIXES = ("ROBOTSTXT_", "ROBOTS_")
# The fields of settings that have no effect where ROBOTSTXT_OBEY is off, and of which the user
# should hear then.
_NEED_OBEY = ("dry_run", "overrides", "report")
# Attributes of spiders and keys of metas that users give.
_ATTRIBUTES = (USER_AGENT_KEY, USE_ATTRIBUTE)
_META_KEYS = (USER_AGENT_KEY, DECLARED_KEY, "dont_obey_robotstxt", "dont_obey_robots_tag")
# Keys of metas that this package writes.
_WRITTEN_KEYS = ("robots_tag", "robots_use", MARK, WAITING)
# Only names that contain this are looked at.
_PART = "robot"
# How similar a misspelt name is to the right one: 1 means equal.
_CLOSE = 0.9
# Keys of metas that are remembered; a spider may make up one for each request.
_MOST_KEYS = 1000


def settings_of(crawler: Crawler, ours: type) -> Settings:
    """Read the settings of a crawl, for the class `RfcRobotsTxtMiddleware`.

    :raises NotConfigured: it does not obey robots.txt.
    :raises SettingError: one is not accepted.
    """
    settings = read_settings(crawler.settings)
    _check_leaves(settings, crawler.settings, ours)
    if not settings.obey:
        log_startup(crawler, settings, ours)
        raise NotConfigured
    if asks_once(crawler) and not crawler.settings.getpriority(BACKOFF):
        # A command for one page: its user can run it again.
        return settings._replace(unreachable_backoff=())
    return settings


def log_startup(crawler: Crawler, read: Settings, ours: type) -> None:
    """Log what is odd about the settings of a crawl.

    :param read: the settings, checked.
    :param ours: the class `RfcRobotsTxtMiddleware`.
    """
    settings = crawler.settings
    log = partial(logger.log, extra={"spider": crawler.spider})
    for key in _unknown(settings):
        text = (
            "%s is no setting of Scrapy or of scrapy-robots-rfc: it has no effect; the setting with"
            " the nearest name is %s"
        )
        log(logging.WARNING, text, key, _nearest(key))
    middlewares = [key for _, key in _placed(settings, DOWNLOADER_MIDDLEWARES)]
    if not any(stands_for(key, ours) for key in middlewares):
        return
    if not read.obey:
        _log_off(settings, read, log)
        return
    stock = [key for key in middlewares if stands_for(key, RobotsTxtMiddleware)]
    beside = ", ".join(_path_of(key) for key in stock if not stands_for(key, ours))
    if beside:
        text = (
            "%s works beside RfcRobotsTxtMiddleware: each robots.txt is requested twice, and a page"
            " is fetched only if both allow it; set it to None in DOWNLOADER_MIDDLEWARES"
        )
        log(logging.WARNING, text, beside)
    _log_parser(settings, log)
    if read.dry_run:
        text = "ROBOTS_DRY_RUN is on: no request is dropped, not even if robots.txt forbids it"
        log(logging.WARNING, text)


def _log_off(settings: BaseSettings, read: Settings, log: Callable[..., None]) -> None:
    """Log that the middleware is there, and does nothing."""
    chosen = settings.getpriority("ROBOTSTXT_OBEY")  # above Scrapy's default: the user has set it
    text = (
        "RfcRobotsTxtMiddleware is in DOWNLOADER_MIDDLEWARES, but ROBOTSTXT_OBEY is not True:"
        " robots.txt is not obeyed; set ROBOTSTXT_OBEY = True, or take the middleware out"
    )
    log(logging.INFO if chosen else logging.WARNING, text)
    unheeded = ", ".join(BY_FIELD[name].key for name in _NEED_OBEY if getattr(read, name))
    if unheeded:
        text = "No effect, because ROBOTSTXT_OBEY is not True: %s"
        log(logging.WARNING, text, unheeded)


def _log_parser(settings: BaseSettings, log: Callable[..., None]) -> None:
    """Log that another parser than ours decides."""
    key = written(BY_FIELD["parser"], settings)
    found = loaded(key)
    if not stands_for(key, RfcRobotParser) or found.allowed is not RfcRobotParser.allowed:
        text = "ROBOTSTXT_PARSER is %s, which decides alone: verdicts name no rule and no line"
        log(logging.INFO, text, _path_of(key))


class Misspelt:
    """Warns once of each attribute of a spider, and key of a meta, that has no effect.

    It is almost one of ours, or needs a setting.

    :param spider: of the crawl, once it is open.
    """

    def __init__(self, spider: Spider, settings: Settings) -> None:
        self._spider = spider
        self._needs = (USE_ATTRIBUTE, DECLARED_KEY) if settings.use is None else ()
        #: Keys of metas that were looked at; a meta with others is given to `look_at`. Few requests
        #: have others.
        self.seen: set[object] = set(_WRITTEN_KEYS)
        classes = (spider, *type(spider).__mro__)
        names = {name for each in classes for name in getattr(each, "__dict__", ())}
        for name in sorted(names):
            if name not in self._needs or getattr(spider, name) is not None:
                self._warn_of(name, _ATTRIBUTES, "The spider's attribute")

    def look_at(self, meta: Mapping[Any, object]) -> None:
        """Warn of the keys of a meta that have no effect."""
        for key in meta:
            if key not in self.seen and len(self.seen) < _MOST_KEYS:
                self.seen.add(key)
                self._warn_of(key, _META_KEYS, "Request meta")

    def _warn_of(self, name: object, known: Collection[str], what: str) -> None:
        if name in self._needs:
            text = "%s %r has no effect without the setting ROBOTS_USE: set ROBOTS_USE = []"
            logger.warning(text, what, name, extra={"spider": self._spider})
        if not isinstance(name, str) or name in known or _PART not in name.lower():
            return
        from difflib import get_close_matches  # noqa: PLC0415 - loaded for a wrong name only

        for near in get_close_matches(name.lower(), known, n=1, cutoff=_CLOSE):
            text = "%s %r has no effect; the nearest name that has one is %r"
            logger.warning(text, what, name, near, extra={"spider": self._spider})


def _check_leaves(settings: Settings, scrapy_settings: BaseSettings, ours: type) -> None:
    """Check that a crawl has the middlewares that its settings need, or subclasses, behind ours.

    :raises SettingError: one is missing, or stands before ours.
    """
    for row in TABLE:
        leaf = MIDDLEWARES.get(row.key)
        if leaf is None or not leaf.asked_for(value_of(settings, row.key)):
            continue
        there = _placed(scrapy_settings, leaf.setting)
        first = -math.inf
        if leaf.setting == DOWNLOADER_MIDDLEWARES:
            if not settings.obey:  # then ours is not at work, either
                continue
            first = min((at for at, key in there if stands_for(key, ours)), default=first)
        kind = load_object(leaf.path)
        if not any(position > first and stands_for(key, kind) for position, key in there):
            needed = f"{leaf.setting} must have {leaf.path!r}: {leaf.position + max(first, 0):g}"
            accepted = f"{row.default}, or {needed}"
            raise SettingError(row.key, written(row, scrapy_settings), accepted)


def _unknown(settings: BaseSettings) -> list[str]:
    """Return the user's settings that begin like ours, and that do not exist."""
    known = {row.key for row in TABLE}
    ours = [key for key in settings if str(key).startswith(_PREFIXES) and key not in known]
    return sorted(key for key in ours if settings.getpriority(key))


def _nearest(key: str) -> str:
    """Return the setting whose name, without the common prefix, is most like an unknown one."""
    from difflib import get_close_matches  # noqa: PLC0415 - loaded for a wrong name only

    names = {row.key.partition("_")[2]: row.key for row in TABLE}
    (name,) = get_close_matches(key.partition("_")[2], names, n=1, cutoff=0)
    return names[name]


def _path_of(key: object) -> str:
    """Return the path of a class; anything else as text."""
    return f"{key.__module__}.{key.__qualname__}" if isinstance(key, type) else str(key)


def loaded(key: str | type) -> Any:  # noqa: ANN401 - the class, or what stands in its place
    """Return the class that a key stands for, or else the key: Scrapy reports what is no class."""
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key


def stands_for(key: str | type, kind: type) -> bool:
    """Whether a key stands for `kind` or a subclass of it."""
    found = loaded(key)
    return isinstance(found, type) and issubclass(found, kind)


def _placed(settings: BaseSettings, name: str) -> list[tuple[float, Any]]:
    """Return the components that are on, in their order, as pairs of position and key.

    :param name: of the setting, without ``_BASE``; the components of that one count as well.
    """
    # Scrapy 2.15 has `getwithbase` only.
    get = getattr(settings, "get_component_priority_dict_with_base", settings.getwithbase)
    found = [(position, key) for key, position in get(name).items() if position is not None]
    return sorted(found, key=lambda pair: pair[0])
