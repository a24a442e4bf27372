"""The add-on: `ADDONS = {"scrapy_robots_rfc.Addon": 500}` puts all parts into Scrapy's settings.

It changes nothing that the user has set. What the settings of this package mean is in
`docs/settings.md`.
"""

from scrapy.core.scheduler import Scheduler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES, BaseSettings

from scrapy_robots_rfc.leaves import DOWNLOADER_MIDDLEWARES, MIDDLEWARES, loaded, stands_for
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
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

    def update_settings(self, settings: BaseSettings) -> None:
        """Put in our middlewares and our queue, and set `DEFAULTS` where the user set nothing.

        `RfcRobotsTxtMiddleware` takes the place of Scrapy's own; those of `leaves.py` are added
        where the user sets what asks for them. A position that the user gave to one of them, or to
        a subclass, stays. If that of `RfcRobotsTxtMiddleware` is `None`, no downloader middleware
        is changed.

        :param settings: those of the crawler, before they are frozen.
        """
        ours = _put_middleware(settings)
        for name, leaf in MIDDLEWARES.items():
            first = ours if leaf.setting == DOWNLOADER_MIDDLEWARES else 0
            if first is not None and leaf.asked_for(settings[name]):
                middlewares = settings.getdict(leaf.setting)
                if not leaf.is_among(middlewares):
                    middlewares[leaf.path] = first + leaf.position
                    _put(settings, leaf.setting, middlewares)
        for name, value in DEFAULTS.items():
            if (settings.getpriority(name) or 0) < _PRIORITY:
                settings.set(name, value, _PRIORITY)
        _put_scheduler(settings)


def _put_middleware(settings: BaseSettings) -> float | None:
    """Return the position of ours; ``None``: the user switched it off."""
    middlewares = settings.getdict(DOWNLOADER_MIDDLEWARES)
    ours = [value for key, value in middlewares.items() if stands_for(key, RfcRobotsTxtMiddleware)]
    placed = [value for value in ours if value is not None]
    if ours and not placed:
        return None
    changed = {key: value for key, value in middlewares.items() if not _is_stock(key)}
    changed[STOCK] = None
    base = settings.getdict(f"{DOWNLOADER_MIDDLEWARES}_BASE")
    # Only as many as needed are loaded, as that takes time.
    stock = (
        value
        for key, value in [*middlewares.items(), *base.items()]
        if value is not None and _is_stock(key)
    )
    position: float = placed[0] if placed else next(stock, POSITION)
    if not ours:
        changed[OURS] = position
    _put(settings, DOWNLOADER_MIDDLEWARES, changed)
    return position


def _is_stock(key: str | type) -> bool:
    return loaded(key) is RobotsTxtMiddleware


def _put_scheduler(settings: BaseSettings) -> None:
    """Where the scheduler does not use our queue, put one around it."""
    scheduler = loaded(settings["SCHEDULER"])
    if not isinstance(scheduler, type):  # Scrapy says what is wrong with it
        return
    # For `issubclass`, every class with the methods of a scheduler is one of Scrapy's.
    is_stock = Scheduler in scheduler.__mro__
    if not (is_stock and stands_for(settings[_QUEUE], OriginPriorityQueue)):
        _put(settings, "SCHEDULER", scheduler_around(scheduler))


def _put(settings: BaseSettings, name: str, value: object) -> None:
    # Scrapy ignores a value whose priority is below that of the present one.
    settings.set(name, value, max(settings.getpriority(name) or 0, _PRIORITY))
