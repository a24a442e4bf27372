"""A finding of the linter, with its place in the file."""

import re
from dataclasses import dataclass

from scrapy_robots_rfc.core.explanation import Flag, Line
from scrapy_robots_rfc.core.lines import BLANKS
from scrapy_robots_rfc.core.lint_codes import ABOUT_KEYS, SEVERITIES, TEXTS, Code, Severity
from scrapy_robots_rfc.core.lint_suggestions import (
    INVISIBLE,
    QUOTES,
    find_invalid_byte,
    spelled_key,
)
from scrapy_robots_rfc.core.text import shorten

# Maximum number of characters of a line to show.
_MAX_TEXT = 120

#: Code -> the part of a line that it is about, if it is not the entire key or value.
MARKS: dict[Flag | Code, re.Pattern[str]] = {
    Flag.SPACE_IN_PATTERN: re.compile("[ \t]"),
    Flag.CONTROL_OCTET: re.compile("[\x00-\x08\x0a-\x1f\x7f]"),
    Code.CUT_BY_COMMENT: re.compile("#"),
    Code.DOLLAR_INSIDE: re.compile(r"\$(?=.)", re.DOTALL),
    Code.INVALID_ESCAPE: re.compile("%(?![0-9A-Fa-f]{2}).{0,2}"),
    Code.INVISIBLE_CHARACTER: re.compile(f"[{INVISIBLE}]"),
    Code.HOST_OR_QUOTE: re.compile(rf"//www\.[^/]*|[{QUOTES}]"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in a line.

    The strings contain text from the site, so escape them before printing them to a terminal.

    :param code: the kind of mistake.
    :param line: the line number, starting at 1.
    :param text: the line as written, cut off if it is too long.
    :param effect: how crawlers interpret the line.
    :param meant: the suggested correction, or an empty string.
    :param column: the first character that the finding is about, starting at 1.
    :param end_column: the character after the last one.
    """

    code: Flag | Code
    line: int
    text: str
    effect: str
    meant: str
    column: int = 1
    end_column: int = 1

    @property
    def severity(self) -> Severity:
        """The severity of the mistake."""
        return SEVERITIES[self.code]


def make_finding(code: Flag | Code, line: Line, **words: object) -> Finding:
    """Return a finding for a code.

    :param words: the placeholders in the texts of the code, except for `key` and `value`.
    """
    template = TEXTS[code]
    words = {"key": spelled_key(line), "value": shorten(line.value), **words}
    effect = template.effect.format(**words)
    meant = shorten(template.meant.format(**words))
    if "{" in template.meant and (Flag.NOT_UTF8 in line.flags or find_invalid_byte(meant)):
        meant = ""  # the suggestion may contain `\xa0` for an invalid byte
    start, end = _place(code, line)
    return Finding(code, line.number, line.text[:_MAX_TEXT], effect, meant, start + 1, end + 1)


def _place(code: Flag | Code, line: Line) -> tuple[int, int]:
    """Return the offsets of the part of the line that a finding is about."""
    start = len(line.text) - len(line.text.lstrip(BLANKS))
    end = start + len(line.key)  # as long as the key in the line, which may have other letters
    if line.value and not (line.key and code in ABOUT_KEYS):
        start = line.text.find(line.value, end)
        end = start + len(line.value)
    if code in MARKS:
        mark = MARKS[code].search(line.text, start) or MARKS[code].search(line.text)
        start, end = mark.span() if mark else (start, end)
    # A line without a key and value is a comment.
    return (start, end) if end > start >= 0 else (0, max(1, len(line.text)))
