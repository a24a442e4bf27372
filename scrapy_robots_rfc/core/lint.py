"""A linter that finds mistakes in robots.txt files and suggests corrections.

`docs/cli.md` lists the codes.
"""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain

from scrapy_robots_rfc.core.explanation import Flag, Line, groups_of, lines_of
from scrapy_robots_rfc.core.extensions import parse_delay, parse_rate, parse_window, plain_delay
from scrapy_robots_rfc.core.lines import BLANKS, KEYS, MAX_LINE, RULES, LineKind, Record
from scrapy_robots_rfc.core.lint_codes import Code
from scrapy_robots_rfc.core.lint_findings import MARKS, Finding, make_finding
from scrapy_robots_rfc.core.lint_groups import check_group, check_names, check_repeated_groups
from scrapy_robots_rfc.core.lint_suggestions import (
    INVISIBLE,
    describe_name,
    has_host_or_quote,
    has_key,
    has_space_in_path,
    invisible_start,
    is_regular_expression,
    may_be_regular_expression,
    meant_record,
    names_in_list,
    names_nobody,
    spelled_key,
    suggest_names,
    suggest_record,
    suggest_rules,
    suggested_lines,
    without_ends,
)
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.preferences import LABELS, RECORDS, SIGNAL, USAGE, read_records
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import pluralize, shorten

_PACES = ("crawl-delay", "request-rate", "visit-time")
_SITEMAPS = ("sitemap", "site-map")

_find_invisible = MARKS[Code.INVISIBLE_CHARACTER].search
_is_absolute_url = re.compile("https?://[^/?#]", re.IGNORECASE).match
_has_second_url = re.compile(r"(?<=[^\s,;:])[\s,;]++(?:https?://|(?<=\s)/)", re.IGNORECASE).search

# Number of bytes to search for NUL.
_SEARCHED = 1000


def lint(robots: RobotsTxt) -> list[Finding]:
    """Return the findings for a file, sorted by line. This never raises."""
    lines = list(lines_of(robots))
    groups = groups_of(robots, lines)
    findings = list[Finding]()
    if not groups and b"\0" in robots.content.data[:_SEARCHED]:
        return [make_finding(Code.NOT_TEXT, lines[0])]
    is_markup = robots.starts_with_markup
    if is_markup:
        first = next(line for line in lines if line.kind is not LineKind.BLANK)
        effect = "this is a web page without a user-agent line, so everything is allowed"
        if groups:
            rules = pluralize(sum(len(group.rules) for group in groups), "rule")
            effect = f"this is a web page; this crawler reads the {rules} in it, but others may not"
        findings.append(make_finding(Code.MARKUP, first, effect=effect))
        # Treat the line as a comment, so that it does not have any other findings.
        lines[first.number - 1] = first._replace(kind=LineKind.COMMENT, flags=frozenset())
    if groups or not is_markup:  # do not report every line of a web page
        for line in lines:
            findings += _check_line(line)
        for line in lines[: groups[0].line - 1] if groups else lines:
            findings += _check_outside_group(line)
        findings += _check_entire_file(lines)
        findings += check_repeated_groups(groups, lines)
        findings += check_names(groups, lines)
        for group in groups:
            findings += check_group(group, lines)
    if robots.content.truncated:
        # There are no lines if even the first one is longer than the limit.
        last = lines[-1] if lines else Line(1, LineKind.BLANK, "", "")
        findings.append(make_finding(Code.FILE_TOO_LONG, last))
    in_order = sorted(findings, key=lambda finding: finding.line)
    return list(_without_doubtful_suggestions(in_order, lines))


# Findings that a suggestion may have: each line of a list may have a name such as `bot1`, and a
# corrected key may be followed by a pattern with a space, which has a finding of its own.
_ACCEPTED = (Flag.INVALID_TOKEN, Flag.SPACE_IN_PATTERN)


def _without_doubtful_suggestions(
    findings: Sequence[Finding], lines: Sequence[Line]
) -> Iterator[Finding]:
    """Remove suggestions that have findings, or are for a line that contains two records."""
    suggested = chain.from_iterable(suggested_lines(finding.meant) for finding in findings)
    body = "\n".join(["User-agent: *", *dict.fromkeys(suggested)]).encode()
    doubtful = {
        line.text
        for line in lines_of(RobotsTxt(body, max_size=len(body)))
        if any(each.code not in _ACCEPTED for each in _check_line(line))
    }
    for finding in findings:
        own = suggested_lines(finding.meant)
        is_doubtful = own and (
            has_key(lines[finding.line - 1].value) or not doubtful.isdisjoint(own)
        )
        yield replace(finding, meant="") if is_doubtful else finding


# Checks for individual lines.


