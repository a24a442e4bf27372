"""Tables of optional components, which are only loaded if a setting needs them.

Most are middlewares or classes that listen to signals. The kernel never imports a component, so
it can be removed by deleting its files and its rows in this module.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from scrapy.utils.misc import load_object

from scrapy_robots_rfc.settings import BY_FIELD, Settings

#: Setting -> the path of the class to load if it is set. The class takes the crawler and its
#: `Settings`, and connects to signals itself.
COMPONENTS = {
    "ROBOTSTXT_OBEY": "scrapy_robots_rfc.reporting.crawl_log.CrawlLog",
    "ROBOTS_REPORT": "scrapy_robots_rfc.reporting.report.Report",
    "ROBOTS_ARCHIVE": "scrapy_robots_rfc.reporting.archive.Archive",
}

#: The path of the class for ROBOTS_EXEMPT and ROBOTS_OVERRIDES.
OVERRIDES = "scrapy_robots_rfc.fetching.overrides.Overrides"
#: The path of the class for HTTPCACHE_IGNORE_MISSING.
OFFLINE = "scrapy_robots_rfc.fetching.offline.OfflineReplay"
#: The path of the function that creates a subclass of a third-party scheduler.
SCHEDULER_AROUND = "scrapy_robots_rfc.scheduling.scheduler.scheduler_around"
#: The path of the function that adapts the download handler for FTP, before the first robots.txt is
#: fetched.
ADAPT_FTP = "scrapy_robots_rfc.fetching.ftp.adapt"
#: The path of the class that coordinates turns between workers. It is loaded if they share a store.
SHARED_TURNS = "scrapy_robots_rfc.scheduling.shared.SharedTurns"
#: The path of the class that checks the final URLs of pages. It is loaded if a third-party handler
#: or middleware may follow redirects.
FINAL_URLS = "scrapy_robots_rfc.middleware.final_url.FinalUrls"

DOWNLOADER_MIDDLEWARES = "DOWNLOADER_MIDDLEWARES"
QUEUE = "SCHEDULER_PRIORITY_QUEUE"
OUR_QUEUE = "scrapy_robots_rfc.OriginPriorityQueue"


class OptionalMiddleware(NamedTuple):
    """A middleware required by a setting.

    :param setting: the Scrapy setting that enables this kind of middleware.
    :param path: the import path of the class.
    :param position: the position. For a downloader middleware, it is relative to
        `RfcRobotsTxtMiddleware`.
    :param even_if_empty: True if the middleware is also needed when the setting is an empty list.
    """

    setting: str
    path: str
    position: int
    even_if_empty: bool = False

    def is_needed(self, value: object) -> bool:
        """Return whether the setting's value requires the middleware."""
        return value is not None if self.even_if_empty else bool(value)

    def is_among(self, keys: Iterable[str | type]) -> bool:
        """Return whether a setting's keys (classes or import paths) include it or a subclass."""
        kind = load_object(self.path)
        return any(is_kind(key, kind) for key in keys)


#: Setting -> the middleware that it requires.
MIDDLEWARES = {
    # This is the middleware closest to the spider, so that it runs just before the callback.
    "ROBOTS_TAG_OBEY": OptionalMiddleware(
        "SPIDER_MIDDLEWARES", "scrapy_robots_rfc.RfcPageRulesMiddleware", 1000
    ),
    # It is also needed for an empty list, because the spider or its requests may declare uses.
    "ROBOTS_USE": OptionalMiddleware(
        DOWNLOADER_MIDDLEWARES, "scrapy_robots_rfc.RfcUseMiddleware", 1, even_if_empty=True
    ),
}


def class_of(key: str | type) -> Any:  # noqa: ANN401 - the class or the key
    """Load a class, or return the key unchanged on failure, so that Scrapy reports the error."""
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key


def is_kind(key: str | type, kind: type) -> bool:
    """Return whether a key is `kind`, a subclass of it, or the import path of either."""
    key_class = class_of(key)
    return isinstance(key_class, type) and issubclass(key_class, kind)


_FIELDS = {row.key: field for field, row in BY_FIELD.items()}


def value_of(settings: Settings, key: str) -> Any:  # noqa: ANN401 - see `settings.py` for the type
    """Return a setting's value, given its key."""
    return getattr(settings, _FIELDS[key])
