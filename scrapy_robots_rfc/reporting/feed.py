"""A file of records, written by Scrapy's exporters and feed storages, as FEEDS names them.

No two outputs of a crawl may have the same place; that is checked here, too.

The exporter writes into memory, and each record goes from there into the file. So after an error
of a disk the exporter can go on, and no part of a record is written again.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import ItemFilter
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object
from w3lib.url import file_uri_to_path

from scrapy_robots_rfc.core.text import without_credentials
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.settings import Settings

REPORT, ARCHIVE = "ROBOTS_REPORT", "ROBOTS_ARCHIVE"

# Options as in FEEDS, with Scrapy's defaults: what the user sets for the feeds of items, such as
# FEED_EXPORT_FIELDS, does not apply to records.
_OPTIONS: dict[str, Any] = {"fields": None, "encoding": None, "indent": 0, "item_export_kwargs": {}}


class Feed:
    """A file that is opened with its first record.

    :param uri: as in FEEDS; credentials may be in it.
    :param options: as in FEEDS; without a format the suffix says it.
    :param example: a record, to try the options with.
    :raises Exception: a storage, an exporter or a filter of the user's raises anything; an unknown
        format, storage or option is a ValueError.
    """

    def __init__(
        self, crawler: Crawler, uri: str, options: Mapping[str, Any], example: dict[str, Any]
    ) -> None:
        self._crawler = crawler
        self._options = {**_OPTIONS, "format": Path(uri).suffix.removeprefix("."), **options}
        for name in ("batch_item_count", "postprocessing"):
            if self._options.get(name):
                raise ValueError(f"there is no {name} here, as a report is one file")
        #: The URI with its placeholders filled in.
        self.uri: str = _filled_in(uri, self._options, crawler)
        filter_class = load_object(self._options.get("item_filter", ItemFilter))
        self._accepts: Callable[[Any], bool] = filter_class(self._options).accepts
        storage = _class(crawler, "FEED_STORAGES", urlsplit(self.uri).scheme, "scheme")
        self._storage = build_from_crawler(storage, crawler, self.uri, feed_options=self._options)
        self._exporter_class = _class(crawler, "FEED_EXPORTERS", self._options["format"], "format")
        self._try_out(example)
        self._buffer = BytesIO()
        self._exporter = self._make_exporter(self._buffer)
        self._file: Any = None

    def _make_exporter(self, file: BytesIO) -> Any:  # noqa: ANN401 - a class of the user's
        return build_from_crawler(
            self._exporter_class,
            self._crawler,
            file,
            fields_to_export=self._options["fields"],
            encoding=self._options["encoding"],
            indent=self._options["indent"],
            **self._options["item_export_kwargs"],
        )

    def _try_out(self, example: dict[str, Any]) -> None:
        """Write a record into memory: exporters find wrong options only then."""
        exporter = self._make_exporter(BytesIO())
        exporter.start_exporting()
        self._accepts(example)
        exporter.export_item(example)
        exporter.finish_exporting()

    def write(self, record: dict[str, Any]) -> bool:
        """Write a record and flush the file; return whether a filter of the user's let it pass.

        A disk, a storage or an exporter may raise anything. Then the record is lost.
        """
        if not self._accepts(record):
            return False
        if self._file is None:
            self._open()
        self._exporter.export_item(record)
        self._pass_on()
        return True

    async def close(self) -> None:
        """End the file, and wait until it is stored; a disk or a storage may raise anything."""
        if self._file is None:
            settings = self._crawler.settings
            if not self._options.get("store_empty", settings.getbool("FEED_STORE_EMPTY")):
                return
            self._open()
        try:
            self._exporter.finish_exporting()
            self._pass_on()
            await ensure_awaitable(self._storage.store(self._file))
        except Exception:
            with suppress(Exception):
                self._file.close()
            raise

    def _open(self) -> None:
        """Open the file; after an error, the next record tries it again."""
        self._file = self._storage.open(self._crawler.spider)
        self._exporter.start_exporting()

    def _pass_on(self) -> None:
        """Write into the file what the exporter has written."""
        octets = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        if octets:
            self._file.write(octets)
            self._file.flush()


def _class(crawler: Crawler, setting: str, name: str, what: str) -> Any:  # noqa: ANN401 - any class
    """Return the class that a setting has for a format or a scheme."""
    known = {key: path for key, path in crawler.settings.getwithbase(setting).items() if path}
    if name not in known:
        names = ", ".join(repr(key) for key in sorted(known) if key)
        raise ValueError(f"{what} {name!r} is not one of {setting}: {names}")
    return load_object(known[name])


def refuse_shared_place(crawler: Crawler, settings: Settings, key: str) -> None:
    """Refuse a place that another output writes to as well: one of them would damage the other.

    :param key: ROBOTS_REPORT or ROBOTS_ARCHIVE.
    :raises SettingError: FEEDS or the other of the two names the same place.
    """
    outputs = list(_outputs(crawler, settings))
    [(_, own, own_place)] = [output for output in outputs if output[0] == key]
    for other, uri, place in outputs:
        if other != key and place == own_place:
            hint = " (-o and -O of the command line set FEEDS)" if other == "FEEDS" else ""
            named = f"{other} names {without_credentials(uri)!r}{hint}"
            accepted = f"a place that no other output writes to, but {named}"
            raise SettingError(key, without_credentials(own), accepted)


def _outputs(crawler: Crawler, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield the setting, the value and the place of each output."""
    feeds = crawler.settings.getdict("FEEDS")
    for setting, named in ((REPORT, settings.report), ("FEEDS", feeds)):
        for key, options in named.items():
            uri = str(key)
            with suppress(Exception):  # of a function of the user's: FEEDS reports it
                uri = _filled_in(uri, options, crawler)
            yield setting, str(key), _place(uri)
    if settings.archive is not None:
        yield ARCHIVE, settings.archive, os.path.realpath(settings.archive)


def _filled_in(uri: str, options: Mapping[str, Any], crawler: Crawler) -> str:
    """Fill in the placeholders of a feed's URI, such as ``%(name)s``, as FEEDS does.

    `uri_params` may name a function of the user's, which may raise anything.
    """
    spider = crawler.spider
    change = options.get("uri_params", crawler.settings["FEED_URI_PARAMS"])
    function = load_object(change) if change else None
    if "%(" not in uri:
        return uri
    now = datetime.now(UTC)
    params = {
        **{name: getattr(spider, name) for name in dir(spider)},
        "time": now.replace(microsecond=0).isoformat().replace(":", "-"),
        "batch_time": now.isoformat().replace(":", "-"),
        "batch_id": 1,
    }
    changed = function(params, spider) if function is not None else None
    # Another percent sign is part of the URI, such as that of %20.
    return re.sub(r"%(?!\()", "%%", uri) % (params if changed is None else changed)


def _place(uri: str) -> str:
    """Return a name of a place that does not depend on how it was written."""
    try:
        scheme = urlsplit(uri).scheme
        if scheme == "stdout":
            return "stdout:"
        if scheme not in ("", "file"):
            return uri
        return os.path.realpath(file_uri_to_path(uri) if scheme else uri)
    except ValueError:  # it is neither a URI nor a path; the storage raises an error
        return uri
