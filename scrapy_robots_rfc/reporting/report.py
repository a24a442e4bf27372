"""Write a record of each robots.txt decision and of each origin to ROBOTS_REPORT.

Decisions arrive as signals. As with FEEDS, Scrapy's exporters and feed storages write the records.
`archive.py` also uses the end of this module, which rejects outputs that share a path or URI and
logs only the first failed write.
"""

import logging
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from scrapy import Request, signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.exporters import CsvItemExporter, JsonLinesItemExporter
from scrapy.extensions.feedexport import FileFeedStorage, ItemFilter
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import build_from_crawler, load_object
from w3lib.url import file_uri_to_path

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime, log_once
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import (
    error_text,
    masked,
    pluralize,
    printable,
    utc_text,
    without_credentials,
)
from scrapy_robots_rfc.errors import MissingPackageError, SettingError
from scrapy_robots_rfc.fetching.parsed import EXEMPT, OriginPolicy
from scrapy_robots_rfc.middleware.downloader import running_middleware
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.policy.pacing import Bound
from scrapy_robots_rfc.reporting.summary import exempted
from scrapy_robots_rfc.settings import FEED_ACCEPTED, PLACE_ACCEPTED, Settings

logger: logging.Logger = logging.getLogger(__name__)

REPORT, ARCHIVE = "ROBOTS_REPORT", "ROBOTS_ARCHIVE"
#: The `reason` in the record of an origin, and in the last record of a crawl.
ORIGIN, RUN = "origin", "run"
#: Maximum number of origins to count at once. If there are more, the oldest one gets its record.
MAX_ORIGINS = 10_000
# Number of origins that are written without a pause.
_ORIGINS_AT_ONCE = 100
# The time at which each crawl started.
_RUNS: WeakKeyDictionary[Crawler, str] = WeakKeyDictionary()
_RECORDS, _ERRORS = (stat.format(output="report") for stat in (stats.RECORDS, stats.RECORD_ERRORS))

_NAMES = (
    "time run spider agent url referrer origin token reason line rule why robots_url digest outcome"
    " status fetched fresh_until crawl_delay version"
)
#: The fields of a record, in order, with their defaults; see `docs/report.md`.
FIELDS: dict[str, Any] = {
    **dict.fromkeys(_NAMES.split()),
    "stale": False,
    "dry_run": False,
    "allowed": False,
    "count": 1,
    "allowed_requests": None,
    "disallowed_requests": None,
}
# FEEDS options with Scrapy's defaults. Settings for item feeds, such as FEED_EXPORT_FIELDS, don't
# apply to reports.
_OPTIONS: dict[str, Any] = {"fields": None, "encoding": None, "indent": 0, "item_export_kwargs": {}}
# The other options that Scrapy's own classes accept, plus `allowed`, which only reports accept.
_OTHER_OPTIONS = (
    "allowed format item_classes item_filter overwrite store_empty uri_params"
    " batch_item_count postprocessing"
)
# The module and package that Scrapy's storage for a scheme needs. Scrapy doesn't import
# google.cloud.storage until the end of the crawl.
_PACKAGES = {
    "s3": ("boto3", "boto3"),
    "gs": ("google.cloud.storage", "google-cloud-storage"),
}


