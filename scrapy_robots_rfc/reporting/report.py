"""The report of a crawl, ROBOTS_REPORT: a record of each request that was decided.

Signals notify it of decisions. Scrapy's exporters and feed storages write the records, as FEEDS
names them. The end of the file is shared with ROBOTS_ARCHIVE: no two outputs of a crawl may have
the same place, and one line says what is lost.
"""

import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from scrapy import Request, signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.extensions.feedexport import ItemFilter
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object
from w3lib.url import file_uri_to_path

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.decision import Decision
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text, without_credentials
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import EXEMPT, OriginPolicy
from scrapy_robots_rfc.middleware.downloader import at_work
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.reporting.summary import exempted
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

REPORT, ARCHIVE = "ROBOTS_REPORT", "ROBOTS_ARCHIVE"
_RECORDS = stats.RECORDS.format(output="report")

_NAMES = (
    "time run spider agent url referrer origin token reason line rule why robots_url digest outcome"
    " fresh_until version"
)
#: The fields of a record, in their order, with the value of one where a record has no other.
#: `docs/report.md` explains them.
FIELDS: dict[str, Any] = {
    **dict.fromkeys(_NAMES.split()),
    "stale": False,
    "dry_run": False,
    "allowed": False,
    "count": 1,
}
# Options as in FEEDS, with Scrapy's defaults: what the user sets for the feeds of items, such as
# FEED_EXPORT_FIELDS, does not apply to records.
_OPTIONS: dict[str, Any] = {"fields": None, "encoding": None, "indent": 0, "item_export_kwargs": {}}
# The other options that Scrapy's own classes know, and the option of this setting.
_OTHER_OPTIONS = (
    "allowed format item_classes item_filter overwrite store_empty uri_params"
    " batch_item_count postprocessing"
)


