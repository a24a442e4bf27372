"""The leaves of a crawl: what users are told beside the log and the stats. Each is loaded by a setting.

A leaf hears of the crawl by signals, and asks what users can ask, too: the service, `Decision`, the
stats. Nothing else imports a leaf, so to take one out is to delete its files and its row here.
"""

from __future__ import annotations

from scrapy.crawler import Crawler
from scrapy.utils.misc import load_object

from scrapy_robots_rfc.settings import BY_FIELD, Settings

#: Setting -> the path of the class that is loaded where it is set. The class is made with the crawler
#: and its `Settings`, and connects to signals. It raises SettingError for what it does not accept.
LEAVES = {
    "ROBOTSTXT_OBEY": "scrapy_robots_rfc.reporting.summary.Summary",
    "ROBOTS_REPORT": "scrapy_robots_rfc.reporting.report.Report",
    "ROBOTS_ARCHIVE": "scrapy_robots_rfc.reporting.archive.Archive",
}


def load_leaves(crawler: Crawler, settings: Settings) -> list[object]:
    """Load the leaves that the settings of a crawl ask for.

    :returns: the leaves, for the caller to keep: signals do not keep whom they are sent to.
    :raises SettingError: a leaf does not accept its setting.
    """
    fields = {row.key: field for field, row in BY_FIELD.items()}
    asked_for = [path for key, path in LEAVES.items() if getattr(settings, fields[key])]
    return [load_object(path)(crawler, settings) for path in asked_for]
