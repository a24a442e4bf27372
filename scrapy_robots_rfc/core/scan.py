"""The fast reading: finds the groups of one token in a file and reads those, and nothing else of it.

What it returns is what `groups.py` makes of all the records; a law in the tests holds the two together. It looks for
the word that every user-agent line contains, instead of reading lines, and leaves whatever is unusual to `lines.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from scrapy_robots_rfc.core.agents import token_of
from scrapy_robots_rfc.core.groups import Record
from scrapy_robots_rfc.core.lines import BLANKS, MAX_LINE, LineKind, as_text, read_line, read_rule
from scrapy_robots_rfc.core.pattern import Pattern, parse_pattern, precedence
from scrapy_robots_rfc.core.percent import BARE_RUN, UNRESERVED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# The usual user-agent line, in lower case: its token is a run of token characters, or `*` alone.
_AGENT_LINE = re.compile(rb"[ \t]*user-agent[ \t]*:[ \t]*([a-z_-]+|\*(?=[ \t\v\f#]|\Z))")

# The usual spellings of a rule, in octets and in text.
_USUAL_RULE = re.compile(rb"\n(?:[Dd]isa|[Aa])llow: ?/")
_LIKE_A_RULE = re.compile(rb"[lL][oOaA][wW]")  # in every key of a rule, however it is misspelt
_KEY = "(?:[Dd]isa|[Aa])llow: ?"
_PLAIN = '/[^\0- *$%#"<>\\\\^`{|}\x7f-\xff]*'  # bare octets of the normal form: nothing to expand, nothing to escape

# Every line after a line end: a disallow or an allow in a usual spelling whose pattern is plain, or anything else.
_ROWS = re.compile(rf"\n(?:[Dd]isallow: ?({_PLAIN})(?=\n)|[Aa]llow: ?({_PLAIN})(?=\n)|([^\n]*))").findall
Row = tuple[str, str, str]

_BARE = BARE_RUN.pattern

# How many octets of a target rule out lines: one, since an expression is made for each that occurs; of a text of this
# size so many, since there the making costs less than the reading.
_LARGE = 65_536
_DEEP = 8

# A rule: whether it allows, its pattern as octets, its line number in the file.
RawRule = tuple[bool, str, int]
# The same, and its pattern taken apart.
ParsedRule = tuple[bool, str, int, Pattern]

# What stands before the first `agent` of a user-agent line, in lower case.
_BEFORE_AGENT = (b"user-", b"user", b"user ")

# A user-agent line: start and end offset, and its token in the form in which tokens compare.
AgentLine = tuple[int, int, str]


def agent_lines(octets: bytes) -> list[AgentLine]:
    """The user-agent lines of a file, in order.

    :param octets: the file, every line end as LF.
    """
    lower = octets.lower()
    found = []
    at = lower.find(b"agent")
    while at >= 0:
        start = lower.rfind(b"\n", 0, at) + 1
        end = lower.find(b"\n", at)
        if end < 0:
            end = len(lower)
        if lower[max(start, at - 5) : at].endswith(_BEFORE_AGENT):
            usual = _AGENT_LINE.match(lower, start, end) if end - start <= MAX_LINE else None
            token = usual[1].decode("ascii") if usual else _token_of_line(octets[start:end])
            if token is not None:
                found.append((start, end, token))
        at = lower.find(b"agent", end)
    return found


def _token_of_line(line: bytes) -> str | None:
    """The token of a line that is spelt in an unusual way; ``None`` where it is no user-agent line after all."""
    reading = read_line(line.decode("latin-1"))
    return token_of(reading.value) if reading.kind is LineKind.USER_AGENT else None


class Section(NamedTuple):
    """Lines of a group that follow one of its user-agent lines; a place in the file, so that nothing is kept twice.

    :param octets: the file.
    :param start: the offset of the user-agent line's end.
    :param end: the offset of the next user-agent line, or of the file's end.
    :param agent_line: the number of the user-agent line.
    """

    octets: bytes
    start: int
    end: int
    agent_line: int

    def text(self) -> str:
        """Its lines as octets, one character each; begins and ends with a line end, over-long lines are cut."""
        text = self.octets[self.start : self.end].decode("latin-1")
        if len(text) > MAX_LINE:
            text = "\n".join(line[:MAX_LINE] for line in text.split("\n"))
        return text if text.endswith("\n") else text + "\n"

    def has_rules(self) -> bool:
        """Whether one of its lines is a rule."""
        if not _LIKE_A_RULE.search(self.octets, self.start, self.end):
            return False
        if _USUAL_RULE.search(self.octets, self.start, self.end):
            return True
        return any(map(read_rule, self.text().split("\n")))

    def rows(self) -> list[Row]:
        """A row for each line: the pattern of a disallow, the pattern of an allow, or the line as it is."""
        rows: list[Row] = _ROWS(self.text())
        return rows

    def records(self, lower: bytes, keys: Sequence[str]) -> Iterator[Record]:
        """The records of some keys, in order.

        :param lower: the file in lower case.
        :param keys: in lower case.
        """
        lines = {}
        for key in keys:
            word = key.encode("ascii")
            at = lower.find(word, self.start, self.end)
            while at >= 0:
                stop = lower.find(b"\n", at, self.end)
                stop = self.end if stop < 0 else stop
                lines[lower.rfind(b"\n", 0, at) + 1] = stop
                at = lower.find(word, stop, self.end)
        number, counted = self.agent_line, self.start
        for start, stop in sorted(lines.items()):
            reading = read_line(self.octets[start:stop].decode("latin-1"))
            if reading.kind is LineKind.RECORD and reading.key in keys:
                number, counted = number + self.octets.count(b"\n", counted, start), start
                yield Record(reading.key, as_text(reading.value), number)


def best_rule(sections: Sequence[Section], target: str) -> RawRule | None:
    """The rule that decides on a target, from the few lines that may matter to it; ``None`` where none matches.

    For the first question: reading a group like this costs a fraction of its index.

    :param sections: the lines of the group.
    :param target: a request target in normal form.
    """
    best, found = 0, None
    for section in sections:
        text = section.text()
        for match in _candidates(target, len(text)).finditer(text):
            disallow, head, rest, needle, line = match.groups()
            if line is not None:
                allow, pattern = read_rule(line) or (False, "")
            # Bare octets are their own normal form, so most patterns are out before they are taken apart.
            elif (head and not target.startswith(head)) or (needle and needle not in target):
                continue
            else:
                allow, pattern = not disallow, (head + rest).rstrip(BLANKS) if rest else head
            order = precedence(allow, pattern)
            # Of equals the first one counts, so a later one has to be better.
            if order > best and pattern and (pattern is head or parse_pattern(pattern).matches(target)):
                best, found = order, (section, text, match.start(), allow, pattern)
    if found is None:
        return None
    section, text, start, allow, pattern = found
    return allow, pattern, section.agent_line + text.count("\n", 0, start) + 1


def parsed_rules(sections: Sequence[Section]) -> list[ParsedRule]:
    """All rules that can match anything, in the order of the file, taken apart. It reads every line: for explanations.

    :param sections: the lines of the group.
    """
    found: list[ParsedRule] = []
    for section in sections:
        for number, line in enumerate(section.text().split("\n")[1:], section.agent_line + 1):
            rule = read_rule(line)
            if rule is not None and rule[1]:
                found.append((*rule, number, parse_pattern(rule[1])))
    return found


def matching_rules(rules: Sequence[ParsedRule], target: str) -> list[RawRule]:
    """The rules that match a target, the most specific first; of equals the one that stands first.

    What `best_rule` finds stands in front.

    :param target: a request target in normal form.
    """
    found = [(allow, text, number) for allow, text, number, pattern in rules if pattern.matches(target)]
    return sorted(found, key=lambda rule: (-precedence(rule[0], rule[1]), rule[2]))


def _candidates(target: str, size: int) -> re.Pattern[str]:
    """Finds the lines of a text of some size that a target does not rule out by its first octets."""
    depth = _DEEP if size > _LARGE else 1
    return _lines_but_those(target[1 : 1 + depth], len(target) <= depth)


@lru_cache(maxsize=256)
def _lines_but_those(prefix: str, ended: bool) -> re.Pattern[str]:
    """Finds all lines but blank ones, comments, and usual rules with an unreserved octet where a target has another.

    :param prefix: what stands behind the first ``/`` of the target.
    :param ended: whether the target ends there.
    """
    differs = f"[{re.escape(UNRESERVED)}]" if ended else ""
    for octet in reversed(prefix):
        other = f"[{re.escape(UNRESERVED.replace(octet, ''))}]"
        differs = f"(?:{other}|{re.escape(octet)}{differs})" if differs else other
    rule = rf"(?:([Dd]is)a|[Aa])llow:[ \t]*(/{_BARE}|)((?:\*({_BARE}))?[^\n#]*)"
    return re.compile(rf"\n(?!{_KEY}/{differs}|[#\n]|\Z)(?:{rule}|([^\n]+))")


def sections(octets: bytes, agents: Sequence[AgentLine], token: str) -> list[Section]:
    """The lines of all groups of one token, in the order of the file (RFC 9309, 2.2.1: combined into one group).

    :param octets: the file, every line end as LF.
    :param agents: its user-agent lines.
    :param token: in the form in which tokens compare.
    """
    found = []
    line, counted, at = 1, 0, 0
    while at < len(agents):
        if agents[at][2] != token:
            at += 1
            continue
        # Further user-agent lines before the first rule share the group; from the first rule on, the next one ends it.
        while True:
            start = agents[at][1]
            at += 1
            end = agents[at][0] if at < len(agents) else len(octets)
            line, counted = line + octets.count(b"\n", counted, start), start
            found.append(Section(octets, start, end, line))
            if at == len(agents) or found[-1].has_rules():
                break
    return found


def whole_groups(octets: bytes, agents: Sequence[AgentLine], token: str) -> list[Section]:
    """As `sections`, with what stands in a group before the user-agent line of its token: records are the group's.

    It has to look at every group of the file, so only files that have such records are read like this.
    """
    found: list[Section] = []
    group: list[Section] = []
    wanted = False
    line, counted = 1, 0
    for at, (_, start, name) in enumerate(agents):
        end = agents[at + 1][0] if at + 1 < len(agents) else len(octets)
        line, counted = line + octets.count(b"\n", counted, start), start
        group.append(Section(octets, start, end, line))
        wanted = wanted or name == token
        if end == len(octets) or group[-1].has_rules():
            found += group if wanted else ()
            group, wanted = [], False
    return found
