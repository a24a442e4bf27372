"""Addon: one line, `ADDONS = {"scrapy_robots_rfc.Addon": 500}`, puts the middleware and the parser where they belong.

In here: which of Scrapy's settings change, and when the user's own stay. What the settings mean is `settings.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES

from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.middleware.early import PATH as EARLY
from scrapy_robots_rfc.middleware.early import POSITION as EARLY_POSITION
from scrapy_robots_rfc.middleware.early import RfcEarlyMiddleware
from scrapy_robots_rfc.middleware.startup import loaded, stands_for

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"

#: Where the middleware goes when neither the user nor Scrapy's defaults say: where Scrapy has its own.
POSITION = 100

#: What is set where the user said nothing.
DEFAULTS = {"ROBOTSTXT_OBEY": True, "ROBOTSTXT_PARSER": "scrapy_robots_rfc.RfcRobotParser"}

_MIDDLEWARES = "DOWNLOADER_MIDDLEWARES"
_SPIDER_MIDDLEWARES = "SPIDER_MIDDLEWARES"
_PRIORITY = SETTINGS_PRIORITIES["addon"]


class Addon:
    """Scrapy add-on that switches everything on.

    It may be applied again: the second time changes nothing.
    """

    def __repr__(self) -> str:
        """Return the name that ADDONS has, which Scrapy logs at start."""
        return "scrapy_robots_rfc.Addon"

    def update_settings(self, settings: BaseSettings) -> None:
        """Put `RfcRobotsTxtMiddleware` in the place of Scrapy's own, and turn on what the user said nothing about.

        Beside it goes `RfcEarlyMiddleware`, which does nothing before the user says `ROBOTSTXT_EARLY`.

        A position that the user gave to `RfcRobotsTxtMiddleware` (or to a subclass) stays, `None` among them: then the
        middlewares stay all as they are. One of `RfcEarlyMiddleware` stays, too. So do `ROBOTSTXT_OBEY` and
        `ROBOTSTXT_PARSER` that the user, or an add-on before this one, set to anything.

        :param settings: those of the crawler, before they are frozen.
        """
        if self._put_middleware(settings):
            self._put_early(settings)
        for name, value in DEFAULTS.items():
            if (settings.getpriority(name) or 0) < _PRIORITY:
                settings.set(name, value, _PRIORITY)

    def _put_middleware(self, settings: BaseSettings) -> bool:
        """Return whether ours is at work."""
        middlewares = _components(settings, _MIDDLEWARES)
        ours = [value for key, value in middlewares.items() if stands_for(key, RfcRobotsTxtMiddleware)]
        if ours and all(value is None for value in ours):
            return False
        changed = {key: value for key, value in middlewares.items() if loaded(key) is not RobotsTxtMiddleware}
        changed[STOCK] = None
        if not ours:
            changed[OURS] = _position_of_stock(middlewares, settings)
        _put(settings, _MIDDLEWARES, changed)
        return True

    def _put_early(self, settings: BaseSettings) -> None:
        middlewares = _components(settings, _SPIDER_MIDDLEWARES)
        if not any(stands_for(key, RfcEarlyMiddleware) for key in middlewares):
            _put(settings, _SPIDER_MIDDLEWARES, {**middlewares, EARLY: EARLY_POSITION})


def _components(settings: BaseSettings, name: str) -> dict[Any, Any]:
    return settings.getdict(name) if settings[name] else {}


def _put(settings: BaseSettings, name: str, components: dict[Any, Any]) -> None:
    # Scrapy keeps a value of lower priority than the one that stands, so the user's own priority is taken over.
    settings.set(name, components, max(settings.getpriority(name) or 0, _PRIORITY))


def _position_of_stock(middlewares: dict[Any, Any], settings: BaseSettings) -> float:
    """Where Scrapy's own middleware stands: by the user's settings, else by Scrapy's defaults, else `POSITION`."""
    for components in (middlewares, settings[f"{_MIDDLEWARES}_BASE"] or {}):
        for key, value in components.items():
            if value is not None and loaded(key) is RobotsTxtMiddleware:
                position: float = value
                return position
    return POSITION
