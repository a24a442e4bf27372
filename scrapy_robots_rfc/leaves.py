"""The leaves of a crawl: parts that no request needs, loaded where a setting asks for them.

A leaf listens to signals, or is a middleware of its own, and uses what users can use, too: the
service, `Decision`, the stats. Nothing else imports a leaf, so to take one out is to delete its
files and its rows here.
"""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scrapy.utils.misc import load_object

from scrapy_robots_rfc.policy.origins import Answers
from scrapy_robots_rfc.settings import BY_FIELD, Settings

#: Setting -> the path of the class that is loaded where it is set. The class is made with the
#: crawler and its `Settings`, and connects to signals.
LEAVES = {
    "ROBOTSTXT_OBEY": "scrapy_robots_rfc.reporting.summary.Summary",
    "ROBOTS_REPORT": "scrapy_robots_rfc.reporting.report.Report",
    "ROBOTS_ARCHIVE": "scrapy_robots_rfc.reporting.archive.Archive",
}

#: Setting -> the path of a `Source` of `fetching/sources.py`, which is made with the crawler, its
#: `Settings`, what parses a file, and what gives the crawl's own agent.
SOURCES = {
    "ROBOTS_EXEMPT": "scrapy_robots_rfc.fetching.overrides.Overrides",
    "ROBOTS_OVERRIDES": "scrapy_robots_rfc.fetching.overrides.Overrides",
}
#: What the answers of a scheme are -> the path of what changes its download handler, so that that
#: transfers a robots.txt in another way; called for the first such file.
TRANSFERS = {Answers.FTP: "scrapy_robots_rfc.fetching.ftp.bound"}

#: The path of the class by which the workers of a fleet take turns, loaded where they share a
#: store.
SHARED_TURNS = "scrapy_robots_rfc.scheduling.shared.SharedThrottle"
#: The path of the class that judges the final URLs of pages, loaded where a third-party handler or
#: middleware may follow redirects itself.
FINAL_URLS = "scrapy_robots_rfc.middleware.final_url.FinalUrls"

DOWNLOADER_MIDDLEWARES = "DOWNLOADER_MIDDLEWARES"


class Placed(NamedTuple):
    """A middleware that a setting asks for: the add-on puts it in, or the user does.

    :param setting: the setting of Scrapy that lists middlewares of its kind.
    :param path: of its class.
    :param position: a number; of a downloader middleware, by how much it stands behind
        RfcRobotsTxtMiddleware.
    :param empty: whether an empty list asks for it, too.
    """

    setting: str
    path: str
    position: int
    empty: bool = False

    def asked_for(self, value: object) -> bool:
        """Whether a value of the setting asks for it."""
        return value is not None if self.empty else bool(value)

    def is_among(self, keys: Iterable[str | type]) -> bool:
        """Whether one of the keys of a setting stands for it, or for a subclass of it."""
        kind = load_object(self.path)
        return any(stands_for(key, kind) for key in keys)


#: Setting -> the middleware that it needs.
MIDDLEWARES = {
    # Next to the spider: a page passes its `process_spider_input` right before its callback.
    "ROBOTS_TAG_OBEY": Placed(
        "SPIDER_MIDDLEWARES", "scrapy_robots_rfc.RfcPageRulesMiddleware", 1000
    ),
    # With an empty list, too: a spider or its requests may say what they are for.
    "ROBOTS_USE": Placed(
        DOWNLOADER_MIDDLEWARES, "scrapy_robots_rfc.RfcUseMiddleware", 1, empty=True
    ),
}


def loaded(key: str | type) -> Any:  # noqa: ANN401 - the class, or what stands in its place
    """Return the class that a key stands for, or else the key: Scrapy reports what is no class."""
    try:
        return load_object(key)
    except (AttributeError, ImportError, NameError, TypeError, ValueError):
        return key


def stands_for(key: str | type, kind: type) -> bool:
    """Whether a key of a setting stands for `kind` or a subclass of it."""
    found = loaded(key)
    return isinstance(found, type) and issubclass(found, kind)


_FIELDS = {row.key: field for field, row in BY_FIELD.items()}


def asked_for(table: Mapping[str, str], settings: Settings) -> list[Any]:
    """Load the classes of a table, each once, whose settings are set."""
    paths = [path for key, path in table.items() if value_of(settings, key)]
    return [load_object(path) for path in dict.fromkeys(paths)]


def value_of(settings: Settings, key: str) -> Any:  # noqa: ANN401 - the type stands in `settings.py`
    """Return the value of a setting, by its key."""
    return getattr(settings, _FIELDS[key])
