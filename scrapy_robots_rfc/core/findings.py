"""What the linter can say of a file: its codes, how bad each is, and one finding as a value.

In here: the table. Which line earns which code is `lint.py`; `docs/lint.md` is held to this table by a test.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Severity(enum.Enum):
    """How bad a finding is; the values are those of GitHub's annotations."""

    #: What the line asks for is not done.
    ERROR = "error"
    #: It is done, perhaps not by every crawler, or perhaps not what was meant.
    WARNING = "warning"
    #: It is done; it could be said more clearly.
    NOTICE = "notice"


class Code(enum.Enum):
    """What is found; the values are stable and stand in every output."""

    # What a line is flagged with when it is read: `lines.Flag`, by the same names.
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
    BYTE_ORDER_MARK = "byte_order_mark"
    OTHER_ENCODING = "other_encoding"
    # What follows from a line's value, or from where it stands.
    ALMOST_A_KEY = "almost_a_key"
    NO_RECORD = "no_record"
    MARKUP = "markup"
    FILE_TOO_LONG = "file_too_long"
    DOLLAR_INSIDE = "dollar_inside"
    BAD_ESCAPE = "bad_escape"
    INVALID_VALUE = "invalid_value"
    DELAY_OUTSIDE_GROUP = "delay_outside_group"
    RELATIVE_SITEMAP = "relative_sitemap"
    # What follows from the group that a line stands in.
    AGENTS_JOINED = "agents_joined"
    SPLIT_GROUP = "split_group"
    NO_RULES = "no_rules"
    EMPTY_RULE = "empty_rule"
    REPEATED_RULE = "repeated_rule"
    CONTRADICTION = "contradiction"


#: How bad each is, and what it is found on.
TABLE: dict[Code, tuple[Severity, str]] = {
    Code.MISSPELT_KEY: (Severity.WARNING, "a frequent misspelling of a key, such as `Dissallow`"),
    Code.NO_COLON: (Severity.WARNING, "a key and a value without the colon between them"),
    Code.UNKNOWN_KEY: (Severity.NOTICE, "a key that no crawler is known to read"),
    Code.OUTSIDE_GROUP: (Severity.ERROR, "a rule before the first user-agent line"),
    Code.INVALID_TOKEN: (Severity.WARNING, "a user-agent line whose value is neither `*` nor a product token"),
    Code.NEVER_MATCHES: (Severity.ERROR, "a pattern that begins neither with `/` nor with `*`"),
    Code.SPACE_IN_PATTERN: (Severity.WARNING, "a space or a tab inside a pattern"),
    Code.CONTROL_OCTET: (Severity.WARNING, "a control octet inside a line"),
    Code.NOT_UTF8: (Severity.WARNING, "a value that is not UTF-8"),
    Code.TOO_LONG: (Severity.ERROR, "a line of more than 16,664 octets"),
    Code.CUT_OFF: (Severity.ERROR, "the line in which the size limit lies"),
    Code.BYTE_ORDER_MARK: (Severity.NOTICE, "the first line, where a byte order mark of UTF-8 stands before it"),
    Code.OTHER_ENCODING: (Severity.WARNING, "the first line of a file in UTF-16 or UTF-32"),
    Code.ALMOST_A_KEY: (Severity.ERROR, "a key that nobody reads, close to one that is read, such as `Disallowed`"),
    Code.NO_RECORD: (Severity.WARNING, "a line that is neither `key: value` nor a comment"),
    Code.MARKUP: (Severity.ERROR, "a file that begins as HTML or XML does"),
    Code.FILE_TOO_LONG: (Severity.ERROR, "a file that goes on after the size limit"),
    Code.DOLLAR_INSIDE: (Severity.WARNING, "a `$` that is not the last character of its pattern"),
    Code.BAD_ESCAPE: (Severity.WARNING, "a `%` in a pattern that two hexadecimal digits do not follow"),
    Code.INVALID_VALUE: (Severity.WARNING, "a Crawl-delay, Request-rate or Visit-time that has no such value"),
    Code.DELAY_OUTSIDE_GROUP: (Severity.WARNING, "one of these before the first user-agent line"),
    Code.RELATIVE_SITEMAP: (Severity.WARNING, "a sitemap that is no absolute http or https URL"),
    Code.AGENTS_JOINED: (
        Severity.WARNING,
        "a user-agent line set apart from one above it, without a rule between them",
    ),
    Code.SPLIT_GROUP: (Severity.NOTICE, "a group for a crawler that an earlier group names, too"),
    Code.NO_RULES: (Severity.NOTICE, "a last group without a rule"),
    Code.EMPTY_RULE: (Severity.NOTICE, "an empty rule in a group that has others"),
    Code.REPEATED_RULE: (Severity.NOTICE, "a rule that stands in its group already"),
    Code.CONTRADICTION: (Severity.WARNING, "an allow and a disallow with one pattern in one group"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to say of a line. Its texts hold what the site wrote: escape them before they go to a terminal.

    :param code: what it is.
    :param line: its number, from 1.
    :param text: the line as it is read, without comment; shortened.
    :param effect: what a crawler makes of it, as RFC 9309 and this package read it.
    :param meant: what was probably meant, or helps; empty where nobody can tell.
    """

    code: Code
    line: int
    text: str
    effect: str
    meant: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return TABLE[self.code][0]
