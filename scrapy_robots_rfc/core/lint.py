"""The linter: what is odd about the lines of a robots.txt, what a crawler makes of them, what was probably meant.

It reads the same lines and groups as the parser (`lines.py`, `groups.py`), so the two agree on what
a file says.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from urllib.parse import urlsplit

from scrapy_robots_rfc.core.agents import ANY, product_tokens, token_of
from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.extensions import parse_delay, parse_rate, parse_window, plain_delay
from scrapy_robots_rfc.core.findings import Code, Severity
from scrapy_robots_rfc.core.groups import Group, Record, read_groups
from scrapy_robots_rfc.core.labels import LABELS
from scrapy_robots_rfc.core.lines import KNOWN_RECORDS, MAX_LINE, RULES, Flag, Line, LineKind
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.preferences import (
    LICENSE,
    RECORDS,
    SIGNAL,
    TRAINING,
    USAGE,
    Preference,
    read_records,
)
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: Characters of a site's text that a finding repeats.
_LONGEST = 120
#: Characters of the longest key that is compared with the known ones.
_LONGEST_KEY = 24
#: Octets of a line that is not taken for UTF-16 however it looks: so few may contain a NUL by
#: accident.
_SHORTEST_WIDE = 3

_MISPLACED_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_INNER_DOLLAR = re.compile(r"\$(?!\Z)")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_BLANKS = re.compile("[ \t]+")
_TOKEN = re.compile("[A-Za-z_-]+")
_FIRST_WORD = re.compile("[A-Za-z-]+")

_KEYS_TO_MEAN = tuple(sorted({"user-agent", "allow", "disallow", *KNOWN_RECORDS}))

_TRAINING_KEYS = {"disallowaitraining": "DisallowAITraining", "allowaitraining": "AllowAITraining"}

# The label of Content-Signal that says how much may be shown, not whether.
_DEGREE = "use"

#: The functions that read the values of the records that a crawl obeys, with an example of each
#: record.
_VALUES: dict[str, tuple[Callable[[str], object], str]] = {
    "crawl-delay": (plain_delay, "Crawl-delay: 10"),
    "request-rate": (parse_rate, "Request-rate: 1/5"),
    "visit-time": (parse_window, "Visit-time: 0600-0845"),
}
_LEFT_OUT = "crawlers that do not take it as relative to the robots.txt leave it out"
#: The records whose value is a URL, with the effect of one that is none, and the end of an example.
_URLS = {
    "sitemap": (_LEFT_OUT, "sitemap.xml"),
    "site-map": (_LEFT_OUT, "sitemap.xml"),
    LICENSE: ("shown as it is, though nobody can tell where the license stands", "license.xml"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """What is to be said about a line. Its texts contain what the site wrote: escape them for a terminal.

    :param code: what was found.
    :param line: the number of the line, from 1.
    :param text: the line as it is read, without comment; shortened.
    :param effect: what a crawler makes of it, according to RFC 9309 and this package.
    :param meant: what was probably meant, or what helps; empty where neither is known.
    """

    code: Code
    line: int
    text: str
    effect: str
    meant: str = ""

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.code.severity


def lint(robots: RobotsTxt) -> list[Finding]:
    """Return the findings on a file, by line. Never raises."""
    lines = list(robots.lines())
    groups, _ = read_groups(lines)
    markup = markup_line(lines)
    found = [_finding(Code.MARKUP, markup, *_MARKUP)] if markup else []
    found += () if groups else _unmarked_utf16(robots)
    if (
        not found or groups
    ):  # the lines of a web page, or of what is no text, are not worth a finding each
        found += (finding for line in lines for finding in _of_line(line))
        found += _of_order(lines)
        found += _of_groups(groups)
    if robots.truncated:
        effect = "the lines below it are not read: they are beyond the size limit (RFC 9309, 2.5)"
        last = lines[-1] if lines else Line(1, LineKind.BLANK, "", "")
        found.append(_finding(Code.FILE_TOO_LONG, last, effect, "a shorter file"))
    return sorted(found, key=lambda finding: finding.line)


def markup_line(lines: Iterable[Line]) -> Line | None:
    """Return the first line of a file that is neither blank nor a comment, if it begins as HTML or XML does.

    Such a file is a page for people and no robots.txt.
    """
    first = next(
        (line for line in lines if line.kind not in (LineKind.BLANK, LineKind.COMMENT)), None
    )
    return first if first and _text(first).startswith("<") else None


def _unmarked_utf16(robots: RobotsTxt) -> Iterator[Finding]:
    """Yield a finding on UTF-16 or UTF-32 without a byte order mark, in which at least every second octet is NUL."""
    filled = (
        (number, line) for number, line in enumerate(robots.raw_lines, 1) if line.strip("\0 \t")
    )
    number, line = next(filled, (0, ""))
    if len(line) > _SHORTEST_WIDE and not all(line[side::2].strip("\0") for side in (0, 1)):
        effect = "not converted, as no byte order mark tells how: it has no group, and everything is allowed"
        text = _short(robots.line_text(number).replace("\0", ""))
        yield Finding(Code.OTHER_ENCODING, number, text, effect, "the file saved as UTF-8")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _text(line: Line) -> str:
    """Return a line as it is read, which is with its key in lower case."""
    if not line.key:
        return line.value
    return f"{line.key}{'' if Flag.NO_COLON in line.flags else ':'} {line.value}".rstrip()


def _usual_key(line: Line) -> str:
    """Return the key of a line in its usual spelling."""
    key: str = line.key if line.kind is LineKind.RECORD else line.kind.value
    return "Sitemap" if key == "site-map" else key.capitalize()


def _finding(code: Code, line: Line, effect: str, meant: str = "") -> Finding:
    return Finding(code, line.number, _short(_text(line)), effect, _short(meant))


_OUTSIDE = "ignored: it belongs to no group, as no user-agent line stands above it"
_AGENT_ABOVE = "a line `User-agent: *` above it"
_MARKUP = (
    "a web page, it seems: each line is tried all the same, and without a group everything is allowed",
    "a plain text file; or status 404, where the site has none",
)
#: The effect of a line with a flag, and what was meant. In braces stand the usual spelling of its
#: key, its value, the path that was meant by that, and the line without control octets.
_OF_FLAG: dict[Code, tuple[str, str]] = {
    Code.MISSPELT_KEY: (
        "read as `{key}`, by this crawler and many; others leave the line out",
        "{key}: {value}",
    ),
    Code.NO_COLON: (
        "read as if the colon were there, by this crawler and some; others leave the line out",
        "{key}: {value}",
    ),
    Code.NEVER_MATCHES: (
        "it matches no URL: the path that it is compared with begins with `/` (RFC 9309, 2.2.2)",
        "{key}: {path}",
    ),
    Code.CONTROL_OCTET: (
        "in a value, it is kept and percent-encoded; a key that holds one is unknown",
        "{plain}",
    ),
    Code.OUTSIDE_GROUP: (f"{_OUTSIDE} (RFC 9309, 2.2.2)", _AGENT_ABOVE),
    Code.NOT_UTF8: ("its octets are percent-encoded one by one", "the file saved as UTF-8"),
    Code.TOO_LONG: (f"what follows octet {MAX_LINE:,} is not read", "several shorter lines"),
    Code.CUT_OFF: ("ignored: the size limit cuts it short (RFC 9309, 2.5)", "a shorter file"),
    Code.BYTE_ORDER_MARK: (
        "passed over, by this crawler and most; others take it for a part of the key, and leave the line out",
        "the file saved as UTF-8 without a byte order mark",
    ),
    Code.OTHER_ENCODING: (
        "converted, by this crawler; others find no record in the file, and allow everything (RFC 9309, 2.3)",
        "the file saved as UTF-8",
    ),
}


# Findings on the text of a line.


@lru_cache(maxsize=1024)
def _similar_key(key: str) -> str | None:
    """Return the known key to which a key is similar, in its usual spelling."""
    if len(key) > _LONGEST_KEY:
        return None
    close = difflib.get_close_matches(
        key.replace("_", "-").replace(" ", "-"), _KEYS_TO_MEAN, n=1, cutoff=0.8
    )
    return close[0].capitalize() if close else None


def _unknown(line: Line) -> Finding:
    key = _similar_key(line.key)
    if key is None:
        return _finding(
            Code.UNKNOWN_KEY, line, "ignored: no crawler is known to read such a record"
        )
    effect = f"ignored: it is not read as `{key}`, for keys are compared whole (RFC 9309, 2.2)"
    return _finding(Code.ALMOST_A_KEY, line, effect, f"{key}: {line.value}")


def _token(line: Line) -> Finding:
    value = line.value
    token = token_of(to_octets(value))
    if not value:
        return _finding(Code.INVALID_TOKEN, line, "it names no crawler", "User-agent: *")
    if value.lower() != token and value.lower().startswith(token):  # its beginning is a token
        run = value[: len(token)]
        what = "any crawler" if token == ANY else f"the crawler `{run}`"
        # Where a whole User-Agent header stands, its own name may not be what it begins with.
        names = () if token == ANY else product_tokens(_short(value))
        name = _TOKEN.match(names[0]) if names else None
        return _finding(
            Code.INVALID_TOKEN, line, f"it names {what}", f"User-agent: {name[0] if name else run}"
        )
    effect = (
        "compared whole: no crawler whose name is a product token (RFC 9309, 2.2.1) is meant by it"
    )
    runs = _TOKEN.findall(value)
    return _finding(
        Code.INVALID_TOKEN, line, effect, f"User-agent: {max(runs, key=len)}" if runs else ""
    )


def _path(value: str) -> str:
    """Return the path pattern that was probably meant by one without its slash, or by a whole URL."""
    scheme, separator, rest = value.partition("://")
    if separator and scheme.isalpha():
        value = rest.partition("/")[2]
    return f"/{value.removeprefix('/')}"


def _space(line: Line) -> Finding:
    key, paths = _usual_key(line), _BLANKS.split(line.value)
    if all(path.startswith(("/", "*")) for path in paths):
        meant = f"a line for each: {', '.join(f'{key}: {path}' for path in paths)}"
    else:
        meant = f"{key}: {line.value.replace(' ', '%20').replace(chr(9), '%09')}"
    return _finding(Code.SPACE_IN_PATTERN, line, "part of the one pattern, percent-encoded", meant)


#: The functions that make the findings on the other flags.
_BY_FLAG: dict[Code, Callable[[Line], Finding]] = {
    Code.UNKNOWN_KEY: _unknown,
    Code.INVALID_TOKEN: _token,
    Code.SPACE_IN_PATTERN: _space,
}


def _flagged(line: Line, flag: Code) -> Finding:
    plain = _CONTROL.sub("", _text(line))
    parts = {
        "key": _usual_key(line),
        "value": line.value,
        "path": _path(line.value),
        "plain": plain,
    }
    effect, meant = (text.format_map(parts) for text in _OF_FLAG[flag])
    return _finding(flag, line, effect, meant)


def _of_line(line: Line) -> Iterator[Finding]:
    for flag in Code if line.flags else ():
        if flag.value in line.flags:
            yield _BY_FLAG[flag](line) if flag in _BY_FLAG else _flagged(line, flag)
    if line.kind is LineKind.JUNK and Flag.CUT_OFF not in line.flags:
        yield _no_record(line)
    elif line.kind in RULES:
        yield from _of_pattern(line)
    elif line.kind is LineKind.RECORD:
        yield from _of_value(line)


def _no_record(line: Line) -> Finding:
    word = _FIRST_WORD.match(line.value)
    key = _similar_key(word[0].lower()) if word else None
    meant = (
        f"{key}: {line.value[word.end() :].lstrip()}"
        if word and key
        else f"a comment: # {line.value}"
    )
    return _finding(Code.NO_RECORD, line, "ignored: it is no record", meant)


def _of_pattern(line: Line) -> Iterator[Finding]:
    if "$" in line.value[:-1]:
        effect = "it stands for itself: only a last `$` is the end of a URL (RFC 9309, 2.2.3)"
        beginning, _, rest = line.value.partition("$")
        end_meant = not rest.strip("/?*$")
        meant = f"{beginning}$" if end_meant else _INNER_DOLLAR.sub("%24", line.value)
        yield _finding(Code.DOLLAR_INSIDE, line, effect, f"{_usual_key(line)}: {meant}")
    if _MISPLACED_PERCENT.search(line.value):
        meant = f"{_usual_key(line)}: {_MISPLACED_PERCENT.sub('%25', line.value)}"
        yield _finding(Code.BAD_ESCAPE, line, "the `%` stands for itself, as `%25` would", meant)


def _of_value(line: Line) -> Iterator[Finding]:
    if line.key in _VALUES:
        parse, example = _VALUES[line.key]
        if parse(line.value) is None:
            effect = "ignored: nobody can tell what it asks for"
            if line.key == "crawl-delay" and (delay := parse_delay(line.value)) is not None:
                effect = f"read as {delay:.15g} s, the largest number in it: it is no number with a known unit"
            yield _finding(Code.INVALID_VALUE, line, effect, f"such as {example}")
    elif line.key in (USAGE, SIGNAL):
        yield from _of_use(line)
    elif line.key in _URLS and not _is_absolute(line.value):
        effect, name = _URLS[line.key]
        yield _finding(
            Code.RELATIVE_URL, line, effect, f"the whole URL, such as https://www.example/{name}"
        )
    elif line.key in TRAINING and line.value and line.value[0] not in "/*":
        effect = "it matches no URL, so it says nothing of training: a path pattern begins with `/` or with `*`"
        yield _finding(
            Code.NEVER_MATCHES, line, effect, f"{_TRAINING_KEYS[line.key]}: {_path(line.value)}"
        )


def _is_absolute(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


# Findings on the order of lines, and on groups.


def _of_order(lines: Sequence[Line]) -> Iterator[Finding]:
    agent: Line | None = None  # the last user-agent line, as long as no rule follows it
    in_group = apart = False
    for line in lines:
        if line.kind is LineKind.USER_AGENT:
            if agent is not None and apart:
                effect = f"it ends no group: the rules below are those of line {agent.number}, too (RFC 9309, 2.1)"
                yield _finding(
                    Code.AGENTS_JOINED,
                    line,
                    effect,
                    "a rule above it, such as an empty `Disallow:`",
                )
            agent, in_group, apart = line, True, False
        elif line.kind in RULES:
            agent = None
        else:
            apart = apart or line.kind not in (LineKind.COMMENT, LineKind.JUNK)
            if not in_group and line.key == SIGNAL:
                effect = "it counts for every group that does not say otherwise; other crawlers may read it for none"
                yield _finding(
                    Code.SIGNAL_OUTSIDE_GROUP, line, effect, "the same line in each group"
                )
            elif not in_group and (line.key in _VALUES or line.key in RECORDS):
                yield _finding(Code.RECORD_OUTSIDE_GROUP, line, _OUTSIDE, _AGENT_ABOVE)


def _of_groups(groups: Iterable[Group]) -> Iterator[Finding]:
    first: dict[str, int] = {}  # the line of the first group of each token
    for group in groups:
        agents = f"user-agent: {', '.join(group.tokens)}"
        tokens = dict.fromkeys(token_of(to_octets(token)) for token in group.tokens)
        earlier = next((first[token] for token in tokens if token in first), None)
        if earlier is not None:
            effect = f"combined with the group of line {earlier}, by RFC 9309, 2.2.1; others read only one of them"
            yield Finding(
                Code.SPLIT_GROUP,
                group.line,
                _short(agents),
                effect,
                "one group with the rules of both",
            )
        elif not group.rules:
            effect = "without a rule, everything is allowed (RFC 9309, 2.2.2)"
            yield Finding(
                Code.NO_RULES, group.line, _short(agents), effect, "an empty `Disallow:`, to say so"
            )
        for token in tokens:
            first.setdefault(token, group.line)
        yield from _of_rules(group.rules)


def _of_rules(rules: Sequence[Rule]) -> Iterator[Finding]:
    first: dict[tuple[RuleKind, str], int] = {}  # the line on which each rule stands first
    for rule in rules:
        other = RuleKind.DISALLOW if rule.kind is RuleKind.ALLOW else RuleKind.ALLOW
        text = _short(f"{rule.kind.value.lower()}: {rule.pattern}")
        same, opposite = first.get((rule.kind, rule.pattern)), first.get((other, rule.pattern))
        if not rule.pattern and len(rules) > 1:
            effect = "it matches nothing: the other rules of the group decide (RFC 9309, 2.2.2)"
            yield Finding(
                Code.EMPTY_RULE, rule.line, text, effect, "nothing, or the only rule of its group"
            )
        elif same is not None:
            yield Finding(
                Code.REPEATED_RULE,
                rule.line,
                text,
                f"it changes nothing: line {same} says the same",
            )
        elif opposite is not None:
            effect = f"of it and line {opposite} the allow decides, as they are equally specific (RFC 9309, 2.2.2)"
            yield Finding(Code.CONTRADICTION, rule.line, text, effect, "one of them")
        first.setdefault((rule.kind, rule.pattern), rule.line)


# Findings on what is said of the use of pages.


def _of_use(line: Line) -> Iterator[Finding]:
    """Yield the findings on a Content-Usage or a Content-Signal."""
    found = _said(Record(line.key, line.value, line.number))
    if line.key == USAGE and not found:
        effect = "void as a whole: crawlers cannot tell what it permits (RFC 9651)"
        yield _finding(Code.USE_VOID, line, effect, "such as Content-Usage: train-ai=n, search=y")
    yes, no = ("y", "n") if line.key == USAGE else ("yes", "no")
    for label, preference in found:
        if preference.allowed is None and not (line.key == SIGNAL and label == _DEGREE):
            effect = f"`{label}` is neither permitted nor refused by it"
            yield _finding(Code.USE_NO_VALUE, line, effect, f"{label}={yes} or {label}={no}")
        elif label not in LABELS and preference.allowed is not None:
            yield _finding(
                Code.USE_UNKNOWN,
                line,
                f"read, as any label; no crawler is known to ask for `{label}`",
            )


def _said(record: Record) -> list[tuple[str, Preference]]:
    """Return what one record says of each label."""
    read = read_records([Record(record.key, to_octets(record.value), record.line)])
    return [said for found in read.values() for one in found for said in one.said.items()]
