"""Read the settings at the start of a crawl, and warn about possible mistakes.

Examples are misspelt names and conflicting middlewares. Invalid values raise an error instead (see
`Settings`).
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import takewhile
from typing import Any

from scrapy import Spider
from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.exceptions import NotConfigured
from scrapy.settings import BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.python import global_object_name

from scrapy_robots_rfc._scrapy import is_one_page_command
from scrapy_robots_rfc.core.agents import USER_AGENT_KEY
from scrapy_robots_rfc.core.preferences import DECLARED_KEY, USE_ATTRIBUTE
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.download import MARK
from scrapy_robots_rfc.optional import (
    DOWNLOADER_MIDDLEWARES,
    MIDDLEWARES,
    OUR_QUEUE,
    QUEUE,
    SCHEDULER_AROUND,
    class_of,
    is_kind,
    value_of,
)
from scrapy_robots_rfc.scheduling.gate import RETURNED
from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue
from scrapy_robots_rfc.settings import BACKOFF, TABLE, Settings, read_settings

logger: logging.Logger = logging.getLogger(__name__)

_SETTINGS = frozenset(row.key for row in TABLE)
_PREFIXES = ("ROBOTSTXT_", "ROBOTS_")
# Spider attributes and meta keys set by users.
_ATTRIBUTES = (USER_AGENT_KEY, USE_ATTRIBUTE)
_META_KEYS = (USER_AGENT_KEY, DECLARED_KEY, "dont_obey_robotstxt", "dont_obey_robots_tag")
# Meta keys set by this package.
_WRITTEN_KEYS = ("robots_tag", "robots_use", "robots_judged_url", MARK, RETURNED)
# Only names that contain this are checked.
_IN_OURS = "robot"
# Components from any other package are third-party.
_NOT_THIRD_PARTY = ("scrapy", "scrapy_robots_rfc")
# Minimum similarity between a misspelt name and the right one, where 1 means equal.
_SIMILAR = 0.6
_VERY_SIMILAR = 0.9
# Maximum meta keys to remember, because a spider may use a new key for every request.
_MAX_KEYS = 1000


def checked_settings(crawler: Crawler, our_class: type) -> Settings:
    """Read a crawl's settings, and log mistakes that don't make a value invalid.

    :param our_class: `RfcRobotsTxtMiddleware`, which imports this module.
    :raises NotConfigured: the crawl does not obey robots.txt.
    :raises SettingError: a value is invalid.
    """
    scrapy_settings = crawler.settings
    our_settings = read_settings(scrapy_settings)
    _check_required(our_settings, scrapy_settings, our_class)
    log = partial(logger.log, extra={"spider": crawler.spider})
    for key, hint in _unknown_settings(scrapy_settings):
        log(logging.WARNING, "unknown setting %s (ignored)%s", key, hint)
    if not our_settings.obey:
        is_chosen = scrapy_settings.getpriority("ROBOTSTXT_OBEY")  # 0 for Scrapy's default
        if is_chosen:
            log(logging.INFO, "ROBOTSTXT_OBEY is False, so robots.txt is not obeyed")
        else:
            log(
                logging.WARNING,
                "RfcRobotsTxtMiddleware is enabled, but ROBOTSTXT_OBEY is not True, so robots.txt"
                " is not obeyed; set ROBOTSTXT_OBEY = True, or remove the middleware",
            )
        if our_settings.dry_run:
            log(
                logging.WARNING,
                "ROBOTS_DRY_RUN has no effect, because robots.txt is not requested; set"
                " ROBOTSTXT_OBEY = True",
            )
        raise NotConfigured
    _log_middlewares(scrapy_settings, our_class, log)
    if not waits_in_scheduler(scrapy_settings):
        log(
            logging.WARNING,
            "requests leave the scheduler before their robots.txt is known, so waiting requests"
            " occupy CONCURRENT_REQUESTS and are lost when the spider closes; set %s",
            _queue_advice(scrapy_settings),
        )
    if our_settings.dry_run:
        log(
            logging.WARNING,
            "ROBOTS_DRY_RUN is on, so requests are sent even if robots.txt disallows them",
        )
    if is_one_page_command(crawler) and not scrapy_settings.getpriority(BACKOFF):
        # Don't retry an unreachable site, because the user can simply run the command again.
        return our_settings._replace(unreachable_backoff=())
    return our_settings


def _log_middlewares(settings: BaseSettings, our_class: type, log: Callable[..., None]) -> None:
    """Warn about middlewares that duplicate ours, and log third-party ones placed before it."""
    for key in _enabled(settings, DOWNLOADER_MIDDLEWARES):
        if is_kind(key, RobotsTxtMiddleware):
            log(
                logging.WARNING,
                "%s is also enabled, so each robots.txt is requested twice, and a page is fetched"
                " only if both allow it; set it to None in DOWNLOADER_MIDDLEWARES",
                global_object_name(class_of(key)),
            )
    third_party = third_party_before(settings, our_class)
    if third_party:
        log(
            logging.INFO,
            "downloader middlewares before RfcRobotsTxtMiddleware: %s. Each processes a page after"
            " its robots.txt was fetched, so it cannot prevent that fetch, and if it chooses a"
            " proxy based on the meta of the page, robots.txt is fetched without that proxy",
            ", ".join(third_party),
        )


def third_party_before(settings: BaseSettings, our_class: type) -> list[str]:
    """Return the paths of third-party downloader middlewares that are placed before ours."""
    return [_path(key) for key in _before_ours(settings, our_class) if _is_third_party(key)]


def has_third_party_component(settings: BaseSettings) -> bool:
    """Return whether any download handler, downloader or downloader middleware is third-party.

    If so, it may follow redirects by itself.
    """
    handlers = settings.getwithbase("DOWNLOAD_HANDLERS").values()
    components = [*handlers, settings["DOWNLOADER"], *_enabled(settings, DOWNLOADER_MIDDLEWARES)]
    return any(_is_third_party(each) for each in components if each is not None)


def waits_in_scheduler(settings: BaseSettings) -> bool:
    """Return whether requests wait in the scheduler until their robots.txt is known.

    Also return True if the setting isn't a scheduler, because Scrapy reports that anyway.
    """
    if uses_our_queue(settings):
        return True
    scheduler = class_of(settings["SCHEDULER"])
    # The function returns the class itself if it is already wrapped, or isn't a scheduler.
    return not isinstance(scheduler, type) or load_object(SCHEDULER_AROUND)(scheduler) is scheduler


def uses_our_queue(settings: BaseSettings) -> bool:
    """Return whether Scrapy's scheduler, or a subclass of it, stores requests in our queue."""
    return _is_scrapys(class_of(settings["SCHEDULER"])) and is_kind(
        settings[QUEUE], OriginPriorityQueue
    )


