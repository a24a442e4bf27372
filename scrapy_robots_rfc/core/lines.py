"""Divide a file into lines, and read one line (RFC 9309, 2.2).

A crawl (`groups.py`, `ruleset.py`) and the commands (`findings.py`) both use `read_line`, so that
they agree.
"""

import codecs
import enum
import re
from dataclasses import dataclass
from typing import NamedTuple

#: Bytes of a line that count: 8 times 2,083, the longest URL that browsers once accepted (as in
#: Google's reference parser).
MAX_LINE = 16_664

BLANKS = " \t"  # RFC 9309, 2.2: WS = %x20 / %x09


class LineKind(enum.Enum):
    """The kinds of lines."""

    BLANK = "blank"
    #: A line with a comment and nothing else (RFC 9309, 2.2: `EmptyLine`).
    COMMENT = "comment"
    USER_AGENT = "user-agent"
    ALLOW = "allow"
    DISALLOW = "disallow"
    #: Any other `key: value` line (RFC 9309, 2.2.4).
    RECORD = "record"
    #: Any other line.
    JUNK = "junk"


# A named tuple takes more memory, and a hostile file has 100,000 records.
@dataclass(frozen=True, slots=True)
class Record:
    """A record that is neither a user-agent line nor a rule (RFC 9309, 2.2.4).

    :param key: its key in lower case.
    :param value: as the file writes it: text, or bytes, one character each.
    :param line: its line number, from 1.
    """

    key: str
    value: str
    line: int


#: Keys of records with paths -> whether these may be used for AI training.
TRAINING = {"disallowaitraining": False, "allowaitraining": True}
#: Keys of records that RFC 9309 does not define and that some crawlers read.
KNOWN_RECORDS = frozenset(
    {"sitemap", "crawl-delay", "request-rate", "visit-time", "host", "clean-param", "noindex"}
    | {"content-signal", "content-usage", "license", *TRAINING}
)
#: Frequent misspellings of keys, which are read as the keys.
MISSPELT: dict[str, LineKind] = {
    "useragent": LineKind.USER_AGENT,
    "user agent": LineKind.USER_AGENT,
    "dissallow": LineKind.DISALLOW,
    "dissalow": LineKind.DISALLOW,
    "disalow": LineKind.DISALLOW,
    "diasllow": LineKind.DISALLOW,
    "disallaw": LineKind.DISALLOW,
    "site-map": LineKind.RECORD,
}
#: All known keys.
KEYS: dict[str, LineKind] = {
    "user-agent": LineKind.USER_AGENT,
    "allow": LineKind.ALLOW,
    "disallow": LineKind.DISALLOW,
    **dict.fromkeys(KNOWN_RECORDS, LineKind.RECORD),
    **MISSPELT,
}
RULES = (LineKind.ALLOW, LineKind.DISALLOW)
#: The keys of rules, in lower case.
RULE_KEYS = tuple(key for key, kind in KEYS.items() if kind in RULES)

_words_of = re.compile("[^ \t]+").findall


def read_line(line: str) -> tuple[LineKind, str, str]:
    """Read one line (RFC 9309, 2.2) as leniently as `docs/rfc9309.md` says. Never raises.

    :param line: its bytes, one character each, without the line end.
    :returns: its kind, its key in lower case, and its value. A line without a key is all value.
    """
    text, comment, _ = line[:MAX_LINE].partition("#")
    text = text.strip(BLANKS)
    if not text:
        return LineKind.COMMENT if comment else LineKind.BLANK, "", ""
    key, colon, value = text.partition(":")
    if not colon:
        words = _words_of(text)
        if len(words) != 2 or words[0].lower() not in KEYS:
            return LineKind.JUNK, "", text
        key, value = words
    key = key.strip(BLANKS).lower()
    return KEYS.get(key, LineKind.RECORD), key, value.strip(BLANKS)


def as_text(characters: str) -> str:
    r"""Decode bytes, one character each, as UTF-8; other bytes become ``\\xNN``."""
    if characters.isascii():
        return characters
    return characters.encode("latin-1").decode("utf-8", "backslashreplace")


# Byte order marks of UTF-8, also encoded twice, because a program read the mark as text. Google's
# reference parser skips a mark without its end, too.
_utf8_marks = re.compile(b"(?:\xef\xbb\xbf|\xc3\xaf\xc2\xbb\xc2\xbf)++|\xef\xbb?").match
# Other marks. UTF-32-LE comes before UTF-16-LE, because its mark begins with the other one.
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}


# Maximum lines of blanks that are shortened, which takes five milliseconds.
_MAX_BLANK_LINES = 50_000
# A line of blanks alone, after the end of the line before it.
_blank_line = re.compile(b"\n[ \t]++(?=\n|\\Z)")


class Content(NamedTuple):
    """The part of a file that counts, up to the size limit (RFC 9309, 2.5).

    :param data: the whole lines in UTF-8, without byte order marks. An LF precedes each line,
        the first one too, so that all lines are found in the same way.
    :param truncated: whether the file is longer than the limit.
    :param size: bytes of the file, up to the limit.
    :param encoding: the encoding that its byte order mark names, or empty if it has none.
    """

    data: bytes
    truncated: bool
    size: int
    encoding: str


def content_of(body: bytes, max_size: int) -> Content:
    """Return the part of a file that counts: its first bytes, without a line that the limit cuts.

    :param body: the file.
    :param max_size: the limit, in bytes.
    """
    data = body[:max_size]
    truncated = len(data) < len(body)
    size = len(data)
    encoding = ""
    for mark, wide_encoding in _WIDE_MARKS.items():
        if data.startswith(mark):
            encoding = wide_encoding
            data = data[len(mark) :].decode(encoding, "replace").encode()
            break
    # Whether the last line does not count: the limit cuts it, or may cut it in a wide encoding.
    cut = truncated and (encoding != "" or body[max_size] not in b"\n\r")
    marks = _utf8_marks(data)
    if marks is not None:
        encoding = encoding or "utf-8"
        data = data[marks.end() :]
    data = b"\n" + data
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n " in data or b"\n\t" in data:
        # Blanks alone take time in each search. A hostile file has 250,000 such lines.
        data = _blank_line.sub(b"\n", data, count=_MAX_BLANK_LINES)
    end = data.rfind(b"\n") + 1 if cut else len(data)
    return Content(data[:end], truncated, size, encoding)
