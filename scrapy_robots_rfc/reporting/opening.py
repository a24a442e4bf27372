"""Makes the records of a crawl that settings ask for: the report and the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.reporting.archive import Archive
    from scrapy_robots_rfc.reporting.export import Feeds
    from scrapy_robots_rfc.settings import Settings

#: Seconds between two errors in the log about one file or feed: a full disk must not fill the log, too.
ERROR_INTERVAL = 60.0


def records_of(crawler: Crawler, settings: Settings, runtime: Runtime) -> tuple[Feeds | None, Archive | None]:
    """Return the report and the archive of a crawl, each loaded when a setting asks for it."""
    feeds = archive = None
    if settings.report:
        from scrapy_robots_rfc.reporting import export  # noqa: PLC0415 - see above

        feeds = export.Feeds(crawler, settings, runtime)
    if settings.archive:
        from scrapy_robots_rfc.reporting import archive as archives  # noqa: PLC0415 - see above

        archive = archives.Archive(crawler, settings, runtime)
    return feeds, archive