def _is_scrapys(scheduler: Any) -> bool:  # noqa: ANN401 - a setting may be anything
    """Return whether a class is Scrapy's scheduler, or a subclass of it."""
    # `issubclass` would be true for any class with a scheduler's methods.
    return Scheduler in getattr(scheduler, "__mro__", ())


def _queue_advice(settings: BaseSettings) -> str:
    """Return what to write into the settings, so that requests wait in the scheduler."""
    scheduler = class_of(settings["SCHEDULER"])
    if _is_scrapys(scheduler):
        return f'{QUEUE} = "{OUR_QUEUE}"'
    return f'SCHEDULER = scrapy_robots_rfc.scheduler_around("{global_object_name(scheduler)}")'


def _path(component: str | type) -> str:
    """Return the import path of a component, which settings may contain as a class."""
    return component if isinstance(component, str) else global_object_name(component)


def _is_third_party(component: str | type) -> bool:
    """Return whether a component belongs to neither Scrapy nor this package."""
    return _path(component).partition(".")[0] not in _NOT_THIRD_PARTY


class NameChecker:
    """Warns once about each spider attribute and meta key that has no effect.

    A name has none if it is likely a misspelling of ours, or if it needs ROBOTS_USE and that is not
    set.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler = crawler
        # Names that have no effect because ROBOTS_USE is not set.
        self._without_effect = (USE_ATTRIBUTE, DECLARED_KEY) if settings.use is None else ()
        #: Meta keys that were already checked. The middleware only calls `check_meta` for a meta
        #: with other keys, which is rare.
        self.checked_keys: set[object] = set(_WRITTEN_KEYS)

    def check_spider(self, spider: Spider) -> None:
        """Warn about spider attributes that have no effect."""
        for name in dir(spider):
            # A base class may define this attribute as None, which means that it is not used.
            if name in self._without_effect and getattr(spider, name) is None:
                continue
            self._check_name(name, _ATTRIBUTES, "The spider attribute")

    def check_meta(self, meta: Mapping[Any, object]) -> None:
        """Warn about meta keys that have no effect."""
        for key in meta:
            if key not in self.checked_keys and len(self.checked_keys) < _MAX_KEYS:
                self.checked_keys.add(key)
                self._check_name(key, _META_KEYS, "The meta key")

    def _check_name(self, name: object, known: Collection[str], kind: str) -> None:
        """Warn if a name has no effect, or looks like a misspelling of a known name."""
        extra = {"spider": self._crawler.spider}
        if name in self._without_effect:
            logger.warning(
                "%s %r has no effect unless ROBOTS_USE is set; set ROBOTS_USE = []",
                kind, name, extra=extra,
            )  # fmt: skip
        # Only a text with "robot" in it can be a misspelling of ours.
        if not isinstance(name, str) or name in known or _IN_OURS not in name.lower():
            return
        similar = _closest(name.lower(), known, _VERY_SIMILAR)
        if similar:
            logger.warning(
                "%s %r has no effect; did you mean %r?", kind, name, similar, extra=extra
            )


def _check_required(settings: Settings, scrapy_settings: BaseSettings, our_class: type) -> None:
    """Check that the middlewares required by settings, or subclasses of them, are enabled.

    :raises SettingError: one of them is missing, or a downloader middleware is placed before ours.
    """
    for key, optional in MIDDLEWARES.items():
        if not optional.is_needed(value_of(settings, key)):
            continue
        enabled = _enabled(scrapy_settings, optional.setting)
        place = f"at {optional.position}"
        if optional.setting == DOWNLOADER_MIDDLEWARES:
            if not settings.obey:  # it is disabled, like ours
                continue
            # It must come after ours, because it uses the policy that ours has judged by.
            before_ours = _before_ours(scrapy_settings, our_class)
            enabled = [each for each in enabled if each not in before_ours]
            place = "after RfcRobotsTxtMiddleware"
        if not optional.is_among(enabled):
            accepted = f"unset, or {optional.setting} must have {optional.path!r} {place}"
            raise SettingError(key, scrapy_settings[key], accepted)


def _unknown_settings(settings: BaseSettings) -> Iterator[tuple[str, str]]:
    """Yield user settings that look like ours but don't exist, with a hint for each."""
    for key in sorted(map(str, settings)):
        is_set = settings.getpriority(key)  # 0 for Scrapy's defaults
        if key in _SETTINGS or _IN_OURS not in key.lower() or not is_set:
            continue
        similar = _closest(key.upper(), _SETTINGS, _VERY_SIMILAR)
        if similar is None and not key.startswith(_PREFIXES):
            continue  # it may belong to another component
        # With our prefix it is certainly misspelt, so even a less similar name is worth a hint.
        similar = similar or _closest_setting(key)
        yield key, f"; did you mean {similar}?" if similar else ""


