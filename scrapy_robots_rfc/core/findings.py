"""What the linter can find: a table of codes. Some have the values of the flags in `lines.py`."""

from __future__ import annotations

import enum
from typing import Self


class Severity(enum.Enum):
    """How bad a finding is. The values are those of GitHub's annotations."""

    #: The line has no effect.
    ERROR = "error"
    #: The line has an effect, but perhaps not on every crawler, or not the one that was meant.
    WARNING = "warning"
    #: The line has the effect that was meant, and could say so more clearly.
    NOTICE = "notice"


_ERROR, _WARNING, _NOTICE = Severity.ERROR, Severity.WARNING, Severity.NOTICE


class Code(enum.Enum):
    """What is found: a stable value, which every output contains, how bad it is, and on what it is found.

    A test compares `docs/lint.md` with this table.
    """

    _value_: str
    severity: Severity
    description: str

    def __new__(cls, value: str, severity: Severity, description: str) -> Self:
        """Make the member whose value is the first of the three."""
        code = object.__new__(cls)
        code._value_, code.severity, code.description = value, severity, description
        return code

    # The flags of a line, see `Flag` in `lines.py`.
    MISSPELT_KEY = "misspelt_key", _WARNING, "a frequent misspelling of a key, such as `Dissallow`"
    NO_COLON = "no_colon", _WARNING, "a key and a value without the colon between them"
    UNKNOWN_KEY = "unknown_key", _NOTICE, "a key that no crawler is known to read"
    OUTSIDE_GROUP = "outside_group", _ERROR, "a rule before the first user-agent line"
    INVALID_TOKEN = (
        "invalid_token",
        _WARNING,
        "a user-agent line whose value is neither `*` nor a product token",
    )
    NEVER_MATCHES = "never_matches", _ERROR, "a pattern that begins neither with `/` nor with `*`"
    SPACE_IN_PATTERN = "space_in_pattern", _WARNING, "a space or a tab inside a pattern"
    CONTROL_OCTET = "control_octet", _WARNING, "a control octet inside a line"
    NOT_UTF8 = "not_utf8", _WARNING, "a value that is not UTF-8"
    TOO_LONG = "too_long", _ERROR, "a line of more than 16,664 octets"
    CUT_OFF = "cut_off", _ERROR, "the line in which the size limit lies"
    BYTE_ORDER_MARK = (
        "byte_order_mark",
        _NOTICE,
        "the first line, where a byte order mark of UTF-8 stands before it",
    )
    OTHER_ENCODING = "other_encoding", _WARNING, "the first line of a file in UTF-16 or UTF-32"
    # What the value of a line shows, or its place in the file.
    ALMOST_A_KEY = (
        "almost_a_key",
        _ERROR,
        "a key that nobody reads, close to one that is read, such as `Disallowed`",
    )
    NO_RECORD = "no_record", _WARNING, "a line that is neither `key: value` nor a comment"
    MARKUP = "markup", _ERROR, "a file that begins as HTML or XML does"
    FILE_TOO_LONG = "file_too_long", _ERROR, "a file that goes on after the size limit"
    DOLLAR_INSIDE = "dollar_inside", _WARNING, "a `$` that is not the last character of its pattern"
    BAD_ESCAPE = (
        "bad_escape",
        _WARNING,
        "a `%` in a pattern that two hexadecimal digits do not follow",
    )
    INVALID_VALUE = (
        "invalid_value",
        _WARNING,
        "a Crawl-delay, Request-rate or Visit-time that has no such value",
    )
    RECORD_OUTSIDE_GROUP = (
        "record_outside_group",
        _ERROR,
        "one of these, or of use, before the first user-agent line",
    )
    RELATIVE_URL = (
        "relative_url",
        _WARNING,
        "a Sitemap or a License that is no absolute http or https URL",
    )
    # What the group of a line shows.
    AGENTS_JOINED = (
        "agents_joined",
        _WARNING,
        "a user-agent line set apart from one above it, without a rule between them",
    )
    SPLIT_GROUP = "split_group", _NOTICE, "a group for a crawler that an earlier group names, too"
    NO_RULES = "no_rules", _NOTICE, "a last group without a rule"
    EMPTY_RULE = "empty_rule", _NOTICE, "an empty rule in a group that has others"
    REPEATED_RULE = "repeated_rule", _NOTICE, "a rule that stands in its group already"
    CONTRADICTION = (
        "contradiction",
        _WARNING,
        "an allow and a disallow with one pattern in one group",
    )
    # What records about the use of pages show, see `preferences.py`.
    USE_VOID = "use_void", _ERROR, "a Content-Usage that is no dictionary of RFC 9651"
    USE_NO_VALUE = (
        "use_no_value",
        _WARNING,
        "a label of use with a value that says neither yes nor no",
    )
    USE_UNKNOWN = "use_unknown", _NOTICE, "a label of use that is in no draft this package knows"
    SIGNAL_OUTSIDE_GROUP = (
        "signal_outside_group",
        _WARNING,
        "a Content-Signal before the first user-agent line",
    )
