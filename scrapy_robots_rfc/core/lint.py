"""A linter that finds mistakes in robots.txt files and suggests corrections.

`docs/cli.md` lists the codes.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_letters

from scrapy_robots_rfc.core.agents import names_in_line
from scrapy_robots_rfc.core.extensions import parse_delay, parse_rate, parse_window, plain_delay
from scrapy_robots_rfc.core.findings import Flag, Group, Line, groups_of, lines_of, raw_lines
from scrapy_robots_rfc.core.lines import BLANKS, MAX_LINE, RULES, LineKind, Record
from scrapy_robots_rfc.core.lint_codes import TEXTS, Code, Severity, severity_of
from scrapy_robots_rfc.core.lint_suggestions import (
    describe_name,
    is_regular_expression,
    names_nobody,
    similar_key,
    spelled_key,
    suggest_name,
    suggest_rules,
)
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

_PACES = ("crawl-delay", "request-rate", "visit-time")
_SITEMAPS = ("sitemap", "site-map")

_is_absolute_url = re.compile("https?://[^/?#]", re.IGNORECASE).match
_has_second_url = re.compile(r"(?<![\s,;])[\s,;]++(?:https?://|(?<=\s)/)", re.IGNORECASE).search
_has_invalid_escape = re.compile("%(?![0-9A-Fa-f]{2})").search

# Number of bytes to search for NUL.
_SEARCHED = 1000


@dataclass(frozen=True, slots=True)
class Finding:
    """A mistake in a line.

    The strings contain text from the site, so escape them before printing them to a terminal.

    :param code: the kind of mistake.
    :param line: the line number, starting at 1.
    :param text: the parsed line without its comment, truncated if it is too long.
    :param effect: how crawlers interpret the line.
    :param meant: the suggested correction, or an empty string.
    """

    code: Flag | Code
    line: int
    text: str
    effect: str
    meant: str

    @property
    def severity(self) -> Severity:
        """The severity of the mistake."""
        return severity_of(self.code)


def lint(robots: RobotsTxt) -> list[Finding]:
    """Return the findings for a file, sorted by line. This never raises."""
    lines = list(lines_of(robots))
    groups = groups_of(robots)
    findings = list[Finding]()
    if not groups and b"\0" in robots.content.data[:_SEARCHED]:
        return [_make_finding(Code.NOT_TEXT, lines[0])]
    is_markup = robots.starts_with_markup
    if is_markup:
        first = next(line for line in lines if line.kind is not LineKind.BLANK)
        effect = "this is a web page without a user-agent line, so everything is allowed"
        if groups:
            rules = pluralize(sum(len(group.rules) for group in groups), "rule")
            effect = f"this is a web page; this crawler reads the {rules} in it, but others may not"
        findings.append(_make_finding(Code.MARKUP, first, effect=effect))
        # Treat the line as a comment, so that it does not have any other findings.
        lines[first.number - 1] = first._replace(kind=LineKind.COMMENT, flags=frozenset())
    if groups or not is_markup:  # do not report every line of a web page
        shared_tokens = _shared_tokens(lines)
        for line, raw in zip(lines, raw_lines(robots), strict=True):
            findings += _check_line(line, raw, shared_tokens)
        for line in lines[: groups[0].line - 1] if groups else lines:
            findings += _check_outside_group(line)
        findings += _check_repeated_groups(groups, lines)
        findings += _check_names(groups, lines)
        for group in groups:
            findings += _check_group(group, lines)
    if robots.content.truncated:
        # There are no lines if even the first one is longer than the limit.
        last = lines[-1] if lines else Line(1, LineKind.BLANK, "", "")
        findings.append(_make_finding(Code.FILE_TOO_LONG, last))
    return sorted(findings, key=lambda finding: finding.line)


def _make_finding(code: Flag | Code, line: Line, **words: object) -> Finding:
    """Return a finding for a code, using `words` to fill in the placeholders in its texts."""
    template = TEXTS[code]
    words = {"key": spelled_key(line), "value": shorten(line.value), **words}
    effect = template.effect.format(**words)
    meant = shorten(template.meant.format(**words))
    colon = "" if Flag.NO_COLON in line.flags else ":"
    text = f"{line.key}{colon} {line.value}".rstrip() if line.key else line.value
    return Finding(code, line.number, shorten(text), effect, meant)


def _shared_tokens(lines: Sequence[Line]) -> set[str]:
    """Return tokens that are shared by several names, such as `bot` for `bot1` and `bot2`."""
    values = {line.value for line in lines if line.kind is LineKind.USER_AGENT}
    names = {names_in_line(to_octets(value)) for value in values}
    return {token for token, count in Counter(token for token, _ in names).items() if count > 1}


# Checks for individual lines.


def _check_line(line: Line, raw: str, shared_tokens: Collection[str]) -> Iterator[Finding]:
    """Check a line.

    :param raw: the unparsed line.
    :param shared_tokens: the result of `_shared_tokens`.
    """
    for flag in sorted(line.flags):
        yield from _check_flag(flag, line, shared_tokens)
    if line.kind is LineKind.JUNK:
        after_first_word = line.value.lstrip(f"{ascii_letters}-")
        similar = similar_key(line.value.removesuffix(after_first_word).lower())
        meant = f"a comment: # {line.value}"
        if similar:  # `Disallow/a b` should be `Disallow: /a b`
            meant = f"{similar}: {after_first_word.lstrip()}"
        yield _make_finding(Code.NO_RECORD, line, meant=meant)
    elif line.kind in RULES:
        yield from _check_pattern(line, raw)
    elif line.kind is LineKind.RECORD:
        yield from _check_record(line)


def _check_flag(flag: Flag, line: Line, shared_tokens: Collection[str]) -> Iterator[Finding]:
    """Report a problem that was found when the line was parsed."""
    if flag is Flag.UNKNOWN_KEY and (similar := similar_key(line.key)) is not None:
        yield _make_finding(Code.ALMOST_A_KEY, line, similar=similar)
    elif flag is Flag.NEVER_MATCHES:
        yield _make_finding(flag, line, rule=suggest_rules(line))
    elif flag is not Flag.INVALID_TOKEN:
        yield _make_finding(flag, line)
    elif not names_nobody(line.value):  # otherwise, `_check_nobody` reports it
        effect, meant = describe_name(line.value, shared_tokens)
        yield _make_finding(flag, line, effect=effect, meant=meant)


def _check_pattern(line: Line, raw: str) -> Iterator[Finding]:
    """Check a rule's pattern."""
    before, comment_sign, _ = raw[:MAX_LINE].partition("#")
    if comment_sign and line.value and before[-1] not in BLANKS:  # `Disallow: /a#b`
        yield _make_finding(Code.CUT_BY_COMMENT, line)
    if "$" in line.value[:-1]:
        yield _make_finding(Code.DOLLAR_INSIDE, line)
    if _has_invalid_escape(line.value):
        yield _make_finding(Code.INVALID_ESCAPE, line)
    # If the pattern never matches, `_check_flag` suggests rules.
    if Flag.NEVER_MATCHES not in line.flags and is_regular_expression(line.value):
        yield _make_finding(Code.REGULAR_EXPRESSION, line, rule=suggest_rules(line))