class Report:
    """A crawl's report. The file is opened when the first record is written.

    The exporter writes to a buffer in memory, and each complete record is then copied to the file.
    That way, the exporter still works after a disk error, and no part of a record is written twice.

    :raises SettingError: if Scrapy rejects the feed, or another output uses the same path or URI.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        assert crawler.spider is not None
        self._crawler = crawler
        self._spider = crawler.spider
        self._stats = stats.of(crawler)
        self._runtime = Runtime()
        self._settings = settings
        self._version = version("scrapy-robots-rfc")
        self._run = run_of(crawler)
        # The record of each origin, without the fields that all records have.
        self._origins: dict[Origin, dict[str, Any]] = {}
        # Build the local files' URIs now, because the working directory may be deleted later.
        self._overrides: dict[str | None, str] = {
            path: Path(path).absolute().as_uri() for path in settings.overrides.values()
        }
        refuse_shared_place(crawler, settings, REPORT)
        [(uri, options)] = settings.report.items()
        self._buffer = BytesIO()
        self._file: Any = None
        try:
            self._prepare(crawler, uri, {**_OPTIONS, "format": Path(uri).suffix[1:], **options})
        except MissingPackageError:
            raise
        except Exception as error:  # noqa: BLE001 - custom classes may raise anything
            place = without_credentials(uri)
            problem = error_text(error).removeprefix("ValueError: ")
            if not options:  # the user may have set only a path or URI
                raise SettingError(REPORT, place, f"{PLACE_ACCEPTED} ({problem})") from None
            key = f"{REPORT}[{place!r}]"
            raise SettingError(key, masked(options), f"{FEED_ACCEPTED} ({problem})") from None
        crawler.signals.connect(self._decided, signals.request_disallowed)
        crawler.signals.connect(self._decided, signals.request_allowed)
        crawler.signals.connect(self._paced, signals.site_paced)
        crawler.signals.connect(self._closed, scrapy_signals.spider_closed)

    def _prepare(self, crawler: Crawler, uri: str, options: Mapping[str, Any]) -> None:
        """Create the storage and the exporter, and test the options by exporting a record."""
        for name in ("batch_item_count", "postprocessing"):
            if options.get(name):
                raise ValueError(f"a report is a single file, so {name!r} is not supported")
        filled_in = _filled_in(uri, options, crawler)
        self._place = without_credentials(filled_in)
        filter_class = load_object(options.get("item_filter", ItemFilter))
        scheme = urlsplit(filled_in).scheme
        storage = _class(crawler, "FEED_STORAGES", scheme, "scheme")
        if _is_scrapy(storage) and scheme in _PACKAGES:
            module, package = _PACKAGES[scheme]
            try:
                import_module(module)
            except ImportError:
                raise MissingPackageError(REPORT, self._place, package) from None
        _refuse_unknown(options, storage, filter_class)
        self._accepts: Callable[[Any], bool] = filter_class(options).accepts
        self._store_empty: bool = options.get(
            "store_empty", crawler.settings.getbool("FEED_STORE_EMPTY")
        )
        self._has_reasons: bool = "reason" in (options["fields"] or FIELDS)
        self._lists_allowed = self._settings.report_allowed
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
        # Exporters don't reject invalid options until they write a record.
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
        policy: OriginPolicy | None,
        line: int | None,
    ) -> None:
        """Count a decision and write its record; see `signals.py`."""
        if policy is not None:
            self._count(decision, policy)
        if decision.allowed and not self._lists_allowed:
            return
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
            dry_run=self._settings.dry_run and not decision.allowed,
            allowed=decision.allowed,
            **({} if policy is None else self._policy(policy)),
        )
        if self._write(record):
            self._stats.inc_value(_RECORDS)

    def _policy(self, policy: OriginPolicy) -> dict[str, Any]:
        """Return the fields that describe an origin's robots.txt."""
        return {
            "robots_url": self._overrides.get(policy.override, policy.origin.robots_url),
            "digest": None if policy.file is None else policy.file.digest,
            "outcome": policy.outcome.value,
            "status": policy.status,
            "fetched": self._date(policy.fetched),
            "fresh_until": self._date(policy.validity.fresh_until),
        }

    def _date(self, clock: float) -> str | None:
        """Return the date of a time on `Runtime.clock`, or `None` if the time is infinite."""
        if math.isinf(clock):
            return None
        return utc_text(self._runtime.date() + clock - self._runtime.clock())

    def _count(self, decision: Decision, policy: OriginPolicy) -> None:
        """Count a decision in the record of its origin."""
        record = self._origin(policy.origin)
        state = policy.fetched, policy.outcome
        if record.get("state") != state:  # only then, because this takes a while
            why = printable(policy.outcome.explained(policy.cause, stale=policy.stale))
            record.update(self._policy(policy), why=why, stale=policy.stale, state=state)
        record["allowed_requests" if decision.allowed else "disallowed_requests"] += 1
        if decision.reason is Reason.USE:  # this request was already counted as allowed
            record["allowed_requests"] -= 1

    def _paced(self, policy: OriginPolicy, bound: Bound) -> None:
        """Keep the delay that a site asks for; see `signals.py`."""
        if math.isfinite(bound.seconds):
            self._origin(policy.origin)["crawl_delay"] = bound.seconds

    def _origin(self, origin: Origin) -> dict[str, Any]:
        """Return an origin's record. If there are too many origins, write the oldest one's."""
        if origin not in self._origins:
            if len(self._origins) >= MAX_ORIGINS:
                self._write_origin(next(iter(self._origins)))
            self._origins[origin] = {"allowed_requests": 0, "disallowed_requests": 0}
        return self._origins[origin]

    def _write_origin(self, origin: Origin) -> None:
        """Write an origin's record, and forget it."""
        record = self._origins.pop(origin)
        # Without a reason, other fields do not identify the record.
        if record.pop("state", None) is not None and self._has_reasons:
            self._write(self._end(ORIGIN, origin=str(origin), **record))

    def _record(self, **fields: object) -> dict[str, Any]:
        fixed = {"run": self._run, "spider": self._spider.name, "version": self._version}
        return {**FIELDS, "time": utc_text(self._runtime.date()), **fixed, **fields}

    def _end(self, reason: str, **fields: object) -> dict[str, Any]:
        """Return one of the last records, which add up requests and are about none."""
        agent, dry_run = agent_name(self._crawler, None), self._settings.dry_run
        return self._record(agent=agent, reason=reason, dry_run=dry_run, count=0, **fields)

    def _write(self, record: dict[str, Any]) -> bool:
        """Write a record, and return True if that succeeded. Log any error.

        The user's filter may reject the record, and the disk, storage or exporter may fail.
        """
        try:
            if not self._accepts(record):
                return False
            self._open()
            self._exporter.export_item(record)
            self._flush()
        except Exception as error:  # noqa: BLE001 - disks and custom classes may raise anything
            log_loss(self, self._crawler, REPORT, self._place, error)
            return False
        return True

    def _open(self) -> None:
        """Open the file if it isn't open yet. If that fails, the next record will try again."""
        if self._file is None:
            self._file = self._storage.open(self._spider)
            if (
                isinstance(self._storage, FileFeedStorage)
                and isinstance(self._exporter, JsonLinesItemExporter | CsvItemExporter)
                and _has_torn_line(self._storage.path)
            ):
                self._file.write(b"\n")
            self._exporter.start_exporting()

    def _flush(self) -> None:
        """Move the exporter's output from memory to the file."""
        content = self._buffer.getvalue()
        self._buffer.seek(0)
        self._buffer.truncate()
        self._file.write(content)
        self._file.flush()

    async def _closed(self, reason: str) -> None:
        """Write the final records, and wait until the file has been stored.

        :param reason: the reason the spider closed, such as ``finished``.
        """
        for entry, count in exempted(self._stats.get_stats()).items():
            why = EXEMPT.format(exempt=entry)
            self._write(self._record(reason="exempt", rule=entry, why=why, count=count))
        is_stored = self._file is not None or self._store_empty
        if is_stored and self._has_reasons:
            for number, origin in enumerate(list(self._origins), 1):
                self._write_origin(origin)
                if number % _ORIGINS_AT_ONCE == 0:
                    await self._runtime.sleep(0)
            # The last record shows that the crawl ended, even if it dropped nothing.
            allowed = self._stats.get_value(stats.ALLOWED, 0)
            undecided = self._stats.get_value(stats.UNDECIDED, 0)
            rest = f", {undecided:,} undecided" if undecided else ""
            record = self._end(
                RUN,
                why=f"ended ({reason}), {pluralize(allowed, 'request')} allowed{rest}",
                allowed_requests=allowed,
                disallowed_requests=self._stats.get_value(stats.FORBIDDEN, 0),
            )
            self._write(record)
        try:
            if is_stored:
                self._open()
                self._exporter.finish_exporting()
                self._flush()
                await ensure_awaitable(self._storage.store(self._file))
        except Exception as error:  # noqa: BLE001 - storages may raise anything
            log_loss(self, self._crawler, REPORT, self._place, error)
            with suppress(Exception):
                self._file.close()
        logger.info(
            "ROBOTS_REPORT: wrote %s to %s; failed writes: %d",
            pluralize(self._stats.get_value(_RECORDS, 0), "decision"),
            self._place,
            self._stats.get_value(_ERRORS, 0),
            extra={"spider": self._spider},
        )


