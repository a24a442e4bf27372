"""The linter: it finds odd lines in a robots.txt and says what was probably meant.

It reads lines and groups with `findings.py`, as the parser does. `docs/cli.md` lists the codes.
"""

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from string import ascii_letters

from scrapy_robots_rfc.core.agents import ANY, names_in_line, product_tokens
from scrapy_robots_rfc.core.extensions import parse_delay, parse_rate, parse_window, plain_delay
from scrapy_robots_rfc.core.findings import Flag, Group, Line, groups_of, lines_of, raw_lines
from scrapy_robots_rfc.core.lines import (
    BLANKS,
    KNOWN_RECORDS,
    MAX_LINE,
    RULES,
    LineKind,
    Record,
    as_text,
)
from scrapy_robots_rfc.core.lint_codes import TEXTS, Code, Severity, severity_of
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.preferences import (
    LABELS,
    POLICY_TOKENS,
    RECORDS,
    SIGNAL,
    USAGE,
    read_records,
)
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import pluralize, shorten

# Characters of the longest key that is compared with the known ones.
_LONGEST_KEY = 24
_KEYS_TO_MEAN = tuple(sorted({"user-agent", "allow", "disallow", *KNOWN_RECORDS}))
# Keys that are not simply capitalized in their usual spelling.
_USUAL_KEYS = {
    "site-map": "Sitemap",
    "disallowaitraining": "DisallowAITraining",
    "allowaitraining": "AllowAITraining",
}
_PACES = ("crawl-delay", "request-rate", "visit-time")
_SITEMAPS = ("sitemap", "site-map")

_RUN = re.compile("[A-Za-z_-]+")
_TOKENS_HAVE = "product tokens have only letters, `-` and `_`"
_is_absolute_url = re.compile("https?://[^/?#]", re.IGNORECASE).match
_has_second_url = re.compile(r"(?<![\s,;])[\s,;]++(?:https?://|(?<=\s)/)", re.IGNORECASE).search
_TAG = re.compile("<[^<>]*>")
_has_invalid_escape = re.compile("%(?![0-9A-Fa-f]{2})").search

