"""Find an origin's robots.txt in a ROBOTS_ARCHIVE for `check --archive`.

This module reads WARC files with the standard library, because `warcio` does not report where
damage starts.
"""

import math
import os
from base64 import b32encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from gzip import GzipFile
from hashlib import sha1, sha256
from http.client import HTTPMessage, parse_headers
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from scrapy_robots_rfc.commands.common import (
    Console,
    Failed,
    FoundRobots,
    Unknown,
    parsed,
    stripped,
    whole_number,
)
from scrapy_robots_rfc.core.agents import NO_AGENT, Agent, parse_agent
from scrapy_robots_rfc.core.preferences import parse_uses
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.decoding import GZIP_MAGIC, without_codings
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

# Maximum number of bytes to read from a record. robots.txt files are shorter.
_LONGEST = 100_000_000
# Maximum number of characters to read from an agent.
_LONGEST_AGENT = 1000
_ADVICE = "pass all of the archive's files, or choose another time with --at"
# Maximum number of agents to read from an archive.
_MAX_AGENTS = 100
_Bodies = dict[str | None, bytes | None]


@dataclass(frozen=True, slots=True)
class ArchivedRobots(FoundRobots):
    """An origin's robots.txt from an archived crawl.

    :param time: when the fetch ended.
    :param use: the uses that the crawl declared, or `None` if they are not known.
    :param agent: the agent that the file was fetched for, or `None` if it is not known.
    :param agents: the agents of all fetches in the archive.
    :param dry_run: True if the crawl also sent disallowed requests.
    """

    time: str = ""
    use: tuple[str, ...] | None = None
    agent: Agent | None = None
    agents: tuple[Agent, ...] = ()
    dry_run: bool = False


class _Info(NamedTuple):
    """The fields of a warcinfo record; see `ArchivedRobots`."""

    use: tuple[str, ...] | None = None
    dry_run: bool = False


# A record's headers and block, and the fields of the preceding warcinfo record.
_Record = tuple[HTTPMessage, bytes, _Info]


class _Result(NamedTuple):
    """The result of a fetch, read from a metadata record.

    :param response: the ID of the fetch's last response record.
    :param agent: the crawler that the file was fetched for, or an empty string if it is not known.
    """

    date: str
    fields: dict[str, str]
    info: _Info
    response: str | None
    agent: str

    @property
    def limit(self) -> int:
        """The crawl's ROBOTS_MAX_SIZE."""
        return whole_number(self.fields.get("limit")) or RobotsTxt.MAX_SIZE


class _Archive(NamedTuple):
    """The parts of an archive needed for a decision.

    :param results: the last result for each origin.
    :param bodies: the file for each digest, or `None` if the archive does not contain it.
    :param urls: the URL for each response record ID.
    :param agents: the agents from all results.
    :param scope: the chosen time and the period of the archive, in words.
    """

    results: dict[str, _Result]
    bodies: _Bodies
    urls: dict[str | None, str]
    agents: tuple[Agent, ...]
    scope: str


def found_in(
    paths: Sequence[str],
    at: str | None,
    origins: Iterable[Origin],
    settings: Settings,
    console: Console,
) -> dict[Origin, FoundRobots | Unknown]:
    """Return each origin's robots.txt at a point in time, or why it is unknown.

    :param at: the point in time, or `None` for the end of the archive.
    """
    time = latest = datetime.max.replace(tzinfo=UTC)
    if at is not None:
        try:
            time = _time(at.removesuffix(" UTC"))  # as `scrapy robots report` prints it
            # A time without a fraction means the end of that second. Milliseconds are not rounded.
            latest = time + timedelta(milliseconds=1 if time.microsecond else 1000)
        except (ValueError, OverflowError):
            given = at or "''"
            raise Failed(f"--at {given} is not a time; write it as 2026-11-22T19:30:00Z") from None
    origins = list(origins)
    damaged: dict[str, None] = {}
    results, names, times = _last_results(_records(paths, damaged), origins, latest)
    bodies, urls = _responses(_records(paths, damaged), results.values())
    for path in damaged:
        console.complain(f"{path} is damaged; only the records before the damage were read")
    texts = (each.isoformat(timespec="milliseconds").replace("+00:00", "Z") for each in times)
    period = " to ".join(dict.fromkeys(texts))
    if at is not None and times and time > times[-1]:
        console.complain(f"--at {at} is later than the archive, which covers {period}")
    scope = f" until {at}" * bool(at) + f" (it covers {period})" * bool(period)
    archive = _Archive(results, bodies, urls, tuple(filter(None, map(_agent, names))), scope)
    return {origin: _found(origin, archive, settings) for origin in origins}


