"""Settings at the start of a crawl, and log lines about them: misspelt names, middlewares and parsers that collide.

See `Settings` for values that are not accepted, which are errors.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
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
# Names that users give; what those contain that are looked at; how like one of ours a name is that
# was meant for it.
_ATTRIBUTES = (USER_AGENT_KEY, USE_ATTRIBUTE)
_META_KEYS = (USER_AGENT_KEY, DECLARED_KEY, "dont_obey_robotstxt", "dont_obey_robots_tag")
_WRITTEN_KEYS = frozenset({"robots_tag", "robots_use", MARK, WAITING})  # by this package
_PART = "robot"
_CLOSE = 0.9
# Keys of metas that are remembered; a spider may make up one for each request.
_MOST_KEYS = 1000


def settings_of(crawler: Crawler, ours: type) -> Settings:
    """Read the settings of a crawl, for the class `RfcRobotsTxtMiddleware`.

    :raises NotConfigured: it does not obey robots.txt.
    :raises SettingError: one is not accepted.
    """
    settings = read_settings(crawler.settings)
    check_leaves(settings, crawler.settings, ours)
    if not settings.obey:
        for level, line in startup_lines(crawler.settings, settings, ours):
            logging.getLogger(ours.__module__).log(level, line, extra={"spider": crawler.spider})
        raise NotConfigured
    if asks_once(crawler) and not crawler.settings.getpriority(BACKOFF):
        return replace(
            settings, unreachable_backoff=()
        )  # a command for one page: who waits for it can run it again
    return settings


def startup_lines(settings: BaseSettings, read: Settings, ours: type) -> Iterator[tuple[int, str]]:
    """Yield the lines, each after its logging level.

    :param settings: of the crawl, with those of its spider and its add-ons.
    :param read: the same settings, checked.
    :param ours: the class `RfcRobotsTxtMiddleware`.
    """
    for key in unknown(settings):
        text = f"{key} is no setting of Scrapy or of scrapy-robots-rfc, so nothing comes of it"
        yield logging.WARNING, f"{text}; the nearest name of one is {nearest(key)}"
    middlewares = [key for _, key in placed(settings, DOWNLOADER_MIDDLEWARES)]
    if not any(stands_for(key, ours) for key in middlewares):
        return
    if read.obey:
        yield from _beside(middlewares, ours)
        yield from _parser(settings)
        if read.dry_run:
            yield (
                logging.WARNING,
                "ROBOTS_DRY_RUN: no request is dropped, also none that robots.txt forbids",
            )
    else:
        chosen = settings.getpriority(
            "ROBOTSTXT_OBEY"
        )  # it is not Scrapy's default, so somebody has set it
        listed = "RfcRobotsTxtMiddleware is in DOWNLOADER_MIDDLEWARES"
        off = f"{listed}, but ROBOTSTXT_OBEY is not True: robots.txt is not obeyed"
        advice = f"{off}; set ROBOTSTXT_OBEY = True, or take the middleware out"
        yield (logging.INFO, off) if chosen else (logging.WARNING, advice)
        asked = (BY_FIELD[name].key for name in _NEED_OBEY if getattr(read, name))
        if unheeded := ", ".join(asked):
            yield (
                logging.WARNING,
                f"{unheeded}: nothing comes of it, because ROBOTSTXT_OBEY is not True",
            )


class Misspelt:
    """Warns once of each name among a spider's attributes and keys of metas that is almost ours, or needs a setting.

    :param spider: of the crawl, once it is open.
    """

    def __init__(self, spider: Spider, settings: Settings) -> None:
        self._spider = spider
        self._needs = (USE_ATTRIBUTE, DECLARED_KEY) if settings.use is None else ()
        #: Keys of metas that were looked at; a meta with others is given to `look_at`. Few requests
        #: have others.
        self.seen: set[object] = set(_WRITTEN_KEYS)
        names = {
            name
            for kind in (spider, *type(spider).__mro__)
            for name in getattr(kind, "__dict__", ())
        }
        for name in sorted(names):
            if name in self._needs and getattr(spider, name) is None:
                continue
            self._warn_of(name, _ATTRIBUTES, "The spider's attribute")

    def look_at(self, meta: Mapping[Any, object]) -> None:
        """Warn of the keys of a meta that nobody reads."""
        for key in meta:
            if key not in self.seen and len(self.seen) < _MOST_KEYS:
                self.seen.add(key)
                self._warn_of(key, _META_KEYS, "Request meta")

    def _warn_of(self, name: object, known: Collection[str], what: str) -> None:
        if name in self._needs:
            text = "%s %r counts for nothing without the setting: set ROBOTS_USE = []"
            logger.warning(text, what, name, extra={"spider": self._spider})
        if not isinstance(name, str) or name in known or _PART not in name.lower():
            return
        from difflib import get_close_matches  # noqa: PLC0415 - loaded for a wrong name only

        for near in get_close_matches(name.lower(), known, n=1, cutoff=_CLOSE):
            text = "%s %r is read by nobody, so nothing comes of it; the nearest name that is: %r"
            logger.warning(text, what, name, near, extra={"spider": self._spider})


def check_leaves(settings: Settings, scrapy_settings: BaseSettings, ours: type) -> None:
    """Check that a crawl has the middlewares that its settings need, or subclasses of them, behind ours.

    :raises SettingError: one is missing, or stands before ours.
    """
    for row in TABLE:
        leaf = MIDDLEWARES.get(row.key)
        if leaf is None or not leaf.asked_for(value_of(settings, row.key)):
            continue
        behind = leaf.setting == DOWNLOADER_MIDDLEWARES
        if behind and not settings.obey:  # then ours is not at work, either
            continue
        there = placed(scrapy_settings, leaf.setting)
        first = next(
            (position for position, key in there if behind and stands_for(key, ours)), -math.inf
        )
        if not any(
            position > first and stands_for(key, load_object(leaf.path)) for position, key in there
        ):
            needed = f"{leaf.setting} must have {leaf.path!r}: {leaf.position + max(first, 0):g}"
            raise SettingError(
                row.key, written(row, scrapy_settings), f"{row.default}, or {needed}"
            )


def unknown(settings: BaseSettings) -> list[str]:
    """Return the user's settings that begin like ours, and that neither Scrapy nor this package has."""
    known = {row.key for row in TABLE}
    return sorted(
        key
        for key in settings
        if str(key).startswith(_PREFIXES) and key not in known and settings.getpriority(key)
    )


