"""The report of a crawl, ROBOTSTXT_REPORT: a record of each request that may not be fetched, written as Scrapy's items.

Each feed has its own `FeedExporter` of Scrapy's with its own settings, signals and stats, so that the feeds of items
stay as they are. The storages are wrapped, so that a failing write does not stop the crawl, and no password is logged.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import os
from datetime import UTC, datetime
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.exceptions import NotConfigured
from scrapy.settings import SettingsAttribute
from scrapy.signalmanager import SignalManager
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object
from w3lib.url import file_uri_to_path

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._scrapy import Exporter, can_export
from scrapy_robots_rfc.core.text import error_text, many, printable, without_credentials
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.origins import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.core.decision import Decision
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

REPORT = "ROBOTSTXT_REPORT"
#: Seconds between two errors in the log about one feed: a full disk must not fill the log, too.
ERROR_INTERVAL = 60.0

# Settings for the feeds of items, with Scrapy's defaults: the values of the user do not apply to a report.
_ITEMS = {
    "FEED_URI": None,
    "FEED_EXPORT_FIELDS": None,
    "FEED_EXPORT_BATCH_ITEM_COUNT": 0,
    "FEED_EXPORT_ENCODING": None,
    "FEED_EXPORT_INDENT": 0,
}

#: Field of a record -> what stands in it. `docs/report.md` is checked against this table.
FIELDS = {
    "time": "when it was decided: UTC, ISO 8601 with milliseconds",
    "spider": "the name of the spider",
    "url": "the URL of the request, without user and password",
    "referrer": "the Referer header of the request, without user and password; null: it has none",
    "origin": "scheme, host and port whose robots.txt it falls under; null: the URL has no valid authority",
    "token": "the product token whose group applied, `*` for the wildcard group; null: none did",
    "reason": "`rule`, `unreachable`, `local`, `parser`, `crawl_delay`; `exempt` in the last records",
    "line": "the number of the line that decided; null: no rule did",
    "rule": "the rule, as `Disallow: /private/`; null: no rule decided",
    "why": "the text of the log line, as `robots.txt line 3: Disallow: /private/`",
    "robots_url": "the URL of the robots.txt; of a local file of ROBOTSTXT_OVERRIDES its `file:` URI",
    "digest": "`sha256:` and the digest of the octets of the file that count; null: there is no file",
    "stale": "whether an earlier copy decided, because its refresh failed",
    "dry_run": "whether the request was let through all the same",
    "count": "how many requests the record is about: 1, but for the last records",
}

# The value of a field where a record has no other.
_DEFAULTS: dict[str, Any] = {**dict.fromkeys(FIELDS), "stale": False, "dry_run": False, "count": 1}


class Feeds:
    """The report of a crawl.

    :param settings: its feeds are URIs -> options, as in FEEDS.
    :raises SettingError: Scrapy does not take a feed.
    """

    def __init__(self, crawler: Crawler, settings: Settings, runtime: Runtime) -> None:
        assert crawler.spider is not None
        self._runtime, self._spider, self._dry_run = runtime, crawler.spider.name, settings.dry_run
        # The URIs of local files are made at the start of the crawl, because its working folder may be deleted later.
        self._overrides = {path: Path(path).absolute().as_uri() for path in settings.overrides.values()}
        _check_places(crawler, settings.report)
        report = settings.report if can_export(crawler) else {}
        example = self._exempt(0, "", 0)
        self._feeds = [Feed(crawler, uri, options, runtime.clock, example) for uri, options in report.items()]

    def refused(self, request: Request, decision: Decision, why: str, robots: OriginPolicy | None) -> None:
        """Write the record of a request that may not be fetched; never raises.

        :param robots: what is known of its origin; ``None`` where it has none.
        """
        rule, header = decision.rule, request.headers.get("Referer")
        referrer = None if header is None else header.decode("utf-8", "backslashreplace")
        record = self._record(
            self._runtime.date(),
            url=printable(without_userinfo(request.url)),
            referrer=None if referrer is None else printable(without_userinfo(referrer)),
            origin=decision.origin,
            token=decision.token,
            reason=decision.reason.value,
            line=None if rule is None else rule.line,
            rule=None if rule is None else str(rule),
            why=printable(why),
            robots_url=None if robots is None else self._robots_url(robots),
            digest=None if robots is None or robots.file is None else robots.file.digest,
            stale=decision.stale,
            dry_run=self._dry_run,
        )
        for feed in self._feeds:
            feed.write(record)

    async def close(self, exempt: Mapping[str, int]) -> None:
        """Write the records of ROBOTSTXT_EXEMPT, and wait until all is stored.

        :param exempt: the entries that were used -> by how many requests.
        """
        now = self._runtime.date()
        for feed in self._feeds:
            for entry, count in exempt.items():
                feed.write(self._exempt(now, entry, count))
        for feed in self._feeds:
            await feed.close()

    def _exempt(self, now: float, entry: str, count: int) -> dict[str, Any]:
        why = f"not asked: `{entry}` of ROBOTSTXT_EXEMPT"
        return self._record(now, reason="exempt", rule=entry, why=why, count=count)

    def _record(self, now: float, **fields: object) -> dict[str, Any]:
        time = datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        return {**_DEFAULTS, "time": time, "spider": self._spider, **fields}

    def _robots_url(self, robots: OriginPolicy) -> str | None:
        return robots.origin.robots_url if robots.override is None else self._overrides.get(robots.override)


def _check_places(crawler: Crawler, report: Mapping[str, Any]) -> None:
    """Check that nothing else is written where a feed of the report is.

    :raises SettingError: a feed of items, or another one of the report, is written there.
    """
    taken = {_place(uri): "FEEDS" for uri in (*crawler.settings.getdict("FEEDS"), crawler.settings["FEED_URI"]) if uri}
    for uri, options in report.items():
        owner = taken.setdefault(_place(uri), uri)
        if owner != uri:
            accepted = f"at a place of its own; {'FEEDS' if owner == 'FEEDS' else REPORT} has another one there"
            raise SettingError(f"{REPORT}[{without_credentials(uri)!r}]", options, accepted)


def _place(uri: object) -> str:
    """Return a URI so that two ways of writing a local file are one."""
    text = os.fspath(uri) if isinstance(uri, Path) else str(uri)
    if text.startswith("file:"):
        text = file_uri_to_path(text)
    return text if "://" in text or text.startswith("stdout:") or "\0" in text else os.path.realpath(text)


class Feed:
    """One feed, with an exporter of its own, so that the failure of one feed does no harm to another.

    :param uri: as in FEEDS; may hold credentials.
    :param options: as in FEEDS; the format may be left to the suffix.
    :param clock: seconds on a clock that never goes back.
    :param example: a record, to try the options with.
    :raises SettingError: Scrapy does not take it.
    """

    def __init__(
        self,
        crawler: Crawler,
        uri: str,
        options: Mapping[str, Any],
        clock: Callable[[], float],
        example: dict[str, Any],
    ) -> None:
        assert crawler.spider is not None
        assert crawler.stats is not None
        self._count, self._clock, self._quiet_until = crawler.stats.inc_value, clock, -math.inf
        self._written = self._lost = 0
        self._shown = self.place = without_credentials(uri)
        completed = {"format": Path(uri).suffix.removeprefix("."), **options}
        self._omit_null = completed["format"] == "xml"  # XML has no null
        # Scrapy reads all attributes of a spider to fill in a URI. Only a URI with placeholders needs them.
        filled_in = "%(" in uri or options.get("uri_params")
        self.spider, self._asked = crawler.spider, crawler.spider if filled_in else Spider(crawler.spider.name)
        self.file: _FeedFile | None = None
        self.started = self.closing = False
        try:
            self._exporter = Exporter(crawler, _FeedCrawler(crawler, self, uri, completed), self._asked)
            for plugin in completed.get("postprocessing") or ():
                load_object(plugin)  # Scrapy's manager would log a second error
            self._exporter.try_out(example)  # Scrapy finds wrong options of an exporter only when it writes
        except Exception as error:  # noqa: BLE001 - whatever a storage, an exporter, a filter of the user's raises
            accepted = f"options that work: {error_text(error)}"
            if isinstance(error, NotConfigured):
                accepted = "a feed that Scrapy takes; the error above says what is wrong"
            raise SettingError(f"{REPORT}[{self._shown!r}]", dict(options), accepted) from None
        self.started = True

    def write(self, record: dict[str, Any]) -> None:
        """Write a record and flush the file; never raises."""
        if self._omit_null:
            record = {key: value for key, value in record.items() if value is not None}
        try:
            if not self._exporter.write(record):
                return  # a filter of the user's leaves it out
            if self.file is not None:
                self.file.written()
        except Exception as error:  # noqa: BLE001 - as above
            self._failed(error)
        else:
            self._written += 1
            self._count(stats.REPORT_RECORDS)

    async def close(self) -> None:
        """Wait until all is stored."""
        self.closing = True
        await self._exporter.close()
        lost = f"; writes that failed: {self._lost}" if self._lost else ""
        text = f"{many(self._written, 'record')} in {self.place}{lost}"
        logger.info("%s: %s", REPORT, text, extra={"spider": self.spider})

    def _failed(self, error: Exception) -> None:
        self.lost()
        now = self._clock()
        if now >= self._quiet_until:
            self._quiet_until = now + ERROR_INTERVAL
            logger.error(
                "%s: %s cannot be written (%s). The crawl goes on; what is lost is counted in %s. Look for a full "
                "disk, missing rights, or a server that is down",
                REPORT, self._shown, error_text(error), stats.REPORT_ERRORS, extra={"spider": self.spider},
            )  # fmt: skip

    def lost(self) -> None:
        """Count a record, or a file, that could not be written."""
        self._lost += 1
        self._count(stats.REPORT_ERRORS)


class _FeedCrawler:
    """The crawler that the exporter of a feed sees. Its settings have only that feed; signals and stats are new."""

    def __init__(self, crawler: Crawler, feed: Feed, uri: str, options: dict[str, Any]) -> None:
        self._crawler, self._feed = crawler, feed
        self.signals = SignalManager(self)
        self.stats = self
        self.settings = copy.copy(crawler.settings)  # a deep copy would copy the user's objects
        # Scrapy logs the URI of a feed. So Scrapy gets it without credentials, and the storage gets the whole one.
        user, at, _ = urlsplit(uri).netloc.rpartition("@")
        secret = "" if "%(" in user else user + at
        storages = crawler.settings.getwithbase("FEED_STORAGES")
        wrapped = {
            scheme: partial(_FeedStorage, feed, crawler, path, secret)
            for scheme, path in storages.items()
            if path is not None
        }
        feeds = {uri.replace(secret, "", 1) if secret else uri: options}
        replaced = {**_ITEMS, "FEEDS": feeds, "FEED_STORAGES": wrapped, "FEED_STORAGES_BASE": {}}
        attributes = {key: SettingsAttribute(value, 0) for key, value in replaced.items()}
        self.settings.attributes = {**crawler.settings.attributes, **attributes}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the real one
        return getattr(self._crawler, name)

    def inc_value(self, key: str, **_: object) -> None:
        """Count what Scrapy could not store. Its other counts are about items."""
        if key.startswith("feedexport/failed_count"):
            self._feed.lost()


class _FeedStorage:
    """A storage for one file of a feed, around the storage that the user asks for.

    :param path: the class of that storage. If it cannot be made at the start of the crawl, the error is raised; later
        it is tried again with the next record.
    :param secret: the credentials of the URI, ending with ``@``; empty: there are none.
    :param uri: without them.
    """

    def __init__(
        self, feed: Feed, crawler: Crawler, path: str, secret: str, uri: str, *, feed_options: dict[str, Any]
    ) -> None:
        real = uri.replace("://", f"://{secret}", 1)
        self._feed = feed
        self._make = partial(build_from_crawler, load_object(path), crawler, real, feed_options=feed_options)
        self._inner: Any = None if feed.started else self._make()
        self._error: Exception | None = None
        if not feed_options["batch_item_count"]:
            feed.place = without_credentials(uri)

    def open(self, _: Spider) -> _FeedFile:
        """Open the file; before the crawl has started, one in memory that is thrown away.

        If that fails, it is tried again with the next record. At the end of the crawl, `store` raises the error.
        """
        if not self._feed.started:
            return _FeedFile(BytesIO())
        try:
            self._inner = self._inner or self._make()
            self._feed.file = _FeedFile(self._inner.open(self._feed.spider))
        except Exception as error:
            if not self._feed.closing:
                raise
            self._error, self._feed.file = error, _FeedFile(BytesIO())
        return self._feed.file

    async def store(self, file: _FeedFile) -> None:
        """Store a file at the place of the feed.

        :raises OSError: that failed. Its text has no credentials, since Scrapy logs it.
        """
        try:
            if self._error is not None:
                raise self._error
            await ensure_awaitable(self._inner.store(file.inner))
        except Exception as error:  # noqa: BLE001 - whatever a storage raises
            with contextlib.suppress(Exception):
                file.inner.close()
            raise OSError(error_text(error)) from None


class _FeedFile:
    """A file that keeps errors until `written`: an exporter cannot go on after an error in the middle of a record."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - whatever a storage has opened
        self.inner = inner
        self._error: Exception | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the file itself
        return getattr(self.inner, name)

    def write(self, data: bytes) -> int:
        """Write octets; an error is kept."""
        try:
            self.inner.write(data)
        except Exception as error:  # noqa: BLE001 - whatever a file of the user's raises
            self._error = error
        return len(data)

    def flush(self) -> None:
        """Flush the file; an error is kept."""
        try:
            if not self.inner.closed:  # a batch that is full may be stored already
                self.inner.flush()
        except Exception as error:  # noqa: BLE001 - as above
            self._error = error

    def written(self) -> None:
        """Flush the file, and raise the last error since the last call.

        :raises Exception: not all is written.
        """
        self.flush()
        error, self._error = self._error, None
        if error is not None:
            raise error
