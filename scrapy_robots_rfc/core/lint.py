"""The linter: what is odd about the lines of a robots.txt, and what was probably meant.

It reads the same lines and groups as the parser (`lines.py`, `groups.py`), so the two agree on what
a file says. `docs/cli.md` says what each code is found on.
"""

from __future__ import annotations

import difflib
import enum
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from scrapy_robots_rfc.core.agents import ANY, product_tokens, token_of
from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.extensions import parse_rate, parse_window, plain_delay
from scrapy_robots_rfc.core.groups import Group, Record, read_groups
from scrapy_robots_rfc.core.labels import LABELS
from scrapy_robots_rfc.core.lines import KNOWN_RECORDS, MAX_LINE, RULES, Flag, Line, LineKind
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.preferences import RECORDS, SIGNAL, USAGE, read_records
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import short


class Severity(enum.Enum):
    """How bad a finding is. The values are those of GitHub's annotations."""

    #: The line has no effect.
    ERROR = "error"
    #: The line has an effect, but perhaps not on every crawler, or not the one that was meant.
    WARNING = "warning"
    #: The line has the effect that was meant, and could say so more clearly.
    NOTICE = "notice"


class Code(enum.StrEnum):
    """What is found beside the flags of a line. The values are stable: all outputs have them."""

    # What the value of a line shows, or its place in the file.
    ALMOST_A_KEY = enum.auto()
    NO_RECORD = enum.auto()
    MARKUP = enum.auto()
    FILE_TOO_LONG = enum.auto()
    DOLLAR_INSIDE = enum.auto()
    BAD_ESCAPE = enum.auto()
    INVALID_VALUE = enum.auto()
    RECORD_OUTSIDE_GROUP = enum.auto()
    RELATIVE_URL = enum.auto()
    # What the group of a line shows.
    AGENTS_JOINED = enum.auto()
    SPLIT_GROUP = enum.auto()
    NO_RULES = enum.auto()
    EMPTY_RULE = enum.auto()
    REPEATED_RULE = enum.auto()
    CONTRADICTION = enum.auto()
    # What records about the use of pages show, see `preferences.py`.
    USE_VOID = enum.auto()
    USE_NO_VALUE = enum.auto()
    USE_UNKNOWN = enum.auto()
    SIGNAL_OUTSIDE_GROUP = enum.auto()


