"""Feeds: a crawl's report of what robots.txt forbids, written by Scrapy's own feed exporters and storages.

In here: what is different from the feeds of the user's items. Wrong options stop the crawl at start, a record is in the
file when the request is refused, full batches are stored at once, and what fails stops nothing. What a record says is
`records.py`.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import math
import operator
import re
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.extensions import feedexport
from scrapy.extensions.feedexport import FeedExporter, FileFeedStorage, StdoutFeedStorage
from scrapy.extensions.postprocessing import PostProcessingManager
from scrapy.settings import SettingsAttribute
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import load_object

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._compat import Waiter
from scrapy_robots_rfc.core.text import many
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.feed_options import load_client, unknown, wrong
from scrapy_robots_rfc.outages import said
from scrapy_robots_rfc.places import check_places, check_writable
from scrapy_robots_rfc.records import Records
from scrapy_robots_rfc.stores.address import without_credentials

if TYPE_CHECKING:
    from collections.abc import Awaitable, Coroutine, Iterable, Mapping

    from scrapy import Request, Spider
    from scrapy.crawler import Crawler
    from scrapy.extensions.feedexport import FeedSlot

    from scrapy_robots_rfc._compat import Cancellable, Runtime
    from scrapy_robots_rfc.core.decision import Decision
    from scrapy_robots_rfc.records import Record
    from scrapy_robots_rfc.robots import Robots
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

KEY = "ROBOTSTXT_REPORT"

#: Batches of a feed that are stored at once; while there are more, the current one grows beyond its number of records.
#: Each holds a file open, and an upload may take long.
STORED_AT_ONCE = 8

#: Seconds after an error in the log in which there is no other one: what fails now and then must not fill the log.
QUIET = 60.0

# What the user sets for the feeds of items means nothing to these: the values are Scrapy's defaults.
_ITEMS = {
    "FEED_URI": None,
    "FEED_EXPORT_FIELDS": None,
    "FEED_EXPORT_BATCH_ITEM_COUNT": 0,
    "FEED_EXPORT_ENCODING": None,
    "FEED_EXPORT_INDENT": 0,
}

# How older versions of Scrapy fill in the placeholders of a URI.
_filled_in = getattr(feedexport, "apply_uri_params", operator.mod)

_BATCH = re.compile(r"%\(batch_time\)s|%\(batch_id\)")


class Feeds:
    """The report of a crawl.

    :param settings: its feeds are URIs -> options, as in FEEDS.
    :raises SettingError: a feed cannot work.
    """

    def __init__(self, crawler: Crawler, settings: Settings, runtime: Runtime) -> None:
        assert crawler.spider is not None
        check_places(KEY, settings.report, (*crawler.settings.getdict("FEEDS"), crawler.settings["FEED_URI"]))
        self._runtime = runtime
        local = {path: Path(path).absolute().as_uri() for path in settings.overrides.values()}
        self._records = Records(crawler.spider.name, settings.dry_run, local)
        self._feeds = [Feed(crawler, uri, options, runtime) for uri, options in settings.report.items()]

    def refused(self, request: Request, decision: Decision, why: str, robots: Robots | None) -> None:
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
            feed.finish()
        for feed in self._feeds:
            await feed.finished()


class Feed(FeedExporter):
    """One feed: one at a time, so that what one cannot write is no loss to another.

    :param uri: as in FEEDS; may hold credentials.
    :param options: as in FEEDS; the format may be left to the suffix.
    :raises SettingError: the feed cannot work.
    """

    def __init__(self, crawler: Crawler, uri: str, options: Mapping[str, Any], runtime: Runtime) -> None:
        assert crawler.spider is not None
        assert crawler.stats is not None
        self._spider, self._count, self._runtime = crawler.spider, crawler.stats.inc_value, runtime
        self._shown, self._given = without_credentials(uri), dict(options)
        self._place = self._shown
        self._storing: dict[FeedSlot, Cancellable | None] = {}
        self._all_stored: Waiter[None] | None = None
        self._full: FeedSlot | None = None
        self._failing: set[str] = set()
        self._quiet_until = -math.inf
        self._written = self._lost = 0
        problem = wrong(self._given)
        if problem is not None:
            raise self._refused(problem)
        completed = {"format": Path(uri).suffix.removeprefix("."), **options}
        super().__init__(_View(crawler, uri, completed))  # type: ignore[arg-type]  # a crawler but for its settings
        self._batch: int = self.feeds[uri]["batch_item_count"]
        # A feed of XML has no null: what is null is left out.
        self._omit_null = completed["format"] == "xml"
        self._open()

    def write(self, record: Record) -> None:
        """Write a record, so that it is in the file when this returns; never raises."""
        if self._omit_null:
            record = {key: value for key, value in record.items() if value is not None}
        try:
            [slot] = self.slots = [self._going_on(slot) for slot in self.slots]
            before = slot.itemcount
            full = self._batch if len(self._storing) < STORED_AT_ONCE else 0
            self.feeds[slot.uri_template]["batch_item_count"] = full
            self.item_scraped(record, self._spider)
            if self.slots[0] is slot and slot.file is not None:
                slot.file.flush()
        except Exception as error:  # noqa: BLE001 - whatever a storage, an exporter, a filter of the user's raises
            self._failed("write", error)
        else:
            if slot.itemcount > before:  # a filter of the user's may not want it
                self._written += 1
                self._count(stats.REPORT_RECORDS)
                self._works("write")
        finally:
            self._forget_pending()

    def finish(self) -> None:
        """Begin to store what is not stored yet."""
        for slot in self.slots:
            if slot.batch_id == 1:  # else there is more than one place
                self._place = without_credentials(slot.uri)
            if slot is not self._full:
                self._begin(slot)
        self.slots = []

    async def finished(self) -> None:
        """Wait until all is stored."""
        if self._storing:
            self._all_stored = Waiter()
            await self._all_stored
        lost = f"; writes that failed: {self._lost}" if self._lost else ""
        records = many(self._written, "record")
        logger.info("%s: %s in %s%s", KEY, records, self._place, lost, extra={"spider": self._spider})

    # At start.

    def _open(self) -> None:
        """Make the first batch, and see that it can be written: formats to nowhere, a local file where it is."""
        try:
            self.open_spider(self._spider)
            [slot] = self.slots
            trial = copy.copy(slot)
            trial.storage = _Nowhere()
            trial.start_exporting()
            assert trial.exporter is not None
            record = Records("").exempt(0, "", 0)
            trial.filter.accepts(record)
            trial.exporter.export_item(record)
            trial.finish_exporting()
            _file_of(trial)
        except Exception as error:  # noqa: BLE001 - as in write()
            raise self._refused(f"options that work: {said(error)}") from None
        if isinstance(slot.storage, FileFeedStorage):
            try:
                check_writable(Path(slot.storage.path))
            except (OSError, ValueError) as error:  # a ValueError: there is a NUL in the name
                problem = getattr(error, "strerror", None) or str(error)
                raise self._refused(f"of a file that can be written ({problem})") from None

    def _refused(self, accepted: str) -> SettingError:
        return SettingError(f"{KEY}[{self._shown!r}]", self._given, accepted)

    def _get_uri_params(self, spider: Spider, uri_params_function: Any, slot: FeedSlot | None = None) -> dict[str, Any]:  # noqa: ANN401 - a function or its path
        """Return what placeholders stand for. Scrapy asks for all attributes of the spider: only where needed."""
        if uri_params_function or any("%(" in uri for uri in self.feeds):
            return super()._get_uri_params(spider, uri_params_function, slot)
        return {}

    def _load_filter(self, feed_options: dict[str, Any]) -> Any:  # noqa: ANN401 - the user's
        try:
            return super()._load_filter(feed_options)
        except Exception as error:  # noqa: BLE001 - as in write()
            raise self._refused(f"item_filter and item_classes that can be loaded: {said(error)}") from None

    def _storage_supported(self, uri: str, feed_options: dict[str, Any]) -> bool:
        scheme = uri.partition(":")[0] if ":" in uri else ""
        if len(scheme) != 1 and scheme not in self.storages:  # one letter: a drive
            raise self._refused(f"a path, or a URI that begins with {_listed(self.storages)}")
        try:
            storage = self._get_storage(uri, feed_options)
            self._storage = type(storage)
            load_client(storage)
        except Exception as error:  # noqa: BLE001 - it is not installed, or cannot read its URI
            raise self._refused(f"of a storage that works: {said(error)}") from None
        return True

    def _settings_are_valid(self) -> bool:
        for uri, options in self.feeds.items():
            count = options["batch_item_count"]
            if not isinstance(count, int) or isinstance(count, bool) or count < 0:
                raise self._refused("with a whole number as batch_item_count, at least 0")
            if count and not _BATCH.search(uri):
                raise self._refused("with %(batch_id)d or %(batch_time)s in the URI, where it has a batch_item_count")
        return True

    def _exporter_supported(self, format_: object) -> bool:
        if not isinstance(format_, str) or format_ not in self.exporters:
            raise self._refused(f"with a format: {_listed(self.exporters)}")
        plugins = self._given.get("postprocessing") or ()
        try:
            for plugin in plugins:  # Scrapy's manager of them, half made, would complain once more when it is let go
                load_object(plugin)
        except Exception as error:  # noqa: BLE001 - as in write()
            raise self._refused(f"postprocessing that can be loaded: {said(error)}") from None
        problem = unknown(self._given, self._storage, self.exporters[format_], *plugins)
        if problem is not None:
            raise self._refused(problem)
        return True

    # Storing.

    def _going_on(self, slot: FeedSlot) -> FeedSlot:
        """Return the slot itself, or, where it is full and the next one could not be made, that one: another try."""
        if slot is not self._full:
            return slot
        options, template = self.feeds[slot.uri_template], slot.uri_template
        uri = _filled_in(template, self._get_uri_params(self._spider, options["uri_params"], slot))
        return self._start_new_batch(slot.batch_id + 1, uri, options, self._spider, template)

    def _close_slot(self, slot: FeedSlot, _spider: Spider) -> Coroutine[Any, Any, None]:
        """Store a batch that is full. Scrapy waits for what this returns, at once or at the end of the crawl."""
        self._full = slot
        self._begin(slot)
        return _nothing()

    def _forget_pending(self) -> None:
        """Let go of what older versions of Scrapy keep for the end of the crawl: it is under way."""
        pending = getattr(self, "_pending_close_coros", [])
        for coroutine in pending:
            coroutine.close()
        pending.clear()

    def _begin(self, slot: FeedSlot) -> None:
        """Bring a batch to where it belongs. As Scrapy does, but without its signals, and with errors of our own."""
        try:
            if slot.itemcount == 0 and not (slot.store_empty and slot.batch_id == 1):
                _close(slot)
                return
            slot.start_exporting()
            slot.finish_exporting()
            stored = slot.storage.store(_file_of(slot))
        except Exception as error:  # noqa: BLE001 - as in write()
            self._failed("store", error)
            _close(slot)
            return
        if stored is None:
            self._works("store")
            return
        self._storing[slot] = None
        task = self._runtime.spawn(self._wait_for(slot, stored))
        if slot in self._storing:  # without asyncio it may be done
            self._storing[slot] = task

    async def _wait_for(self, slot: FeedSlot, stored: Awaitable[object]) -> None:
        """Wait for an upload."""
        try:
            await ensure_awaitable(stored)
        except Exception as error:  # noqa: BLE001 - as in write()
            self._failed("store", error)
            _close(slot)
        else:
            self._works("store")
        finally:
            del self._storing[slot]
            if not self._storing and self._all_stored is not None:
                self._all_stored.resolve(None)

    def _failed(self, what: str, error: Exception) -> None:
        self._count(stats.REPORT_ERRORS)
        self._lost += 1
        now = self._runtime.clock()
        if not self._failing and now >= self._quiet_until:
            self._quiet_until = now + QUIET
            logger.error(
                "%s: %s cannot be written (%s). The crawl goes on; what is lost is counted in %s. Look for a full "
                "disk, missing rights, or a server that is down",
                KEY, self._shown, said(error), stats.REPORT_ERRORS, extra={"spider": self._spider},
            )  # fmt: skip
        self._failing.add(what)

    def _works(self, what: str) -> None:
        self._failing.discard(what)


class _View:
    """A crawler as Scrapy's exporter is to see it: with one feed, which is ours."""

    def __init__(self, crawler: Crawler, uri: str, options: dict[str, Any]) -> None:
        self._crawler = crawler
        self.settings = copy.copy(crawler.settings)  # a deep copy would copy whatever the user has put there
        replaced = {"FEEDS": {uri: options}, **_ITEMS}
        attributes = {key: SettingsAttribute(value, 0) for key, value in replaced.items()}
        self.settings.attributes = {**crawler.settings.attributes, **attributes}

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - as the real one
        return getattr(self._crawler, name)


class _Nowhere:
    """A storage that keeps nothing."""

    def open(self, _spider: Spider) -> BytesIO:
        return BytesIO()

    def store(self, _file: object) -> None:
        """Keep nothing."""


async def _nothing() -> None:
    """Be done."""


def _file_of(slot: FeedSlot) -> Any:  # noqa: ANN401 - whatever the storage has opened
    """Return the file of a slot that is written to its end, as its storage knows it."""
    file: Any = slot.file
    if not isinstance(file, PostProcessingManager):
        return file
    file.close()
    return file.file


def _close(slot: FeedSlot) -> None:
    """Leave no file open that nobody stores."""
    if slot.file is not None and not isinstance(slot.storage, StdoutFeedStorage):
        with contextlib.suppress(Exception):
            _file_of(slot).close()


def _listed(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in sorted(names) if name)
