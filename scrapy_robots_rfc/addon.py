"""The Scrapy add-on, which users enable with `ADDONS = {"scrapy_robots_rfc.Addon": 500}`."""

from typing import Any, Self

from scrapy.core.scheduler import Scheduler
from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings
from scrapy.utils.misc import load_object
from scrapy.utils.reactor import is_reactor_installed

from scrapy_robots_rfc.optional import (
    DOWNLOADER_MIDDLEWARES,
    MIDDLEWARES,
    OUR_QUEUE,
    QUEUE,
    SCHEDULER_AROUND,
    OptionalMiddleware,
    class_of,
    is_kind,
)
from scrapy_robots_rfc.settings import OUR_PARSER, read_settings, refuse_wrong_places

STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"

#: The position for our middleware if the settings do not contain the built-in one.
POSITION = 100

#: Defaults for settings that have not been set by the user or an earlier add-on.
DEFAULTS: dict[str, object] = {
    "ROBOTSTXT_OBEY": True,
    "ROBOTSTXT_PARSER": OUR_PARSER,
    QUEUE: OUR_QUEUE,
}

# The setting of Scrapy versions that can obey Crawl-delay. It has to be off, because we obey it.
_THROTTLER_OBEY = "THROTTLER_ROBOTSTXT_OBEY"

_PRIORITY = SETTINGS_PRIORITIES["addon"]


class Addon:
    """Scrapy add-on that enables the plugin. It may be applied more than once."""

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the add-on.

        :raises SettingError: if one of our classes is in a wrong setting.
        """
        # If this class isn't in ADDONS, `update_settings` is never called. If it is, the middleware
        # checks this again when the reactor is ready.
        if _is_reactor_ready(crawler.settings):
            refuse_wrong_places(crawler.settings)
        return cls()

    def update_settings(self, settings: BaseSettings) -> None:
        """Enable our middlewares and queue, without changing the user's own settings.

        `RfcRobotsTxtMiddleware` replaces Scrapy's built-in middleware. The middlewares in
        `optional.py` are added if a setting needs them. If the user's settings already contain one
        of our middlewares, or a subclass of it, its position does not change. If the user disabled
        `RfcRobotsTxtMiddleware`, no downloader middlewares are added. Our queue stays, so that the
        crawl can be resumed from its JOBDIR.

        :param settings: the crawler's settings, before they are frozen.
        """
        position = _put_middleware(settings)
        if position is not None and _is_reactor_ready(settings):
            # Check the settings now, because errors raised here have a shorter traceback.
            read_settings(settings)
        for name, optional in MIDDLEWARES.items():
            if not optional.is_needed(settings[name]):
                continue
            if optional.setting != DOWNLOADER_MIDDLEWARES:
                _put_optional(settings, optional, optional.position)
            elif position is not None:  # the position is relative to ours
                _put_optional(settings, optional, position + optional.position)
        defaults = dict(DEFAULTS)
        if position is not None and _THROTTLER_OBEY in settings:
            defaults[_THROTTLER_OBEY] = False
        for name, value in defaults.items():
            if (settings.getpriority(name) or 0) < _PRIORITY:
                settings.set(name, value, _PRIORITY)
        _put_scheduler(settings)


def _put_optional(settings: BaseSettings, optional: OptionalMiddleware, position: float) -> None:
    """Enable a middleware, unless the setting names it or a subclass, even to disable it."""
    middlewares = settings.getdict(optional.setting)
    if not optional.is_among(middlewares):
        middlewares[optional.path] = position
        _put(settings, optional.setting, middlewares)


def _is_reactor_ready(settings: BaseSettings) -> bool:
    """Return whether the reactor is installed, or the crawl does not need one.

    The first crawl in a `CrawlerProcess` applies its add-ons before it installs the reactor. If an
    add-on raised an error then, the other crawls in the process would not have a reactor.
    """
    return is_reactor_installed() or not settings.getbool("TWISTED_REACTOR_ENABLED", True)


def _put_middleware(settings: BaseSettings) -> float | None:
    """Replace Scrapy's middleware with ours, unless the user disabled ours.

    :returns: the position of our middleware, or `None` if the user disabled it.
    """
    middlewares = settings.getdict(DOWNLOADER_MIDDLEWARES)
    # Load ours inside the loop, so that it is not loaded yet if there are no other middlewares. A
    # crawl takes longer to start if ours is loaded before Scrapy's downloader.
    our_positions = [value for key, value in middlewares.items() if is_kind(key, load_object(OURS))]
    enabled_positions = [value for value in our_positions if value is not None]
    if our_positions and not enabled_positions:
        return None
    changed = {key: value for key, value in middlewares.items() if not _is_stock(key)}
    changed[STOCK] = None  # the `_BASE` setting enables it
    position: float
    if enabled_positions:  # the user has enabled it
        position = enabled_positions[0]
    else:
        position = changed[OURS] = _stock_position(settings, middlewares)
    _put(settings, DOWNLOADER_MIDDLEWARES, changed)
    return position


def _stock_position(settings: BaseSettings, middlewares: dict[str | type, Any]) -> float:
    """Return the position of Scrapy's middleware, or `POSITION` if no setting has one."""
    base = settings.getdict(f"{DOWNLOADER_MIDDLEWARES}_BASE")
    for key, value in [*middlewares.items(), *base.items()]:  # the user's position comes first
        if value is not None and _is_stock(key):
            position: float = value
            return position
    return POSITION


def _is_stock(key: str | type) -> bool:
    """Return whether a key is Scrapy's own middleware. A subclass of it is not."""
    return class_of(key) is RobotsTxtMiddleware


def _put_scheduler(settings: BaseSettings) -> None:
    """Wrap the user's scheduler if it does not use our queue."""
    scheduler = class_of(settings["SCHEDULER"])
    if scheduler is Scheduler and settings[QUEUE] == OUR_QUEUE:
        return
    # Import it here, because it loads most of the package. Scrapy's download handlers would
    # take longer to load afterwards, because they inspect every loaded module.
    from scrapy_robots_rfc.middleware.startup import waits_in_scheduler  # noqa: PLC0415

    if not waits_in_scheduler(settings):
        _put(settings, "SCHEDULER", load_object(SCHEDULER_AROUND)(scheduler))


def _put(settings: BaseSettings, name: str, value: object) -> None:
    """Replace a setting, even if the user has set it on the command line."""
    # Scrapy ignores a value if its priority is lower than the current value's priority.
    settings.set(name, value, max(settings.getpriority(name) or 0, _PRIORITY))
