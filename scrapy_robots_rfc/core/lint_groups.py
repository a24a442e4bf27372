"""The linter's checks for groups."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from operator import itemgetter

from scrapy_robots_rfc.core.agents import names_in_line
from scrapy_robots_rfc.core.explanation import Flag, Group, Line
from scrapy_robots_rfc.core.extensions import parse_delay
from scrapy_robots_rfc.core.lines import RULES, LineKind
from scrapy_robots_rfc.core.lint_codes import OBSOLETE_NAMES, Code
from scrapy_robots_rfc.core.lint_findings import Finding, make_finding
from scrapy_robots_rfc.core.lint_suggestions import (
    has_key,
    invisible_start,
    meant_record,
    names_nobody,
    suggest_names,
)
from scrapy_robots_rfc.core.percent import parse_pattern, specificity, to_octets
from scrapy_robots_rfc.core.preferences import POLICY_TOKENS

# Patterns that match every URL.
_EVERYTHING = ("/", "*", "/*")
# Maximum number of characters to compare with the patterns of other rules.
_MAX_PREFIX = 1000
# Maximum number of rules of the other kind to compare with a rule.
_MAX_OTHERS = 100


def check_repeated_groups(groups: Sequence[Group], lines: Sequence[Line]) -> Iterator[Finding]:
    """Check for groups with the same name as an earlier group, and for groups without rules.

    :param lines: all lines in the file.
    """
    # Token and full name -> the first group and user-agent line with them.
    first_with_name: dict[tuple[str, str], tuple[Group, Line]] = {}
    ends = [*(group.line - 1 for group in groups[1:]), len(lines)]
    for group, end in zip(groups, ends, strict=False):
        agents = _agents_in(group, lines)
        names = {_names_in(line): line for line in reversed(agents)}
        repeated = next((name for name in reversed(names) if name in first_with_name), None)
        if repeated is not None:
            # A group with the same rules is harmless. If the rules differ, some crawlers combine
            # the two groups, and others use only one of them.
            earlier, line = first_with_name[repeated]
            code = Code.REPEATED_GROUP if _rules(earlier) == _rules(group) else Code.NAMED_TWICE
            yield make_finding(code, names[repeated], above=line.number)
        # In a repeated group, the rules of the earlier group apply. If a rule has a mistake in its
        # key, that is reported instead.
        elif not (group.rules or _has_lost_rule(lines[group.line - 1 : end])):
            yield make_finding(Code.NO_RULES, agents[0])
        for name, line in names.items():
            if any(name):  # otherwise, the line matches no crawler
                first_with_name.setdefault(name, (group, line))


def _has_lost_rule(lines: Sequence[Line]) -> bool:
    """Return whether a line is almost a rule, such as `Disallowed: /x`, or contains one."""
    keys = ((meant_record(line) or ("",))[0] for line in lines)
    return any(key in ("Allow", "Disallow") for key in keys) or any(
        has_key(line.value) for line in lines
    )


def check_names(groups: Sequence[Group], lines: Sequence[Line]) -> Iterator[Finding]:
    """Check the name in each user-agent line, and whether another group has the same token.

    :param lines: all lines in the file.
    """
    all_tokens = {_names_in(line)[0] for line in lines if line.kind is LineKind.USER_AGENT}
    # Token -> the first full name with this token, the number of its line, and its group.
    first_with_token: dict[str, tuple[str, int, Group]] = {}
    for group in groups:
        agents = _agents_in(group, lines)
        yield from _check_nobody(agents)
        for line in agents:
            token, name = _names_in(line)
            successor = OBSOLETE_NAMES.get(token)
            if successor is not None and successor.lower() not in all_tokens:
                yield make_finding(Code.OBSOLETE_NAME, line, successor=successor)
            if line.value.lower() in ("all", "any", "everyone"):
                effect = f"it only matches a crawler named `{token}`"
                yield make_finding(Flag.INVALID_TOKEN, line, effect=effect, meant="User-agent: *")
            if token in POLICY_TOKENS:
                yield make_finding(Code.POLICY_GROUP, line, label=POLICY_TOKENS[token])
            if token not in first_with_token:
                first_with_token[token] = name, line.number, group
                continue
            # `bot1` and `bot2` have the same token, so many crawlers confuse their groups.
            first_name, first_line, first_group = first_with_token[token]
            if token and first_name != name and first_group is not group:
                spelling = line.value[: len(token)]  # like `token`, but not in lowercase
                yield make_finding(Code.SAME_TOKEN, line, token=spelling, above=first_line)


def _check_nobody(agents: Sequence[Line]) -> Iterator[Finding]:
    """Check for user-agent lines in a group that do not match any crawler."""
    consequence = ""
    if all(names_nobody(line.value) for line in agents):
        consequence = ", so the rules below it never apply"
    for line in agents:
        if names_nobody(line.value):
            start = invisible_start(line.value)
            reason = f", because it starts with the invisible character {start}" if start else ""
            effect = f"it matches no crawler{reason}{consequence}"
            meant = suggest_names(line.value)
            yield make_finding(Code.NAMES_NOBODY, line, effect=effect, meant=meant)


def _names_in(line: Line) -> tuple[str, str]:
    """Return the token and the full name in a user-agent line."""
    return names_in_line(to_octets(line.value))


def _agents_in(group: Group, lines: Sequence[Line]) -> list[Line]:
    """Return a group's user-agent lines.

    :param lines: all lines in the file.
    """
    own_lines = lines[group.line - 1 : group.last]
    return [line for line in own_lines if line.kind is LineKind.USER_AGENT]


def _rules(group: Group) -> set[tuple[object, str]]:
    return {(rule.kind, rule.pattern) for rule in group.rules}


def check_group(group: Group, lines: Sequence[Line]) -> Iterator[Finding]:
    """Check a group for lines that conflict with each other.

    :param lines: all lines in the file.
    """
    for above, line in pairwise(_agents_in(group, lines)):
        between = lines[above.number : line.number - 1]
        # Site owners who separate two user-agent lines probably mean two groups.
        if any(other.kind in (LineKind.BLANK, LineKind.RECORD) for other in between):
            yield make_finding(Code.AGENTS_JOINED, line, above=above.number)
    first_agents: dict[tuple[str, str], Line] = {}
    for line in _agents_in(group, lines):
        first = first_agents.setdefault(_names_in(line), line)
        if first is not line and any(_names_in(line)):
            yield make_finding(Code.REPEATED_LINE, line, above=first.number)
    own_lines = lines[group.line - 1 : group.last]
    yield from _check_rules([line for line in own_lines if line.kind in RULES and line.value])
    first_delay: Line | None = None
    for line in own_lines:
        if line.key == "crawl-delay" and parse_delay(line.value) is not None:
            first_delay = first_delay or line
            if parse_delay(line.value) != parse_delay(first_delay.value):
                yield make_finding(Code.DELAYS_DIFFER, line, above=first_delay.number)


def _check_rules(rules: Sequence[Line]) -> Iterator[Finding]:
    """Check for rules in a group that have no effect, or only for some crawlers."""
    first_by_pattern: dict[str, Line] = {}
    last_of_kind = {line.kind: line for line in rules}
    for line in rules:
        first = first_by_pattern.setdefault(line.value, line)
        if line.kind is not first.kind:
            yield make_finding(Code.CONTRADICTION, line, above=first.number)
        elif line is not first:
            yield make_finding(Code.REPEATED_RULE, line, above=first.number)
        others = [last for kind, last in last_of_kind.items() if kind is not line.kind]
        if line.value in _EVERYTHING and any(other.number > line.number for other in others):
            yield make_finding(Code.FIRST_MATCH, line)
    yield from _check_useless_rules(list(first_by_pattern.values()))


def _check_useless_rules(rules: Sequence[Line]) -> Iterator[Finding]:
    """Check for rules that only match URLs for which a shorter rule decides the same.

    :param rules: rules with different patterns.
    """
    patterns = [parse_pattern(to_octets(line.value)) for line in rules]
    lengths = [specificity(to_octets(line.value)) for line in rules]
    by_prefix = {
        (line.kind, pattern.head): index
        for index, (line, pattern) in enumerate(zip(rules, patterns, strict=True))
        if pattern.head[:1] == "/" and not pattern.parts and not pattern.anchored
    }
    # Length and head of each rule, by kind.
    heads_by_kind = {
        kind: sorted(
            (length, pattern.head)
            for line, length, pattern in zip(rules, lengths, patterns, strict=True)
            if line.kind is kind
        )
        for kind in RULES
    }
    allow, disallow = RULES
    for index, (line, pattern) in enumerate(zip(rules, patterns, strict=True)):
        # The longest prefix is the most likely one to be longer than all rules of the other kind.
        prefixes = (pattern.head[:end] for end in range(len(pattern.head[:_MAX_PREFIX]), 0, -1))
        keys = ((line.kind, prefix) for prefix in prefixes)
        shorter = next((by_prefix[key] for key in keys if by_prefix.get(key, index) != index), None)
        if shorter is None:
            continue
        others = heads_by_kind[allow if line.kind is disallow else disallow]
        first = bisect_left(others, lengths[shorter], key=itemgetter(0))
        last = bisect_right(others, lengths[index], key=itemgetter(0))
        # Rules with different heads never match the same URL.
        if last - first <= _MAX_OTHERS and not any(
            head.startswith(pattern.head) or pattern.head.startswith(head)
            for _, head in others[first:last]
        ):
            yield make_finding(Code.USELESS_RULE, line, above=rules[shorter].number)
