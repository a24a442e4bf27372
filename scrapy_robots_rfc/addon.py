"""The add-on: `ADDONS = {"scrapy_robots_rfc.Addon": 500}` adds all parts to Scrapy's settings.

It changes nothing that the user has set. docs/settings.md describes the settings of this package.
"""

from typing import Any

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.reactor import is_reactor_installed

from scrapy_robots_rfc.leaves import DOWNLOADER_MIDDLEWARES, MIDDLEWARES, class_of, is_kind
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.middleware.startup import QUEUE, has_our_queue
from scrapy_robots_rfc.scheduling.scheduler import scheduler_around
from scrapy_robots_rfc.settings import OUR_PARSER, read_settings

STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"

#: The position of our middleware if neither the user nor Scrapy has one for Scrapy's own.
POSITION = 100

#: Settings that get these values unless the user, or an earlier add-on, has set them.
DEFAULTS: dict[str, object] = {
    "ROBOTSTXT_OBEY": True,
    "ROBOTSTXT_PARSER": OUR_PARSER,
    QUEUE: "scrapy_robots_rfc.OriginPriorityQueue",
}

_PRIORITY = SETTINGS_PRIORITIES["addon"]


class Addon:
    """Scrapy add-on that enables everything. Applying it twice changes nothing more."""

    def update_settings(self, settings: BaseSettings) -> None:
        """Add our middlewares and our queue, and set `DEFAULTS` where the user set nothing.

        `RfcRobotsTxtMiddleware` replaces Scrapy's own. The middlewares of `leaves.py` are added if
        the user sets a setting that needs them. A position that the user gave to one of them, or
        to a subclass, stays. If the user gave `RfcRobotsTxtMiddleware` the position `None`, no
        downloader middleware changes.

        :param settings: the settings of the crawler, before they are frozen.
        """
        position = _put_middleware(settings)
        if position is not None and _is_reactor_ready(settings):
            # Now rather than with the middleware: Scrapy logs the error with a shorter traceback.
            read_settings(settings)
        for name, leaf in MIDDLEWARES.items():
            first = position if leaf.setting == DOWNLOADER_MIDDLEWARES else 0
            if first is not None and leaf.is_needed(settings[name]):
                middlewares = settings.getdict(leaf.setting)
                if not leaf.is_among(middlewares):
                    middlewares[leaf.path] = first + leaf.position
                    _put(settings, leaf.setting, middlewares)
        for name, value in DEFAULTS.items():
            if (settings.getpriority(name) or 0) < _PRIORITY:
                settings.set(name, value, _PRIORITY)
        _put_scheduler(settings)


def _is_reactor_ready(settings: BaseSettings) -> bool:
    """Return whether the crawl has its reactor or needs none.

    The first crawl of a `CrawlerProcess` installs the reactor after it applies the add-ons. If that
    crawl failed earlier, the other crawls would have no reactor.
    """
    return is_reactor_installed() or not settings.getbool("TWISTED_REACTOR_ENABLED", True)


def _put_middleware(settings: BaseSettings) -> float | None:
    """Enable our middleware in place of Scrapy's own.

    Return the position of our middleware, or `None` if the user disabled it.
    """
    middlewares = settings.getdict(DOWNLOADER_MIDDLEWARES)
    ours = [value for key, value in middlewares.items() if is_kind(key, RfcRobotsTxtMiddleware)]
    positions = [value for value in ours if value is not None]
    if ours and not positions:
        return None
    changed = {key: value for key, value in middlewares.items() if not _is_stock(key)}
    changed[STOCK] = None
    position: float = positions[0] if positions else _stock_position(settings, middlewares)
    if not ours:
        changed[OURS] = position
    _put(settings, DOWNLOADER_MIDDLEWARES, changed)
    return position


def _stock_position(settings: BaseSettings, middlewares: dict[str | type, Any]) -> Any:  # noqa: ANN401 - a number
    """Return the position of Scrapy's own middleware, or `POSITION` if it is disabled."""
    base = settings.getdict(f"{DOWNLOADER_MIDDLEWARES}_BASE")
    for key, value in [*middlewares.items(), *base.items()]:
        if value is not None and _is_stock(key):
            return value
    return POSITION


def _is_stock(key: str | type) -> bool:
    return class_of(key) is RobotsTxtMiddleware


def _put_scheduler(settings: BaseSettings) -> None:
    """Wrap the scheduler if it does not use our queue."""
    if not has_our_queue(settings):
        _put(settings, "SCHEDULER", scheduler_around(class_of(settings["SCHEDULER"])))


def _put(settings: BaseSettings, name: str, value: object) -> None:
    # Scrapy ignores a value with a lower priority than the present one.
    settings.set(name, value, max(settings.getpriority(name) or 0, _PRIORITY))
