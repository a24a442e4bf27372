"""Findings of a robots.txt: what is odd about its lines, what a crawler makes of them, what was probably meant.

It reads the very records that the groups are made of (`lines.py`), so it cannot see a file otherwise than a crawl does.
In here: lines and groups to findings. The codes are `findings.py`; what is printed is the command's business.
"""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from scrapy_robots_rfc.core.agents import ANY, product_tokens, token_of
from scrapy_robots_rfc.core.decision import Rule, RuleKind
from scrapy_robots_rfc.core.extensions import parse_delay, parse_rate, parse_window, plain_delay
from scrapy_robots_rfc.core.findings import Code, Finding
from scrapy_robots_rfc.core.groups import Group, read_groups
from scrapy_robots_rfc.core.lines import KNOWN_RECORDS, MAX_LINE, RULES, Flag, Line, LineKind
from scrapy_robots_rfc.core.percent import octets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: Characters of a site's text that a finding repeats.
_LONGEST = 120
#: A longer key is like none of ours.
_LONGEST_KEY = 24
#: Octets of a line that is taken for UTF-16 only where it has more: a character or two may be an accident.
_SHORTEST_WIDE = 3

_MISPLACED_PERCENT = re.compile("%(?![0-9A-Fa-f]{2})")
_INNER_DOLLAR = re.compile(r"\$(?!\Z)")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_BLANKS = re.compile("[ \t]+")
_TOKEN = re.compile("[A-Za-z_-]+")
_FIRST_WORD = re.compile("[A-Za-z-]+")

#: How the keys are usually written.
_USUAL = {
    LineKind.USER_AGENT: "User-agent",
    LineKind.ALLOW: "Allow",
    LineKind.DISALLOW: "Disallow",
}
_KEYS_TO_MEAN = tuple(sorted({"user-agent", "allow", "disallow", *KNOWN_RECORDS}))

#: Lines that say nothing.
_EMPTY = frozenset({LineKind.BLANK, LineKind.COMMENT})

#: How the values of the records that a crawl follows are read, and an example of each.
_VALUES: dict[str, tuple[Callable[[str], object], str]] = {
    "crawl-delay": (plain_delay, "Crawl-delay: 10"),
    "request-rate": (parse_rate, "Request-rate: 1/5"),
    "visit-time": (parse_window, "Visit-time: 0600-0845"),
}


def lint(robots: RobotsTxt) -> list[Finding]:
    """Findings of a file, by line. Never raises, whatever the file holds.

    :param robots: the file; its limit is that of its parser.
    """
    lines = list(robots.lines())
    groups, _ = read_groups(lines)
    found = [_markup(line) for line in _first_of_markup(lines)]
    found += () if groups else _unmarked(robots)
    if not found or groups:  # of a web page, or of what is no text, nobody wants to see each line
        found += (finding for line in lines for finding in _of_line(line))
        found += _of_standing(lines)
        found += _of_groups(groups)
    if robots.truncated:
        effect = "the lines below it are not read: they are beyond the size limit (RFC 9309, 2.5)"
        last = lines[-1] if lines else Line(1, LineKind.BLANK, "", "")
        found.append(_finding(Code.FILE_TOO_LONG, last, effect, "a shorter file"))
    return sorted(found, key=lambda finding: finding.line)


def is_markup(robots: RobotsTxt) -> bool:
    """Whether a file begins as HTML or XML does: what a site shows to people, and no robots.txt."""
    return any(True for _ in _first_of_markup(robots.lines()))


def _first_of_markup(lines: Iterable[Line]) -> Iterator[Line]:
    """Yield the first line that says something, where it is markup."""
    first = next((line for line in lines if line.kind not in _EMPTY), None)
    if first is not None and _written(first).startswith("<"):
        yield first


def _unmarked(robots: RobotsTxt) -> Iterator[Finding]:
    """Yield what there is to say of UTF-16 or UTF-32 without a byte order mark: of every two octets, one is NUL."""
    told = ((number, line) for number, line in enumerate(robots.octets, 1) if line.strip("\0 \t"))
    number, line = next(told, (0, ""))
    if len(line) > _SHORTEST_WIDE and not all(line[side::2].strip("\0") for side in (0, 1)):
        effect = "not converted, as no byte order mark tells how: it has no group, and everything is allowed"
        text = _short(robots.written(number).replace("\0", ""))
        yield Finding(Code.OTHER_ENCODING, number, text, effect, "the file saved as UTF-8")


