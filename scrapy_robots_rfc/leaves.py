"""The leaves: optional parts of a crawl, each loaded if a setting needs it.

A leaf listens to signals or is a middleware of its own. It uses what users can use, too: the
service, `Decision`, the stats. Nothing else imports a leaf, so removing one means deleting its
files and its rows here.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scrapy.utils.misc import load_object

from scrapy_robots_rfc.policy.origins import Answers
from scrapy_robots_rfc.settings import BY_FIELD, Settings

#: A setting -> the path of the class that is loaded if it is set. The class takes the crawler and
#: its `Settings`, and connects to signals.
LEAVES = {
    "ROBOTSTXT_OBEY": "scrapy_robots_rfc.reporting.summary.Summary",
    "ROBOTS_REPORT": "scrapy_robots_rfc.reporting.report.Report",
    "ROBOTS_ARCHIVE": "scrapy_robots_rfc.reporting.archive.Archive",
}

#: A setting -> the path of a `Source` of `fetching/sources.py`. The class takes the crawler, its
#: `Settings`, a parser of files, and a function that returns the default agent of the crawl.
SOURCES = {
    "ROBOTS_EXEMPT": "scrapy_robots_rfc.fetching.overrides.Overrides",
    "ROBOTS_OVERRIDES": "scrapy_robots_rfc.fetching.overrides.Overrides",
}
#: The kind of answers of a scheme -> the path of a function that adapts its download handler to
#: robots.txt files. It is called before the first such file is fetched.
TRANSFERS = {Answers.FTP: "scrapy_robots_rfc.fetching.ftp.bound"}

#: The path of the class by which the workers of a fleet take turns, loaded if they share a store.
SHARED_TURNS = "scrapy_robots_rfc.scheduling.shared.SharedThrottle"
#: The path of the class that judges the final URLs of pages, loaded if a third-party handler or
#: middleware may follow redirects itself.
FINAL_URLS = "scrapy_robots_rfc.middleware.final_url.FinalUrls"

DOWNLOADER_MIDDLEWARES = "DOWNLOADER_MIDDLEWARES"


class OptionalMiddleware(NamedTuple):
    """A middleware that a setting needs; the add-on or the user enables it.

    :param setting: Scrapy's setting for middlewares of its kind.
    :param path: the path of the class.
    :param position: its position; for a downloader middleware, the distance to the position of
        RfcRobotsTxtMiddleware.
    :param empty: whether an empty list needs it, too.
    """

    setting: str
    path: str
    position: int
    empty: bool = False

    def is_needed(self, value: object) -> bool:
        """Return whether a value of the setting needs it."""
        return value is not None if self.empty else bool(value)

    def is_among(self, keys: Iterable[str | type]) -> bool:
        """Return whether one of the keys of a setting is its class or a subclass."""
        kind = load_object(self.path)
        return any(is_kind(key, kind) for key in keys)


#: A setting -> the middleware that it needs.
MIDDLEWARES = {
    # Closest to the spider, so `process_spider_input` sees a page just before the callback.
    "ROBOTS_TAG_OBEY": OptionalMiddleware(
        "SPIDER_MIDDLEWARES", "scrapy_robots_rfc.RfcPageRulesMiddleware", 1000
    ),
    # With an empty list, too: the spider or its requests may declare uses.
    "ROBOTS_USE": OptionalMiddleware(
        DOWNLOADER_MIDDLEWARES, "scrapy_robots_rfc.RfcUseMiddleware", 1, empty=True
    ),
}


def class_of(key: str | type) -> Any:  # noqa: ANN401 - the class or the key
    """Return the class of a key, or the key itself if it has none; Scrapy reports that."""
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key


def is_kind(key: str | type, kind: type) -> bool:
    """Return whether the class of a key is `kind` or a subclass of it."""
    key_class = class_of(key)
    return isinstance(key_class, type) and issubclass(key_class, kind)


_FIELDS = {row.key: field for field, row in BY_FIELD.items()}


def load_needed(table: Mapping[str, str], settings: Settings) -> list[Any]:
    """Load each class in a table whose setting is set, without duplicates."""
    paths = [path for key, path in table.items() if value_of(settings, key)]
    return [load_object(path) for path in dict.fromkeys(paths)]


def value_of(settings: Settings, key: str) -> Any:  # noqa: ANN401 - `settings.py` has the type
    """Return the value of a setting, by its key."""
    return getattr(settings, _FIELDS[key])