def _last_results(
    records: Iterable[_Record], origins: Sequence[Origin], latest: datetime
) -> tuple[dict[str, _Result], Collection[str], list[datetime]]:
    """Return each origin's last result up to a point in time.

    :returns: the results, the agents from all of them, and the times of the first and the last
        result in the archive.
    """
    names = {str(origin) for origin in origins}
    robots_urls = {origin.robots_url for origin in origins}
    user_agents: dict[str, str | None] = {}  # from the last request for each robots.txt
    agents: dict[str, None] = {}
    times: list[datetime] = []
    results = []
    for headers, block, info in records:
        date, kind = headers["WARC-Date"], headers["WARC-Type"]
        url = headers.get("WARC-Target-URI", "")
        if kind == "request" and url in robots_urls:
            user_agents[url] = _user_agent(block)
        if kind == "metadata":
            times = [min([*times, _time(date)]), max([*times, _time(date)])]
        if kind == "metadata" and _time(date) <= latest:
            fields = _fields(block)
            # Older archives do not have this field.
            agent = (fields.get("agent") or user_agents.get(url) or "")[:_LONGEST_AGENT]
            if len(agents) < _MAX_AGENTS:
                agents[agent] = None
            if fields.get("origin") in names:
                results.append(_Result(date, fields, info, headers["WARC-Refers-To"], agent))
    results.sort(key=lambda result: _time(result.date))
    return {result.fields["origin"]: result for result in results}, agents, times


def _agent(name: str) -> Agent | None:
    """Return the agent for an archived name, or `None` if the name is empty."""
    # Commas separate tokens, unless there are spaces, which only a User-Agent contains.
    return parse_agent(name if " " in name else name.split(","))


def _responses(
    records: Iterable[_Record], results: Collection[_Result]
) -> tuple[_Bodies, dict[str | None, str]]:
    """Return the files and URLs for a number of results.

    :returns: the file for each digest, or `None` if the archive does not contain it, and the URL
        for each response record ID.
    """
    # After a 304, or for a stale file, the content comes from an earlier response.
    bodies: _Bodies = dict.fromkeys(result.fields.get("digest") for result in results)
    limits = {result.limit for result in results}
    last_responses = {result.response for result in results}
    urls: dict[str | None, str] = {}
    for headers, block, _ in records:
        if headers["WARC-Type"] != "response":
            continue
        if headers["WARC-Record-ID"] in last_responses:
            urls[headers["WARC-Record-ID"]] = headers.get("WARC-Target-URI", "")
        for limit in limits:
            body = _body(block, limit)
            digest = f"sha256:{sha256(body[:limit]).hexdigest()}"
            if digest in bodies:
                bodies[digest] = body
    return bodies, urls


