"""Write robots.txt requests and responses to ROBOTS_ARCHIVE in WARC 1.1 format (ISO 28500).

Each attempt also gets a metadata record with its outcome, the expiry time and the file's digest.
Each record is a separate gzip member that is written in a single call, so a killed crawl leaves
only complete records.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from http.client import responses
from importlib.metadata import version
from io import BytesIO, FileIO
from itertools import count
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from scrapy import Request, signals as scrapy_signals
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.http.headers import Headers
from scrapy.utils.datatypes import LocalCache
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.preferences import USE_ATTRIBUTE, parse_uses
from scrapy_robots_rfc.core.text import error_text, utc_text
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.reporting.report import (
    ARCHIVE,
    agent_name,
    log_loss,
    refuse_shared_place,
    run_of,
)
from scrapy_robots_rfc.settings import Settings

#: Request headers that are not archived because they may contain passwords.
_SECRETS = frozenset({b"authorization", b"proxy-authorization", b"cookie"})
#: Response headers that are not archived because they only describe the transfer.
_FRAMING = frozenset({b"transfer-encoding"})
_RECORDS = stats.RECORDS.format(output="archive")
# Maximum number of origins whose last response is remembered until the attempt ends.
_MAX_EXCHANGES = 10_000
_Headers = dict[str, str]


class Archive:
    """A crawl's WARC archive.

    :raises SettingError: if the file cannot be created, or another output uses the same path.
    """

    #: File size in bytes after which a new file is started. Other tools can handle this size.
    MAX_SIZE: ClassVar[int] = 1_000_000_000

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        refuse_shared_place(crawler, settings, ARCHIVE)
        self._crawler = crawler
        self._count = stats.of(crawler).inc_value
        self._spider = crawler.spider
        self._settings = settings
        self._runtime = Runtime()
        self._path = Path(settings.archive or "")
        # The ID of the last response record in each origin's current attempt.
        self._last: LocalCache[Origin, str] = LocalCache(_MAX_EXCHANGES)
        try:
            self._start_file()
        except OSError as error:
            raise SettingError(
                ARCHIVE,
                settings.archive,
                f"a writable file path ({error_text(error)})",
            ) from None
        crawler.signals.connect(self._exchanged, signals.robots_exchanged)
        crawler.signals.connect(self._fetched, signals.robots_fetched)
        # The last fetches may end after `spider_closed`.
        crawler.signals.connect(self._close, scrapy_signals.engine_stopped)

    def _exchanged(
        self,
        origin: Origin,
        request: Request,
        response: Response | None,
        codings: Sequence[bytes],
        cut_off: bool,
    ) -> None:
        """Write a request and its response; see `signals.py`."""
        url = without_userinfo(request.url)
        sent = f"<{uuid4().urn}>"
        if response is not None:
            received = f"<{uuid4().urn}>"
            lines = _lines(response.headers, _FRAMING)
            lines += [("Content-Encoding", coding.decode("latin-1")) for coding in codings]
            status = f"{response.status} {responses.get(response.status, 'Unknown')}"
            self._write(
                "response",
                url,
                response.body,
                {
                    "WARC-Record-ID": received,
                    "WARC-Concurrent-To": sent,
                    "WARC-Truncated": "length" if cut_off else "",
                },
                StatusAndHeaders(status, lines, "HTTP/1.1"),
            )
            self._last[origin] = received
        target = url.partition("://")[2].partition("/")[2].partition("#")[0]
        line = f"{request.method} /{target} HTTP/1.1"
        head = StatusAndHeaders(line, _lines(request.headers, _SECRETS), is_http_request=True)
        self._write("request", url, request.body, {"WARC-Record-ID": sent}, head)

    def _fetched(self, policy: OriginPolicy, request: Request | None) -> None:
        """Write the result of an attempt to fetch a file, dated as in the report (`fetched`).

        :param request: the request that triggered the fetch, or `None`.
        """
        offset = self._runtime.date() - self._runtime.clock()
        fields = {
            "origin": str(policy.origin),
            "agent": agent_name(self._crawler, request) or "",
            "outcome": policy.outcome.value,
            "cause": policy.cause,
            "status": "" if policy.status is None else str(policy.status),
            "fresh-until": utc_text(offset + policy.validity.fresh_until),
            "stale": "yes" if policy.stale else "no",
            "limit": str(self._settings.max_size),
            "digest": "" if policy.file is None else policy.file.digest,
        }
        headers = {
            "WARC-Date": utc_text(offset + policy.fetched),
            "WARC-Refers-To": self._last.pop(policy.origin, ""),
        }
        self._write("metadata", policy.origin.robots_url, _fields(fields), headers)

    def _close(self) -> None:
        self._file.close()

    def _start_file(self) -> None:
        """Create a new file and write its warcinfo record.

        :raises OSError: if the file cannot be created.
        """
        if self._path.exists() and not self._path.is_file():
            raise OSError(f"{self._path} is not a regular file")
        suffixes = "".join(self._path.suffixes)
        stem = self._path.name.removesuffix(suffixes)
        for number in count(1):
            name = self._path.name if number == 1 else f"{stem}-{number}{suffixes}"
            with suppress(FileExistsError):
                # Unbuffered, because a buffer would write the rest of a record after an error.
                self._file: FileIO = (self._path.parent / name).open("xb", buffering=0)
                break
        use = self._settings.use
        with suppress(TypeError):  # `RfcUseMiddleware` stops the crawl if it's invalid
            spider_use = parse_uses(getattr(self._spider, USE_ATTRIBUTE, None))
            use = use if spider_use is None else spider_use
        info = {
            "software": f"scrapy-robots-rfc/{version('scrapy-robots-rfc')}",
            "format": "WARC File Format 1.1",
            "run": run_of(self._crawler),
            "spider": "" if self._spider is None else self._spider.name,
            "robots": "ignore" if self._settings.dry_run else "obey",
            "use": ", ".join(use or ()),
        }
        self._put("warcinfo", "", _fields(info), {"WARC-Filename": name})

    def _write(
        self, kind: str, url: str, payload: bytes, headers: _Headers, http: StatusAndHeaders = None
    ) -> None:
        """Write a record, starting a new file if the current one is too large. Log any error."""
        try:
            if self._file.closed or self._file.tell() >= self.MAX_SIZE:
                self._close()
                self._start_file()
            self._put(kind, url, payload, headers, http)
            self._count(_RECORDS)
        except Exception as error:  # noqa: BLE001 - the disk or warcio may fail
            log_loss(self, self._crawler, ARCHIVE, self._path, error)

    def _put(
        self, kind: str, url: str, payload: bytes, headers: _Headers, http: StatusAndHeaders = None
    ) -> None:
        """Write a complete record.

        :param headers: WARC headers. Empty ones are omitted.
        :raises OSError: if the disk is full, in which case nothing is written.
        """
        buffer = BytesIO()
        writer = WARCWriter(buffer, gzip=True, warc_version="1.1")
        known = {name: value for name, value in headers.items() if value}
        record = writer.create_warc_record(
            url,
            kind,
            BytesIO(payload),
            len(payload),
            "application/warc-fields" if kind in ("warcinfo", "metadata") else "",
            warc_headers_dict={"WARC-Date": utc_text(self._runtime.date()), **known},
            http_headers=http,
        )
        writer.write_record(record)
        before = self._file.tell()
        if self._file.write(buffer.getvalue()) < buffer.tell():
            # Remove the partial record. Otherwise nothing after it could be read.
            self._file.seek(before)
            self._file.truncate()
            raise OSError("the disk is full")


def _fields(fields: Mapping[str, str]) -> bytes:
    """Encode the non-empty fields as `application/warc-fields`."""
    lines = [f"{name}: {' '.join(text.split())}\r\n" for name, text in fields.items() if text]
    return "".join(lines).encode()


def _lines(headers: Headers, left_out: frozenset[bytes]) -> list[tuple[str, str]]:
    """Return the headers as text, except for those in `left_out`."""
    return [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, values in headers.items()
        if name.lower() not in left_out
        for value in values
    ]