def _check_record(line: Line) -> Iterator[Finding]:
    """Check the value of a record."""
    if line.key in (USAGE, SIGNAL):
        yield from _check_use(line)
    elif line.key == "crawl-delay":
        yield from _check_delay(line)
    elif line.key == "request-rate" and parse_rate(line.value) is None:
        effect = "ignored, because it is not a valid request rate"
        yield _make_finding(Code.INVALID_VALUE, line, effect=effect, example="Request-rate: 1/5")
    elif line.key == "visit-time" and parse_window(line.value) is None:
        effect, example = "ignored, because it is not a valid time window", "Visit-time: 0600-0845"
        yield _make_finding(Code.INVALID_VALUE, line, effect=effect, example=example)
    elif line.key == "visit-time":  # it is valid, so there is nothing to correct
        yield _make_finding(Code.NOT_OBEYED, line, effect="ignored by this crawler", meant="")
    elif line.key == "noindex":
        effect = "ignored by this crawler, Google and Bing; no crawler is known to support it"
        meant = "a robots meta tag or X-Robots-Tag with `noindex` on pages that are allowed"
        yield _make_finding(Code.NOT_OBEYED, line, effect=effect, meant=meant)
    elif line.key in (*_SITEMAPS, "license"):
        yield from _check_url(line)