def nearest(key: str) -> str:
    """Return the setting whose name, without the common prefix, is most like that of an unknown one."""
    from difflib import get_close_matches  # noqa: PLC0415 - loaded for a wrong name only

    names = {row.key.partition("_")[2]: row.key for row in TABLE}
    (name,) = get_close_matches(key.partition("_")[2], names, n=1, cutoff=0)
    return names[name]


def _beside(middlewares: list[str | type], ours: type) -> Iterator[tuple[int, str]]:
    stock = [
        key
        for key in middlewares
        if stands_for(key, RobotsTxtMiddleware) and not stands_for(key, ours)
    ]
    if stock:
        text = f"{', '.join(map(path_of, stock))} works beside RfcRobotsTxtMiddleware: each robots.txt is asked for twice"
        yield (
            logging.WARNING,
            f"{text}, and a request needs the leave of both; set it to None in DOWNLOADER_MIDDLEWARES",
        )


def _parser(settings: BaseSettings) -> Iterator[tuple[int, str]]:
    key = written(BY_FIELD["parser"], settings)
    found = loaded(key)
    ours = (
        isinstance(found, type)
        and issubclass(found, RfcRobotParser)
        and found.allowed is RfcRobotParser.allowed
    )
    if not ours:
        text = f"ROBOTSTXT_PARSER is {path_of(key)}, which decides alone: verdicts name no rule and no line"
        yield logging.INFO, text


def path_of(key: object) -> str:
    """Return the path of a class; anything else as text."""
    return f"{key.__module__}.{key.__qualname__}" if isinstance(key, type) else str(key)


def loaded(key: str | type) -> object:
    """Return the class that a key stands for, or else the key itself.

    Scrapy reports keys that are no class.
    """
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key


def stands_for(key: str | type, kind: type) -> bool:
    """Whether a key stands for `kind` or a subclass of it."""
    found = loaded(key)
    return isinstance(found, type) and issubclass(found, kind)


def placed(settings: BaseSettings, name: str) -> list[tuple[float, Any]]:
    """Return the components that are on, in their order, as pairs of position and key.

    :param name: of the setting, without ``_BASE``; the components of that one count as well.
    """
    with_base = getattr(
        settings, "get_component_priority_dict_with_base", settings.getwithbase
    )  # Scrapy 2.15 has one
    found = [(position, key) for key, position in with_base(name).items() if position is not None]
    return sorted(found, key=lambda pair: pair[0])