def _check_line(line: Line) -> Iterator[Finding]:
    """Check a line."""
    for flag in sorted(line.flags - {Flag.UNKNOWN_KEY}):
        yield from _check_name(line) if flag is Flag.INVALID_TOKEN else [_check_flag(flag, line)]
    record = meant_record(line)
    if record is not None:
        key, value = record
        problem = f"it is neither `{key}` nor another known key"
        if value != line.value:
            problem = "there is no colon (`:`) after the key"
        meant = suggest_record(key, value)
        yield make_finding(Code.ALMOST_A_KEY, line, problem=problem, meant=meant)
    elif Flag.UNKNOWN_KEY in line.flags:
        yield make_finding(Flag.UNKNOWN_KEY, line)
    elif line.kind is LineKind.JUNK:
        yield make_finding(Code.NO_RECORD, line)
    elif line.kind in RULES:
        yield from _check_pattern(line)
    elif line.kind is LineKind.RECORD:
        yield from _check_record(line)
    invisible = _find_invisible(line.value) if line.key in KEYS else None
    # At the start of a pattern or name, the character is the reason for another finding.
    is_reason = (
        invisible_start(line.value) and {Flag.NEVER_MATCHES, Flag.INVALID_TOKEN} & line.flags
    )
    if invisible is not None and not is_reason:
        value = without_ends(line.value)
        # Only a character at the end is certain to have no purpose.
        meant = "" if _find_invisible(value) else f"{spelled_key(line)}: {value}"
        character = f"U+{ord(invisible[0]):04X}"
        yield make_finding(Code.INVISIBLE_CHARACTER, line, character=character, meant=meant)


def _check_flag(flag: Flag, line: Line) -> Finding:
    """Report a problem that was found when the line was parsed."""
    key = spelled_key(line)
    rule = suggest_rules(key, line.value)
    if flag is Flag.SPACE_IN_PATTERN:
        rule = rule or "`%20` instead of the space" * bool(has_space_in_path(line.value))
    start = invisible_start(line.value)
    instead = f", not with the invisible character {start}" if start else ""
    meant = suggest_record(key, line.value)
    return make_finding(flag, line, rule=rule, instead=instead, meant=meant)


def _check_name(line: Line) -> Iterator[Finding]:
    """Report a user-agent line whose value is not a product token."""
    names = names_in_list(line.value)
    rest = "; the rest of the line is ignored" * bool(has_key(line.value))
    effect, meant = describe_name(line.value) + rest, suggest_names(line.value)
    code = Code.SEVERAL_NAMES if len(names) > 1 else Flag.INVALID_TOKEN
    if not names_nobody(line.value):  # otherwise, `check_names` reports it
        yield make_finding(code, line, token=names[0], effect=effect, meant=meant)


def _check_pattern(line: Line) -> Iterator[Finding]:
    """Check a rule's pattern."""
    before, comment_sign, after = line.text[:MAX_LINE].partition("#")
    # `Disallow: /a#b` or `Disallow: #/a`
    if comment_sign and (before[-1] not in BLANKS if line.value else after[:1] in ("/", "!")):
        pattern = f"`{shorten(line.value)}`" if line.value else "empty and matches no URL"
        yield make_finding(Code.CUT_BY_COMMENT, line, pattern=pattern)
    for code in (Code.DOLLAR_INSIDE, Code.INVALID_ESCAPE):
        if MARKS[code].search(line.value):
            yield make_finding(code, line)
    rule = suggest_rules(spelled_key(line), line.value)
    if Flag.NEVER_MATCHES in line.flags:
        pass  # `_check_flag` suggests rules
    elif has_host_or_quote(line.value):
        part = "host name" if line.value.startswith("//") else "quote"
        yield make_finding(Code.HOST_OR_QUOTE, line, part=part, rule=rule)
    elif is_regular_expression(line.value) or may_be_regular_expression(line.value):
        rule = rule if is_regular_expression(line.value) else ""
        yield make_finding(Code.REGULAR_EXPRESSION, line, rule=rule)


def _check_entire_file(lines: Sequence[Line]) -> Iterator[Finding]:
    """Check for repeated sitemaps, and for a Crawl-delay with a unit, which is reported once."""
    first_sitemaps: dict[str, Line] = {}
    for line in lines:
        if line.key in _SITEMAPS and line.value:
            first = first_sitemaps.setdefault(line.value, line)
            if first is not line:
                yield make_finding(Code.REPEATED_LINE, line, above=first.number)
    for line in lines:
        seconds = plain_delay(line.value) if line.key == "crawl-delay" else None
        if seconds is not None and math.isfinite(seconds) and any(map(str.isalpha, line.value)):
            yield make_finding(Code.DELAY_UNIT, line, seconds=seconds)
            break


