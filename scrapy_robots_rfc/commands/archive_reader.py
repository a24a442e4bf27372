"""Read a ROBOTS_ARCHIVE, to find the robots.txt of each origin for `check --archive`.

This module reads WARC files with the standard library, because `warcio` does not report where
damage starts.
"""

import math
import os
from argparse import Namespace
from base64 import b32encode
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from gzip import GzipFile
from hashlib import sha1, sha256
from http.client import HTTPMessage, parse_headers
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

from scrapy_robots_rfc.commands.agents import NamedAgent
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
from scrapy_robots_rfc.core.text import join_items
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
# Maximum number of agents to read from an archive, and to list in a warning.
_MAX_AGENTS, _MAX_LISTED = 100, 5
_ADVICE = "pass all of the archive's files, or choose another time with --at"
_Fields = dict[str, str]
_Bodies = dict[str | None, bytes | None]
# A record's headers and block, and the fields of the preceding warcinfo record.
_Record = tuple[HTTPMessage, bytes, _Fields]


class _Result(NamedTuple):
    """The result of a fetch, read from a metadata record.

    :param fields: the record's fields, and those of the preceding warcinfo record.
    :param response: the ID of the fetch's last response record.
    """

    date: str
    fields: _Fields
    response: str | None

    @property
    def limit(self) -> int:
        """The crawl's ROBOTS_MAX_SIZE."""
        return whole_number(self.fields.get("limit")) or RobotsTxt.MAX_SIZE


def found_in(
    opts: Namespace, origins: Collection[Origin], settings: Settings, console: Console
) -> dict[Origin, FoundRobots | Unknown]:
    """Return each origin's robots.txt at the time of `--at`, or why it is unknown."""
    at = opts.at
    time = latest = datetime.max.replace(tzinfo=UTC)
    if at is not None:
        try:
            time = _time(at.removesuffix(" UTC"))  # as `scrapy robots report` prints it
            # A time without a fraction means the end of that second. Milliseconds are not rounded.
            latest = time + timedelta(milliseconds=1 if time.microsecond else 1000)
        except (ValueError, OverflowError):
            raise Failed(
                f"--at {at or repr(at)} is not a time; write it as 2026-11-22T19:30:00Z"
            ) from None
    damaged: dict[str, None] = {}
    results, names, times = _last_results(_records(opts.archive, damaged), origins, latest)
    bodies, urls = _responses(_records(opts.archive, damaged), results.values())
    for path in damaged:
        console.complain(f"{path} is damaged; only the records before the damage were read")
    texts = (each.isoformat(timespec="milliseconds").replace("+00:00", "Z") for each in times)
    period = " to ".join(dict.fromkeys(texts))
    if at is not None and times and time > times[-1]:
        console.complain(f"--at {at} is later than the archive, which covers {period}")
    _warn_of_other_agents(opts.agent or (), names, console)
    scope = f" until {at}" * bool(at) + f" (it covers {period})" * bool(period)
    return {
        origin: _found(origin, results[str(origin)], bodies, urls, settings)
        if str(origin) in results
        else Unknown(f"the archive contains nothing about {origin}{scope}", _ADVICE)
        for origin in origins
    }


def _last_results(
    records: Iterable[_Record], origins: Iterable[Origin], latest: datetime
) -> tuple[dict[str, _Result], Collection[str], list[datetime]]:
    """Return each origin's last result up to a point in time.

    :returns: the results, the agents from all of them, and the times of the first and the last
        result in the archive.
    """
    names = {str(origin) for origin in origins}
    results: dict[str, _Result] = {}
    agents: dict[str, None] = {}
    times: list[datetime] = []
    for headers, block, info in records:
        if headers["WARC-Type"] != "metadata":
            continue
        time = _time(headers["WARC-Date"])
        times = [min([*times, time]), max([*times, time])]
        if time > latest:
            continue
        fields = info | _fields(block)
        if len(agents) < _MAX_AGENTS:
            agents[fields.get("agent", "")[:_LONGEST_AGENT]] = None
        name = fields.get("origin", "")
        if name in names and (name not in results or _time(results[name].date) <= time):
            results[name] = _Result(headers["WARC-Date"], fields, headers["WARC-Refers-To"])
    return results, agents, times


def _agent(name: str) -> Agent | None:
    """Return the agent for an archived name, or `None` if the name is empty."""
    # Commas separate tokens, unless there are spaces, which only a User-Agent contains.
    return parse_agent(name if " " in name else name.split(","))


def _warn_of_other_agents(agents: Iterable[Agent], names: Iterable[str], console: Console) -> None:
    """Warn about agents for which the archived crawl fetched no file."""
    recorded = (NamedAgent(agent, "archive") for agent in map(_agent, names) if agent)
    known = {tuple(map(str.lower, agent.tokens)): agent.name for agent in recorded}
    listed = list(known.values())
    if len(listed) > _MAX_LISTED:
        listed[_MAX_LISTED:] = [f"{len(listed) - _MAX_LISTED} others"]
    for agent in dict.fromkeys(agents):
        if known and tuple(map(str.lower, agent.tokens)) not in known:
            console.complain(
                f"the archived crawl was made for {join_items(listed)} and not for"
                f" {NamedAgent(agent, 'option').name}, so its decisions may differ"
            )


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
    urls: dict[str | None, str] = dict.fromkeys((result.response for result in results), "")
    for headers, block, _ in records:
        if headers["WARC-Type"] != "response":
            continue
        if headers["WARC-Record-ID"] in urls:
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
    info: _Fields = {}
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
            info = _fields(block)
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


def _body(block: bytes, limit: int) -> bytes:
    """Return the decoded body of a response, or empty bytes if it cannot be decoded."""
    head, _, body = block.partition(b"\r\n\r\n")
    headers = (line.partition(b":") for line in head.splitlines())
    codings = [value for name, _, value in headers if name.lower() == b"content-encoding"]
    try:
        return without_codings(body, codings, limit + 1)
    except DecodingError:
        return b""


def _found(
    origin: Origin,
    result: _Result,
    bodies: _Bodies,
    urls: dict[str | None, str],
    settings: Settings,
) -> FoundRobots | Unknown:
    """Return an origin's robots.txt according to its last result."""
    fields = result.fields
    digest = fields.get("digest")
    try:
        outcome = Outcome(fields.get("outcome"))
    except ValueError:
        return Unknown(f"the archive does not contain a valid result for {origin}", _ADVICE)
    file = None
    if outcome is Outcome.SUCCESSFUL:
        body = bodies[digest]
        if body is None:
            return Unknown("the archive does not contain the file with this digest", _ADVICE)
        file = parsed(body, origin.scheme, settings._replace(max_size=result.limit))
    is_stale = fields.get("stale") == "yes"
    validity = Validity(outcome, math.inf, unreachable_since=0.0 if is_stale else None)
    status = whole_number(fields.get("status"))
    policy = OriginPolicy(origin, validity, status, fields.get("cause", ""), file, lambda: NO_AGENT)
    source = origin.robots_url
    url = stripped(urls[result.response] or source)
    # Every crawl writes `software`, so without it, the record about the crawl is damaged.
    use = parse_uses(fields.get("use", "")) if "software" in fields else None
    return FoundRobots(
        policy,
        source,
        redirected_to=None if url == source else url,
        archived=result.date,
        digest=digest,
        use=use,
        agent=_agent(fields.get("agent", "")[:_LONGEST_AGENT]),
        dry_run=fields.get("robots") == "ignore",
    )
