"""Every stat key of this package, once, and in `TABLE` what it counts; a test checks `docs/stats.md` against it."""

from __future__ import annotations

# Keys that Scrapy's own middleware has too, with the same meaning.
REQUEST_COUNT = "robotstxt/request_count"
RESPONSE_COUNT = "robotstxt/response_count"
RESPONSE_STATUS_COUNT = "robotstxt/response_status_count/{status}"
EXCEPTION_COUNT = "robotstxt/exception_count/{exception}"
FORBIDDEN = "robotstxt/forbidden"

# Keys of this package.
ALLOWED = "robotstxt/allowed"
FORBIDDEN_BY = "robotstxt/forbidden/{reason}"
EARLY = "robotstxt/early"
DRY_RUN = "robotstxt/dry_run"
OVERRIDDEN = "robotstxt/overridden"
REUSED = "robotstxt/reused"
RESULT = "robotstxt/result/{outcome}"
REDIRECT_COUNT = "robotstxt/redirect_count"
TRUNCATED = "robotstxt/truncated"
CACHE_HITS = "robotstxt/cache/hits"
CACHE_MISSES = "robotstxt/cache/misses"
CACHE_EVICTIONS = "robotstxt/cache/evictions"
CACHE_REVALIDATED = "robotstxt/cache/revalidated"
CACHE_STALE_ORIGINS = "robotstxt/cache/stale_origins"
CACHE_STALE_BY = "robotstxt/cache/stale_origins/{origin}"
CACHE_STALE_DECISIONS = "robotstxt/cache/stale_decisions"
CACHE_STORE_HITS = "robotstxt/cache/store_hits"
CACHE_LEASE_WAITS = "robotstxt/cache/lease_waits"
STORE_ERRORS = "robotstxt/cache/store_errors"
STORE_UNREADABLE = "robotstxt/cache/store_unreadable"
WAITS = "robotstxt/waits"
EXEMPTED = "robotstxt/exempted"
EXEMPTED_BY = "robotstxt/exempted/{site}"
UNDECIDED = "robotstxt/undecided"
SET_ASIDE = "robotstxt/set_aside"
ORIGINS = "robotstxt/origins/{outcome}"
UNREACHABLE_BY = "robotstxt/origins/unreachable/{origin}"
RECOVERED = "robotstxt/recovered"
PARSER_ERRORS = "robotstxt/parser_errors"
CRAWL_DELAY_SITES = "robotstxt/crawl_delay/sites"
CRAWL_DELAY_MAX = "robotstxt/crawl_delay/max"
CRAWL_DELAY_CAPPED = "robotstxt/crawl_delay/capped"
CRAWL_DELAY_ADDED = "robotstxt/crawl_delay/added_seconds"
CRAWL_DELAY_ADDED_BY = "robotstxt/crawl_delay/added_seconds/{origin}"
VISIT_TIME_OUTSIDE = "robotstxt/visit_time/outside"
COSTLIEST_ORIGINS = "robotstxt/costliest_origins/{origin}"
COSTLIEST_RULES = "robotstxt/costliest_rules/{origin} line {line}"
REPORT_RECORDS = "robotstxt/report/records"
REPORT_ERRORS = "robotstxt/report/errors"

