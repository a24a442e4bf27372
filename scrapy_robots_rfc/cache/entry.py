"""A copy: all that is kept of an origin's robots.txt, and how it is written down.

In here: the values of every store, whatever the store is. For how long a copy is used is `policy/caching.py`.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass, field, replace
from typing import TypeVar

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import without_userinfo

_T = TypeVar("_T")

#: The version of what is written.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Validators:
    """What a server is asked with whether a file has changed (RFC 9110, 13.1).

    :param url: the URL that gave the file, redirects followed: no other one is asked with these.
    :param etag: the ETag header, as it came; ``None`` where there was none.
    :param last_modified: the Last-Modified header, as it came.
    """

    url: str
    etag: bytes | None = None
    last_modified: bytes | None = None


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """What is known of one origin. Times are seconds on the clock of whoever holds it: see `moved`.

    :param outcome: what governs the decisions.
    :param status: the HTTP status of the last fetch; ``None`` without an answer.
    :param cause: how the last fetch ended, in a word or two.
    :param fetched: when it ended.
    :param fresh_until: from then on the file is asked for again.
    :param confirmed: when the file that is obeyed was last confirmed; ``None`` where there is none.
    :param unreachable_since: when the run of unreachable fetches began; ``None`` outside of one.
    :param body: the file that is obeyed, without content coding; ``None`` where there is none.
    :param lifetime: seconds for which its server called it fresh (RFC 9111, 4.2.1); ``None`` where it said nothing. A
        304 that says nothing leaves it as it is.
    """

    outcome: Outcome
    status: int | None
    cause: str
    fetched: float
    fresh_until: float
    confirmed: float | None = None
    unreachable_since: float | None = None
    validators: Validators | None = None
    body: bytes | None = field(default=None, repr=False)
    lifetime: float | None = None

    def moved(self, seconds: float) -> CacheEntry:
        """Return the same copy on a clock that shows so many seconds more."""

        def later(time: float | None) -> float | None:
            return None if time is None else time + seconds

        return replace(
            self,
            fetched=self.fetched + seconds,
            fresh_until=self.fresh_until + seconds,
            confirmed=later(self.confirmed),
            unreachable_since=later(self.unreachable_since),
        )


#: How a value begins; the version and the checksum of the rest follow in the same line.
MAGIC = b"robots.txt"
_FIRST_LINE = 64
#: A file that is larger is not compressed, so that no value becomes larger than this by being read.
_LARGEST_PACKED = 16 * 1024 * 1024
#: Shorter files hardly shrink.
_SMALLEST_PACKED = 64
#: What a site can make long is left out when it is longer, in characters: a head is small.
_LONGEST_URL, _LONGEST_VALIDATOR, _LONGEST_CAUSE = 8192, 1024, 200
_LARGEST_HEAD = 128 * 1024


def encode(copy: CacheEntry) -> bytes:
    """Return a copy as octets: a line with version and checksum, a line of JSON, and the file.

    Validators that are longer than anybody's, that no header can hold, or whose URL nobody should see, are left out.
    """
    head: dict[str, object] = {
        "outcome": copy.outcome.value,
        "status": copy.status,
        "cause": printable(copy.cause)[:_LONGEST_CAUSE],
        "fetched": copy.fetched,
        "fresh_until": copy.fresh_until,
        "confirmed": copy.confirmed,
        "unreachable_since": copy.unreachable_since,
        "lifetime": copy.lifetime,
        **_written(copy.validators),
    }
    body = b"" if copy.body is None else copy.body
    if copy.body is not None:
        packed = zlib.compress(body, 6) if _SMALLEST_PACKED <= len(body) <= _LARGEST_PACKED else body
        head["length"] = len(body)
        if len(packed) < len(body):
            head["coding"], body = "zlib", packed
    known = {key: value for key, value in head.items() if value is not None}
    rest = json.dumps(known, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n" + body
    return b"%s %d %08x\n%s" % (MAGIC, VERSION, zlib.crc32(rest), rest)


def _written(validators: Validators | None) -> dict[str, object]:
    if validators is None or not _is_url(validators.url):
        return {}
    headers = {"etag": validators.etag, "last_modified": validators.last_modified}
    # Latin-1 has a character for each octet, and an octet for each of these characters.
    texts = {key: value.decode("latin-1") for key, value in headers.items() if value is not None}
    return {"url": validators.url, **{key: text for key, text in texts.items() if _is_value(text)}}


def _is_url(text: str) -> bool:
    """Whether a URL may be shown: nothing in it acts on a terminal, or is a password."""
    return len(text) <= _LONGEST_URL and text.isprintable() and without_userinfo(text) == text


def _is_value(text: str) -> bool:
    """Whether a text can be sent as the value of a header: what ends one would begin another."""
    return len(text) <= _LONGEST_VALIDATOR and not _CONTROL.search(text)


_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")


def decode(value: object) -> CacheEntry:
    """Return the copy of `encode`.

    Hostile octets are refused; what they cost in memory is bounded by their own length and 16 MiB.

    :raises ValueError: an unknown version, or damaged; the text has nothing of the value but its version.
    """
    if not isinstance(value, bytes | bytearray | memoryview):  # a database, or a user's own store, may give anything
        raise ValueError("not a copy of a robots.txt")
    value = bytes(value)
    first, _, rest = value[:_FIRST_LINE].partition(b"\n")
    magic, version, checksum = (*first.split(b" "), b"", b"", b"")[:3]
    if magic != MAGIC or not version.isdigit():
        raise ValueError("not a copy of a robots.txt")
    if version != b"%d" % VERSION:
        raise ValueError(f"written in version {version.decode('ascii')}, where {VERSION} is known")
    rest = value[len(first) + 1 :]
    if checksum != b"%08x" % zlib.crc32(rest):
        raise ValueError("damaged: the checksum differs")
    line, _, body = rest.partition(b"\n")
    return _read(_Head.of(line), body)


class _Head:
    """The line of JSON: what stands in it has the type that is asked for, or it is refused."""

    def __init__(self, entries: dict[str, object]) -> None:
        self._entries = entries

    @classmethod
    def of(cls, line: bytes) -> _Head:
        if len(line) > _LARGEST_HEAD:
            raise ValueError("damaged: a head of this size is written by nobody")
        try:
            entries = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError("damaged: the head is no JSON") from None
        if not isinstance(entries, dict):
            raise ValueError("damaged: the head is no JSON object")
        return cls(entries)

    def text(self, key: str) -> str | None:
        value = self._entries.get(key)
        if value is None or isinstance(value, str):
            return value
        raise _wrong(key)

    def line(self, key: str) -> str:
        """What is told to people: it must not be able to look like another line of a log."""
        text = self.text(key)
        if text is None or len(text) > _LONGEST_CAUSE or not text.isprintable():
            raise _wrong(key)
        return text

    def url(self, key: str) -> str | None:
        text = self.text(key)
        if text is not None and not _is_url(text):
            raise _wrong(key)
        return text

    def number(self, key: str) -> int | None:
        value = self._entries.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise _wrong(key)

    def time(self, key: str) -> float | None:
        value = self._entries.get(key)
        if value is None:
            return None
        # Compared first: an integer of any size may stand there, and infinity, and what is no number at all.
        if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _NEVER:
            return float(value)
        raise _wrong(key)

    def header(self, key: str) -> bytes | None:
        text = self.text(key)
        if text is None:
            return None
        if not _is_value(text) or any(ord(character) > 255 for character in text):
            raise _wrong(key)
        return text.encode("latin-1")


#: A time that no clock shows: ten times the largest year that a date can have, in seconds.
_NEVER = 1e13


def _wrong(key: str) -> ValueError:
    return ValueError(f"damaged: {key} is not what it should be")


def _needed(value: _T | None, key: str) -> _T:
    if value is None:
        raise _wrong(key)
    return value


def _read(head: _Head, body: bytes) -> CacheEntry:
    try:
        outcome = Outcome(head.text("outcome"))
    except ValueError:
        raise _wrong("outcome") from None
    file = _unpacked(head, body)
    if (file is None) == (outcome is Outcome.SUCCESSFUL):
        raise ValueError("damaged: the file is missing, or too much")  # neither may open what the file closes
    url = head.url("url")
    return CacheEntry(
        outcome,
        head.number("status"),
        head.line("cause"),
        _needed(head.time("fetched"), "fetched"),
        _needed(head.time("fresh_until"), "fresh_until"),
        head.time("confirmed"),
        head.time("unreachable_since"),
        None if url is None else Validators(url, head.header("etag"), head.header("last_modified")),
        file,
        head.time("lifetime"),
    )


def _unpacked(head: _Head, body: bytes) -> bytes | None:
    length, coding = head.number("length"), head.text("coding")
    if length is None:
        return None
    if coding == "zlib" and 0 <= length <= _LARGEST_PACKED:
        unpacking = zlib.decompressobj()
        try:
            body = unpacking.decompress(body, length + 1)  # one more, to see whether there is one more
        except zlib.error:
            raise _wrong("the file") from None
    elif coding is not None:
        raise _wrong("coding")
    if len(body) != length:
        raise _wrong("length")
    return body