# Lines as they are shown.


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _written(line: Line) -> str:
    """A line as it is read; the spelling of its key's capitals is not known any more."""
    if not line.key:
        return line.value
    return f"{line.key}{'' if Flag.NO_COLON in line.flags else ':'} {line.value}".rstrip()


def _usual(line: Line) -> str:
    """The key of a line as it is usually written."""
    key = "sitemap" if line.key == "site-map" else line.key
    return _USUAL.get(line.kind) or key.capitalize()


def _finding(code: Code, line: Line, effect: str, meant: str = "") -> Finding:
    return Finding(code, line.number, _short(_written(line)), effect, _short(meant))


# One line at a time: every flag of the core, and what else its value shows.


def _markup(line: Line) -> Finding:
    effect = "a web page, it seems: each line is tried all the same, and without a group everything is allowed"
    return _finding(Code.MARKUP, line, effect, "a plain text file; or status 404, where the site has none")


def _misspelt(line: Line) -> Finding:
    key = _usual(line)
    effect = f"read as `{key}`, by this crawler and many; others leave the line out"
    return _finding(Code.MISSPELT_KEY, line, effect, f"{key}: {line.value}")


def _no_colon(line: Line) -> Finding:
    effect = "read as if the colon were there, by this crawler and some; others leave the line out"
    return _finding(Code.NO_COLON, line, effect, f"{_usual(line)}: {line.value}")