def _check_url(line: Line) -> Iterator[Finding]:
    """Check a Sitemap or License."""
    name = line.key.replace("-", "")  # `site-map` is another spelling of `sitemap`
    if line.key in _SITEMAPS and _has_second_url(line.value):
        yield _make_finding(Code.TWO_URLS, line)
    elif not line.value:
        effect = "ignored, because it has no URL"
        example = f"{spelled_key(line)}: https://www.example/{name}.xml"
        yield _make_finding(Code.INVALID_VALUE, line, effect=effect, example=example)
    elif not _is_absolute_url(line.value):
        yield _make_finding(Code.RELATIVE_URL, line, name=name)


def _check_delay(line: Line) -> Iterator[Finding]:
    """Check a Crawl-delay."""
    seconds = plain_delay(line.value)
    if seconds is not None:
        if "," in line.value:
            yield _make_finding(Code.DECIMAL_COMMA, line, seconds=seconds)
        return
    largest = parse_delay(line.value)
    if largest is None:
        is_negative = "-" in line.value
        effect = f"ignored, because it {'is negative' if is_negative else 'contains no number'}"
        example = "Crawl-delay: 10"
    else:
        effect = "not a plain number, so the largest number in it is used"
        example = f"Crawl-delay: {largest:.15g}"
    yield _make_finding(Code.INVALID_VALUE, line, effect=effect, example=example)


def _check_use(line: Line) -> Iterator[Finding]:
    """Check a Content-Usage or Content-Signal record."""
    records = read_records([Record(line.key, to_octets(line.value), line.number)])[line.key]
    preferences = [item for record in records for item in record.labels.items()]
    if line.key == USAGE and not preferences:
        yield _make_finding(Code.USE_VOID, line)
    yes, no = ("y", "n") if line.key == USAGE else ("yes", "no")
    for label, preference in preferences:
        if preference.allowed is not None and label not in LABELS:
            yield _make_finding(Code.USE_UNKNOWN, line, label=label)
        elif preference.allowed is None and (line.key, label) != (SIGNAL, "use"):
            # In a Content-Signal, `use` does not take yes or no.
            yield _make_finding(Code.USE_NO_VALUE, line, label=label, yes=yes, no=no)


def _check_outside_group(line: Line) -> Iterator[Finding]:
    """Check a record above the first group."""
    if line.key == SIGNAL:
        yield _make_finding(Code.SIGNAL_OUTSIDE_GROUP, line)
    elif line.key in _PACES or line.key in RECORDS:
        # The message is "ignored" for all crawlers, or "ignored by this crawler, ..." for a
        # Crawl-delay, because some crawlers obey it even here.
        by = ""
        if line.key == "crawl-delay":
            by = " by this crawler, Protego and urllib.robotparser"
        yield _make_finding(Code.RECORD_OUTSIDE_GROUP, line, by=by)


# Checks for groups.


