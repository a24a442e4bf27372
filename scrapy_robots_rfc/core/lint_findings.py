"""A finding of the linter, with its place in the file."""

from dataclasses import dataclass

from scrapy_robots_rfc.core.explanation import Flag, Line
from scrapy_robots_rfc.core.lines import BLANKS
from scrapy_robots_rfc.core.lint_codes import ABOUT_KEYS, TEXTS, Code, Severity, severity_of
from scrapy_robots_rfc.core.lint_suggestions import spelled_key
from scrapy_robots_rfc.core.text import shorten

# Maximum number of characters of a line to show.
_MAX_TEXT = 120


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
        return severity_of(self.code)


def make_finding(code: Flag | Code, line: Line, mark: str = "", **words: object) -> Finding:
    """Return a finding for a code.

    :param mark: the part of the value that the finding is about, if it is not the entire value.
    :param words: the placeholders in the texts of the code, except for `key` and `value`.
    """
    template = TEXTS[code]
    words = {"key": spelled_key(line), "value": shorten(line.value), **words}
    effect = template.effect.format(**words)
    meant = shorten(template.meant.format(**words))
    start, end = _place(code, line, mark)
    return Finding(code, line.number, line.text[:_MAX_TEXT], effect, meant, start + 1, end + 1)


def _place(code: Flag | Code, line: Line, mark: str) -> tuple[int, int]:
    """Return the offsets of the part of the line that a finding is about."""
    start = len(line.text) - len(line.text.lstrip(BLANKS))
    end = start + len(line.key)  # as long as the key in the line, which may have other letters
    target = mark or line.value
    if target and not (line.key and code in ABOUT_KEYS):
        start = line.text.find(target, line.text.find(line.value, end))
        end = start + len(target)
    # A line without a key and value is a comment.
    return (start, end) if end > start >= 0 else (0, max(1, len(line.text)))
