"""The linter's codes, with their severities and texts."""

import enum
from typing import NamedTuple

from scrapy_robots_rfc.core.explanation import Flag
from scrapy_robots_rfc.core.lines import MAX_LINE


class Severity(enum.Enum):
    """The severity of a finding. The values match GitHub's annotation levels."""

    #: The line has no effect.
    ERROR = "error"
    #: The line does not work for every crawler, or probably does not do what was intended.
    WARNING = "warning"
    #: The line works as intended but could be clearer.
    NOTICE = "notice"


class Code(enum.StrEnum):
    """Codes for findings other than `Flag`. They are part of the output, so keep them stable."""

    # Problems with a line's value or position.
    ALMOST_A_KEY = enum.auto()
    NO_RECORD = enum.auto()
    MARKUP = enum.auto()
    NOT_TEXT = enum.auto()
    FILE_TOO_LONG = enum.auto()
    DOLLAR_INSIDE = enum.auto()
    CUT_BY_COMMENT = enum.auto()
    REGULAR_EXPRESSION = enum.auto()
    HOST_OR_QUOTE = enum.auto()
    INVALID_ESCAPE = enum.auto()
    INVISIBLE_CHARACTER = enum.auto()
    INVALID_VALUE = enum.auto()
    DECIMAL_COMMA = enum.auto()
    DELAY_UNIT = enum.auto()
    NOT_OBEYED = enum.auto()
    RECORD_OUTSIDE_GROUP = enum.auto()
    RELATIVE_URL = enum.auto()
    TWO_URLS = enum.auto()
    REPEATED_LINE = enum.auto()
    # Problems with a group.
    NAMES_NOBODY = enum.auto()
    SEVERAL_NAMES = enum.auto()
    OBSOLETE_NAME = enum.auto()
    AGENTS_JOINED = enum.auto()
    REPEATED_GROUP = enum.auto()
    NAMED_TWICE = enum.auto()
    SAME_TOKEN = enum.auto()
    POLICY_GROUP = enum.auto()
    NO_RULES = enum.auto()
    REPEATED_RULE = enum.auto()
    USELESS_RULE = enum.auto()
    FIRST_MATCH = enum.auto()
    CONTRADICTION = enum.auto()
    DELAYS_DIFFER = enum.auto()
    # Problems with records about the use of pages; see `preferences.py`.
    USE_VOID = enum.auto()
    USE_NO_VALUE = enum.auto()
    USE_UNKNOWN = enum.auto()
    SIGNAL_OUTSIDE_GROUP = enum.auto()


class Text(NamedTuple):
    """The text of a finding. `_make_finding` in `lint.py` fills in the placeholders.

    :param effect: how crawlers interpret the line.
    :param meant: the suggested correction, or an empty string.
    """

    effect: str
    meant: str


_AGENT_ABOVE = "a user-agent line above it"
_AS_UTF8 = "the file saved as UTF-8"
_NO_GROUP = "because there is no user-agent line above it"