# What is typical of a regular expression: `^/private`, `/foo/.*`, `/a.+b`, `\.pdf`, `[0-9]`,
# `(a|b)`.
_is_regular_expression = re.compile(
    r"^\^|(?:^|[/)\]])\.[*+]|\.\+|\\[.dwsDWS/?*$]|\[\^?\w-\w|\([^()|]*\|[^()]*\)"
).search
# A scheme and an authority: `https://www.example` in `https://www.example/a`.
_SITE = re.compile(r"\A[A-Za-z]+://[^/]*")
# `.*` and `.+` of a regular expression, and what only it escapes: `\.`, `\/`.
_ANYTHING = re.compile(r"\.[*+]\??")
_ESCAPED = re.compile(r"\\([^A-Za-z0-9])")
# `(a|b)` in a pattern.
_ALTERNATIVES = re.compile(r"([^()]*)\(([^()]*\|[^()]*)\)([^()]*)")
_MAX_ALTERNATIVES = 4


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a line. A site wrote parts of it: escape them for a terminal.

    :param code: the kind of finding.
    :param line: the number of the line, from 1.
    :param text: the line as it is read, without comment; shortened.
    :param effect: what a crawler makes of it, according to RFC 9309 and this package.
    :param meant: what was probably meant, or what helps; empty if neither is known.
    """

    code: Flag | Code
    line: int
    text: str
    effect: str
    meant: str

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return severity_of(self.code)


def lint(robots: RobotsTxt) -> list[Finding]:
    """Return the findings about a file, by line. Never raises."""
    lines = list(lines_of(robots))
    groups = groups_of(robots)
    findings = list[Finding]()
    page = robots.starts_with_markup
    if page:
        first = next(line for line in lines if line.kind is not LineKind.BLANK)
        rules = "it has no User-agent group, so everything is allowed"
        if groups:
            count = sum(len(group.rules) for group in groups)
            rules = f"this crawler reads the {pluralize(count, 'rule')} in it; others may not"
        findings.append(_finding(Code.MARKUP, first, rules=rules))
        lines[first.number - 1] = first._replace(kind=LineKind.COMMENT, flags=frozenset())
    if groups or not page:  # the lines of a mere page are not worth a finding each
        shared = _shared_tokens(lines)
        for line, raw in zip(lines, raw_lines(robots), strict=True):
            findings += _of_line(line, raw, shared)
        for line in lines[: groups[0].line - 1] if groups else lines:
            findings += _outside(line)
        findings += _of_names(groups, lines)
        for group in groups:
            findings += _of_group(group, lines)
    if robots.content.truncated:
        last = lines[-1] if lines else Line(1, LineKind.BLANK, "", "")
        findings.append(_finding(Code.FILE_TOO_LONG, last))
    return sorted(findings, key=lambda finding: finding.line)


def _finding(code: Flag | Code, line: Line, **words: object) -> Finding:
    effect, meant = TEXTS[code]
    # A line is shown as it is read, which is with its key in lower case.
    colon = "" if Flag.NO_COLON in line.flags else ":"
    text = f"{line.key}{colon} {line.value}".rstrip() if line.key else line.value
    words = {"key": _usual_key(line), "value": shorten(line.value), **words}
    return Finding(
        code, line.number, shorten(text), effect.format(**words), shorten(meant.format(**words))
    )


def _usual_key(line: Line) -> str:
    """Return the usual spelling of the key of a line."""
    key: str = line.key if line.kind is LineKind.RECORD else line.kind.value
    return _USUAL_KEYS.get(key, key.capitalize())


def _shared_tokens(lines: Sequence[Line]) -> set[str]:
    """Return the tokens with which several names begin, as `bot1` and `bot2` begin with `bot`."""
    values = {line.value for line in lines if line.kind is LineKind.USER_AGENT}
    names = {names_in_line(to_octets(value)) for value in values}
    return {token for token, count in Counter(token for token, _ in names).items() if count > 1}


# Findings about one line.


def _of_line(line: Line, raw: str, shared: Collection[str]) -> Iterator[Finding]:
    """Yield the findings about a line.

    :param raw: the line as the file has it.
    :param shared: tokens with which several names begin.
    """
    for flag in sorted(line.flags):
        similar = _similar_key(line.key) if flag is Flag.UNKNOWN_KEY else None
        if similar is not None:
            yield _finding(Code.ALMOST_A_KEY, line, similar=similar)
        elif flag is Flag.INVALID_TOKEN:
            if not _names_nobody(line.value):
                effect, meant = _of_name(line.value, shared)
                yield _finding(flag, line, effect=effect, meant=meant)
        else:
            yield _finding(flag, line, rule=_rule_meant(line))
    if line.kind is LineKind.JUNK:
        rest = line.value.lstrip(f"{ascii_letters}-")
        similar = _similar_key(line.value.removesuffix(rest).lower())
        meant = f"{similar}: {rest.lstrip()}" if similar else f"a comment: # {line.value}"
        yield _finding(Code.NO_RECORD, line, meant=meant)
    elif line.kind in RULES:
        yield from _of_pattern(line, raw)
    elif line.kind is LineKind.RECORD:
        yield from _of_record(line)


@lru_cache(maxsize=1024)
def _similar_key(key: str) -> str | None:
    if len(key) > _LONGEST_KEY:
        return None
    plain = key.replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(plain, _KEYS_TO_MEAN, n=1, cutoff=0.8)
    return close[0].capitalize() if close else None


def _names_nobody(value: str) -> bool:
    """Return whether a user-agent line selects no crawler."""
    token, _ = names_in_line(to_octets(value))
    return not token and not value[:1].isalnum()


def _meant_by_nobody(value: str) -> str:
    """Return what was meant by a user-agent line that selects no crawler."""
    runs = _RUN.findall(_TAG.sub("", value))
    if runs:
        return f"User-agent: {max(runs, key=len)}"
    if ANY in value:
        return f"User-agent: {ANY}"
    return f"User-agent: {ANY}, or the name of a crawler"


def _of_name(value: str, shared: Collection[str]) -> tuple[str, str]:
    """Return the effect of a name that is not a product token, and what was meant.

    :param shared: tokens with which several names begin.
    """
    octets = to_octets(value)
    token, name = names_in_line(octets)
    if token == ANY:
        return "it names every crawler", f"User-agent: {ANY}"
    runs = _RUN.findall(_TAG.sub("", value))
    shown = as_text(octets[: len(name)])
    if not token:
        effect = f"only crawlers that compare whole names read `{shown}`: {_TOKENS_HAVE}"
        return effect, "the product token of the crawler"
    if name != token:
        effect = f"it names the crawlers `{shown}` and `{runs[0]}`: {_TOKENS_HAVE}"
        if token in shared:  # the token alone would name the other crawler, too
            return effect, "names that differ in their letters"
        return effect, f"User-agent: {runs[0]}"
    # Of a whole User-Agent header, the crawler's own name may come later.
    header_names = product_tokens(shorten(value))
    meant = header_names[0] if header_names else runs[0]
    return f"it names the crawler `{runs[0]}`", f"User-agent: {meant}"


def _path_meant(value: str) -> str:
    r"""Return the pattern that was probably meant by one that RFC 9309 does not have.

    It may be a URL, a path of a file system, or a regular expression: `/private/` is meant by
    `https://www.example/private/`, `./private/`, `private/`, `\private\` and `^/private/.*$`.
    """
    if value[:1] in ('"', "'"):
        value = value.strip("\"'")
    path = _SITE.sub("", _TAG.sub("", value))
    path = _ESCAPED.sub(r"\1", _ANYTHING.sub("*", path.removeprefix("^")))
    path = path.replace("\\", "/")
    if path.endswith("*$"):
        path = path.removesuffix("*$")
    path = path.removesuffix("*")  # a pattern is a prefix
    if path[:1] == "*":
        return path
    if path[:1] == "?":  # a query of any page
        return f"/*{path}"
    return "/" + path.removeprefix("./").removeprefix("../").lstrip("/")


def _rule_meant(line: Line) -> str:
    """Return the rules that were probably meant by a line with a wrong pattern."""
    key = _usual_key(line)
    alternatives = _ALTERNATIVES.fullmatch(line.value)
    if alternatives is not None:
        before, inside, after = alternatives.groups()
        each = inside.split("|", _MAX_ALTERNATIVES)[:_MAX_ALTERNATIVES]
        paths = [_path_meant(before + one + after) for one in each]
        if not any(map(_is_regular_expression, paths)):
            return "one line each: " + ", ".join(f"{key}: {path}" for path in paths)
    path = _path_meant(line.value)
    if _is_regular_expression(path):  # no pattern means the same as `/[0-9]`
        path = "the paths as prefixes, or `*` for any characters"
    return f"{key}: {path}"


def _of_pattern(line: Line, raw: str) -> Iterator[Finding]:
    """Yield the findings about the pattern of a rule."""
    before, comment, _ = raw[:MAX_LINE].partition("#")
    if comment and line.value and before[-1] not in BLANKS:
        yield _finding(Code.CUT_BY_COMMENT, line)
    if "$" in line.value[:-1]:
        yield _finding(Code.DOLLAR_INSIDE, line)
    if _has_invalid_escape(line.value):
        yield _finding(Code.INVALID_ESCAPE, line)
    if Flag.NEVER_MATCHES not in line.flags and _is_regular_expression(line.value):
        yield _finding(Code.REGULAR_EXPRESSION, line, rule=_rule_meant(line))


def _of_record(line: Line) -> Iterator[Finding]:
    """Yield the findings about the value of a record."""
    if line.key in (USAGE, SIGNAL):
        yield from _of_use(line)
    elif line.key == "crawl-delay":
        yield from _of_delay(line)
    elif line.key == "request-rate" and parse_rate(line.value) is None:
        effect = "ignored: it is not a number of requests in a number of seconds"
        yield _finding(Code.INVALID_VALUE, line, effect=effect, example="Request-rate: 1/5")
    elif line.key == "visit-time" and parse_window(line.value) is None:
        effect = "ignored: it is not a time of day"
        yield _finding(Code.INVALID_VALUE, line, effect=effect, example="Visit-time: 0600-0845")
    elif line.key == "visit-time":
        yield _finding(Code.NOT_OBEYED, line, effect="this crawler does not obey it", meant="")
    elif line.key == "noindex":
        effect = "ignored by this crawler, Google and Bing: no crawler is known to obey it"
        meant = "a robots meta or X-Robots-Tag with `noindex` on pages that are allowed"
        yield _finding(Code.NOT_OBEYED, line, effect=effect, meant=meant)
    elif line.key in _SITEMAPS and _has_second_url(line.value):
        yield _finding(Code.TWO_URLS, line)
    elif line.key in (*_SITEMAPS, "license") and not line.value:
        key = _usual_key(line)
        example = f"{key}: https://www.example/{line.key.replace('-', '')}.xml"
        yield _finding(Code.INVALID_VALUE, line, effect="ignored: it has no URL", example=example)
    elif line.key in (*_SITEMAPS, "license") and not _is_absolute_url(line.value):
        yield _finding(Code.RELATIVE_URL, line, name=line.key.replace("-", ""))


def _of_delay(line: Line) -> Iterator[Finding]:
    seconds = plain_delay(line.value)
    if seconds is not None:
        if "," in line.value:
            yield _finding(Code.DECIMAL_COMMA, line, seconds=seconds)
        return
    largest = parse_delay(line.value)
    if largest is None:
        effect = "ignored: it is negative" if "-" in line.value else "ignored: it has no number"
        example = "Crawl-delay: 10"
    else:
        effect = "not a number of seconds: the largest number in it counts"
        example = f"Crawl-delay: {largest:.15g}"
    yield _finding(Code.INVALID_VALUE, line, effect=effect, example=example)


def _of_use(line: Line) -> Iterator[Finding]:
    """Yield the findings about a Content-Usage or a Content-Signal."""
    read = read_records([Record(line.key, to_octets(line.value), line.number)])
    stated = (one.labels.items() for one in chain.from_iterable(read.values()))
    preferences = list(chain.from_iterable(stated))
    if line.key == USAGE and not preferences:
        yield _finding(Code.USE_VOID, line)
    yes, no = ("y", "n") if line.key == USAGE else ("yes", "no")
    for label, preference in preferences:
        if preference.allowed is not None and label not in LABELS:
            yield _finding(Code.USE_UNKNOWN, line, label=label)
        elif preference.allowed is None and (line.key, label) != (SIGNAL, "use"):
            # `use` of a Content-Signal has other values.
            yield _finding(Code.USE_NO_VALUE, line, label=label, yes=yes, no=no)


def _outside(line: Line) -> Iterator[Finding]:
    """Yield the finding about a record above the first group."""
    if line.key == SIGNAL:
        yield _finding(Code.SIGNAL_OUTSIDE_GROUP, line)
    elif line.key in _PACES or line.key in RECORDS:
        by = ""
        if line.key == "crawl-delay":
            by = " by this crawler, Protego and urllib.robotparser"
        effect = f"ignored{by}: it belongs to no group, because no user-agent line is above it"
        yield _finding(Code.RECORD_OUTSIDE_GROUP, line, effect=effect)


# Findings about groups.


def _of_names(groups: Sequence[Group], lines: Sequence[Line]) -> Iterator[Finding]:
    """Yield the findings about crawlers that several groups name."""
    by_name: dict[tuple[str, str], Group] = {}
    by_token: dict[str, tuple[str, int]] = {}  # the first name of each token, and its line
    for group in groups:
        own = lines[group.line - 1 : group.last]
        agents = [line for line in own if line.kind is LineKind.USER_AGENT]
        names = [names_in_line(to_octets(line.value)) for line in agents]
        first = next((by_name[name] for name in names if name in by_name and any(name)), None)
        if first is not None:
            code = Code.SPLIT_GROUP if _rules(first) == _rules(group) else Code.NAMED_TWICE
            yield _finding(code, agents[0], above=first.line)
        elif not group.rules:
            yield _finding(Code.NO_RULES, agents[0])
        effect = "it names no crawler"
        if all(_names_nobody(line.value) for line in agents):
            effect += ", so the rules below it apply to nobody"
        for line in agents:
            if _names_nobody(line.value):
                meant = _meant_by_nobody(line.value)
                yield _finding(Code.NAMES_NOBODY, line, effect=effect, meant=meant)
        for line, (token, name) in zip(agents, names, strict=True):
            by_name.setdefault((token, name), group)
            if token in POLICY_TOKENS:
                yield _finding(Code.POLICY_GROUP, line, label=POLICY_TOKENS[token])
            known = by_token.setdefault(token, (name, group.line))
            if token and known[0] != name and known[1] != group.line:
                shown = line.value[: len(token)]
                yield _finding(Code.SAME_TOKEN, line, token=shown, above=known[1])


def _rules(group: Group) -> set[tuple[object, str]]:
    return {(rule.kind, rule.pattern) for rule in group.rules}


def _of_group(group: Group, lines: Sequence[Line]) -> Iterator[Finding]:
    """Yield the findings about the lines of a group.

    :param lines: the lines of the file.
    """
    own = lines[group.line - 1 : group.last]
    agents = [line for line in own if line.kind is LineKind.USER_AGENT]
    for above, line in pairwise(agents):
        between = lines[above.number : line.number - 1]
        if any(one.kind in (LineKind.BLANK, LineKind.RECORD) for one in between):
            yield _finding(Code.AGENTS_JOINED, line, above=above.number)
    first: dict[str, Line] = {}
    first_delay: Line | None = None
    for line in own:
        if line.kind in RULES and line.value:
            other = first.setdefault(line.value, line)
            if line.kind is not other.kind:
                yield _finding(Code.CONTRADICTION, line, above=other.number)
            elif line is not other:
                yield _finding(Code.REPEATED_RULE, line, above=other.number)
        elif line.key == "crawl-delay" and parse_delay(line.value) is not None:
            first_delay = first_delay or line
            if parse_delay(line.value) != parse_delay(first_delay.value):
                yield _finding(Code.DELAYS_DIFFER, line, above=first_delay.number)
