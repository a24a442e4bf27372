"""The add-on: `ADDONS = {"scrapy_robots_rfc.Addon": 500}` puts all parts into Scrapy's settings.

It changes nothing that the user has set. What the settings of this package mean is in
`docs/settings.md`.
"""

from __future__ import annotations

from typing import Any

from scrapy.core.scheduler import Scheduler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object

from scrapy_robots_rfc.leaves import DOWNLOADER_MIDDLEWARES, MIDDLEWARES, Placed
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.middleware.startup import loaded, stands_for
from scrapy_robots_rfc.scheduling.queue import OriginPriorityQueue
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around
from scrapy_robots_rfc.settings import OUR_PARSER

STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"

#: The position of the middleware where neither the user nor Scrapy's defaults have one for Scrapy's
#: own.
POSITION = 100

_QUEUE = "SCHEDULER_PRIORITY_QUEUE"
#: Settings that get these values unless the user, or an earlier add-on, has set them.
DEFAULTS: dict[str, object] = {
    "ROBOTSTXT_OBEY": True,
    "ROBOTSTXT_PARSER": OUR_PARSER,
    _QUEUE: "scrapy_robots_rfc.OriginPriorityQueue",
}

_PRIORITY = SETTINGS_PRIORITIES["addon"]


class Addon:
    """Scrapy add-on that switches everything on. To apply it twice changes nothing more."""

    def __repr__(self) -> str:
        """Return the name that ADDONS has, which Scrapy logs at start."""
        return "scrapy_robots_rfc.Addon"

    def update_settings(self, settings: BaseSettings) -> None:
        """Put in our middlewares and our queue, and set `DEFAULTS` where the user set nothing.

        `RfcRobotsTxtMiddleware` takes the place of Scrapy's own; those of `leaves.py` are added
        where the user sets what asks for them. A position that the user gave to one of them, or to
        a subclass, stays. If that of `RfcRobotsTxtMiddleware` is `None`, no downloader middleware
        is changed.

        :param settings: those of the crawler, before they are frozen.
        """
        position = _put_middleware(settings)
        for name, leaf in MIDDLEWARES.items():
            if leaf.asked_for(settings[name]):
                _put_leaf(settings, leaf, position)
        for name, value in DEFAULTS.items():
            if (settings.getpriority(name) or 0) < _PRIORITY:
                settings.set(name, value, _PRIORITY)
        _put_scheduler(settings)


def _put_middleware(settings: BaseSettings) -> float | None:
    """Return the position of ours; ``None``: the user switched it off."""
    middlewares = _components(settings, DOWNLOADER_MIDDLEWARES)
    ours = [value for key, value in middlewares.items() if stands_for(key, RfcRobotsTxtMiddleware)]
    placed = [value for value in ours if value is not None]
    if ours and not placed:
        return None
    others = {key: value for key, value in middlewares.items() if not _is_stock(key)}
    position: float = max(placed) if placed else _position_of_stock(middlewares, settings)
    changed = {**others, STOCK: None, **({} if ours else {OURS: position})}
    _put(settings, DOWNLOADER_MIDDLEWARES, changed)
    return position


def _put_leaf(settings: BaseSettings, leaf: Placed, position: float | None) -> None:
    """Put in a middleware, unless it stands behind ours and the user switched that off.

    :param position: of ours.
    """
    middlewares = _components(settings, leaf.setting)
    if any(stands_for(key, load_object(leaf.path)) for key in middlewares):
        return
    if leaf.setting != DOWNLOADER_MIDDLEWARES:
        position = 0
    if position is not None:
        _put(settings, leaf.setting, {**middlewares, leaf.path: position + leaf.position})


def _put_scheduler(settings: BaseSettings) -> None:
    """Where the scheduler does not use our queue, put one around it."""
    scheduler = loaded(settings["SCHEDULER"])
    if not isinstance(scheduler, type):  # Scrapy says what is wrong with it
        return
    # For `issubclass`, every class with the methods of a scheduler is one of Scrapy's.
    is_stock = Scheduler in scheduler.__mro__
    if not (is_stock and stands_for(settings[_QUEUE], OriginPriorityQueue)):
        _put(settings, "SCHEDULER", scheduler_around(scheduler))


def _components(settings: BaseSettings, name: str) -> dict[Any, Any]:
    return settings.getdict(name) if settings[name] else {}


def _put(settings: BaseSettings, name: str, value: object) -> None:
    # Scrapy ignores a value whose priority is below that of the present one.
    settings.set(name, value, max(settings.getpriority(name) or 0, _PRIORITY))


def _is_stock(key: str | type) -> bool:
    return loaded(key) is RobotsTxtMiddleware


def _position_of_stock(middlewares: dict[Any, Any], settings: BaseSettings) -> float:
    """The position of Scrapy's own in the user's settings, in Scrapy's defaults, or `POSITION`."""
    for components in (middlewares, settings[f"{DOWNLOADER_MIDDLEWARES}_BASE"] or {}):
        for key, value in components.items():
            if value is not None and _is_stock(key):
                position: float = value
                return position
    return POSITION