def _check_record(line: Line) -> Iterator[Finding]:
    """Check the value of a record."""
    if line.key in (USAGE, SIGNAL):
        yield from _check_use(line)
    elif line.key == "crawl-delay":
        yield from _check_delay(line)
    elif line.key == "request-rate" and parse_rate(line.value) is None:
        effect = "ignored, because it is not a valid request rate"
        yield make_finding(Code.INVALID_VALUE, line, effect=effect, example="Request-rate: 1/5")
    elif line.key == "visit-time" and parse_window(line.value) is None:
        effect, example = "ignored, because it is not a valid time window", "Visit-time: 0600-0845"
        yield make_finding(Code.INVALID_VALUE, line, effect=effect, example=example)
    elif line.key == "visit-time":  # it is valid, so there is nothing to correct
        yield make_finding(Code.NOT_OBEYED, line, effect="ignored by this crawler", meant="")
    elif line.key == "noindex":
        effect = "ignored by this crawler, Google and Bing; no crawler is known to support it"
        meant = "a robots meta tag or X-Robots-Tag with `noindex` on pages that are allowed"
        yield make_finding(Code.NOT_OBEYED, line, effect=effect, meant=meant)
    elif line.key in (*_SITEMAPS, "license"):
        yield from _check_url(line)


def _check_url(line: Line) -> Iterator[Finding]:
    """Check a Sitemap or License."""
    name = spelled_key(line).lower()
    if line.key in _SITEMAPS and _has_second_url(line.value):
        yield make_finding(Code.TWO_URLS, line)
    elif not line.value:
        effect = "ignored, because it has no URL"
        example = f"{spelled_key(line)}: https://www.example/{name}.xml"
        yield make_finding(Code.INVALID_VALUE, line, effect=effect, example=example)
    elif not _is_absolute_url(line.value.lstrip(INVISIBLE)):
        url = without_ends(line.value)
        meant = f"the full URL, such as https://www.example/{name}.xml" * (not has_key(line.value))
        if _is_absolute_url(url):  # it is only quoted
            meant = f"{spelled_key(line)}: {url}"
        yield make_finding(Code.RELATIVE_URL, line, meant=meant)


def _check_delay(line: Line) -> Iterator[Finding]:
    """Check a Crawl-delay."""
    seconds = plain_delay(line.value)
    if seconds is not None:
        if "," in line.value:
            yield make_finding(Code.DECIMAL_COMMA, line, seconds=seconds)
        return
    largest = parse_delay(line.value)
    if largest is None:
        is_negative = "-" in line.value
        effect = f"ignored, because it {'is negative' if is_negative else 'contains no number'}"
        example = "Crawl-delay: 10"
    else:
        effect = "not a plain number, so the largest number in it is used"
        example = f"Crawl-delay: {largest:.15g}"
    yield make_finding(Code.INVALID_VALUE, line, effect=effect, example=example)


def _check_use(line: Line) -> Iterator[Finding]:
    """Check a Content-Usage or Content-Signal record."""
    records = read_records([Record(line.key, to_octets(line.value), line.number)])[line.key]
    preferences = [item for record in records for item in record.labels.items()]
    if line.key == USAGE and not preferences:
        yield make_finding(Code.USE_VOID, line)
    yes, no = ("y", "n") if line.key == USAGE else ("yes", "no")
    if line.key == SIGNAL and any(part.count("=") > 1 for part in line.value.split(",")):
        yield make_finding(
            Code.INVALID_VALUE,
            line,
            effect="preferences are separated by commas, so at least one is ignored",
            example="Content-Signal: search=yes, ai-train=no",
        )
        return
    for label, preference in preferences:
        if label not in LABELS:
            # In a Content-Signal, `use` does not take yes or no.
            if (line.key, label, preference.allowed) != (SIGNAL, "use", None):
                yield make_finding(Code.USE_UNKNOWN, line, label=label)
        elif preference.allowed is None:
            # Other readers of a Content-Signal only know `ai-train`.
            spelled = next(iter(LABELS[label]), label) if line.key == SIGNAL else label
            yield make_finding(Code.USE_NO_VALUE, line, label=spelled, yes=yes, no=no)


def _check_outside_group(line: Line) -> Iterator[Finding]:
    """Check a record above the first group."""
    if line.key == SIGNAL:
        yield make_finding(Code.SIGNAL_OUTSIDE_GROUP, line)
    elif line.key in _PACES or line.key in RECORDS:
        # The message is "ignored" for all crawlers, or "ignored by this crawler, ..." for a
        # Crawl-delay, because some crawlers obey it even here.
        by = others = ""
        if line.key == "crawl-delay":
            by = " by this crawler, Protego and urllib.robotparser"
            others = "; other crawlers apply it to everyone"
        yield make_finding(Code.RECORD_OUTSIDE_GROUP, line, by=by, others=others)
