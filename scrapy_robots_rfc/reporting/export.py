"""The report of a crawl, ROBOTSTXT_REPORT: a record of each request that was decided, written as Scrapy's items.

Each feed has its own `FeedExporter` of Scrapy's with its own settings, signals and stats, so that the feeds of items
stay as they are. The storages are wrapped, so that a failing write does not stop the crawl, and no password is logged.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
from collections.abc import Callable, Mapping
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured
from scrapy.settings import SettingsAttribute
from scrapy.signalmanager import SignalManager
from scrapy.statscollectors import StatsCollector
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc._scrapy import Exporter, can_export
from scrapy_robots_rfc.core.decision import Decision
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text, without_credentials
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.reporting import LossLog
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

REPORT = "ROBOTSTXT_REPORT"

# Settings for the feeds of items, with Scrapy's defaults: the values of the user do not apply to a report.
_ITEMS = {
    "FEED_URI": None,
    "FEED_EXPORT_FIELDS": None,
    "FEED_EXPORT_BATCH_ITEM_COUNT": 0,
    "FEED_EXPORT_ENCODING": None,
    "FEED_EXPORT_INDENT": 0,
}

_NAMES = "time spider url referrer origin token reason line rule why robots_url digest outcome fresh_until version"
#: The fields of a record, in their order, with the value of one where a record has no other. `docs/report.md` says what
#: stands in them.
FIELDS: dict[str, Any] = {
    **dict.fromkeys(_NAMES.split()),
    "stale": False,
    "dry_run": False,
    "allowed": False,
    "count": 1,
}


class Feeds:
    """The report of a crawl.

    :param settings: its feeds are URIs -> options, as in FEEDS.
    :raises SettingError: Scrapy does not take a feed.
    """

    def __init__(self, crawler: Crawler, settings: Settings, runtime: Runtime) -> None:
        assert crawler.spider is not None
        self._version = version("scrapy-robots-rfc")
        self._runtime, self._spider, self._dry_run = runtime, crawler.spider.name, settings.dry_run
        # The URIs of local files are made at the start of the crawl, because its working folder may be deleted later.
        self._overrides = {path: Path(path).absolute().as_uri() for path in settings.overrides.values()}
        report = settings.report if can_export(crawler) else {}
        example = self._exempt("", 0)
        self._feeds = [Feed(crawler, uri, options, runtime.clock, example) for uri, options in report.items()]

    def decided(
        self,
        request: Request,
        decision: Decision,
        why: str,
        robots: OriginPolicy | None,
        line: int | None = None,
    ) -> None:
        """Write the record of a request that was decided; never raises.

        :param robots: what is known of its origin; ``None`` where it has none.
        :param line: of robots.txt that decided, where that is no rule.
        """
        rule, header = decision.rule, request.headers.get("Referer")
        referrer = None if header is None else header.decode("utf-8", "backslashreplace")
        robots_url = None
        if robots is not None:
            local = robots.override
            robots_url = robots.origin.robots_url if local is None else self._overrides.get(local)
        record = self._record(
            url=printable(without_userinfo(request.url)),
            referrer=None if referrer is None else printable(without_userinfo(referrer)),
            origin=decision.origin,
            token=decision.token,
            reason=decision.reason.value,
            line=line if rule is None else rule.line,
            rule=None if rule is None else str(rule),
            why=printable(why),
            robots_url=robots_url,
            digest=None if robots is None or robots.file is None else robots.file.digest,
            outcome=None if robots is None else robots.outcome.value,
            fresh_until=None if robots is None else self._fresh_until(robots),
            stale=decision.stale,
            dry_run=self._dry_run,
            allowed=decision.allowed,
        )
        for feed in self._feeds:
            feed.write(record)

    async def close(self, exempt: Mapping[str, int]) -> None:
        """Write the records of ROBOTSTXT_EXEMPT, and wait until all is stored.

        :param exempt: the entries that were used -> by how many requests.
        """
        records = [self._exempt(entry, count) for entry, count in exempt.items()]
        for feed in self._feeds:
            for record in records:
                feed.write(record)
            await feed.close()

    def _exempt(self, entry: str, count: int) -> dict[str, Any]:
        why = f"not asked: `{entry}` of ROBOTSTXT_EXEMPT"
        return self._record(reason="exempt", rule=entry, why=why, count=count)

    def _record(self, **fields: object) -> dict[str, Any]:
        fixed = {"time": utc_text(self._runtime.date()), "spider": self._spider, "version": self._version}
        return {**FIELDS, **fixed, **fields}

    def _fresh_until(self, robots: OriginPolicy) -> str | None:
        left = robots.validity.fresh_until - self._runtime.clock()
        return None if left == math.inf else utc_text(self._runtime.date() + left)


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
        self._count = crawler.stats.inc_value
        look_for = "a full disk, missing rights, or a server that is down"
        self._losses = LossLog(REPORT, stats.REPORT_ERRORS, look_for, clock)
        self._written = self._lost = 0
        self.place: str = without_credentials(uri)
        self._shown = self.place
        completed = {"format": Path(uri).suffix.removeprefix("."), **options}
        self._omit_null = completed["format"] == "xml"  # XML has no null
        self.spider: Spider | None = crawler.spider
        self.storage: _FeedStorage | None = None
        #: Whether the crawl has started, and does not end yet.
        self.running: bool = False
        try:
            seen = _crawler_of(crawler, self, uri, completed)
            self._exporter = Exporter(crawler, seen, crawler.spider)
            for plugin in completed.get("postprocessing") or ():
                load_object(plugin)  # Scrapy's manager would log a second error
            self._exporter.try_out(example)  # Scrapy finds wrong options of an exporter only when it writes
        except Exception as error:  # noqa: BLE001 - whatever a storage, an exporter, a filter of the user's raises
            accepted = f"options that work: {error_text(error)}"
            if isinstance(error, NotConfigured):
                accepted = "a feed that Scrapy takes; the error above says what is wrong"
            raise SettingError(f"{REPORT}[{self._shown!r}]", dict(options), accepted) from None
        self._stats, self.running = seen.stats, True

    def write(self, record: dict[str, Any]) -> None:
        """Write a record and flush the file; never raises."""
        if self._omit_null:
            record = {key: value for key, value in record.items() if value is not None}
        try:
            if not self._exporter.write(record):
                return  # a filter of the user's leaves it out
            if self.storage is not None:
                self.storage.pass_on()
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(1)
            self._losses.tell(self._shown, error, self.spider)
        else:
            self._written += 1
            self._count(stats.REPORT_RECORDS)

    async def close(self) -> None:
        """Wait until all is stored."""
        self.running = False
        await self._exporter.close()
        files = sum(
            value for key, value in self._stats.get_stats().items() if key.startswith("feedexport/failed_count")
        )
        self._lose(files)
        lost = f"; writes that failed: {self._lost}" if self._lost else ""
        text = f"{many(self._written, 'record')} in {self.place}{lost}"
        logger.info("%s: %s", REPORT, text, extra={"spider": self.spider})

    def _lose(self, count: int) -> None:
        """Count records, or files, that could not be written."""
        if count:
            self._lost += count
            self._count(stats.REPORT_ERRORS, count)


def _crawler_of(crawler: Crawler, feed: Feed, uri: str, options: dict[str, Any]) -> Crawler:
    """Return the crawler that an exporter sees: its settings have this feed only, its signals and stats are new."""
    seen = copy.copy(crawler)
    seen.settings = copy.copy(crawler.settings)  # a deep copy would copy the user's objects
    # Scrapy logs the URI of a feed. So Scrapy gets it without credentials, and the storage gets the whole one.
    user, at, _ = urlsplit(uri).netloc.rpartition("@")
    secret = "" if "%(" in user else user + at
    storages = {
        scheme: partial(_FeedStorage, feed, crawler, path, secret)
        for scheme, path in crawler.settings.getwithbase("FEED_STORAGES").items()
        if path is not None
    }
    feeds = {uri.replace(secret, "", 1) if secret else uri: options}
    replaced = {**_ITEMS, "FEEDS": feeds, "FEED_STORAGES": storages, "FEED_STORAGES_BASE": {}}
    attributes = {key: SettingsAttribute(value, 0) for key, value in replaced.items()}
    seen.settings.attributes = {**crawler.settings.attributes, **attributes}
    seen.signals, seen.stats = SignalManager(seen), StatsCollector(seen)
    return seen


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
        self._inner: Any = None if feed.running else self._make()
        self._file: Any = None
        if not feed_options["batch_item_count"]:
            feed.place = without_credentials(uri)

    def open(self, _: Spider) -> BytesIO:
        """Open the file, and return one in memory for the exporter, which could not go on after an error of a disk.

        If that fails, it is tried again with the next record. Before the crawl has started, no other file is opened.
        """
        if self._feed.running:
            self._begin()
        self._written = BytesIO()
        return self._written

    def _begin(self) -> None:
        self._inner = self._inner or self._make()
        self._file, self._feed.storage = self._inner.open(self._feed.spider), self

    def pass_on(self) -> None:
        """Write into the file what the exporter has written."""
        octets = self._written.getvalue()
        self._written.seek(0)
        self._written.truncate()
        if octets:
            self._file.write(octets)
            self._file.flush()

    async def store(self, _: BytesIO) -> None:
        """Store the file at the place of the feed.

        :raises OSError: that failed. Its text has no credentials, since Scrapy logs it.
        """
        try:
            if self._file is None:
                self._begin()
            self.pass_on()
            await ensure_awaitable(self._inner.store(self._file))
        except Exception as error:  # noqa: BLE001 - whatever a storage raises
            with contextlib.suppress(Exception):
                self._file.close()
            raise OSError(error_text(error)) from None
