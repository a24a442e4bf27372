"""The codes of the linter, with the severity and the text of each finding."""

import enum
from typing import NamedTuple

from scrapy_robots_rfc.core.findings import Flag
from scrapy_robots_rfc.core.lines import MAX_LINE


class Severity(enum.Enum):
    """How bad a finding is. GitHub's annotations have the same values."""

    #: The line has no effect.
    ERROR = "error"
    #: The line has an effect, but not on every crawler, or not the one that was meant.
    WARNING = "warning"
    #: The line works as intended but could be clearer.
    NOTICE = "notice"


class Code(enum.StrEnum):
    """Findings besides the flags of a line. The values are stable: all outputs have them."""

    # Findings about the value of a line, or its place in the file.
    ALMOST_A_KEY = enum.auto()
    NO_RECORD = enum.auto()
    MARKUP = enum.auto()
    FILE_TOO_LONG = enum.auto()
    DOLLAR_INSIDE = enum.auto()
    CUT_BY_COMMENT = enum.auto()
    REGULAR_EXPRESSION = enum.auto()
    INVALID_ESCAPE = enum.auto()
    INVALID_VALUE = enum.auto()
    DECIMAL_COMMA = enum.auto()
    NOT_OBEYED = enum.auto()
    RECORD_OUTSIDE_GROUP = enum.auto()
    RELATIVE_URL = enum.auto()
    TWO_URLS = enum.auto()
    # Findings about the group of a line.
    NAMES_NOBODY = enum.auto()
    AGENTS_JOINED = enum.auto()
    SPLIT_GROUP = enum.auto()
    NAMED_TWICE = enum.auto()
    SAME_TOKEN = enum.auto()
    POLICY_GROUP = enum.auto()
    NO_RULES = enum.auto()
    REPEATED_RULE = enum.auto()
    CONTRADICTION = enum.auto()
    DELAYS_DIFFER = enum.auto()
    # Findings about records on the use of pages, see `preferences.py`.
    USE_VOID = enum.auto()
    USE_NO_VALUE = enum.auto()
    USE_UNKNOWN = enum.auto()
    SIGNAL_OUTSIDE_GROUP = enum.auto()


class Text(NamedTuple):
    """The text of a finding.

    Braces contain the usual spelling of the key, the value of the line, or a word that the check
    gives.

    :param effect: what a crawler makes of the line.
    :param meant: what was probably meant; empty if that is unknown.
    """

    effect: str
    meant: str


AGENT_ABOVE = "a line `User-agent: *` above it"
_AS_UTF8 = "the file saved as UTF-8"
_OUTSIDE = "ignored: it belongs to no group, because no user-agent line is above it"

