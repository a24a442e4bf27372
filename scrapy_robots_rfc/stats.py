"""The stat keys used by this package, which are described in docs/report.md."""

from scrapy.crawler import Crawler
from scrapy.statscollectors import StatsCollector

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