# The codes that are no warnings.
_ERRORS = {
    *(Flag.OUTSIDE_GROUP, Flag.NEVER_MATCHES, Flag.TOO_LONG, Code.ALMOST_A_KEY),
    *(Code.MARKUP, Code.FILE_TOO_LONG, Code.RECORD_OUTSIDE_GROUP, Code.USE_VOID),
}
_NOTICES = {
    *(Flag.UNKNOWN_KEY, Flag.BYTE_ORDER_MARK, Code.SPLIT_GROUP, Code.NO_RULES, Code.EMPTY_RULE),
    *(Code.REPEATED_RULE, Code.USE_UNKNOWN),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a line. A site wrote parts of it: escape them for a terminal.

    :param code: what was found.
    :param line: the number of the line, from 1.
    :param text: the line as it is read, without comment; shortened.
    :param effect: what a crawler makes of it, according to RFC 9309 and this package.
    :param meant: what was probably meant, or what helps; empty where neither is known.
    """

    code: Flag | Code
    line: int
    text: str
    effect: str
    meant: str

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        if self.code in _ERRORS:
            return Severity.ERROR
        return Severity.NOTICE if self.code in _NOTICES else Severity.WARNING


#: A finding without the text of its line: code, number of the line, effect, what was meant.
_Found: TypeAlias = tuple[Flag | Code, int, str, str]

#: Characters of the longest key that is compared with the known ones.
_LONGEST_KEY = 24

_MISPLACED_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_TOKEN = re.compile("[A-Za-z_-]+")
_ABSOLUTE_URL = re.compile("https?://[^/?#]", re.IGNORECASE)
_FIRST_WORD = re.compile("[A-Za-z-]+")

_KEYS_TO_MEAN = tuple(sorted({"user-agent", "allow", "disallow", *KNOWN_RECORDS}))
#: The keys whose usual spelling is another one than with a capital letter.
_USUAL_KEYS = {
    "site-map": "Sitemap",
    "disallowaitraining": "DisallowAITraining",
    "allowaitraining": "AllowAITraining",
}
_UNCLEAR = "ignored: it is not clear what it asks for"
#: What reads the value of a record that a crawl obeys, the effect of a record that it cannot read,
#: and an example.
_VALUES: dict[str, tuple[Callable[[str], object], str, str]] = {
    "crawl-delay": (
        plain_delay,
        "its unit is unknown: the largest number in it counts, in seconds, but no negative one",
        "such as Crawl-delay: 10",
    ),
    "request-rate": (parse_rate, _UNCLEAR, "such as Request-rate: 1/5"),
    "visit-time": (parse_window, _UNCLEAR, "such as Visit-time: 0600-0845"),
}

_OUTSIDE = "ignored: it belongs to no group, as no user-agent line stands above it"
_AGENT_ABOVE = "a line `User-agent: *` above it"
_AS_UTF8 = "the file saved as UTF-8"
#: The effect of a line with a flag, and what was meant. In braces stand the usual spelling of its
#: key, its value, and the path that was meant by that.
_OF_FLAG = {
    Flag.MISSPELT_KEY: (
        "read as `{key}`, by this crawler and many; others leave the line out",
        "{key}: {value}",
    ),
    Flag.NO_COLON: (
        "read as if the colon were there, by this crawler and some; others leave the line out",
        "{key}: {value}",
    ),
    Flag.NEVER_MATCHES: (
        "it matches no URL: the path that it is compared with begins with `/` (RFC 9309, 2.2.2)",
        "{key}: {path}",
    ),
    Flag.SPACE_IN_PATTERN: (
        "part of the one pattern, percent-encoded",
        "`%20` in its place; or a line for each, if it stands between two patterns",
    ),
    Flag.CONTROL_OCTET: (
        "in a value, it is percent-encoded; a key that contains one is unknown",
        "the line without it",
    ),
    Flag.OUTSIDE_GROUP: (f"{_OUTSIDE} (RFC 9309, 2.2.2)", _AGENT_ABOVE),
    Flag.NOT_UTF8: ("its octets are percent-encoded one by one", _AS_UTF8),
    Flag.TOO_LONG: (f"what follows octet {MAX_LINE:,} is not read", "several shorter lines"),
    Flag.BYTE_ORDER_MARK: (
        "passed over, by this crawler and most; others take it for a part of the key",
        f"{_AS_UTF8} without a byte order mark",
    ),
    Flag.OTHER_ENCODING: (
        "converted, by this crawler; others find no record, and allow everything (RFC 9309, 2.3)",
        _AS_UTF8,
    ),
}


def lint(robots: RobotsTxt) -> list[Finding]:
    """Return the findings on a file, by line. Never raises."""
    lines = list(robots.lines())
    texts = {line.number: _text(line) for line in lines}
    found = list[_Found]()
    if robots.is_page:  # its lines are not worth a finding each
        first = next(line.number for line in lines if line.kind is not LineKind.BLANK)
        effect = "a web page, it seems: without a group in it, everything is allowed"
        meant = "a plain text file; or status 404, where the site has none"
        found.append((Code.MARKUP, first, effect, meant))
    else:
        for line in lines:
            found += _of_line(line)
        found += _of_order(lines)
        found += _of_groups(read_groups(lines))
    if robots.truncated:
        last = lines[-1].number if lines else 1
        effect = "the lines below it are not read: they are beyond the size limit (RFC 9309, 2.5)"
        found.append((Code.FILE_TOO_LONG, last, effect, "a shorter file"))
    findings = (
        Finding(code, line, short(texts.get(line, "")), effect, short(meant))
        for code, line, effect, meant in found
    )
    return sorted(findings, key=lambda finding: finding.line)


def _text(line: Line) -> str:
    """Return a line as it is read, which is with its key in lower case."""
    colon = "" if Flag.NO_COLON in line.flags else ":"
    return f"{line.key}{colon} {line.value}".rstrip() if line.key else line.value


def _usual_key(line: Line) -> str:
    key: str = line.key if line.kind is LineKind.RECORD else line.kind.value
    return _USUAL_KEYS.get(key, key.capitalize())


def _of_line(line: Line) -> Iterator[_Found]:
    for flag in Flag if line.flags else ():
        if flag in line.flags:
            yield _of_flag(line, flag)
    if line.kind is LineKind.JUNK:
        yield _no_record(line)
    elif line.kind in RULES:
        yield from _of_pattern(line)
    elif line.key in (USAGE, SIGNAL):
        yield from _of_use(line)
    elif line.kind is LineKind.RECORD:
        yield from _of_value(line)


def _of_flag(line: Line, flag: Flag) -> _Found:
    if flag is Flag.UNKNOWN_KEY:
        return _unknown(line)
    if flag is Flag.INVALID_TOKEN:
        return flag, line.number, *_of_token(line.value)
    effect, meant = _OF_FLAG[flag]
    key = _usual_key(line)
    meant = meant.format(key=key, value=line.value, path=_path(line.value))
    return flag, line.number, effect.format(key=key), meant


@lru_cache(maxsize=1024)
def _similar_key(key: str) -> str | None:
    if len(key) > _LONGEST_KEY:
        return None
    plain = key.replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(plain, _KEYS_TO_MEAN, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def _unknown(line: Line) -> _Found:
    key = _similar_key(line.key)
    if key is None:
        effect = "ignored: no crawler is known to read such a record"
        return Flag.UNKNOWN_KEY, line.number, effect, ""
    effect = f"ignored: it is not read as `{key}`, for keys are compared whole (RFC 9309, 2.2)"
    return Code.ALMOST_A_KEY, line.number, effect, f"{key}: {line.value}"


def _of_token(value: str) -> tuple[str, str]:
    """Return the effect of a name that is no product token, and the line that was meant."""
    if token_of(value) == ANY:  # its beginning is a token
        return "it names any crawler", "User-agent: *"
    named = _TOKEN.match(value)
    if named is None:
        effect = "compared whole, so it names no crawler: product tokens have letters, `-` and `_`"
        names = _TOKEN.findall(value)
        return effect, f"User-agent: {max(names, key=len)}" if names else "a product token, or `*`"
    # Where a whole User-Agent header stands, its own name may not be what it begins with.
    own = _TOKEN.match(next(iter(product_tokens(short(value))), "")) or named
    return f"it names the crawler `{named[0]}`", f"User-agent: {own[0]}"


def _path(value: str) -> str:
    """Return the path pattern that was probably meant by one without its slash, or by a URL."""
    scheme, separator, rest = value.partition("://")
    if separator and scheme.isalpha():
        value = rest.partition("/")[2]
    return f"/{value.removeprefix('/')}"


def _no_record(line: Line) -> _Found:
    word = _FIRST_WORD.match(line.value)
    key = _similar_key(word[0].lower()) if word else None
    meant = f"a comment: # {line.value}"
    if word and key:
        meant = f"{key}: {line.value[word.end() :].lstrip()}"
    return Code.NO_RECORD, line.number, "ignored: it is no record", meant


def _of_pattern(line: Line) -> Iterator[_Found]:
    value = line.value
    if "$" in value[:-1]:
        effect = "it stands for itself: only a last `$` is the end of a URL (RFC 9309, 2.2.3)"
        yield Code.DOLLAR_INSIDE, line.number, effect, "`%24` in its place, or nothing behind it"
    if _MISPLACED_PERCENT.search(value):
        meant = f"{_usual_key(line)}: {_MISPLACED_PERCENT.sub('%25', value)}"
        yield Code.BAD_ESCAPE, line.number, "the `%` stands for itself, as `%25` would", meant


def _of_value(line: Line) -> Iterator[_Found]:
    name = _usual_key(line)
    if line.key in _VALUES:
        parse, effect, example = _VALUES[line.key]
        if parse(line.value) is None:
            yield Code.INVALID_VALUE, line.number, effect, example
    elif name in ("Sitemap", "License") and not _ABSOLUTE_URL.match(line.value):
        effect = "crawlers that do not take it as relative to the robots.txt leave it out"
        meant = f"the whole URL, such as https://www.example/{name.lower()}.xml"
        yield Code.RELATIVE_URL, line.number, effect, meant


def _of_use(line: Line) -> Iterator[_Found]:
    """Yield the findings on a Content-Usage or a Content-Signal."""
    record = Record(line.key, to_octets(line.value), line.number)
    read = [one.labels for records in read_records([record]).values() for one in records]
    found = [(label, one.allowed) for labels in read for label, one in labels.items()]
    if line.key == USAGE and not found:
        effect = "void as a whole: it is not clear what it permits (RFC 9651)"
        meant = "such as Content-Usage: train-ai=n, search=y"
        yield Code.USE_VOID, line.number, effect, meant
    yes, no = ("y", "n") if line.key == USAGE else ("yes", "no")
    for label, allowed in found:
        if allowed is not None and label not in LABELS:
            effect = f"read, as any label; no crawler is known to ask for `{label}`"
            yield Code.USE_UNKNOWN, line.number, effect, ""
        elif allowed is None and (line.key, label) != (SIGNAL, "use"):  # that has other values
            effect = f"`{label}` is neither permitted nor refused by it"
            yield Code.USE_NO_VALUE, line.number, effect, f"{label}={yes} or {label}={no}"


def _of_order(lines: Sequence[Line]) -> Iterator[_Found]:
    agent: int | None = None  # the last user-agent line, as long as no rule follows it
    in_group = apart = False
    for line in lines:
        number = line.number
        if line.kind is LineKind.USER_AGENT:
            if agent is not None and apart:
                effect = f"it ends no group: rules below it are those of line {agent}, too"
                meant = "a rule above it, such as an empty `Disallow:`"
                yield Code.AGENTS_JOINED, number, f"{effect} (RFC 9309, 2.1)", meant
            agent = number
            in_group = True
            apart = False
        elif line.kind in RULES:
            agent = None
        else:
            apart = apart or line.kind not in (LineKind.COMMENT, LineKind.JUNK)
            if not in_group and line.key == SIGNAL:
                effect = "it counts for every group that does not say otherwise"
                meant = "the same line in each group, for crawlers that do not read it here"
                yield Code.SIGNAL_OUTSIDE_GROUP, number, effect, meant
            elif not in_group and (line.key in _VALUES or line.key in RECORDS):
                yield Code.RECORD_OUTSIDE_GROUP, number, _OUTSIDE, _AGENT_ABOVE


def _of_groups(groups: Iterable[Group]) -> Iterator[_Found]:
    first: dict[str, int] = {}  # the line of the first group of each token
    for group in groups:
        tokens = dict.fromkeys(token_of(to_octets(token)) for token in group.tokens)
        earlier = next((first[token] for token in tokens if token in first), None)
        if earlier is not None:
            effect = f"combined with the group of line {earlier} (RFC 9309, 2.2.1)"
            meant = "one group with the rules of both"
            yield Code.SPLIT_GROUP, group.line, f"{effect}; others read only one of them", meant
        elif not group.rules:
            effect = "without a rule, everything is allowed (RFC 9309, 2.2.2)"
            yield Code.NO_RULES, group.line, effect, "an empty `Disallow:`, to say so"
        for token in tokens:
            first.setdefault(token, group.line)
        yield from _of_rules(group.rules)


def _of_rules(rules: Sequence[Rule]) -> Iterator[_Found]:
    first: dict[tuple[RuleKind, str], int] = {}  # the line on which each rule stands first
    for rule in rules:
        other = RuleKind.DISALLOW if rule.kind is RuleKind.ALLOW else RuleKind.ALLOW
        same, opposite = first.get((rule.kind, rule.pattern)), first.get((other, rule.pattern))
        if not rule.pattern and len(rules) > 1:
            effect = "it matches nothing: the other rules of the group decide (RFC 9309, 2.2.2)"
            yield Code.EMPTY_RULE, rule.line, effect, "nothing, or the only rule of its group"
        elif same is not None:
            effect = f"it changes nothing: line {same} says the same"
            yield Code.REPEATED_RULE, rule.line, effect, ""
        elif opposite is not None:
            effect = f"of it and line {opposite} the allow decides: they are equally specific"
            yield Code.CONTRADICTION, rule.line, f"{effect} (RFC 9309, 2.2.2)", "one of them"
        first.setdefault((rule.kind, rule.pattern), rule.line)