def run_of(crawler: Crawler) -> str:
    """Return the time a crawl started, which identifies it in its report and archive."""
    return _RUNS.setdefault(crawler, utc_text(Runtime().date()))


def agent_name(crawler: Crawler, request: Request | None) -> str | None:
    """Return a request's agent as comma-separated product tokens.

    If there are no tokens, return the User-Agent header. If the user's code that sets the agent
    fails, return `None`.

    :param request: the request, or `None` for the crawl's default agent.
    """
    try:
        agents = running_middleware(crawler).user_agents
        agent = agents.default() if request is None else agents.of(request)
    except Exception:  # noqa: BLE001 - raised by request meta or a spider property
        return None
    return printable(",".join(agent.tokens) or agent.identification) or None


def _has_torn_line(path: str) -> bool:
    """Return True if a file's last line is incomplete, for example because the disk was full."""
    if not Path(path).is_file():
        return False  # reading a pipe would block
    with suppress(OSError), Path(path).open("rb") as file:
        file.seek(-1, os.SEEK_END)  # raises an exception if the file is empty
        return file.read() != b"\n"
    return False


def _class(crawler: Crawler, setting: str, name: str, what: str) -> Any:  # noqa: ANN401 - any class
    """Look up the class for a format or scheme in a setting."""
    known = {key: path for key, path in crawler.settings.getwithbase(setting).items() if path}
    if name not in known:
        names = map(repr, filter(None, sorted(known)))
        raise ValueError(f"unknown {what} {name!r}; {setting} has {', '.join(names)}")
    return load_object(known[name])


