"""Octets to lines, and lines to records (RFC 9309, 2.2): the one place that knows how a line is read.

The group reader, the fast scan and the linter all read lines through `read_line`, so they cannot disagree. In here
nothing is decided: which lines form a group is `groups.py`, what a pattern matches is `pattern.py`.
"""

from __future__ import annotations

import codecs
import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

#: A longer line is cut there: 8 times 2,083 octets, the longest URL that browsers took (Google's reference parser).
MAX_LINE = 16_664

BLANKS = " \t"  # RFC 9309, 2.2: WS = %x20 / %x09


class LineKind(enum.Enum):
    """What a line is read as."""

    BLANK = "blank"
    #: Nothing but a comment (RFC 9309, 2.2: `EmptyLine`, as a blank one is).
    COMMENT = "comment"
    USER_AGENT = "user-agent"
    ALLOW = "allow"
    DISALLOW = "disallow"
    #: Any other `key: value` line (RFC 9309, 2.2.4).
    RECORD = "record"
    #: No record at all.
    JUNK = "junk"


class Flag(enum.Enum):
    """What is odd about a line that is read, or why it is not."""

    MISSPELT_KEY = "misspelt_key"
    NO_COLON = "no_colon"
    UNKNOWN_KEY = "unknown_key"
    OUTSIDE_GROUP = "outside_group"
    INVALID_TOKEN = "invalid_token"  # noqa: S105 -- a product token, no secret
    NEVER_MATCHES = "never_matches"
    SPACE_IN_PATTERN = "space_in_pattern"
    CONTROL_OCTET = "control_octet"
    NOT_UTF8 = "not_utf8"
    TOO_LONG = "too_long"
    CUT_OFF = "cut_off"
    #: The file begins with the mark of UTF-8; it is no part of the line.
    BYTE_ORDER_MARK = "byte_order_mark"
    #: The file begins with the mark of UTF-16 or UTF-32; it is read by that.
    OTHER_ENCODING = "other_encoding"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file, as it is read.

    :param number: from 1; lines end in CR, LF or CRLF.
    :param kind: what it is read as.
    :param key: its key in lower case, as the file spells it; empty where there is none.
    :param value: its value without surrounding blanks and comment; for junk, the line itself.
    :param flags: what is odd about it.
    """

    number: int
    kind: LineKind
    key: str
    value: str
    flags: frozenset[Flag] = frozenset()


class Reading(NamedTuple):
    """How one line is read, before it is known where it stands. Key and value are octets, one character each."""

    kind: LineKind
    key: str
    value: str
    flags: frozenset[Flag]


_NONE: frozenset[Flag] = frozenset()
_MISSPELT = frozenset({Flag.MISSPELT_KEY})

#: Keys that mean something to RFC 9309 itself, and the frequent misspellings of them that are read all the same.
KEYS: dict[str, tuple[LineKind, frozenset[Flag]]] = {
    "user-agent": (LineKind.USER_AGENT, _NONE),
    "useragent": (LineKind.USER_AGENT, _MISSPELT),
    "user agent": (LineKind.USER_AGENT, _MISSPELT),
    "allow": (LineKind.ALLOW, _NONE),
    "disallow": (LineKind.DISALLOW, _NONE),
    "dissallow": (LineKind.DISALLOW, _MISSPELT),
    "dissalow": (LineKind.DISALLOW, _MISSPELT),
    "disalow": (LineKind.DISALLOW, _MISSPELT),
    "diasllow": (LineKind.DISALLOW, _MISSPELT),
    "disallaw": (LineKind.DISALLOW, _MISSPELT),
    "site-map": (LineKind.RECORD, _MISSPELT),
}
#: Other records that somebody is known to read; any other key is flagged as unknown.
KNOWN_RECORDS = frozenset(
    {"sitemap", "crawl-delay", "request-rate", "visit-time", "host", "clean-param", "noindex", "content-signal"}
)
RULES = frozenset({LineKind.ALLOW, LineKind.DISALLOW})

_WORDS = re.compile("[^ \t]+").findall
_CONTROL = re.compile("[\x00-\x08\x0a-\x1f\x7f]").search
_UNKNOWN = (LineKind.RECORD, frozenset({Flag.UNKNOWN_KEY}))
_KNOWN = (LineKind.RECORD, _NONE)


def read_line(line: str) -> Reading:
    """Read one line (RFC 9309, 2.2), leniently where `rfc9309.md` says so. Never raises.

    :param line: its octets, one character each, without the line end.
    """
    flags = set()
    if len(line) > MAX_LINE:
        line = line[:MAX_LINE]
        flags.add(Flag.TOO_LONG)
    text = line.partition("#")[0].strip(BLANKS)
    if not text:
        kind = LineKind.COMMENT if "#" in line else LineKind.BLANK
        return Reading(kind, "", "", frozenset(flags))
    if _CONTROL(text):
        flags.add(Flag.CONTROL_OCTET)
    key, colon, value = text.partition(":")
    if not colon:
        words = _WORDS(text)
        if len(words) != 2 or (words[0].lower() not in KEYS and words[0].lower() not in KNOWN_RECORDS):
            return Reading(LineKind.JUNK, "", text, frozenset(flags))
        key, value = words
        flags.add(Flag.NO_COLON)
    key, value = key.strip(BLANKS).lower(), value.strip(BLANKS)
    kind, odd = KEYS.get(key) or (_KNOWN if key in KNOWN_RECORDS else _UNKNOWN)
    flags |= odd
    return Reading(kind, key, value, frozenset(flags))


# Keys of rules in every spelling that is read, and whether they allow; with the usual ones as they are usually written.
_RULE_KEYS = {key: kind is LineKind.ALLOW for key, (kind, _) in KEYS.items() if kind in RULES}
_USUAL_KEYS = {"Allow": True, "Disallow": False, **_RULE_KEYS}
_LIKE_A_RULE = re.compile("[lL][oOaA][wW]").search  # in every one of them, however it is misspelt


def read_rule(line: str) -> tuple[bool, str] | None:
    """Read one line as a rule: whether it allows, and its pattern; ``None`` for any other. As `read_line`, but faster.

    :param line: its octets, one character each, without the line end; not longer than `MAX_LINE`.
    """
    text = line.partition("#")[0]
    key, colon, pattern = text.partition(":")
    if not colon:
        if not _LIKE_A_RULE(text):
            return None
        reading = read_line(line)
        return (reading.kind is LineKind.ALLOW, reading.value) if reading.kind in RULES else None
    allow = _USUAL_KEYS.get(key)
    if allow is None:
        allow = _RULE_KEYS.get(key.strip(BLANKS).lower())
    return None if allow is None else (allow, pattern.strip(BLANKS))


def as_text(octets: str) -> str:
    r"""Octets as text: UTF-8, and what is no UTF-8 as ``\\xNN``."""
    return octets if octets.isascii() else octets.encode("latin-1").decode("utf-8", "backslashreplace")


_BOMS = (  # the marks of UTF-32 first: that of UTF-16-LE is the beginning of that of UTF-32-LE
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF8[:2], "utf-8"),  # a mark that lost its end: Google's reference parser skips what is left
    (codecs.BOM_UTF8[:1], "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

_FIRST_OF_BOM = frozenset(mark[:1] for mark, _ in _BOMS)


def _decoded(body: bytes) -> tuple[bytes, str]:
    """The file as UTF-8 without its byte order mark, and what that stands for; one without a mark as it is."""
    for mark, encoding in _BOMS if body[:1] in _FIRST_OF_BOM else ():
        if body.startswith(mark):
            body = body[len(mark) :]
            return body if encoding == "utf-8" else body.decode(encoding, "replace").encode("utf-8"), encoding
    return body, ""


class Source(NamedTuple):
    """The part of a file that counts.

    :param octets: with every line end as LF, without a byte order mark.
    :param rest: what a cut left of the last line; empty where nothing was cut.
    :param truncated: the file is longer than the limit.
    :param size: octets of the file, up to the limit.
    :param encoding: what its byte order mark stands for; empty where it has none.
    """

    octets: bytes
    rest: bytes
    truncated: bool
    size: int
    encoding: str


def source_of(body: bytes, max_size: int) -> Source:
    """The part of a file that counts: its first octets up to a limit, less a last line that they cut short (2.5).

    :param body: the file.
    :param max_size: the limit in octets of the body.
    """
    truncated = len(body) > max_size
    whole_line = truncated and body[max_size : max_size + 1] in (b"\n", b"\r") and body[:1] not in b"\x00\xfe\xff"
    octets, encoding = _decoded(body[:max_size] if truncated else body)
    size = min(len(body), max_size)
    if b"\r" in octets:
        octets = octets.replace(b"\r\n", b"\n")
        octets = octets.replace(b"\r", b"\n")
    if not truncated or whole_line or octets.endswith(b"\n"):
        return Source(octets, b"", truncated, size, encoding)
    end = octets.rfind(b"\n") + 1
    return Source(octets[:end], octets[end : end + MAX_LINE], truncated, size, encoding)


def whole_lines(body: bytes, max_size: int) -> bytes:
    """The octets of a file that count, as they came: read without a limit, they say what the file says with it (2.5).

    :param body: the file.
    :param max_size: the limit in octets of the body.
    """
    cut = body[:max_size]
    if len(body) <= max_size or body[max_size : max_size + 1] in (b"\n", b"\r"):
        return cut
    return cut[: max(cut.rfind(b"\n"), cut.rfind(b"\r")) + 1]


def _is_utf8(octets: str) -> bool:
    try:
        octets.encode("latin-1").decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _flags_in_place(reading: Reading, in_group: bool) -> set[Flag]:
    """Flags that a value earns, and those of where a line stands."""
    flags = set(reading.flags)
    value = reading.value
    if not _is_utf8(value):
        flags.add(Flag.NOT_UTF8)
    if reading.kind is LineKind.USER_AGENT and not (value == "*" or re.fullmatch("[A-Za-z_-]+", value)):
        flags.add(Flag.INVALID_TOKEN)
    if reading.kind in RULES:
        if not in_group:
            flags.add(Flag.OUTSIDE_GROUP)
        if value and value[0] not in "/*":
            flags.add(Flag.NEVER_MATCHES)
        if " " in value or "\t" in value:
            flags.add(Flag.SPACE_IN_PATTERN)
    return flags


def records(source: Source) -> Iterator[Line]:
    """Every line of a file as a record, for explanations and the linter; a crawl never asks for them.

    :param source: the part of the file that counts.
    """
    in_group = False
    lines = source.octets.decode("latin-1").split("\n")
    if not lines[-1]:
        lines.pop()
    for number, line in enumerate(lines, 1):
        reading = read_line(line)
        in_group = in_group or reading.kind is LineKind.USER_AGENT
        flags = _flags_in_place(reading, in_group)
        if number == 1 and source.encoding:
            flags.add(Flag.BYTE_ORDER_MARK if source.encoding == "utf-8" else Flag.OTHER_ENCODING)
        yield Line(number, reading.kind, as_text(reading.key), as_text(reading.value), frozenset(flags))
    if source.rest:
        text = as_text(source.rest.decode("latin-1"))
        yield Line(len(lines) + 1, LineKind.JUNK, "", text, frozenset({Flag.CUT_OFF}))