@lru_cache(maxsize=1024)
def _like(key: str) -> str | None:
    """The key that a misspelt one is close to, as it is usually written."""
    if len(key) > _LONGEST_KEY:
        return None
    close = difflib.get_close_matches(key.replace("_", "-").replace(" ", "-"), _KEYS_TO_MEAN, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def _unknown(line: Line) -> Finding:
    key = _like(line.key)
    if key is None:
        return _finding(Code.UNKNOWN_KEY, line, "ignored: no crawler is known to read such a record")
    effect = f"ignored: it is not read as `{key}`, for keys are compared whole (RFC 9309, 2.2)"
    return _finding(Code.ALMOST_A_KEY, line, effect, f"{key}: {line.value}")


def _outside(line: Line) -> Finding:
    effect = "ignored: it belongs to no group, as no user-agent line stands above it (RFC 9309, 2.2.2)"
    return _finding(Code.OUTSIDE_GROUP, line, effect, "a line `User-agent: *` above it")


def _token(line: Line) -> Finding:
    value = line.value
    token = token_of(octets(value))
    if not value:
        return _finding(Code.INVALID_TOKEN, line, "it names no crawler", "User-agent: *")
    if value.lower() != token and value.lower().startswith(token):  # its beginning is a token
        run = value[: len(token)]
        what = "any crawler" if token == ANY else f"the crawler `{run}`"
        # Where a whole User-Agent header stands, its own name may not be what it begins with.
        names = () if token == ANY else product_tokens(_short(value))
        name = _TOKEN.match(names[0]) if names else None
        return _finding(Code.INVALID_TOKEN, line, f"it names {what}", f"User-agent: {name[0] if name else run}")
    effect = "compared whole: no crawler whose name is a product token (RFC 9309, 2.2.1) is meant by it"
    runs = _TOKEN.findall(value)
    return _finding(Code.INVALID_TOKEN, line, effect, f"User-agent: {max(runs, key=len)}" if runs else "")


def _never(line: Line) -> Finding:
    value = line.value
    scheme, separator, rest = value.partition("://")
    if separator and scheme.isalpha():
        value = f"/{rest.partition('/')[2]}"
    effect = "it matches no URL: the path that it is compared with begins with `/` (RFC 9309, 2.2.2)"
    return _finding(Code.NEVER_MATCHES, line, effect, f"{_usual(line)}: /{value.removeprefix('/')}")


def _space(line: Line) -> Finding:
    key, paths = _usual(line), _BLANKS.split(line.value)
    if all(path.startswith(("/", "*")) for path in paths):
        meant = f"a line for each: {', '.join(f'{key}: {path}' for path in paths)}"
    else:
        meant = f"{key}: {line.value.replace(' ', '%20').replace(chr(9), '%09')}"
    return _finding(Code.SPACE_IN_PATTERN, line, "part of the one pattern, percent-encoded", meant)


def _control(line: Line) -> Finding:
    effect = "in a value, it is kept and percent-encoded; a key that holds one is unknown"
    return _finding(Code.CONTROL_OCTET, line, effect, _CONTROL.sub("", _written(line)))


def _not_utf8(line: Line) -> Finding:
    return _finding(Code.NOT_UTF8, line, "its octets are percent-encoded one by one", "the file saved as UTF-8")


def _too_long(line: Line) -> Finding:
    return _finding(Code.TOO_LONG, line, f"what follows octet {MAX_LINE:,} is not read", "several shorter lines")


def _cut_off(line: Line) -> Finding:
    effect = "ignored: the size limit cuts it short (RFC 9309, 2.5)"
    return _finding(Code.CUT_OFF, line, effect, "a shorter file")


def _mark(line: Line) -> Finding:
    effect = "passed over, by this crawler and most; others take it for a part of the key, and leave the line out"
    return _finding(Code.BYTE_ORDER_MARK, line, effect, "the file saved as UTF-8 without a byte order mark")


def _encoding(line: Line) -> Finding:
    effect = "converted, by this crawler; others find no record in the file, and allow everything (RFC 9309, 2.3)"
    return _finding(Code.OTHER_ENCODING, line, effect, "the file saved as UTF-8")


#: What is said of each flag.
_OF_FLAG: dict[Flag, Callable[[Line], Finding]] = {
    Flag.MISSPELT_KEY: _misspelt,
    Flag.NO_COLON: _no_colon,
    Flag.UNKNOWN_KEY: _unknown,
    Flag.OUTSIDE_GROUP: _outside,
    Flag.INVALID_TOKEN: _token,
    Flag.NEVER_MATCHES: _never,
    Flag.SPACE_IN_PATTERN: _space,
    Flag.CONTROL_OCTET: _control,
    Flag.NOT_UTF8: _not_utf8,
    Flag.TOO_LONG: _too_long,
    Flag.CUT_OFF: _cut_off,
    Flag.BYTE_ORDER_MARK: _mark,
    Flag.OTHER_ENCODING: _encoding,
}


def _of_line(line: Line) -> Iterator[Finding]:
    """What a line shows by itself."""
    yield from (_OF_FLAG[flag](line) for flag in Flag if flag in line.flags)
    if line.kind is LineKind.JUNK and Flag.CUT_OFF not in line.flags:
        yield _no_record(line)
    elif line.kind in RULES:
        yield from _of_pattern(line)
    elif line.kind is LineKind.RECORD:
        yield from _of_value(line)


def _no_record(line: Line) -> Finding:
    word = _FIRST_WORD.match(line.value)
    key = _like(word[0].lower()) if word else None
    meant = f"{key}: {line.value[word.end() :].lstrip()}" if word and key else f"a comment: # {line.value}"
    return _finding(Code.NO_RECORD, line, "ignored: it is no record", meant)


def _of_pattern(line: Line) -> Iterator[Finding]:
    if "$" in line.value[:-1]:
        effect = "it stands for itself: only a last `$` is the end of a URL (RFC 9309, 2.2.3)"
        beginning, _, rest = line.value.partition("$")
        end_meant = not rest.strip("/?*$")
        meant = f"{beginning}$" if end_meant else _INNER_DOLLAR.sub("%24", line.value)
        yield _finding(Code.DOLLAR_INSIDE, line, effect, f"{_usual(line)}: {meant}")
    if _MISPLACED_PERCENT.search(line.value):
        meant = f"{_usual(line)}: {_MISPLACED_PERCENT.sub('%25', line.value)}"
        yield _finding(Code.BAD_ESCAPE, line, "the `%` stands for itself, as `%25` would", meant)


def _of_value(line: Line) -> Iterator[Finding]:
    if line.key in _VALUES:
        parse, example = _VALUES[line.key]
        if parse(line.value) is None:
            yield _finding(Code.INVALID_VALUE, line, _of_no_value(line), f"such as {example}")
    elif line.key in ("sitemap", "site-map") and not _is_absolute(line.value):
        effect = "crawlers that do not take it as relative to the robots.txt leave it out"
        yield _finding(Code.RELATIVE_SITEMAP, line, effect, "the whole URL, such as https://www.example/sitemap.xml")


def _of_no_value(line: Line) -> str:
    """What a crawler makes of a value that is not understood."""
    delay = parse_delay(line.value) if line.key == "crawl-delay" else None
    if delay is None:
        return "ignored: nobody can tell what it asks for"
    return f"read as {delay:.15g} s, the largest number in it: it is no number with a known unit"


def _is_absolute(url: str) -> bool:
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and bool(parts.netloc)


# Where lines stand.


def _of_standing(lines: Sequence[Line]) -> Iterator[Finding]:
    """What a line's place among the others shows."""
    agent: Line | None = None  # the last user-agent line of a group that has no rule yet
    in_group = apart = False
    for line in lines:
        if line.kind is LineKind.USER_AGENT:
            if agent is not None and apart:
                effect = f"it ends no group: the rules below are those of line {agent.number}, too (RFC 9309, 2.1)"
                yield _finding(Code.AGENTS_JOINED, line, effect, "a rule above it, such as an empty `Disallow:`")
            agent, in_group, apart = line, True, False
        elif line.kind in RULES:
            agent = None
        else:
            apart = apart or line.kind not in (LineKind.COMMENT, LineKind.JUNK)
            if line.key in _VALUES and not in_group:
                effect = "ignored: it belongs to no group, as no user-agent line stands above it"
                yield _finding(Code.DELAY_OUTSIDE_GROUP, line, effect, "a line `User-agent: *` above it")


# Groups.


def _of_groups(groups: Iterable[Group]) -> Iterator[Finding]:
    """What groups show."""
    first: dict[str, int] = {}
    for group in groups:
        agents = f"user-agent: {', '.join(group.tokens)}"
        tokens = dict.fromkeys(token_of(octets(token)) for token in group.tokens)
        earlier = next((first[token] for token in tokens if token in first), None)
        if earlier is not None:
            effect = f"combined with the group of line {earlier}, by RFC 9309, 2.2.1; others read only one of them"
            yield Finding(Code.SPLIT_GROUP, group.line, _short(agents), effect, "one group with the rules of both")
        elif not group.rules:
            effect = "without a rule, everything is allowed (RFC 9309, 2.2.2)"
            yield Finding(Code.NO_RULES, group.line, _short(agents), effect, "an empty `Disallow:`, to say so")
        for token in tokens:
            first.setdefault(token, group.line)
        yield from _of_rules(group.rules)


def _of_rules(rules: Sequence[Rule]) -> Iterator[Finding]:
    """What the rules of one group show."""
    first: dict[tuple[RuleKind, str], int] = {}
    for rule in rules:
        other = RuleKind.DISALLOW if rule.kind is RuleKind.ALLOW else RuleKind.ALLOW
        text = _short(f"{rule.kind.value.lower()}: {rule.pattern}")
        same, opposite = first.get((rule.kind, rule.pattern)), first.get((other, rule.pattern))
        if not rule.pattern and len(rules) > 1:
            effect = "it matches nothing: the other rules of the group decide (RFC 9309, 2.2.2)"
            yield Finding(Code.EMPTY_RULE, rule.line, text, effect, "nothing, or the only rule of its group")
        elif same is not None:
            yield Finding(Code.REPEATED_RULE, rule.line, text, f"it changes nothing: line {same} says the same")
        elif opposite is not None:
            effect = f"of it and line {opposite} the allow decides, as they are equally specific (RFC 9309, 2.2.2)"
            yield Finding(Code.CONTRADICTION, rule.line, text, effect, "one of them")
        first.setdefault((rule.kind, rule.pattern), rule.line)
