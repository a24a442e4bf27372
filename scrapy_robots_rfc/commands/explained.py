"""A finding of `check` for people: the verdict, the group with the line that decided, the rules that lost.

In here: lines of text. Whoever asks for them prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.judging import lost
from scrapy_robots_rfc.commands.terminal import FACTS, Colour, columns
from scrapy_robots_rfc.core.decision import RuleKind
from scrapy_robots_rfc.core.pattern import specificity
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_robots_rfc.commands.asking import Hop
    from scrapy_robots_rfc.commands.judging import Finding
    from scrapy_robots_rfc.commands.terminal import Style
    from scrapy_robots_rfc.core.decision import Rule
    from scrapy_robots_rfc.core.groups import Group
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy

_AROUND = 2  # lines of a group shown before and after one that matters
_MOST_LOST = 20

_COLOURS = {"allowed": Colour.GOOD, "disallowed": Colour.BAD, "undecided": Colour.DOUBT}


def lines_of(finding: Finding, style: Style, *, agent: bool = False) -> Iterator[str]:
    """Yield the lines that explain a finding.

    :param agent: say who asks.
    """
    verdict = style.paint(f"{finding.verdict:<{FACTS - 1}}", Colour.STRONG, _COLOURS[finding.verdict])
    yield f"{verdict} {printable(finding.url)}"
    if agent:
        yield from style.fact("agent", finding.asker.name)
    yield from style.fact("why", finding.why)
    if finding.robots is not None and finding.source is not None:
        yield from style.fact("robots.txt", access(finding.robots, finding.source))
        yield from redirects(finding.hops, style)
    explanation = finding.explanation
    if explanation is None:
        return
    yield from style.fact("group", f"{explanation.choice}{places(explanation.groups)}")
    assert finding.robots is not None
    file = finding.robots.robots
    assert file is not None
    decided = None if finding.decision is None else finding.decision.rule
    if decided is not None:
        yield from excerpt(file, explanation.groups, decided, [rule.line for rule in lost(finding)], style)
    yield from _losers(finding, style)


def access(robots: OriginPolicy, source: str) -> str:
    """Return where the file came from, and what came of it."""
    if robots.cause == "given" and robots.status is None:
        return f"{source} (given)"
    if robots.override is not None:
        return f"{robots.source} (in place of {source}, by ROBOTSTXT_OVERRIDES)"
    if robots.exempt is not None:
        return f"{source} (not asked, by ROBOTSTXT_EXEMPT)"
    stale = ", an earlier copy is obeyed" if robots.stale else ""
    return f"{source} ({robots.outcome.value}: {robots.cause}{stale})"


def redirects(hops: Sequence[Hop], style: Style) -> Iterator[str]:
    """Yield the redirects that the fetch followed."""
    for hop in hops:
        where = "without a usable Location" if hop.target is None else f"to {hop.target}"
        yield from style.fact("redirected", f"{hop.status} {where}")


def places(groups: Sequence[Group]) -> str:
    """Return where the groups stand."""
    if not groups:
        return ""
    spans = ", ".join(str(group.line) if group.line == group.last else f"{group.line}-{group.last}" for group in groups)
    together = ", together" if len(groups) > 1 else ""
    return f" (line{'' if len(groups) == 1 and groups[0].line == groups[0].last else 's'} {spans}{together})"


def excerpt(
    file: RobotsTxt, groups: Sequence[Group], decided: Rule, losers: Sequence[int], style: Style
) -> Iterator[str]:
    """Yield the lines of a group: its beginning, the rule that decided, those that lost, and a few around the first."""
    group = next(group for group in groups if group.line <= decided.line <= group.last)
    wanted = {group.line, *range(decided.line - _AROUND, decided.line + _AROUND + 1), *losers[:_MOST_LOST]}
    wanted |= {number + 1 for number in wanted if number + 2 in wanted}  # a line as dots would be no shorter
    shown = [number for number in sorted(wanted) if group.line <= number <= group.last]
    while not file.line_text(shown[-1]).strip():  # the blank lines before the next record, which is not shown
        shown.pop()
    digits = len(str(shown[-1]))
    before = group.line - 1
    for number in shown:
        if number != before + 1:
            yield f"    {' ' * digits}  {style.paint('...', Colour.FAINT)}"
        before = number
        if number == decided.line:
            yield from _deciding(file.line_text(number), decided, digits, style)
        else:
            text = style.cut(printable(file.line_text(number).replace("\t", " ")), digits + 6)
            yield f"    {number:>{digits}}  {text}".rstrip()


def _deciding(line: str, rule: Rule, digits: int, style: Style) -> Iterator[str]:
    """Yield the rule that decided, its pattern marked: by carets below it, and by colour where there is any."""
    before, pattern, after = _split(line, rule.pattern)
    indent = digits + 6
    colour = Colour.GOOD if rule.kind is RuleKind.ALLOW else Colour.BAD
    head = f"  {style.paint('>', Colour.STRONG)} {rule.line:>{digits}}  "
    whole = style.cut(before + pattern + after, indent)
    shown = whole[len(before) : len(before) + len(pattern)]
    yield f"{head}{whole[: len(before)]}{style.paint(shown, Colour.STRONG, colour)}{whole[len(before) + len(shown) :]}"
    if shown:
        yield f"{' ' * (indent + columns(before))}{style.paint('^' * columns(shown), colour)}"


def _split(line: str, pattern: str) -> tuple[str, str, str]:
    """Return what stands before a pattern in its line, the pattern, and what stands behind it."""
    end = line.find("#")
    at = line.rfind(pattern, 0, len(line) if end < 0 else end) if pattern else -1
    cuts = (len(line), len(line)) if at < 0 else (at, at + len(pattern))
    parts = (line[: cuts[0]], line[cuts[0] : cuts[1]], line[cuts[1] :])
    before, marked, after = (printable(part.replace("\t", " ")) for part in parts)
    return before, marked, after


def _losers(finding: Finding, style: Style) -> Iterator[str]:
    found = lost(finding)
    decided = None if finding.decision is None else finding.decision.rule
    for rule in found[:_MOST_LOST]:
        yield from style.fact("lost", f"line {rule.line}: {rule} ({_because(rule, decided)})")
    if len(found) > _MOST_LOST:
        yield from style.fact("lost", f"and {len(found) - _MOST_LOST:,} more")


def _because(rule: Rule, decided: Rule | None) -> str:
    """Return why a rule that matches did not decide (RFC 9309, 2.2.2)."""
    if decided is None:
        return "it does not count here"
    own, other = specificity(to_octets(rule.pattern)), specificity(to_octets(decided.pattern))
    if own < other:
        return f"less specific: {own} octets, not {other}"
    if rule.kind is not decided.kind:
        return "as specific, and of such the allow decides"
    return "as specific, and of such the first one decides"