_ERRORS: dict[Flag | Code, Text] = {
    Flag.OUTSIDE_GROUP: Text(f"ignored, {_NO_GROUP} (RFC 9309, 2.2.2)", _AGENT_ABOVE),
    Flag.NEVER_MATCHES: Text(
        "it matches no URL, because every path starts with `/`{instead} (RFC 9309, 2.2.2)",
        "{rule}",
    ),
    Flag.TOO_LONG: Text(f"everything after byte {MAX_LINE:,} is ignored", ""),
    Code.ALMOST_A_KEY: Text(
        "ignored, because {problem} (RFC 9309, 2.2)",
        "{meant}",
    ),
    Code.MARKUP: Text(
        "{effect}",
        "serve a plain text file, or return 404 if the site has no robots.txt",
    ),
    Code.NOT_TEXT: Text(
        "a binary file, or UTF-16 or UTF-32 without a byte order mark, so crawlers cannot read it"
        " and allow everything",
        _AS_UTF8,
    ),
    Code.FILE_TOO_LONG: Text(
        "all lines after this one are ignored because of the size limit (RFC 9309, 2.5)",
        "a shorter file",
    ),
    Code.RECORD_OUTSIDE_GROUP: Text(f"ignored{{by}}, {_NO_GROUP}{{others}}", _AGENT_ABOVE),
    Code.USE_VOID: Text(
        "ignored, because it is not a valid dictionary (RFC 9651)",
        "for example: Content-Usage: train-ai=n, search=y",
    ),
    Code.NAMES_NOBODY: Text("{effect}", "{meant}"),
}
_WARNINGS: dict[Flag | Code, Text] = {
    Flag.MISSPELT_KEY: Text(
        "this crawler and many others read it as `{key}`, but some ignore it", "{meant}"
    ),
    Flag.NO_COLON: Text(
        "this crawler and some others accept the missing colon, but the rest ignore the line",
        "{meant}",
    ),
    Flag.INVALID_TOKEN: Text("{effect}", "{meant}"),
    Flag.SPACE_IN_PATTERN: Text("the space is part of the pattern", "{rule}"),
    Flag.CONTROL_OCTET: Text(
        "the control character is part of the key or value",
        "the line without the control character",
    ),
    Flag.NOT_UTF8: Text("each invalid byte is percent-encoded", _AS_UTF8),
    Flag.OTHER_ENCODING: Text(
        "this crawler converts the file, but other crawlers cannot read it and allow everything"
        " (RFC 9309, 2.3)",
        _AS_UTF8,
    ),
    Code.NO_RECORD: Text("ignored, because it is not a `key: value` line", ""),
    Code.DOLLAR_INSIDE: Text(
        "the `$` is an ordinary character, because it is not at the end (RFC 9309, 2.2.3)",
        "`%24` instead, or no text after it",
    ),
    Code.CUT_BY_COMMENT: Text(
        "the pattern is {pattern}, because `#` starts a comment (RFC 9309, 2.2), and no URL is sent"
        " with a `#`",
        "",
    ),
    Code.REGULAR_EXPRESSION: Text(
        "regular expressions are not supported, only `*` and a final `$` (RFC 9309, 2.2.3)",
        "{rule}",
    ),
    Code.HOST_OR_QUOTE: Text("the {part} is part of the pattern", "{rule}"),
    Code.INVALID_ESCAPE: Text(
        "a `%` that is not followed by two hexadecimal digits is a literal `%`", "`%25` instead"
    ),
    Code.INVISIBLE_CHARACTER: Text(
        "the invisible character {character} is part of the value", "{meant}"
    ),
    Code.SEVERAL_NAMES: Text(
        "it only matches the crawler `{token}`, because a line contains one name (RFC 9309, 2.2)",
        "{meant}",
    ),
    Code.INVALID_VALUE: Text("{effect}", "for example: {example}"),
    Code.DECIMAL_COMMA: Text(
        "this crawler reads it as {seconds:g} s, but others may not",
        "{key}: {seconds:g}",
    ),
    Code.NOT_OBEYED: Text("{effect}", "{meant}"),
    Code.RELATIVE_URL: Text(
        "this crawler resolves it against the URL of the file, but many others ignore it",
        "{meant}",
    ),
    Code.TWO_URLS: Text("it is read as a single URL", "one line for each URL"),
    Code.AGENTS_JOINED: Text(
        "it does not start a new group, so the rules below also apply to line {above}"
        " (RFC 9309, 2.1)",
        "",
    ),
    Code.NAMED_TWICE: Text(
        "these rules and the rules from line {above} all apply (RFC 9309, 2.2.1), but some crawlers"
        " only use one of the groups",
        "one group with the rules of both",
    ),
    Code.SAME_TOKEN: Text(
        "many crawlers read this and line {above} as `{token}`, so both groups apply to them",
        "",
    ),
    Code.CONTRADICTION: Text("as specific as line {above}; Allow wins (RFC 9309, 2.2.2)", ""),
    Code.DELAYS_DIFFER: Text(
        "line {above} has a different delay; this crawler uses the longest one",
        "",
    ),
    Code.USE_NO_VALUE: Text(
        "it neither allows nor disallows `{label}`", "{label}={yes} or {label}={no}"
    ),
    Code.SIGNAL_OUTSIDE_GROUP: Text(
        "this crawler applies it to every group that does not override it",
        "the same line in each group, because some crawlers ignore it here",
    ),
}
_NOTICES: dict[Flag | Code, Text] = {
    Flag.UNKNOWN_KEY: Text("ignored, because the key is unknown", ""),
    Flag.BYTE_ORDER_MARK: Text(
        "this crawler and most others skip the byte order mark, but some ignore the first line",
        f"{_AS_UTF8} without a byte order mark",
    ),
    Code.REPEATED_GROUP: Text(
        "it has the same rules as the group on line {above} (RFC 9309, 2.2.1)", "one group"
    ),
    Code.POLICY_GROUP: Text(
        "this is not a crawler, but its rules define which pages may be used for `{label}`", ""
    ),
    Code.NO_RULES: Text(
        "everything is allowed, because the group has no rules (RFC 9309, 2.2.2)",
        "an empty `Disallow:`, which makes this explicit",
    ),
    Code.DELAY_UNIT: Text(
        "this crawler reads it as {seconds:g} s, but others may ignore the unit",
        "{key}: {seconds:.15g}",
    ),
    Code.OBSOLETE_NAME: Text(
        "this name is obsolete; the crawler of the same company is now named {successor}", ""
    ),
    Code.REPEATED_LINE: Text("it has no effect, because it repeats line {above}", ""),
    Code.USELESS_RULE: Text(
        "it has no effect, because line {above} decides the same for these URLs", ""
    ),
    Code.FIRST_MATCH: Text(
        "this crawler uses the longest rule that matches (RFC 9309, 2.2.2), but crawlers that use"
        " the first one never reach the rules below it",
        "the same line at the end of the group",
    ),
    Code.REPEATED_RULE: Text("it has no effect, because it repeats line {above}", ""),
    Code.USE_UNKNOWN: Text("`{label}` is not a known label", ""),
}
#: Codes for which `meant` is advice or an example instead of a correction.
ADVICE = frozenset({Code.MARKUP, Code.INVALID_VALUE, Code.USE_VOID})
#: Codes about the key of a line, or about the start of the file.
ABOUT_KEYS = frozenset(
    {Flag.BYTE_ORDER_MARK, Flag.OTHER_ENCODING}
    | {Flag.MISSPELT_KEY, Flag.NO_COLON, Flag.UNKNOWN_KEY, Flag.OUTSIDE_GROUP, Code.ALMOST_A_KEY}
    | {Code.RECORD_OUTSIDE_GROUP, Code.SIGNAL_OUTSIDE_GROUP, Code.NOT_OBEYED}
)
#: Names of crawlers that are no longer used, in lowercase -> the current name.
OBSOLETE_NAMES = {"anthropic-ai": "ClaudeBot", "claude-web": "ClaudeBot"}
#: The text for each code.
TEXTS: dict[Flag | Code, Text] = {**_ERRORS, **_WARNINGS, **_NOTICES}
#: The severity of each code.
SEVERITIES: dict[Flag | Code, Severity] = {
    **dict.fromkeys(_ERRORS, Severity.ERROR),
    **dict.fromkeys(_WARNINGS, Severity.WARNING),
    **dict.fromkeys(_NOTICES, Severity.NOTICE),
}
