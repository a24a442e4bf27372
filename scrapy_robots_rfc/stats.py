"""The stat keys used by this package, which are described in docs/report.md."""

from typing import Any
from weakref import WeakKeyDictionary, ref

from scrapy.crawler import Crawler
from scrapy.statscollectors import MemoryStatsCollector, StatsCollector

# Keys from Scrapy's built-in middleware, with the same meanings.
REQUEST_COUNT = "robotstxt/request_count"
RESPONSE_COUNT = "robotstxt/response_count"
RESPONSE_STATUS_COUNT = "robotstxt/response_status_count/{status}"
EXCEPTION_COUNT = "robotstxt/exception_count/{exception}"
FORBIDDEN = "robotstxt/forbidden"

# Our own keys.
ALLOWED = "robotstxt/allowed"
FORBIDDEN_BY = "robotstxt/forbidden/{reason}"
FORBIDDEN_REDIRECTS = "robotstxt/forbidden_redirects"
DRY_RUN = "robotstxt/dry_run"
PAGE = "robotstxt/page/{directive}/{source}"
OVERRIDDEN = "robotstxt/overridden"
RESULT = "robotstxt/result/{outcome}"
TRUNCATED = "robotstxt/truncated"
CACHE_HITS = "robotstxt/cache/hits"
CACHE_MISSES = "robotstxt/cache/misses"
CACHE_EVICTIONS = "robotstxt/cache/evictions"
CACHE_STALE_DECISIONS = "robotstxt/cache/stale_decisions"
CACHE_STORE_HITS = "robotstxt/cache/store_hits"
CACHE_LEASE_WAITS = "robotstxt/cache/lease_waits"
STORE_ERRORS = "robotstxt/cache/store_errors"
WAITS = "robotstxt/waits"
EXEMPTED = "robotstxt/exempted"
EXEMPTED_BY = "robotstxt/exempted/{site}"
UNDECIDED = "robotstxt/undecided"
ORIGINS = "robotstxt/origins/{outcome}"
ORIGINS_STALE = "robotstxt/origins/stale"
CRAWL_DELAY_SITES = "robotstxt/crawl_delay/sites"
CRAWL_DELAY_ADDED = "robotstxt/crawl_delay/added_seconds"
RECORDS = "robotstxt/{output}/records"
RECORD_ERRORS = "robotstxt/{output}/errors"
PAGE_CUT = "robotstxt/page/cut"
USE = "robotstxt/use/{source}"


def of(crawler: Crawler) -> StatsCollector:
    """Return a crawler's stats collector."""
    assert crawler.stats is not None
    return crawler.stats


class Counter:
    """Increments a crawl's stats.

    Scrapy's `inc_value` is slow. If STATS_CLASS is one of Scrapy's own collectors, this class
    updates the dict returned by `get_stats` directly.
    """

    def __init__(self, collector: StatsCollector) -> None:
        # A strong reference would keep the crawler in `_COUNTERS` forever, because the collector
        # refers to it.
        self._collector = ref(collector)
        self._values: dict[str, Any] | None = None
        self.refresh()

    def refresh(self) -> None:
        """Get the dict again, from time to time, in case another component has replaced it.

        It stays `None` for a third-party collector, so that `inc_value` is used.
        """
        collector = self._collector()
        is_scrapys = type(collector) in (StatsCollector, MemoryStatsCollector)
        self._values = collector.get_stats() if collector is not None and is_scrapys else None

    def __call__(self, key: str, count: int = 1) -> None:
        """Increment a stat."""
        if self._values is not None:
            self._values[key] = self._values.get(key, 0) + count
        elif (collector := self._collector()) is not None:
            collector.inc_value(key, count)


_COUNTERS: WeakKeyDictionary[Crawler, Counter] = WeakKeyDictionary()


def counter(crawler: Crawler) -> Counter:
    """Return a crawl's counter."""
    existing = _COUNTERS.get(crawler)
    if existing is None:
        existing = _COUNTERS[crawler] = Counter(of(crawler))
    return existing
