"""Reads from ROBOTSTXT_ARCHIVE which robots.txt governed an origin at a given time, for `check --archive`."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any

from scrapy_robots_rfc.commands.asking import FoundRobots
from scrapy_robots_rfc.commands.common import Failed
from scrapy_robots_rfc.core.agents import NOBODY
from scrapy_robots_rfc.core.labels import uses_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import error_text
from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.decoding import without_codings
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots, gemini_file
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin

try:
    from warcio.archiveiterator import ArchiveIterator
    from warcio.statusandheaders import StatusAndHeadersParser, StatusAndHeadersParserException
except ImportError:
    raise Failed("--archive needs the package warcio: pip install 'scrapy-robots-rfc[archive]'") from None

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from scrapy_robots_rfc.commands.common import Console
    from scrapy_robots_rfc.settings import Settings

# Octets of a metadata record that are read: ours are far shorter.
_MOST_FIELDS = 65_536
# Digits of a number that no limit has.
_DIGITS = 16
# Octets of a file that are decompressed at once, and what zlib calls the format of gzip.
_PIECE, _GZIP = 16_384, 31


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """What a metadata record says.

    :param time: when it was written, in seconds since 1970.
    :param fields: of the record.
    :param response: the id of the response record that it refers to; empty where there is none.
    :param use: the uses that its crawl declared; ``None``: it declared none.
    """

    time: float
    fields: dict[str, str]
    response: str
    use: tuple[str, ...] | None


def time_of(text: str | None) -> float:
    """Return what `--at` says in seconds since 1970; infinity where it says nothing.

    :raises Failed: it is no time.
    """
    if text is None:
        return math.inf
    seconds = _seconds(text)
    if seconds is None:
        raise Failed(f"--at {text} is no time; write it as 2026-11-22T19:30:00Z")
    # A time without a fraction means the whole second, as `check` prints it.
    return seconds if seconds % 1 else seconds + 0.999999


def _seconds(text: str) -> float | None:
    """Return a time of ISO 8601 in seconds since 1970, of UTC where it names no zone; ``None``: it is none."""
    try:
        time = datetime.fromisoformat(text)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None


def found_in(
    paths: Sequence[str], at: float, urls: Iterable[str], settings: Settings, console: Console
) -> dict[Origin, FoundRobots]:
    """Return what governed the origins of some URLs at a time.

    :param paths: the files of an archive.
    :param at: seconds since 1970.
    :raises Failed: a file cannot be read.
    """
    wanted = (Origin.of(url, settings.schemes) for url in urls)
    origins = {str(origin): origin for origin in wanted if origin is not None}
    said: dict[str, list[_Conclusion]] = {name: [] for name in origins}
    files = _Files(paths, console)

    def concluded(record: Any) -> None:  # noqa: ANN401 - warcio's
        fields = _fields(record)
        time = _seconds(record.rec_headers.get_header("WARC-Date") or "")
        if time is not None and time <= at and fields.get("origin") in said:
            response = record.rec_headers.get_header("WARC-Refers-To") or ""
            said[fields["origin"]].append(_Conclusion(time, fields, response, files.use))

    files.read("metadata", concluded)
    last = {name: max(all_, key=lambda one: one.time) for name, all_ in said.items() if all_}
    digests = {one.fields["digest"] for one in last.values() if one.fields.get("digest")}
    # A file that was found unchanged (304), or is obeyed although it is stale, came with an earlier response.
    limits = {
        one.response: _limit(one.fields)
        for all_ in said.values()
        for one in all_
        if one.response and one.fields.get("digest") in digests
    }
    bodies: dict[str, bytes] = {}

    def answered(record: Any) -> None:  # noqa: ANN401 - warcio's
        limit = limits.get(record.rec_headers.get_header("WARC-Record-ID"))
        body = None if limit is None else _body(record, limit)
        if limit is not None and body is not None:
            bodies[f"sha256:{sha256(body[:limit]).hexdigest()}"] = body

    files.read("response", answered)
    return {origin: _found(origin, last.get(name), bodies, paths, settings) for name, origin in origins.items()}


class _Files:
    """The files of an archive. They are read twice, and what is wrong with one is told once."""

    def __init__(self, paths: Sequence[str], console: Console) -> None:
        self._paths, self._console, self._told = paths, console, set[str]()
        #: The uses that the crawl declared whose records are read.
        self.use: tuple[str, ...] | None = None

    def read(self, kind: str, take: Callable[[Any], object]) -> None:
        """Call a function with each record of a kind.

        :raises Failed: a file cannot be read.
        """
        for path in self._paths:
            self.use = None
            try:
                with open(path, "rb") as file:  # noqa: PTH123 - what the command line names
                    end = self._read_one(file, kind, take)
                    told = (
                        f"{path} ends within a record, as that of a killed crawl: all from octet {end} on is left out"
                    )
            except OSError as error:
                raise Failed(f"{path} cannot be read: {error.strerror or error}") from None
            except Exception as error:  # noqa: BLE001 - whatever warcio raises on what is no archive
                end, what = 0, error_text(error)
                told = f"{path} is no whole WARC file: what stands behind the damage is left out ({what})"
            if end is not None and path not in self._told:
                self._told.add(path)
                self._console.complain(told)

    def _read_one(self, file: IO[bytes], kind: str, take: Callable[[Any], object]) -> int | None:
        """Read one file, and return where the record begins that it ends within; ``None``: it is whole."""
        records, begin, short = ArchiveIterator(file), 0, False
        for record in records:
            if record.rec_type == "warcinfo":
                self.use = uses_of(_fields(record).get("use"))
            elif record.rec_type == kind:
                take(record)
            begin = records.get_record_offset()  # reads the record to its end
            short = getattr(record.raw_stream, "limit", 1) > 0
        return _cut_off(file, begin, short=short)


def _cut_off(file: IO[bytes], begin: int, *, short: bool) -> int | None:
    """Return where the record begins that a file ends within; ``None``: it ends with a whole one.

    :param begin: where the last record begins that was found.
    :param short: whether that one is shorter than it says.
    :raises zlib.error: it is damaged, which warcio may pass over.
    """
    file.seek(begin)
    piece, member = file.read(_PIECE), zlib.decompressobj(_GZIP)
    if not piece.startswith(b"\x1f\x8b"):
        return begin if short else None  # it is not packed
    while piece:
        member.decompress(piece)
        piece = member.unused_data
        if member.eof:
            begin, member = file.tell() - len(piece), zlib.decompressobj(_GZIP)
        piece = piece or file.read(_PIECE)
    return begin if begin < file.tell() else None


def _fields(record: Any) -> dict[str, str]:  # noqa: ANN401 - warcio's
    """Return the fields of a record; none where it ends too early, or is far longer than ours."""
    block = record.content_stream().read(_MOST_FIELDS)
    if getattr(record.raw_stream, "limit", 1) > 0:
        return {}
    lines = (line.partition(": ") for line in block.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in lines}


def _limit(fields: dict[str, str]) -> int:
    """Return how many octets of a file count."""
    text = fields.get("limit", "")
    return int(text) if text.isdecimal() and len(text) < _DIGITS else RobotsTxt.MAX_SIZE


def _body(record: Any, limit: int) -> bytes | None:  # noqa: ANN401 - warcio's
    """Return the decoded body of a response; ``None`` where it has none, or that cannot be decoded."""
    try:  # warcio itself reads the headers of http URLs, and not those of other schemes
        read = record.http_headers or StatusAndHeadersParser(["HTTP/1.1"]).parse(record.raw_stream)
        codings = [value.encode("latin-1") for name, value in read.headers if name.lower() == "content-encoding"]
        return without_codings(record.raw_stream.read(), codings, limit + 1)
    except (DecodingError, StatusAndHeadersParserException, EOFError):
        return None


def _found(
    origin: Origin, said: _Conclusion | None, bodies: dict[str, bytes], paths: Sequence[str], settings: Settings
) -> FoundRobots:
    if said is None:
        return _unknown(origin, "not in the archive at that time", paths)
    fields = said.fields
    try:
        outcome = Outcome(fields.get("outcome"))
    except ValueError:
        return _unknown(origin, "the archive does not say what governed it", paths)
    file, stale = None, fields.get("stale") == "yes"
    if outcome is Outcome.SUCCESSFUL:
        body = bodies.get(fields.get("digest", ""))
        if body is None:
            return _unknown(origin, "the archive lacks the octets of the digest", paths)
        limits = replace(settings, max_size=_limit(fields))
        gemini = gemini_file(body, limits, origin.scheme)
        file = ParsedRobots(None, gemini or RobotsTxt.parse(body, max_size=limits.max_size))
    validity = Validity(outcome, math.inf, unreachable_since=said.time if stale else None)
    status = int(fields["status"]) if fields.get("status", "").isdecimal() and len(fields["status"]) < _DIGITS else None
    cause = f"{fields.get('cause')}, archived {datetime.fromtimestamp(said.time, UTC):%Y-%m-%dT%H:%M:%SZ}"
    robots = OriginPolicy(origin, validity, status, cause, file, lambda: NOBODY)
    return FoundRobots(robots, origin.robots_url, declared=said.use)


def _unknown(origin: Origin, cause: str, paths: Sequence[str]) -> FoundRobots:
    robots = OriginPolicy(origin, Validity(Outcome.UNREACHABLE, math.inf), None, cause, None, lambda: NOBODY)
    return FoundRobots(robots, " and ".join(paths))