_ERRORS: dict[Flag | Code, Text] = {
    Flag.OUTSIDE_GROUP: Text(f"{_OUTSIDE} (RFC 9309, 2.2.2)", AGENT_ABOVE),
    Flag.NEVER_MATCHES: Text(
        "it matches no URL, because every path begins with `/` (RFC 9309, 2.2.2)",
        "{rule}",
    ),
    Flag.TOO_LONG: Text(f"everything after byte {MAX_LINE:,} is ignored", "several shorter lines"),
    Code.ALMOST_A_KEY: Text(
        "ignored: it is not read as `{similar}`, because keys are compared whole (RFC 9309, 2.2)",
        "{similar}: {value}",
    ),
    Code.MARKUP: Text(
        "this is a web page; {rules}",
        "serve a plain text file, or answer 404 if the site has no robots.txt",
    ),
    Code.FILE_TOO_LONG: Text(
        "the lines below it are beyond the size limit and are ignored (RFC 9309, 2.5)",
        "a shorter file",
    ),
    Code.RECORD_OUTSIDE_GROUP: Text("{effect}", AGENT_ABOVE),
    Code.USE_VOID: Text(
        "void as a whole: it is not clear what it permits (RFC 9651)",
        "for example: Content-Usage: train-ai=n, search=y",
    ),
    Code.NAMES_NOBODY: Text("{effect}", "{meant}"),
}
_WARNINGS: dict[Flag | Code, Text] = {
    Flag.MISSPELT_KEY: Text(
        "read as `{key}` by this crawler and many others; the rest ignore it", "{key}: {value}"
    ),
    Flag.NO_COLON: Text(
        "read as if it had a colon by this crawler and some others; the rest ignore it",
        "{key}: {value}",
    ),
    Flag.INVALID_TOKEN: Text("{effect}", "{meant}"),
    Flag.SPACE_IN_PATTERN: Text(
        "part of the pattern, percent-encoded",
        "`%20` in its place; or two lines, if these are two patterns",
    ),
    Flag.CONTROL_OCTET: Text(
        "percent-encoded in a value; a key that contains it is unknown",
        "the line without the control character",
    ),
    Flag.NOT_UTF8: Text("its bytes are percent-encoded one by one", _AS_UTF8),
    Flag.OTHER_ENCODING: Text(
        "converted by this crawler; other crawlers cannot read it and allow everything"
        " (RFC 9309, 2.3)",
        _AS_UTF8,
    ),
    Code.NO_RECORD: Text("ignored: it is not a record", "{meant}"),
    Code.DOLLAR_INSIDE: Text(
        "an ordinary character here: only a last `$` is the end of a URL (RFC 9309, 2.2.3)",
        "`%24` in its place, or nothing after it",
    ),
    Code.CUT_BY_COMMENT: Text(
        "the pattern is `{value}`: a `#` begins a comment (RFC 9309, 2.2)",
        "`%23` in its place, or a space before the comment",
    ),
    Code.REGULAR_EXPRESSION: Text(
        "not a regular expression: only `*` and a last `$` are special (RFC 9309, 2.2.3)",
        "{rule}",
    ),
    Code.INVALID_ESCAPE: Text(
        "a `%` without two hexadecimal digits after it is a literal `%`", "`%25` in its place"
    ),
    Code.INVALID_VALUE: Text("{effect}", "for example: {example}"),
    Code.DECIMAL_COMMA: Text(
        "read as {seconds:g} s by this crawler; others read another number or ignore it",
        "{key}: {seconds:g}",
    ),
    Code.NOT_OBEYED: Text("{effect}", "{meant}"),
    Code.RELATIVE_URL: Text(
        "read as relative to the robots.txt by this crawler; many others ignore it",
        "the whole URL, such as https://www.example/{name}.xml",
    ),
    Code.TWO_URLS: Text("read as one URL", "a line for each URL"),
    Code.AGENTS_JOINED: Text(
        "it ends no group: the rules below it apply to line {above}, too (RFC 9309, 2.1)",
        "a rule above it, such as an empty `Disallow:`",
    ),
    Code.NAMED_TWICE: Text(
        "its rules and the rules of line {above} both apply (RFC 9309, 2.2.1); some crawlers obey"
        " only one group",
        "one group with the rules of both",
    ),
    Code.SAME_TOKEN: Text(
        "read as `{token}` by many crawlers, as line {above} is: both groups apply to them",
        "names that differ in their letters",
    ),
    Code.CONTRADICTION: Text(
        "as specific as line {above}; Allow wins (RFC 9309, 2.2.2)", "one of them"
    ),
    Code.DELAYS_DIFFER: Text(
        "line {above} has another delay; this crawler obeys the longest, others one of them",
        "one of them",
    ),
    Code.USE_NO_VALUE: Text(
        "it neither permits nor refuses `{label}`", "{label}={yes} or {label}={no}"
    ),
    Code.SIGNAL_OUTSIDE_GROUP: Text(
        "it counts for every group that does not say otherwise",
        "the same line in each group, for crawlers that ignore it here",
    ),
}
_NOTICES: dict[Flag | Code, Text] = {
    Flag.UNKNOWN_KEY: Text("ignored: no crawler is known to read such a record", ""),
    Flag.BYTE_ORDER_MARK: Text(
        "skipped by this crawler and most others; the rest read it as part of the key",
        f"{_AS_UTF8} without a byte order mark",
    ),
    Code.SPLIT_GROUP: Text(
        "it has the same rules as the group of line {above} (RFC 9309, 2.2.1)", "one group"
    ),
    Code.POLICY_GROUP: Text(
        "not a crawler: the rules of its group say which pages may be used for `{label}`", ""
    ),
    Code.NO_RULES: Text(
        "everything is allowed, because the group has no rules (RFC 9309, 2.2.2)",
        "an empty `Disallow:`, to say so",
    ),
    Code.REPEATED_RULE: Text("it changes nothing: line {above} says the same", ""),
    Code.USE_UNKNOWN: Text("read, but no crawler is known to ask for `{label}`", ""),
}
#: Codes whose `meant` is advice or an example, and not what was meant.
ADVICE = frozenset({Code.MARKUP, Code.INVALID_VALUE, Code.USE_VOID})
#: The texts of all codes.
TEXTS: dict[Flag | Code, Text] = {**_ERRORS, **_WARNINGS, **_NOTICES}


def severity_of(code: Flag | Code) -> Severity:
    """Return how bad the findings of a code are."""
    if code in _ERRORS:
        return Severity.ERROR
    return Severity.WARNING if code in _WARNINGS else Severity.NOTICE