def _is_scrapy(component: object) -> bool:
    return getattr(component, "__module__", "").startswith("scrapy.")


def _refuse_unknown(options: Mapping[str, Any], *classes: object) -> None:
    """Reject unknown options, unless a third-party class might accept them."""
    known = [*_OPTIONS, *_OTHER_OPTIONS.split()]
    for name in options if all(map(_is_scrapy, classes)) else ():
        if name not in known:
            similar = get_close_matches(str(name), known, 1)
            hint = f"; did you mean {similar[0]!r}?" if similar else ""
            raise ValueError(f"unknown option {name!r}{hint}")


def log_loss(
    output: object, crawler: Crawler, setting: str, place: object, error: Exception
) -> None:
    """Count a failed write, but only log the first, so that a full disk doesn't flood the log.

    :param output: the report or archive.
    :param place: the path or URI to log.
    """
    stat = stats.RECORD_ERRORS.format(output=setting.removeprefix("ROBOTS_").lower())
    stats.of(crawler).inc_value(stat)
    text = (
        "%s: cannot write to %s (%s). The crawl continues, and %s counts the lost records. Check"
        " for a full disk, missing permissions or an unreachable server"
    )
    arguments = setting, place, error_text(error), stat
    log_once(output, logger, logging.ERROR, text, *arguments, extra={"spider": crawler.spider})


def refuse_shared_place(crawler: Crawler, settings: Settings, key: str) -> None:
    """Reject a path or URI that another output uses, because they would overwrite each other.

    :param key: ROBOTS_REPORT or ROBOTS_ARCHIVE.
    :raises SettingError: if FEEDS or the other setting contains the same path or URI.
    """
    outputs = list(_outputs(crawler, settings))
    [(_, own, own_place)] = [output for output in outputs if output[0] == key]
    for other, uri, place in outputs:
        if other != key and place == own_place:
            hint = " (the command-line options -o and -O set FEEDS)" if other == "FEEDS" else ""
            named = f"no other output uses, but {other} contains {without_credentials(uri)!r}{hint}"
            raise SettingError(key, without_credentials(own), f"a path or URI that {named}")


def _outputs(crawler: Crawler, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield each output's setting, value and normalized place."""
    feeds = crawler.settings.getdict("FEEDS")
    for setting, named in ((REPORT, settings.report), ("FEEDS", feeds)):
        for key, options in named.items():
            place = str(key)
            # Scrapy itself reports invalid URIs and errors in the user's function.
            with suppress(Exception):
                place = _place(_filled_in(place, options, crawler))
            yield setting, str(key), place
    if settings.archive is not None:
        yield ARCHIVE, settings.archive, os.path.realpath(settings.archive)


def _filled_in(uri: str, options: Mapping[str, Any], crawler: Crawler) -> str:
    """Fill in placeholders in a feed's URI, such as ``%(name)s``, as FEEDS does.

    `uri_params` may name a user function, which may raise anything.
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
    # Escape all other percent signs, which are part of the URI, as in %20.
    return re.sub(r"%(?!\()", "%%", uri) % (params if changed is None else changed)


def _place(uri: str) -> str:
    """Normalize a path or URI."""
    scheme = urlsplit(uri).scheme
    if scheme not in ("", "file"):
        return uri
    return os.path.realpath(file_uri_to_path(uri) if scheme else uri)
