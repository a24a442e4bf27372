"""Normalize the content of a file, and parse individual lines (RFC 9309, 2.2)."""

import codecs
import enum
import re
from dataclasses import dataclass
from typing import NamedTuple

from scrapy_robots_rfc.core.text import lower_ascii

#: Maximum line length in bytes. Anything after that is ignored. As in Google's reference parser, it
#: is 8 times the maximum URL length in old browsers.
MAX_LINE = 16_664

BLANKS = " \t"  # RFC 9309, 2.2: WS = %x20 / %x09


class LineKind(enum.Enum):
    """The kinds of lines."""

    BLANK = "blank"
    #: A line that contains only a comment (`EmptyLine` in RFC 9309, 2.2).
    COMMENT = "comment"
    USER_AGENT = "user-agent"
    ALLOW = "allow"
    DISALLOW = "disallow"
    #: Any other `key: value` line (RFC 9309, 2.2.4).
    RECORD = "record"
    #: Anything else.
    JUNK = "junk"


# A named tuple would use more memory, and a hostile file may contain 100,000 records.
@dataclass(frozen=True, slots=True)
class Record:
    """A record other than a user-agent line or rule (RFC 9309, 2.2.4).

    :param key: the key, in lowercase.
    :param value: the value as written. `records_in` decodes it as Latin-1, and `records_of` as
        UTF-8.
    :param line: the line number, starting at 1.
    """

    key: str
    value: str
    line: int


#: Key of a record that takes a path -> True if the record allows AI training on that path.
TRAINING = {"disallowaitraining": False, "allowaitraining": True}
#: Keys that are not defined in RFC 9309 but are supported by some crawlers.
KNOWN_RECORDS = frozenset(
    {"sitemap", "crawl-delay", "request-rate", "visit-time", "host", "clean-param", "noindex"}
    | {"content-signal", "content-usage", "license", *TRAINING}
)
#: Common misspellings that are accepted as keys.
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
#: The keys of rules in lowercase, including misspellings.
RULE_KEYS = tuple(key for key, kind in KEYS.items() if kind in RULES)

_words_of = re.compile("[^ \t]+").findall


def read_line(line: str) -> tuple[LineKind, str, str]:
    """Parse a line leniently, as described in `docs/rfc9309.md`. This never raises.

    :param line: the line without its line ending, decoded as Latin-1.
    :returns: the kind, the key in lowercase, and the value. If the line has no key, the value is
        the entire line.
    """
    text, comment_sign, _ = line[:MAX_LINE].partition("#")
    text = text.strip(BLANKS)
    if not text:
        return LineKind.COMMENT if comment_sign else LineKind.BLANK, "", ""
    key, colon, value = text.partition(":")
    if not colon:  # as in Google's reference parser, accept `Disallow /x`, but only two words
        words = _words_of(text)
        if len(words) != 2 or lower_ascii(words[0]) not in KEYS:
            return LineKind.JUNK, "", text
        key, value = words
    key = lower_ascii(key.strip(BLANKS))
    return KEYS.get(key, LineKind.RECORD), key, value.strip(BLANKS)


def as_text(characters: str) -> str:
    r"""Decode the bytes of Latin-1 text as UTF-8, escaping invalid bytes as ``\xNN``."""
    if characters.isascii():
        return characters
    return characters.encode("latin-1").decode("utf-8", "backslashreplace")


# UTF-8 byte order marks, including marks that were encoded twice by mistake. Like Google's
# reference parser, we also skip an incomplete mark.
_utf8_marks = re.compile(b"(?:\xef\xbb\xbf|\xc3\xaf\xc2\xbb\xc2\xbf)++|\xef\xbb?").match
# Other byte order marks. UTF-32-LE must come before UTF-16-LE, because the mark for UTF-16-LE is a
# prefix of it.
_WIDE_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Maximum number of whitespace-only lines to strip, which takes about 5 ms.
_MAX_BLANK_LINES = 50_000
# A line that only contains whitespace: `  `. If it contains many spaces, ` ++` is up to a tenth
# faster than `[ \t]++`.
_blank_line = re.compile(b"\n(?: ++|[ \t]++)(?=\n|\\Z)")


class Content(NamedTuple):
    """The content of a file up to the size limit (RFC 9309, 2.5).

    :param data: the complete lines in UTF-8, without byte order marks. Every line, including the
        first, is preceded by a newline, so that the same regular expressions match any line.
    :param truncated: True if the file is longer than the limit.
    :param size: the size of the file in bytes, capped at the limit.
    :param encoding: the encoding indicated by the byte order mark, or an empty string if there is
        none.
    """

    data: bytes
    truncated: bool
    size: int
    encoding: str


def content_of(body: bytes, max_size: int) -> Content:
    """Decode and normalize a file, dropping everything after the last full line within the limit.

    :param body: the file.
    :param max_size: the limit in bytes.
    """
    data = body[:max_size]
    size = len(data)
    truncated = size < len(body)
    encoding = next((name for mark, name in _WIDE_MARKS.items() if data.startswith(mark)), "")
    if encoding:
        data = data.decode(encoding, "replace").encode()  # with a UTF-8 byte order mark
    # A line that is cut off may mean something else, such as `Disallow: /` for `Disallow: /a`, so
    # drop it. In UTF-16 and UTF-32, we cannot tell whether the limit falls between two lines.
    drop_last_line = truncated and (encoding != "" or body[max_size] not in b"\n\r")
    marks = _utf8_marks(data)
    if marks is not None:
        encoding = encoding or "utf-8"
        data = data[marks.end() :]
    data = b"\n" + data  # every line is preceded by a newline; see `Content`
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n " in data or b"\n\t" in data:
        # Blank lines slow down every search, and a hostile file may contain 250,000 of them.
        data = _blank_line.sub(b"\n", data, count=_MAX_BLANK_LINES)
    end = data.rfind(b"\n") + 1 if drop_last_line else len(data)
    return Content(data[:end], truncated, size, encoding)