#: Key -> what it counts.
TABLE = {
    REQUEST_COUNT: "fetches of a robots.txt; redirects and Scrapy's retries belong to the fetch that they are part of",
    RESPONSE_COUNT: "fetches that ended with an HTTP answer, whatever its status",
    RESPONSE_STATUS_COUNT: "the same, by the status of the last answer",
    EXCEPTION_COUNT: "fetches that ended with an exception, by its class; IgnoreRequest is not counted, as in Scrapy",
    FORBIDDEN: "requests that were dropped; in a dry run, that would have been",
    FORBIDDEN_BY: "the same, by `Reason`: `rule`, `unreachable`, `local`, `parser`, `crawl_delay`",
    ALLOWED: "requests that were let through by a decision",
    EARLY: "requests that ROBOTSTXT_EARLY dropped before they were queued; they count as forbidden too",
    DRY_RUN: "requests that ROBOTSTXT_DRY_RUN let through although they are forbidden; they count as forbidden too",
    OVERRIDDEN: "requests that were decided by a local file of ROBOTSTXT_OVERRIDES; they count as any others too",
    REUSED: "requests for a robots.txt (meta `robotstxt_reuse`) that were answered with the crawl's own, unfetched",
    RESULT: "fetches by access result: `successful`, `unavailable`, `unreachable`; `local`: the crawl itself failed",
    REDIRECT_COUNT: "redirects of a robots.txt that were followed",
    TRUNCATED: "files longer than ROBOTSTXT_MAX_SIZE, of which only the beginning counts",
    CACHE_HITS: "look-ups that found a fresh file in memory",
    CACHE_MISSES: "look-ups that found none: the store is asked, then the site",
    CACHE_EVICTIONS: "origins that were dropped from memory because of ROBOTSTXT_CACHE_SIZE",
    CACHE_REVALIDATED: "fetches whose answer was that the copy at hand still is what there is (304)",
    CACHE_STALE_ORIGINS: "origins that began to obey a stale copy, because its refresh was unreachable",
    CACHE_STALE_BY: "how often one of them did; of the first ten, set at the end",
    CACHE_STALE_DECISIONS: "requests that were let through or dropped by a stale copy",
    CACHE_STORE_HITS: "look-ups that were answered by a fresh copy out of the store, or of another crawl in the "
    "process, without a fetch",
    CACHE_LEASE_WAITS: "look-ups that waited for another crawl's fetch: both share a store, or run in one process",
    STORE_ERRORS: "calls of the store of ROBOTSTXT_CACHE that failed; the crawl went on without them",
    STORE_UNREADABLE: "values of the store that could not be read, damaged or of another version: fetched anew",
    WAITS: "look-ups that waited for a fetch that was already under way",
    EXEMPTED: "requests that were not decided: meta `dont_obey_robotstxt`, no http(s), or ROBOTSTXT_EXEMPT",
    EXEMPTED_BY: "of these, those of a site of ROBOTSTXT_EXEMPT, by its entry there",
    UNDECIDED: "requests whose robots.txt was not there when the spider closed: given back to the scheduler, undecided",
    SET_ASIDE: "requests that were set aside until their robots.txt was there",
    ORIGINS: "origins by what governs their pages: `successful`, `unavailable`, `unreachable`; again when that changes",
    UNREACHABLE_BY: "how often one of them became unreachable; of the first ten, set at the end",
    RECOVERED: "origins whose robots.txt was unreachable, and was there when it was asked for again in time",
    PARSER_ERRORS: "exceptions of the parser that the user set in ROBOTSTXT_PARSER; those of allowed() close the gate",
    CRAWL_DELAY_SITES: "origins whose robots.txt asks for an interval that is kept",
    CRAWL_DELAY_MAX: "the longest interval that is kept, in seconds",
    CRAWL_DELAY_CAPPED: "origins that asked for more than ROBOTSTXT_CRAWL_DELAY_MAX, and are paced at it",
    CRAWL_DELAY_ADDED: "seconds that downloader slots stood still for it, beyond what your own settings made them wait",
    CRAWL_DELAY_ADDED_BY: "seconds that requests to an origin were held back; of the ten with most, set at the end",
    VISIT_TIME_OUTSIDE: "origins of which pages were asked for outside of their Visit-time",
    COSTLIEST_ORIGINS: "requests that were forbidden, by origin; of the ten with most, set at the end",
    COSTLIEST_RULES: "the same, by the line of the rule that decided; of the ten with most, set at the end",
    REPORT_RECORDS: "records that were written to the feeds of ROBOTSTXT_REPORT",
    REPORT_ERRORS: "writes to a feed of ROBOTSTXT_REPORT that failed: of a record, or of a file to where it belongs",
}