def _check_repeated_groups(groups: Sequence[Group], lines: Sequence[Line]) -> Iterator[Finding]:
    """Check for groups with the same name as an earlier group, and for groups without rules."""
    first_with_name: dict[tuple[str, str], Group] = {}  # keyed by token and full name
    for group in groups:
        agents = _agents_in(group, lines)
        names = [names_in_line(to_octets(line.value)) for line in agents]
        earlier = next((first_with_name[name] for name in names if name in first_with_name), None)
        if earlier is not None:
            # A group with the same rules is harmless. If the rules differ, some crawlers combine
            # the two groups, and others use only one of them.
            code = Code.REPEATED_GROUP if _rules(earlier) == _rules(group) else Code.NAMED_TWICE
            yield _make_finding(code, agents[0], above=earlier.line)
        elif not group.rules:  # in a repeated group, the rules of the earlier group apply
            yield _make_finding(Code.NO_RULES, agents[0])
        for name in names:
            if any(name):  # otherwise, the line matches no crawler
                first_with_name.setdefault(name, group)


def _check_names(groups: Sequence[Group], lines: Sequence[Line]) -> Iterator[Finding]:
    """Check the name in each user-agent line, and whether another group has the same token."""
    # Token -> the first full name with this token, the number of its line, and its group.
    first_with_token: dict[str, tuple[str, int, Group]] = {}
    for group in groups:
        agents = _agents_in(group, lines)
        yield from _check_nobody(agents)
        for line in agents:
            token, name = names_in_line(to_octets(line.value))
            if token in POLICY_TOKENS:
                yield _make_finding(Code.POLICY_GROUP, line, label=POLICY_TOKENS[token])
            if token not in first_with_token:
                first_with_token[token] = name, line.number, group
                continue
            # `bot1` and `bot2` have the same token, so many crawlers confuse their groups.
            first_name, first_line, first_group = first_with_token[token]
            if token and first_name != name and first_group is not group:
                spelling = line.value[: len(token)]  # like `token`, but not in lowercase
                yield _make_finding(Code.SAME_TOKEN, line, token=spelling, above=first_line)


def _check_nobody(agents: Sequence[Line]) -> Iterator[Finding]:
    """Check for user-agent lines in a group that do not match any crawler."""
    effect = "it matches no crawler"
    if all(names_nobody(line.value) for line in agents):
        effect += ", so the rules below it never apply"
    for line in agents:
        if names_nobody(line.value):
            meant = suggest_name(line.value)
            yield _make_finding(Code.NAMES_NOBODY, line, effect=effect, meant=meant)


def _agents_in(group: Group, lines: Sequence[Line]) -> list[Line]:
    """Return a group's user-agent lines.

    :param lines: all lines in the file.
    """
    own_lines = lines[group.line - 1 : group.last]
    return [line for line in own_lines if line.kind is LineKind.USER_AGENT]


def _rules(group: Group) -> set[tuple[object, str]]:
    return {(rule.kind, rule.pattern) for rule in group.rules}


def _check_group(group: Group, lines: Sequence[Line]) -> Iterator[Finding]:
    """Check a group for lines that conflict with each other.

    :param lines: all lines in the file.
    """
    for above, line in pairwise(_agents_in(group, lines)):
        between = lines[above.number : line.number - 1]
        # Site owners who separate two user-agent lines probably mean two groups.
        if any(other.kind in (LineKind.BLANK, LineKind.RECORD) for other in between):
            yield _make_finding(Code.AGENTS_JOINED, line, above=above.number)
    first_by_pattern: dict[str, Line] = {}
    first_delay: Line | None = None
    for line in lines[group.line - 1 : group.last]:
        if line.kind in RULES and line.value:
            first = first_by_pattern.setdefault(line.value, line)
            if line.kind is not first.kind:
                yield _make_finding(Code.CONTRADICTION, line, above=first.number)
            elif line is not first:
                yield _make_finding(Code.REPEATED_RULE, line, above=first.number)
        elif line.key == "crawl-delay" and parse_delay(line.value) is not None:
            first_delay = first_delay or line
            if parse_delay(line.value) != parse_delay(first_delay.value):
                yield _make_finding(Code.DELAYS_DIFFER, line, above=first_delay.number)
