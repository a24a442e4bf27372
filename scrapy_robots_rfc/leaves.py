"""Tables of optional components, called leaves, that are only loaded if a setting needs them.

A leaf is either a middleware or listens to signals. It only uses the public API. No other module
imports a leaf, so it can be removed by deleting its files and its rows in this module.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scrapy.utils.misc import load_object

from scrapy_robots_rfc.policy.origins import Answers
from scrapy_robots_rfc.settings import BY_FIELD, Settings

#: Setting -> the path of the class to load if it is set. The class takes the crawler and its
#: `Settings`, and connects to signals.
LEAVES = {
    "ROBOTSTXT_OBEY": "scrapy_robots_rfc.reporting.summary.Summary",
    "ROBOTS_REPORT": "scrapy_robots_rfc.reporting.report.Report",
    "ROBOTS_ARCHIVE": "scrapy_robots_rfc.reporting.archive.Archive",
}

#: Setting -> the path of a subclass of `Source` in `fetching/sources.py`. The class takes the
#: crawler, its `Settings`, a parser, and a function that returns the default agent of the crawl.
SOURCES = {
    "ROBOTS_EXEMPT": "scrapy_robots_rfc.fetching.overrides.Overrides",
    "ROBOTS_OVERRIDES": "scrapy_robots_rfc.fetching.overrides.Overrides",
}
#: The kind of statuses of a scheme -> the path of a function that adapts its download handler. It
#: is called before the first robots.txt is fetched.
TRANSFERS = {Answers.FTP: "scrapy_robots_rfc.fetching.ftp.adapt"}

#: The path of the class that coordinates turns between workers, loaded if they share a store.
SHARED_TURNS = "scrapy_robots_rfc.scheduling.shared.SharedThrottle"
#: The path of the class that checks the final URLs of pages, loaded if a third-party handler or
#: middleware may follow redirects.
FINAL_URLS = "scrapy_robots_rfc.middleware.final_url.FinalUrls"

DOWNLOADER_MIDDLEWARES = "DOWNLOADER_MIDDLEWARES"
QUEUE = "SCHEDULER_PRIORITY_QUEUE"
OUR_QUEUE = "scrapy_robots_rfc.OriginPriorityQueue"


class OptionalMiddleware(NamedTuple):
    """A middleware that a setting requires.

    :param setting: the Scrapy setting that enables this kind of middleware.
    :param path: the import path of the class.
    :param position: the position. For a downloader middleware, it is relative to the position of
        `RfcRobotsTxtMiddleware`.
    :param empty: True if an empty list as the value of the setting also requires it.
    """

    setting: str
    path: str
    position: int
    empty: bool = False

    def is_needed(self, value: object) -> bool:
        """Return whether a value of the setting requires the middleware."""
        return value is not None if self.empty else bool(value)

    def is_among(self, keys: Iterable[str | type]) -> bool:
        """Return whether the middleware or a subclass of it is among the given classes."""
        kind = load_object(self.path)
        return any(is_kind(key, kind) for key in keys)


#: Setting -> the middleware that it requires.
MIDDLEWARES = {
    # It is the closest one to the spider, so that it runs just before the callback.
    "ROBOTS_TAG_OBEY": OptionalMiddleware(
        "SPIDER_MIDDLEWARES", "scrapy_robots_rfc.RfcPageRulesMiddleware", 1000
    ),
    # An empty list requires it too, because the spider or its requests may declare uses.
    "ROBOTS_USE": OptionalMiddleware(
        DOWNLOADER_MIDDLEWARES, "scrapy_robots_rfc.RfcUseMiddleware", 1, empty=True
    ),
}


def class_of(key: str | type) -> Any:  # noqa: ANN401 - the class or the key
    """Load a class, or return the key unchanged if that fails, because Scrapy reports the error."""
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key


def is_kind(key: str | type, kind: type) -> bool:
    """Return whether a key is the class `kind`, a subclass of it, or the path of one."""
    key_class = class_of(key)
    return isinstance(key_class, type) and issubclass(key_class, kind)


_FIELDS = {row.key: field for field, row in BY_FIELD.items()}


def load_needed(table: Mapping[str, str], settings: Settings) -> list[Any]:
    """Load the classes in a table whose setting is set, without duplicates."""
    paths = [path for key, path in table.items() if value_of(settings, key)]
    return [load_object(path) for path in dict.fromkeys(paths)]


def value_of(settings: Settings, key: str) -> Any:  # noqa: ANN401 - `settings.py` has the type
    """Return the value of a setting by its key."""
    return getattr(settings, _FIELDS[key])