class Report:
    """The report of a crawl: a file that is opened with its first record.

    The exporter writes into memory, and each record goes from there into the file. So after an
    error of a disk the exporter can go on, and no part of a record is written again.

    :param settings: its feed is a URI -> options, as in FEEDS.
    :raises SettingError: Scrapy does not accept the feed, or another output has its place.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        assert crawler.spider is not None
        self._crawler = crawler
        self._spider = crawler.spider
        self._stats = stats.of(crawler)
        self._runtime = Runtime()
        self._settings = settings
        self._version = version("scrapy-robots-rfc")
        self._run = utc_text(self._runtime.date())
        # The URIs of local files are made now: the working folder may be deleted later.
        self._overrides: dict[str | None, str] = {
            path: Path(path).absolute().as_uri() for path in settings.overrides.values()
        }
        self._losses = LossLog(crawler, REPORT, stats.RECORD_ERRORS.format(output="report"))
        refuse_shared_place(crawler, settings, REPORT)
        [(uri, options)] = settings.report.items()
        self._buffer = BytesIO()
        self._file: Any = None
        try:
            self._prepare(crawler, uri, {**_OPTIONS, "format": Path(uri).suffix[1:], **options})
        except Exception as error:  # noqa: BLE001 - a class of the user's raises anything
            raise SettingError(
                f"{REPORT}[{without_credentials(uri)!r}]",
                dict(options),
                f"options that work: {error_text(error)}",
            ) from None
        crawler.signals.connect(self._decided, signals.request_disallowed)
        crawler.signals.connect(self._decided, signals.request_allowed)
        crawler.signals.connect(self._closed, scrapy_signals.spider_closed)

    def _prepare(self, crawler: Crawler, uri: str, options: Mapping[str, Any]) -> None:
        """Make the storage and the exporter, and try the options with a record."""
        for name in ("batch_item_count", "postprocessing"):
            if options.get(name):
                raise ValueError(f"there is no {name} here, as a report is one file")
        filled_in = _filled_in(uri, options, crawler)
        self._place = without_credentials(filled_in)
        filter_class = load_object(options.get("item_filter", ItemFilter))
        storage = _class(crawler, "FEED_STORAGES", urlsplit(filled_in).scheme, "scheme")
        # Classes of other packages may have options of their own.
        if all(_is_of_scrapy(part) for part in (storage, filter_class)):
            _refuse_unknown(options)
        self._accepts: Callable[[Any], bool] = filter_class(options).accepts
        self._store_empty: bool = options.get(
            "store_empty", crawler.settings.getbool("FEED_STORE_EMPTY")
        )
        self._storage = build_from_crawler(storage, crawler, filled_in, feed_options=options)
        make_exporter = partial(
            build_from_crawler,
            _class(crawler, "FEED_EXPORTERS", options["format"], "format"),
            crawler,
            fields_to_export=options["fields"],
            encoding=options["encoding"],
            indent=options["indent"],
            **options["item_export_kwargs"],
        )
        # Exporters find wrong options only when they write a record.
        trial = make_exporter(BytesIO())
        trial.start_exporting()
        self._accepts(self._record())
        trial.export_item(self._record())
        trial.finish_exporting()
        self._exporter = make_exporter(self._buffer)

    def _decided(
        self,
        request: Request,
        decision: Decision,
        why: str,
        robots: OriginPolicy | None,
        line: int | None,
    ) -> None:
        """Write the record of a request that was decided; see `signals.py`."""
        rule = decision.rule
        referrer = (request.headers.get("Referer") or b"").decode("utf-8", "backslashreplace")
        record = self._record(
            agent=agent_name(self._crawler, request),
            url=printable(without_userinfo(request.url)),
            referrer=printable(without_userinfo(referrer)) or None,
            origin=decision.origin,
            token=decision.token,
            reason=decision.reason.value,
            line=line,
            rule=None if rule is None else str(rule),
            why=printable(why),
            stale=decision.stale,
            dry_run=self._settings.dry_run,
            allowed=decision.allowed,
            **({} if robots is None else self._policy(robots)),
        )
        if self._write(record):
            self._stats.inc_value(_RECORDS)

    def _policy(self, robots: OriginPolicy) -> dict[str, Any]:
        """Return the fields that say what governs an origin."""
        left = robots.validity.fresh_until - self._runtime.clock()
        return {
            "robots_url": self._overrides.get(robots.override, robots.origin.robots_url),
            "digest": None if robots.file is None else robots.file.digest,
            "outcome": robots.outcome.value,
            "fresh_until": None if left == math.inf else utc_text(self._runtime.date() + left),
        }

    def _record(self, **fields: object) -> dict[str, Any]:
        fixed = {"run": self._run, "spider": self._spider.name, "version": self._version}
        return {**FIELDS, "time": utc_text(self._runtime.date()), **fixed, **fields}

    def _write(self, record: dict[str, Any]) -> bool:
        """Write a record, and return whether it is in the report; never raises.

        A filter of the user's may leave it out, or a disk, a storage or an exporter may fail.
        """
        try:
            if not self._accepts(record):
                return False
            self._open()
            self._exporter.export_item(record)
            self._pass_on()
        except Exception as error:  # noqa: BLE001 - a disk, or a class of the user's, raises anything
            self._losses.add(self._place, error)
            return False
        return True

    def _open(self) -> None:
        """Open the file, unless it is open; after an error, the next record tries it again."""
        if self._file is None:
            self._file = self._storage.open(self._spider)
            self._exporter.start_exporting()

    def _pass_on(self) -> None:
        """Write into the file what the exporter has written."""
        octets = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        self._file.write(octets)
        self._file.flush()

    async def _closed(self) -> None:
        """Write the records of ROBOTS_EXEMPT, and wait until all is stored."""
        for entry, count in exempted(self._stats.get_stats()).items():
            why = EXEMPT.format(exempt=entry)
            self._write(self._record(reason="exempt", rule=entry, why=why, count=count))
        try:
            if self._file is not None or self._store_empty:
                self._open()
                self._exporter.finish_exporting()
                self._pass_on()
                await ensure_awaitable(self._storage.store(self._file))
        except Exception as error:  # noqa: BLE001 - a storage raises anything
            self._losses.add(self._place, error)
            with suppress(Exception):
                self._file.close()
        logger.info(
            "ROBOTS_REPORT: %s in %s; writes that failed: %d",
            many(self._stats.get_value(_RECORDS, 0), "decision"),
            self._place,
            self._losses.count,
            extra={"spider": self._spider},
        )


def agent_name(crawler: Crawler, request: Request | None) -> str | None:
    """Return the agent by which a request is judged: its product tokens, separated by commas.

    Without tokens it is the User-Agent header; `None` if the user's code that names it fails.

    :param request: `None` for the agent of the crawl.
    """
    try:
        agents = at_work(crawler).user_agents
        agent = agents.default() if request is None else agents.of(request)
    except Exception:  # noqa: BLE001 - the meta of a request, or a property of the spider
        return None
    return printable(",".join(agent.tokens) or agent.identification) or None


def _class(crawler: Crawler, setting: str, name: str, what: str) -> Any:  # noqa: ANN401 - any class
    """Return the class that a setting has for a format or a scheme."""
    known = {key: path for key, path in crawler.settings.getwithbase(setting).items() if path}
    if name not in known:
        names = map(repr, filter(None, sorted(known)))
        raise ValueError(f"{what} {name!r} is not one of {setting}: {', '.join(names)}")
    return load_object(known[name])


def _is_of_scrapy(part: object) -> bool:
    return getattr(part, "__module__", "").partition(".")[0] == "scrapy"


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    known = [*_OPTIONS, *_OTHER_OPTIONS.split()]
    for name in options:
        if name not in known:
            similar = get_close_matches(str(name), known, 1)
            hint = f"; did you mean {similar[0]!r}?" if similar else ""
            raise ValueError(f"unknown option {name!r}{hint}")


@dataclass(slots=True, eq=False, repr=False)
class LossLog:
    """Counts what cannot be written, and logs the first loss: a full disk must not fill the log."""

    crawler: Crawler
    setting: str
    stat: str
    count: int = 0

    def add(self, place: object, error: Exception) -> None:
        """Count an error; `place` is the name of the file that users know."""
        stats.of(self.crawler).inc_value(self.stat)
        self.count += 1
        if self.count == 1:
            logger.error(
                "%s: %s cannot be written (%s). The crawl goes on; what is lost is counted in %s."
                " Look for a full disk, missing rights, or a server that is down",
                self.setting,
                place,
                error_text(error),
                self.stat,
                extra={"spider": self.crawler.spider},
            )


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
            place = str(key)
            # A function of the user's, or a text that is no URI: FEEDS reports it.
            with suppress(Exception):
                place = _place(_filled_in(place, options, crawler))
            yield setting, str(key), place
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
    scheme = urlsplit(uri).scheme
    if scheme not in ("", "file"):
        return uri
    return os.path.realpath(file_uri_to_path(uri) if scheme else uri)
