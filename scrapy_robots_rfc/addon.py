"""Addon: one line, `ADDONS = {"scrapy_robots_rfc.Addon": 500}`, puts the middleware and the parser where they belong.

In here: which of Scrapy's settings change, and when the user's own stay. What the settings mean is `settings.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.utils.misc import load_object

from scrapy_robots_rfc.middleware import RfcRobotsTxtMiddleware

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"

#: Where the middleware goes when neither the user nor Scrapy's defaults say: where Scrapy has its own.
POSITION = 100

#: What is set where the user said nothing.
DEFAULTS = {"ROBOTSTXT_OBEY": True, "ROBOTSTXT_PARSER": "scrapy_robots_rfc.RfcRobotParser"}

_MIDDLEWARES = "DOWNLOADER_MIDDLEWARES"
_PRIORITY = SETTINGS_PRIORITIES["addon"]


class Addon:
    """Scrapy add-on that switches everything on.

    It may be applied again: the second time changes nothing.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Put `RfcRobotsTxtMiddleware` in the place of Scrapy's own, and turn on what the user said nothing about.

        A position that the user gave to `RfcRobotsTxtMiddleware` (or to a subclass) stays, `None` among them: then the
        middlewares stay all as they are. So do `ROBOTSTXT_OBEY` and `ROBOTSTXT_PARSER` that the user, or an add-on
        before this one, set to anything.

        :param settings: those of the crawler, before they are frozen.
        """
        self._put_middleware(settings)
        for name, value in DEFAULTS.items():
            if (settings.getpriority(name) or 0) < _PRIORITY:
                settings.set(name, value, _PRIORITY)

    def _put_middleware(self, settings: BaseSettings) -> None:
        middlewares = settings.getdict(_MIDDLEWARES) if settings[_MIDDLEWARES] else {}
        ours = [value for key, value in middlewares.items() if _is_ours(key)]
        if ours and all(value is None for value in ours):
            return
        changed = {key: value for key, value in middlewares.items() if _loaded(key) is not RobotsTxtMiddleware}
        changed[STOCK] = None
        if not ours:
            changed[OURS] = _position_of_stock(middlewares, settings)
        # Scrapy keeps a value of lower priority than the one that stands, so the user's own priority is taken over.
        settings.set(_MIDDLEWARES, changed, max(settings.getpriority(_MIDDLEWARES) or 0, _PRIORITY))


def _position_of_stock(middlewares: dict[Any, Any], settings: BaseSettings) -> float:
    """Where Scrapy's own middleware stands: by the user's settings, else by Scrapy's defaults, else `POSITION`."""
    for components in (middlewares, settings[f"{_MIDDLEWARES}_BASE"] or {}):
        for key, value in components.items():
            if value is not None and _loaded(key) is RobotsTxtMiddleware:
                position: float = value
                return position
    return POSITION


def _is_ours(key: str | type) -> bool:
    loaded = _loaded(key)
    return isinstance(loaded, type) and issubclass(loaded, RfcRobotsTxtMiddleware)


def _loaded(key: str | type) -> object:
    """Return the class that a key of a component dictionary stands for, or the key: Scrapy reports what is no class."""
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key
