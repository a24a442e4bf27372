"""For `check --archive`: reads from an archive which robots.txt governed an origin at a time.

The WARC files are read by what Python has: the package `warcio` does not say where damage begins.
So neither the command nor a reader of an archive needs it.
"""

import math
import os
from base64 import b32encode
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
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
    whole_number,
)
from scrapy_robots_rfc.core.agents import NOBODY, Agent, agent_of
from scrapy_robots_rfc.core.preferences import uses_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import DecodingError
from scrapy_robots_rfc.fetching.decoding import GZIP_MAGIC, without_codings
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import Settings

# Octets of a record that are read: what is longer is no robots.txt.
_LONGEST = 100_000_000
# Characters of the name of an agent that are read.
_LONGEST_AGENT = 1000
#: What to do where the archive does not decide.
_ADVICE = "name all files of the archive, or say another time with --at"
# The headers and the block of a record, with the uses that its crawl declared.
_Record = tuple[HTTPMessage, bytes, tuple[str, ...] | None]


class _Conclusion(NamedTuple):
    """What a metadata record says: when, and in a crawl for which uses."""

    date: str
    fields: dict[str, str]
    use: tuple[str, ...] | None
    user_agent: str | None

    @property
    def agent(self) -> Agent | None:
        """The crawler for which the file was fetched, or `None` if the archive does not name it.

        Older archives have no such field. There it is the User-Agent of the request.
        """
        text = (self.fields.get("agent") or self.user_agent or "")[:_LONGEST_AGENT]
        # Commas separate tokens. A User-Agent header, which has blanks, may contain commas, too.
        return agent_of(text if " " in text else text.split(","))

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
    try:
        latest = datetime.max.replace(tzinfo=UTC) if at is None else _time(at)
    except ValueError:
        given = at or "''"
        raise Failed(f"--at {given} is no time; write it as 2026-11-22T19:30:00Z") from None
    origins = list(origins)
    names = {str(origin) for origin in origins}
    damaged: dict[str, None] = {}
    robots_urls = {origin.robots_url for origin in origins}
    user_agents: dict[str, str | None] = {}  # of the last request for each robots.txt
    concluded = []
    for headers, block, use in _records(paths, damaged):
        date, kind = headers["WARC-Date"], headers["WARC-Type"]
        url = headers.get("WARC-Target-URI", "")
        if kind == "request" and url in robots_urls:
            user_agents[url] = _user_agent(block)
        if kind == "metadata" and _time(date) <= latest:
            fields = _fields(block)
            if fields.get("origin") in names:
                concluded.append(_Conclusion(date, fields, use, user_agents.get(url)))
    concluded.sort(key=lambda one: _time(one.date))
    last = {one.fields["origin"]: one for one in concluded}
    # Of a file that was found unchanged (304), or is stale, an earlier response has the octets.
    bodies = dict.fromkeys(one.fields.get("digest") for one in last.values())
    limits = {one.limit for one in last.values()}
    for headers, block, _ in _records(paths, damaged):
        for limit in limits if headers["WARC-Type"] == "response" else ():
            body = _body(block, limit)
            digest = f"sha256:{sha256(body[:limit]).hexdigest()}"
            if digest in bodies:
                bodies[digest] = body
    for path in damaged:
        console.complain(f"{path} is no whole WARC file: what is behind the damage is left out")
    return {origin: _found(origin, last.get(str(origin)), bodies, settings) for origin in origins}


def _time(text: str) -> datetime:
    """Return a time of ISO 8601, which is in UTC if it has no zone."""
    time = datetime.fromisoformat(text)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _records(paths: Sequence[str], damaged: dict[str, None]) -> Iterator[_Record]:
    """Yield the records of some files.

    A file is read up to the first record that is not whole; `damaged` gets its path.
    """
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                if not file.seekable():
                    raise Failed(f"{path} is no file that can be read twice: name a file")
                is_packed = file.peek(2).startswith(GZIP_MAGIC)
                yield from _whole_records(GzipFile(fileobj=file) if is_packed else file)
        except Failed:
            raise
        except Exception as error:  # noqa: BLE001 - damaged gzip data may raise any error
            if isinstance(error, OSError) and error.errno is not None:
                raise Failed(f"{path} cannot be read: {error.strerror}") from None
            damaged[path] = None


def _whole_records(octets: GzipFile | BufferedReader) -> Iterator[_Record]:
    """Yield the records of one file; raises where there is one that is not whole."""
    use = None
    while version := octets.readline(_LONGEST):
        headers = parse_headers(octets)
        length = whole_number(headers["Content-Length"]) or 0
        block = octets.read(min(length, _LONGEST))
        octets.seek(length - len(block), os.SEEK_CUR)
        if not version.startswith(b"WARC/") or octets.read(4) != b"\r\n\r\n":
            raise ValueError("no record of WARC")
        _time(headers["WARC-Date"])
        if length == len(block) and not _has_digest(block, headers):
            raise ValueError("other octets than those that were written")
        if headers["WARC-Type"] == "warcinfo":
            fields = _fields(block)
            # `software` is the first field that a crawl writes.
            use = uses_of(fields.get("use", "")) if "software" in fields else None
        try:
            octets.peek(1)  # now the checksum of a gzip member that ends here is read
        except Exception as error:
            if "CRC" not in str(error):  # the damage is behind this record
                yield headers, block, use
            raise
        yield headers, block, use


def _has_digest(block: bytes, headers: HTTPMessage) -> bool:
    """Whether a block has the digest that its record names; one that is not SHA-1 is not known."""
    algorithm, _, named = headers.get("WARC-Block-Digest", "").partition(":")
    found = sha1(block, usedforsecurity=False)
    known = (b32encode(found.digest()).decode().lower(), found.hexdigest())
    return algorithm.lower() != "sha1" or named.strip().lower() in known


def _fields(block: bytes) -> dict[str, str]:
    """Return the fields of a record of `application/warc-fields`."""
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
    """Return the decoded body of a response; it is empty where it cannot be decoded."""
    head, _, body = block.partition(b"\r\n\r\n")
    headers = (line.partition(b":") for line in head.splitlines())
    codings = [value for name, _, value in headers if name.lower() == b"content-encoding"]
    try:
        return without_codings(body, codings, limit + 1)
    except DecodingError:
        return b""


def _found(
    origin: Origin,
    last: _Conclusion | None,
    bodies: dict[str | None, bytes | None],
    settings: Settings,
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
        body = bodies[fields.get("digest")]
        if body is None:
            return Unknown("the archive lacks the octets of the digest", _ADVICE)
        file = parsed(body, origin.scheme, settings._replace(max_size=last.limit))
    stale_since = 0.0 if fields.get("stale") == "yes" else None
    validity = Validity(outcome, math.inf, unreachable_since=stale_since)
    status = whole_number(fields.get("status"))
    cause = f"{fields.get('cause')}, archived {last.date}"
    robots = OriginPolicy(origin, validity, status, cause, file, lambda: NOBODY)
    return FoundRobots(robots, origin.robots_url, last.use, _ADVICE, last.agent)
