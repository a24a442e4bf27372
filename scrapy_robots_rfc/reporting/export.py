"""The report of a crawl, ROBOTSTXT_REPORT: a record of each request that may not be fetched, as Scrapy writes items.

Scrapy's `FeedExporter` is used as it is, one for each feed, with settings, signals and stats of its own, so that feeds
of items are not touched. Its storages are wrapped: a write that fails must not stop a crawl or tell a password.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import os
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
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
from scrapy_robots_rfc.cache.breaker import said
from scrapy_robots_rfc.core.text import many, printable, without_credentials
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.origins import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.core.decision import Decision
    from scrapy_robots_rfc.fetching.policy_of_origin import OriginPolicy
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

KEY = "ROBOTSTXT_REPORT"
#: Seconds between two errors in the log about one feed: a full disk must not fill the log, too.
QUIET = 60.0

# What the user sets for the feeds of items means nothing to these: the values are Scrapy's defaults.
_ITEMS = {
    "FEED_URI": None,
    "FEED_EXPORT_FIELDS": None,
    "FEED_EXPORT_BATCH_ITEM_COUNT": 0,
    "FEED_EXPORT_ENCODING": None,
    "FEED_EXPORT_INDENT": 0,
}

#: The fields of FIELDS, in this order.
Record: TypeAlias = dict[str, Any]

#: Field -> what stands in it. `docs/report.md` is checked against this table.
FIELDS = {
    "time": "when it was decided: UTC, ISO 8601 with milliseconds",
    "spider": "the name of the spider",
    "url": "the URL of the request, without user and password",
    "referrer": "the Referer header of the request, without user and password; null: it has none",
    "origin": "scheme, host and port whose robots.txt it falls under; null: the URL has no valid authority",
    "token": "the product token whose group applied, `*` for the wildcard group; null: none did",
    "reason": "`rule`, `unreachable`, `parser`, `crawl_delay`; `exempt` in the last records",
    "line": "the number of the line that decided; null: no rule did",
    "rule": "the rule, as `Disallow: /private/`; null: no rule decided",
    "why": "the text of the log line, as `robots.txt line 3: Disallow: /private/`",
    "robots_url": "the URL of the robots.txt; of a local file of ROBOTSTXT_OVERRIDES its `file:` URI",
    "digest": "`sha256:` and the digest of the octets of the file that count; null: there is no file",
    "stale": "whether an earlier copy decided, because its refresh failed",
    "dry_run": "whether the request was let through all the same",
    "count": "how many requests the record is about: 1, but for the last records",
}

#: The value of a field that is neither filled in by `Records.refused` nor by `Records.exempt`.
_NOTHING: Record = {**dict.fromkeys(FIELDS), "stale": False, "dry_run": False, "count": 1}


@dataclass(frozen=True, slots=True)
class Records:
    """Makes the records of a crawl.

    :param spider: its name.
    :param dry_run: whether what is refused goes on all the same.
    :param local: paths of ROBOTSTXT_OVERRIDES -> their URIs, from the start of the crawl: its folder may go away.
    """

    spider: str
    dry_run: bool = False
    local: Mapping[str, str] = field(default_factory=dict)

    def refused(
        self, now: float, request: Request, decision: Decision, why: str, robots: OriginPolicy | None
    ) -> Record:
        """Return the record of a request that may not be fetched.

        :param now: seconds since 1970.
        :param robots: what is known of its origin; ``None`` where it has none.
        """
        rule = decision.rule
        return {
            "time": _time(now),
            "spider": self.spider,
            "url": printable(without_userinfo(request.url)),
            "referrer": _referrer(request),
            "origin": decision.origin,
            "token": decision.token,
            "reason": decision.reason.value,
            "line": None if rule is None else rule.line,
            "rule": None if rule is None else str(rule),
            "why": printable(why),
            "robots_url": None if robots is None else self._robots_url(robots),
            "digest": None if robots is None or robots.file is None else robots.file.digest,
            "stale": decision.stale,
            "dry_run": self.dry_run,
            "count": 1,
        }

    def exempt(self, now: float, entry: str, count: int) -> Record:
        """Return the record of an entry of ROBOTSTXT_EXEMPT that was used.

        :param now: seconds since 1970.
        :param count: by how many requests.
        """
        return {
            **_NOTHING,
            "time": _time(now),
            "spider": self.spider,
            "reason": "exempt",
            "rule": entry,
            "why": f"not asked: `{entry}` of ROBOTSTXT_EXEMPT",
            "count": count,
        }

    def _robots_url(self, robots: OriginPolicy) -> str | None:
        return robots.origin.robots_url if robots.override is None else self.local.get(robots.override)


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _referrer(request: Request) -> str | None:
    header: bytes | None = request.headers.get("Referer")
    return None if header is None else printable(without_userinfo(header.decode("utf-8", "backslashreplace")))


class Feeds:
    """The report of a crawl.

    :param settings: its feeds are URIs -> options, as in FEEDS.
    :raises SettingError: Scrapy does not take a feed.
    """

    def __init__(self, crawler: Crawler, settings: Settings, runtime: Runtime) -> None:
        assert crawler.spider is not None
        taken = {
            _place(uri): "FEEDS" for uri in (*crawler.settings.getdict("FEEDS"), crawler.settings["FEED_URI"]) if uri
        }
        for uri, options in settings.report.items():
            owner = taken.setdefault(_place(uri), uri)
            if owner != uri:
                accepted = f"at a place of its own; {'FEEDS' if owner == 'FEEDS' else KEY} has another one there"
                raise SettingError(f"{KEY}[{without_credentials(uri)!r}]", options, accepted)
        self._runtime = runtime
        local = {path: Path(path).absolute().as_uri() for path in settings.overrides.values()}
        self._records = Records(crawler.spider.name, settings.dry_run, local)
        report = settings.report if can_export(crawler) else {}
        self._feeds = [Feed(crawler, uri, options, runtime.clock) for uri, options in report.items()]

    def refused(self, request: Request, decision: Decision, why: str, robots: OriginPolicy | None) -> None:
        """Write the record of a request that may not be fetched; never raises.

        :param robots: what is known of its origin; ``None`` where it has none.
        """
        record = self._records.refused(self._runtime.date(), request, decision, why, robots)
        for feed in self._feeds:
            feed.write(record)

    async def close(self, exempt: Mapping[str, int]) -> None:
        """Write the records of ROBOTSTXT_EXEMPT, and wait until all is stored.

        :param exempt: the entries that were used -> by how many requests.
        """
        now = self._runtime.date()
        for feed in self._feeds:
            for entry, count in exempt.items():
                feed.write(self._records.exempt(now, entry, count))
        for feed in self._feeds:
            await feed.close()


class Feed:
    """One feed, with an exporter of its own, so that what one feed cannot write is no loss to another.

    :param uri: as in FEEDS; may hold credentials.
    :param options: as in FEEDS; the format may be left to the suffix.
    :param clock: seconds on a clock that never goes back.
    :raises SettingError: Scrapy does not take it.
    """

    def __init__(self, crawler: Crawler, uri: str, options: Mapping[str, Any], clock: Callable[[], float]) -> None:
        assert crawler.spider is not None
        assert crawler.stats is not None
        self._count, self._clock, self._quiet_until = crawler.stats.inc_value, clock, -math.inf
        self._written = self._lost = 0
        self._shown = self.place = without_credentials(uri)
        completed = {"format": Path(uri).suffix.removeprefix("."), **options}
        self._omit_null = completed["format"] == "xml"  # it has no null
        # Scrapy asks a spider for all of its attributes to fill in a URI: only a URI with placeholders needs that.
        filled_in = "%(" in uri or options.get("uri_params")
        self.spider, self._asked = crawler.spider, crawler.spider if filled_in else Spider(crawler.spider.name)
        self.file: _File | None = None
        self.started = self.closing = False
        try:
            self._exporter = Exporter(crawler, _View(crawler, self, uri, completed), self._asked)
            self._try(completed)
        except NotConfigured:
            accepted = "a feed that Scrapy takes; the error above says what is wrong"
            raise SettingError(f"{KEY}[{self._shown!r}]", dict(options), accepted) from None
        except Exception as error:  # noqa: BLE001 - whatever a storage, an exporter, a filter of the user's raises
            accepted = f"options that work: {said(error)}"
            raise SettingError(f"{KEY}[{self._shown!r}]", dict(options), accepted) from None
        self.started = True

    def _try(self, options: Mapping[str, Any]) -> None:
        """Write a record to nowhere: what is wrong with the options of an exporter, Scrapy finds when it writes."""
        for plugin in options.get("postprocessing") or ():
            load_object(plugin)  # Scrapy's manager of them, half made, would complain once more when it is let go
        self._exporter.try_out(Records("").exempt(0, "", 0))

    def write(self, record: Record) -> None:
        """Write a record, so that it is in the file when this returns; never raises."""
        if self._omit_null:
            record = {key: value for key, value in record.items() if value is not None}
        try:
            if not self._exporter.write(record):
                return  # a filter of the user's does not want it
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
        logger.info("%s: %s", KEY, text, extra={"spider": self.spider})

    def _failed(self, error: Exception) -> None:
        self.lost()
        now = self._clock()
        if now >= self._quiet_until:
            self._quiet_until = now + QUIET
            logger.error(
                "%s: %s cannot be written (%s). The crawl goes on; what is lost is counted in %s. Look for a full "
                "disk, missing rights, or a server that is down",
                KEY, self._shown, said(error), stats.REPORT_ERRORS, extra={"spider": self.spider},
            )  # fmt: skip

    def lost(self) -> None:
        """Count a record, or a file, that could not be written."""
        self._lost += 1
        self._count(stats.REPORT_ERRORS)


class _View:
    """A crawler as the exporter of a feed is to see it: its settings have that feed alone, and no one else is told."""

    def __init__(self, crawler: Crawler, feed: Feed, uri: str, options: dict[str, Any]) -> None:
        self._crawler, self._feed = crawler, feed
        self.signals = SignalManager(self)
        self.stats = self
        self.settings = copy.copy(crawler.settings)  # a deep copy would copy whatever the user has put there
        # Scrapy writes a URI to the log as it is: the storage gets what is before the `@` from here.
        user, at, _ = urlsplit(uri).netloc.rpartition("@")
        secret = "" if "%(" in user else user + at
        storages = crawler.settings.getwithbase("FEED_STORAGES")
        wrapped = {scheme: self._wrapped(path, secret) for scheme, path in storages.items() if path is not None}
        told = {"FEEDS": {uri.replace(secret, "", 1) if secret else uri: options}}
        replaced = {**_ITEMS, **told, "FEED_STORAGES": wrapped, "FEED_STORAGES_BASE": {}}
        attributes = {key: SettingsAttribute(value, 0) for key, value in replaced.items()}
        self.settings.attributes = {**crawler.settings.attributes, **attributes}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the real one
        return getattr(self._crawler, name)

    def _wrapped(self, path: str, secret: str) -> Callable[..., _Storage]:
        def storage(uri: str, *, feed_options: dict[str, Any]) -> _Storage:
            def make() -> Any:  # noqa: ANN401 - a storage of Scrapy's or of the user's
                real = uri.replace("://", f"://{secret}", 1)
                return build_from_crawler(load_object(path), self._crawler, real, feed_options=feed_options)

            if not feed_options["batch_item_count"]:
                self._feed.place = without_credentials(uri)
            return _Storage(self._feed, make)

        return storage

    def inc_value(self, key: str, **_: object) -> None:
        """Count what Scrapy could not store; its counts are about items."""
        if key.startswith("feedexport/failed_count"):
            self._feed.lost()


class _Storage:
    """A storage for one file of a feed.

    :param make: makes the storage that is meant; asked again where it fails, but for the start of the crawl.
    """

    def __init__(self, feed: Feed, make: Callable[[], Any]) -> None:
        self._feed, self._make = feed, make
        self._inner: Any = None if feed.started else make()
        self._error: Exception | None = None

    def open(self, _: Spider) -> _File:
        """Open the file; before the crawl has started, one that leads nowhere.

        Where that fails, the next record tries again. At the end of the crawl there is none: `store` tells the error.
        """
        if not self._feed.started:
            return _File(BytesIO())
        try:
            self._inner = self._inner or self._make()
            self._feed.file = _File(self._inner.open(self._feed.spider))
        except Exception as error:
            if not self._feed.closing:
                raise
            self._error, self._feed.file = error, _File(BytesIO())
        return self._feed.file

    async def store(self, file: _File) -> None:
        """Bring a file to where it belongs.

        :raises OSError: that failed; without credentials, as Scrapy writes it to the log.
        """
        try:
            if self._error is not None:
                raise self._error
            await ensure_awaitable(self._inner.store(file.inner))
        except Exception as error:  # noqa: BLE001 - whatever a storage raises
            with contextlib.suppress(Exception):
                file.inner.close()
            raise OSError(said(error)) from None


class _File:
    """A file that takes whatever an exporter writes: one that is stopped in the middle of a record could not go on."""

    def __init__(self, inner: Any) -> None:  # noqa: ANN401 - whatever a storage has opened
        self.inner = inner
        self._error: Exception | None = None

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the file itself
        return getattr(self.inner, name)

    def write(self, data: bytes) -> int:
        """Write."""
        try:
            self.inner.write(data)
        except Exception as error:  # noqa: BLE001 - whatever a file of the user's raises
            self._error = error
        return len(data)

    def flush(self) -> None:
        """Write what is not written yet."""
        try:
            if not self.inner.closed:  # a batch that is full may be stored already
                self.inner.flush()
        except Exception as error:  # noqa: BLE001 - as above
            self._error = error

    def written(self) -> None:
        """See that all is written.

        :raises Exception: it is not.
        """
        self.flush()
        error, self._error = self._error, None
        if error is not None:
            raise error


def _place(uri: object) -> str:
    """Return a URI so that two ways of writing a local file are one."""
    text = os.fspath(uri) if isinstance(uri, Path) else str(uri)
    if text.startswith("file:"):
        text = file_uri_to_path(text)
    return text if "://" in text or text.startswith("stdout:") or "\0" in text else os.path.realpath(text)