def _time(text: str) -> datetime:
    """Parse an ISO 8601 time, assuming UTC if it has no time zone."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _records(paths: Sequence[str], damaged: dict[str, None]) -> Iterator[_Record]:
    """Yield the records from files, up to the first damaged record in each file.

    :param damaged: the paths of damaged files are added to this.
    """
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                if not file.seekable():
                    raise Failed(f"{path} is not a regular file; copy the archive to a file first")
                is_packed = file.peek(2).startswith(GZIP_MAGIC)
                unpacked = GzipFile(fileobj=file) if is_packed else file
                if not b"WARC/".startswith(unpacked.peek(5)[:5]):
                    raise Failed(f"{path} is not a WARC file")
                yield from _whole_records(unpacked)
        except Failed:
            raise
        except Exception as error:  # noqa: BLE001 - damaged gzip data may raise anything
            if isinstance(error, OSError) and error.errno is not None:
                raise Failed(f"{path} cannot be read: {error.strerror}") from None
            damaged[path] = None


def _whole_records(file: GzipFile | BufferedReader) -> Iterator[_Record]:
    """Yield a file's records, and raise an exception at the first damaged record."""
    info = _Info()
    while version := file.readline(_LONGEST):
        headers = parse_headers(file)
        length = whole_number(headers["Content-Length"]) or 0
        block = file.read(min(length, _LONGEST))
        file.seek(length - len(block), os.SEEK_CUR)
        if not version.startswith(b"WARC/") or file.read(4) != b"\r\n\r\n":
            raise ValueError("not a WARC record")
        _time(headers["WARC-Date"])
        if length == len(block) and not _has_digest(block, headers):
            raise ValueError("the content does not match its digest")
        if headers["WARC-Type"] == "warcinfo":
            fields = _fields(block)
            # Every crawl writes `software`, so a record without it is damaged.
            if "software" in fields:
                info = _Info(parse_uses(fields.get("use", "")), fields.get("robots") == "ignore")
            else:
                info = _Info()
        try:
            file.peek(1)  # verifies the checksum if a gzip member ends here
        except Exception as error:
            if "CRC" not in str(error):  # the damage comes after this record
                yield headers, block, info
            raise
        yield headers, block, info


def _has_digest(block: bytes, headers: HTTPMessage) -> bool:
    """Return True if a block matches its record's SHA-1 digest, or if there is no digest."""
    algorithm, _, named = headers.get("WARC-Block-Digest", "").partition(":")
    actual = sha1(block, usedforsecurity=False)
    spellings = (b32encode(actual.digest()).decode().lower(), actual.hexdigest())
    return algorithm.lower() != "sha1" or named.strip().lower() in spellings


def _fields(block: bytes) -> dict[str, str]:
    """Parse an `application/warc-fields` block."""
    lines = (line.partition(": ") for line in block.decode("utf-8", "replace").splitlines())
    return {name: value for name, _, value in lines}


def _user_agent(block: bytes) -> str | None:
    """Return the User-Agent of an archived request, or `None` if it has none."""
    for line in block.partition(b"\r\n\r\n")[0].splitlines():
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"user-agent":
            return value.strip().decode("utf-8", "replace")
    return None


def _body(block: bytes, limit: int) -> bytes:
    """Return the decoded body of a response, or empty bytes if it cannot be decoded."""
    head, _, body = block.partition(b"\r\n\r\n")
    headers = (line.partition(b":") for line in head.splitlines())
    codings = [value for name, _, value in headers if name.lower() == b"content-encoding"]
    try:
        return without_codings(body, codings, limit + 1)
    except DecodingError:
        return b""


def _found(origin: Origin, archive: _Archive, settings: Settings) -> FoundRobots | Unknown:
    """Return an origin's robots.txt according to its last result."""
    last = archive.results.get(str(origin))
    if last is None:
        return Unknown(f"the archive contains nothing about {origin}{archive.scope}", _ADVICE)
    fields = last.fields
    try:
        outcome = Outcome(fields.get("outcome"))
    except ValueError:
        return Unknown(f"the archive does not contain a valid result for {origin}", _ADVICE)
    file = None
    if outcome is Outcome.SUCCESSFUL:
        body = archive.bodies[fields.get("digest")]
        if body is None:
            return Unknown("the archive does not contain the file with this digest", _ADVICE)
        file = parsed(body, origin.scheme, settings._replace(max_size=last.limit))
    stale_since = 0.0 if fields.get("stale") == "yes" else None
    validity = Validity(outcome, math.inf, unreachable_since=stale_since)
    status = whole_number(fields.get("status"))
    cause = fields.get("cause", "")
    robots = OriginPolicy(origin, validity, status, cause, file, lambda: NO_AGENT)
    source = origin.robots_url
    url = stripped(archive.urls.get(last.response) or source)
    return ArchivedRobots(
        robots,
        source,
        redirected_to=None if url == source else url,
        time=last.date,
        use=last.info.use,
        agent=_agent(last.agent),
        agents=archive.agents,
        dry_run=last.info.dry_run,
    )