def _closest_setting(key: str) -> str | None:
    """Return the setting with the closest name after the prefix, or `None`.

    A common prefix would make any two names look similar.
    """
    by_name = {setting.partition("_")[2]: setting for setting in _SETTINGS}
    name = _closest(key.partition("_")[2], by_name, _SIMILAR)
    return None if name is None else by_name[name]


def _closest(name: str, known: Collection[str], cutoff: float) -> str | None:
    """Return the closest known name, or `None` if none is close enough."""
    from difflib import get_close_matches  # noqa: PLC0415 - only needed for wrong names

    matches = get_close_matches(name, known, n=1, cutoff=cutoff)
    return matches[0] if matches else None


def _before_ours(settings: BaseSettings, our_class: type) -> list[Any]:
    """Return the keys of downloader middlewares placed before ours."""
    keys = _enabled(settings, DOWNLOADER_MIDDLEWARES)
    return list(takewhile(lambda key: not is_kind(key, our_class), keys))


def _enabled(settings: BaseSettings, name: str) -> list[Any]:
    """Return the keys of enabled components from a setting and its ``_BASE``, in order."""
    # Scrapy 2.15 only has `getwithbase`.
    get = getattr(settings, "get_component_priority_dict_with_base", settings.getwithbase)
    positions = {key: position for key, position in get(name).items() if position is not None}
    return sorted(positions, key=positions.__getitem__)
