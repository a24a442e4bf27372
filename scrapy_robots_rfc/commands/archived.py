"""Reads from ROBOTS_ARCHIVE which robots.txt governed an origin at a given time, for `check --archive`."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from gzip import GzipFile
from hashlib import sha256
from typing import Any, TypeVar

from scrapy_robots_rfc.commands.asking import FoundRobots, Unknown, parsed
from scrapy_robots_rfc.commands.common import Console, Failed, date_text, seconds_of, whole_number
from scrapy_robots_rfc.core.agents import NOBODY
from scrapy_robots_rfc.core.labels import uses_of
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
    raise Failed(
        "--archive needs the package warcio: pip install 'scrapy-robots-rfc[archive]'"
    ) from None

logging.getLogger("warcio").addHandler(
    logging.NullHandler()
)  # without any, octets of a file stand on stderr

T = TypeVar("T")

# Octets of a metadata record that are read: ours are far shorter.
_MOST_FIELDS = 65_536

# What may be wrong with a file.
_DAMAGED = (
    "is no whole WARC file: what stands behind the damage, or a record that has no end, is left out"
)
_NO_USE = (
    "has no whole warcinfo record, so the uses that its crawl declared are unknown: those of --use count, or else "
    "those of the settings"
)

# What to do where the archive does not decide.
_ADVICE = "name all files of the archive, or say another time with --at"


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """What a metadata record says.

    :param time: when it was written, in seconds since 1970.
    :param fields: of the record.
    :param response: the id of the response record that it refers to, if any.
    :param use: the uses that its crawl declared; ``None``: they are not known.
    """

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
    """Return what governed origins at a time, or why that is not known.

    :param paths: the files of an archive.
    :param at: in ISO 8601; ``None``: the last one that is known.
    :raises Failed: a file cannot be read, or there is no such time.
    """
    latest = math.inf if at is None else seconds_of(at)
    if latest is None:
        raise Failed(f"--at {at} is no time; write it as 2026-11-22T19:30:00Z")
    if latest % 1 == 0:  # a time without a fraction means the whole second, as `check` prints it
        latest += 0.999999
    said: dict[str, list[_Conclusion]] = {str(origin): [] for origin in origins}
    wrong: dict[str, None] = {}  # in order, each once
    paths = list(dict.fromkeys(paths))
    for path in paths:
        for headers, fields, use in _records(path, "metadata", _fields, wrong):
            time = seconds_of(headers.get_header("WARC-Date") or "")
            if time is not None and time <= latest and fields.get("origin") in said:
                said[fields["origin"]].append(
                    _Conclusion(time, fields, headers.get_header("WARC-Refers-To"), use)
                )
    last = {name: max(all_, key=lambda one: one.time) for name, all_ in said.items() if all_}
    digests = {one.fields["digest"] for one in last.values() if one.fields.get("digest")}
    # A file that was found unchanged (304), or is obeyed although it is stale, came with an earlier
    # response.
    earlier = (one for all_ in said.values() for one in all_ if one.fields.get("digest") in digests)
    limits = {one.response: one.limit for one in earlier}
    bodies: dict[str | None, bytes] = {}
    for path in paths:
        for _, (digest, body), _ in _records(
            path, "response", lambda record: _body(record, limits), wrong
        ):
            bodies[digest] = body
    for text in wrong:
        console.complain(text)
    return {origin: _found(origin, last.get(str(origin)), bodies, settings) for origin in origins}


class _Unpacked(GzipFile):
    """A packed file, of which what stands before damage is read before the damage raises."""

    read = GzipFile.read1  # type: ignore[assignment]  # which takes no None


def _records(
    path: str, kind: str, read: Callable[[Any], T], wrong: dict[str, None]
) -> Iterator[tuple[Any, T, tuple[str, ...] | None]]:
    """Yield headers and content of each record of a kind in a file, with the uses that its crawl declared.

    :param read: reads the content.
    :param wrong: gets what is wrong with the file.
    :raises Failed: it cannot be read.
    """
    use = None
    stream: Any = None
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - what the command line names
            octets = _Unpacked(fileobj=file) if file.peek(2).startswith(GZIP_MAGIC) else file
            records = ArchiveIterator(octets, no_record_parse=True)
            records.INC_RECORD = ""  # else warcio writes on stderr by itself, too
            for record in records:
                stream = record.raw_stream
                if record.rec_type == "warcinfo":
                    fields = _fields(record)
                    # `software` is the first field that a crawl writes.
                    use = uses_of(fields.get("use", "")) if "software" in fields else None
                elif record.rec_type == kind:
                    yield record.rec_headers, read(record), use
                    if use is None:
                        wrong[f"{path} {_NO_USE}"] = None
            octets.read(
                1
            )  # raises where a packed file breaks off: warcio may take that for its end
        # Without a limit it has no whole header.
        if records.err_count or (stream is not None and getattr(stream, "limit", 1) > 0):
            wrong[f"{path} {_DAMAGED}"] = None
    except Exception as error:  # noqa: BLE001 - whatever warcio raises on what is no archive
        if isinstance(error, OSError) and error.errno is not None:
            raise Failed(f"{path} cannot be read: {error.strerror}") from None
        wrong[f"{path} {_DAMAGED}"] = None


def _fields(record: Any) -> dict[str, str]:  # noqa: ANN401 - warcio's
    """Return the fields of a record; none where it ends too early, or is far longer than ours."""
    block = record.raw_stream.read(_MOST_FIELDS)
    if getattr(record.raw_stream, "limit", 1) > 0:
        return {}
    lines = (line.partition(": ") for line in block.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in lines}


def _body(record: Any, limits: dict[str | None, int]) -> tuple[str, bytes]:  # noqa: ANN401 - warcio's
    """Return digest and decoded body of a response.

    Nothing of one that is not looked for, or cannot be decoded.
    """
    limit = limits.get(record.rec_headers.get_header("WARC-Record-ID"))
    if limit is None:
        return "", b""
    try:
        head = StatusAndHeadersParser(["HTTP/1.1"], verify=False).parse(record.raw_stream)
        codings = [
            value.encode("latin-1")
            for name, value in head.headers
            if name.lower() == "content-encoding"
        ]
        body = without_codings(record.raw_stream.read(), codings, limit + 1)
    except DecodingError:
        body = b""
    return f"sha256:{sha256(body[:limit]).hexdigest()}", body


def _found(
    origin: Origin, said: _Conclusion | None, bodies: dict[str | None, bytes], settings: Settings
) -> FoundRobots | Unknown:
    if said is None:
        return Unknown(f"the archive has nothing about {origin} at that time", _ADVICE)
    fields = said.fields
    try:
        outcome = Outcome(fields.get("outcome"))
    except ValueError:
        return Unknown(f"the archive does not say what governed {origin}", _ADVICE)
    file, stale = None, fields.get("stale") == "yes"
    if outcome is Outcome.SUCCESSFUL:
        body = bodies.get(fields.get("digest"))
        if body is None:
            return Unknown("the archive lacks the octets of the digest", _ADVICE)
        file = parsed(body, origin.scheme, replace(settings, max_size=said.limit))
    validity = Validity(outcome, math.inf, unreachable_since=said.time if stale else None)
    cause = f"{fields.get('cause')}, archived {date_text(said.time)}"
    robots = OriginPolicy(
        origin, validity, whole_number(fields.get("status")), cause, file, lambda: NOBODY
    )
    return FoundRobots(robots, origin.robots_url, declared=said.use, advice=_ADVICE)
