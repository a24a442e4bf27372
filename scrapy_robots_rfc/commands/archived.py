"""For `check --archive`: reads from an archive which robots.txt governed an origin at a time."""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from gzip import GzipFile
from hashlib import sha256
from pathlib import Path
from typing import Any

from scrapy_robots_rfc.commands.asking import FoundRobots, Unknown, parsed
from scrapy_robots_rfc.commands.common import Console, Failed, whole_number
from scrapy_robots_rfc.core.agents import NOBODY
from scrapy_robots_rfc.core.preferences import uses_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.decoding import GZIP_MAGIC, without_codings
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

try:
    from warcio.archiveiterator import ArchiveIterator
    from warcio.statusandheaders import StatusAndHeadersParser
except ImportError:
    advice = "pip install 'scrapy-robots-rfc[archive]'"
    raise Failed(f"--archive needs the package warcio: {advice}") from None

# Without a handler, warcio would print octets of a file on stderr.
logging.getLogger("warcio").addHandler(logging.NullHandler())

_MOST_FIELDS = 65_536  # octets of a metadata record that are read: ours are far shorter
_DAMAGED = "is no whole WARC file: what is behind the damage, or has no end, is left out"
#: What to do where the archive does not decide.
_ADVICE = "name all files of the archive, or say another time with --at"


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """What a metadata record says: when, by which response, in a crawl for which uses."""

    date: str
    time: float
    fields: dict[str, str]
    response: str | None
    use: tuple[str, ...] | None

    @property
    def limit(self) -> int:
        """How many octets of the file count."""
        return whole_number(self.fields.get("limit")) or RobotsTxt.MAX_SIZE


def found_in(
    paths: Sequence[str],
    at: str | None,
    origins: Iterable[Origin],
    settings: Settings,
    console: Console,
) -> dict[Origin, FoundRobots | Unknown]:
    """Return what governed origins at a time, by default the last one, or why it is not known."""
    latest = math.inf if at is None else _seconds_of(at)
    if latest is None:
        raise Failed(f"--at {at} is no time; write it as 2026-11-22T19:30:00Z")
    names = {str(origin) for origin in origins}
    concluded: dict[str, list[_Conclusion]] = defaultdict(list)
    bodies: dict[str | None, bytes] = {}

    def conclude(record: Any, use: tuple[str, ...] | None) -> None:  # noqa: ANN401 - warcio's
        if record.rec_type == "metadata":
            header = record.rec_headers.get_header
            fields = _fields(record)
            date = header("WARC-Date") or ""
            time = _seconds_of(date)
            if time is not None and time <= latest and fields.get("origin") in names:
                one = _Conclusion(date, time, fields, header("WARC-Refers-To"), use)
                concluded[fields["origin"]].append(one)

    def read(record: Any, _: object) -> None:  # noqa: ANN401 - warcio's
        limit = limits.get(record.rec_headers.get_header("WARC-Record-ID"))
        if record.rec_type == "response" and limit is not None:
            body = _body(record, limit)
            bodies[f"sha256:{sha256(body[:limit]).hexdigest()}"] = body

    for path in _visit(paths, conclude):
        console.complain(f"{path} {_DAMAGED}")
    last = {name: max(all_, key=lambda one: one.time) for name, all_ in concluded.items()}
    digests = {one.fields["digest"] for one in last.values() if one.fields.get("digest")}
    # Of a file that was found unchanged (304), or is stale, an earlier response has the octets.
    limits = {
        one.response: one.limit
        for all_ in concluded.values()
        for one in all_
        if one.fields.get("digest") in digests
    }
    _visit(paths, read)
    return {origin: _found(origin, last.get(str(origin)), bodies, settings) for origin in origins}


def _seconds_of(text: str) -> float | None:
    """Return a time of ISO 8601, by default of UTC, in seconds since 1970; ``None``: it is none."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


class _Unpacked(GzipFile):
    """A packed file, of which what stands before damage is read before the damage raises."""

    read = GzipFile.read1  # type: ignore[assignment]  # which takes no None


def _visit(paths: Sequence[str], visit: Callable[[Any, Any], None]) -> list[str]:
    """Visit each record, with the uses that its crawl declared; return what files are not whole."""
    damaged = []
    for path in paths:
        use = stream = None
        is_whole = False
        try:
            with Path(path).open("rb") as file:
                octets = _Unpacked(fileobj=file) if file.peek(2).startswith(GZIP_MAGIC) else file
                records = ArchiveIterator(octets, no_record_parse=True)
                records.INC_RECORD = ""  # else warcio writes on stderr by itself, too
                for record in records:
                    stream = record.raw_stream
                    if record.rec_type == "warcinfo":
                        fields = _fields(record)
                        # `software` is the first field that a crawl writes.
                        use = uses_of(fields.get("use", "")) if "software" in fields else None
                    else:
                        visit(record, use)
                octets.read(1)  # raises where a packed file breaks off: warcio may not see that
            is_whole = not records.err_count and (stream is None or _ended(stream))
        except Exception as error:  # noqa: BLE001 - warcio raises anything on what is no archive
            if isinstance(error, OSError) and error.errno is not None:
                raise Failed(f"{path} cannot be read: {error.strerror}") from None
        if not is_whole:
            damaged.append(path)
    return damaged


def _ended(stream: Any) -> bool:  # noqa: ANN401 - warcio's
    """Whether a record was read to its end; it has no limit where its header is not whole."""
    return getattr(stream, "limit", 1) <= 0


def _fields(record: Any) -> dict[str, str]:  # noqa: ANN401 - warcio's
    """Return the fields of a record; none where it ends too early, or is far longer than ours."""
    block = record.raw_stream.read(_MOST_FIELDS)
    if not _ended(record.raw_stream):
        return {}
    lines = (line.partition(": ") for line in block.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in lines}


def _body(record: Any, limit: int) -> bytes:  # noqa: ANN401 - warcio's
    """Return the decoded body of a response; it is empty where it cannot be decoded."""
    head = StatusAndHeadersParser(["HTTP/1.1"], verify=False).parse(record.raw_stream)
    codings = [
        value.encode("latin-1")
        for name, value in head.headers
        if name.lower() == "content-encoding"
    ]
    try:
        return without_codings(record.raw_stream.read(), codings, limit + 1)
    except DecodingError:
        return b""


def _found(
    origin: Origin, last: _Conclusion | None, bodies: dict[str | None, bytes], settings: Settings
) -> FoundRobots | Unknown:
    """Return what governed an origin by the last conclusion about it."""
    if last is None:
        return Unknown(f"the archive has nothing about {origin} at that time", _ADVICE)
    fields = last.fields
    try:
        outcome = Outcome(fields.get("outcome"))
    except ValueError:
        return Unknown(f"the archive does not say what governed {origin}", _ADVICE)
    file = None
    if outcome is Outcome.SUCCESSFUL:
        body = bodies.get(fields.get("digest"))
        if body is None:
            return Unknown("the archive lacks the octets of the digest", _ADVICE)
        file = parsed(body, origin.scheme, settings._replace(max_size=last.limit))
    stale_since = last.time if fields.get("stale") == "yes" else None
    validity = Validity(outcome, math.inf, unreachable_since=stale_since)
    status = whole_number(fields.get("status"))
    cause = f"{fields.get('cause')}, archived {last.date}"
    robots = OriginPolicy(origin, validity, status, cause, file, lambda: NOBODY)
    return FoundRobots(robots, origin.robots_url, declared=last.use, advice=_ADVICE)
