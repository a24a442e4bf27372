"""`scrapy robots check URL...`: may these URLs be fetched, and why."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands import asking, common, verdict
from scrapy_robots_rfc.commands.common import FACTS, NO_ANSWER, STANDARD, Colour, Failed, ProgressBar, Style, columns
from scrapy_robots_rfc.core.decision import RuleKind
from scrapy_robots_rfc.core.pattern import specificity
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.asking import Found, Inquirer
    from scrapy_robots_rfc.commands.common import Console
    from scrapy_robots_rfc.commands.verdict import Asker, Judgement
    from scrapy_robots_rfc.core.decision import Rule
    from scrapy_robots_rfc.core.groups import Group
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.fetching.queue import RouteWait
    from scrapy_robots_rfc.settings import Settings

HELP = "Say whether URLs may be fetched, and why: the verdict, the line that decided, the group, the rules that lost."
#: Exit codes; beside them there is NO_ANSWER.
ALLOWED, DISALLOWED = 0, 1

_AHEAD = 64  # URLs whose robots.txt is asked for ahead of the one that is printed next
_AROUND = 2  # lines of a group shown before and after one that matters
_MOST_LOST = 20

_COLOURS = {"allowed": Colour.GOOD, "disallowed": Colour.BAD, "undecided": Colour.DOUBT}


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument(
        "urls", metavar="URL", nargs="*", help="absolute, http or https; -, or none: from standard input"
    )
    verdict.add_agent(topic)
    topic.add_argument("--robots", metavar="FILE|URL|-", help="the robots.txt to go by, in place of the sites' own")
    topic.add_argument("--json", action="store_true", help="an object in one line for each URL")


def run(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Judge the URLs, print what is found, and return the exit code."""
    urls = _urls(console, opts)
    ours = asking.prepared(settings, opts)
    judge = _Judge(console, opts.json, ours, verdict.askers_for(opts.agent, ours, settings), len(urls))
    judge.progress.show(0)  # the first site may be slow
    try:
        if opts.robots is None:
            asking.crawl(settings, partial(judge.ask, urls))
        else:
            (given,) = asking.given_files(settings, [opts.robots], console)
            judge.progress.clear()
            given.doubt(console)
            for url in urls:
                judge.judge(url, given.found(url))
    finally:
        judge.progress.clear()
    if judge.done < len(urls):
        raise Failed(f"stopped after {judge.done:,} of {len(urls):,} URLs")
    return judge.code


def _urls(console: Console, opts: argparse.Namespace) -> list[str]:
    named = opts.urls or [STANDARD]
    if STANDARD not in named:
        return [common.as_url(url) for url in named]
    if opts.robots == STANDARD:
        raise Failed("standard input is the robots.txt: name the URLs on the command line")
    if not opts.urls and console.stdin.isatty():
        raise Failed("name the URLs, or send them to standard input, one a line")
    found = [url for _, url in common.urls_in(STANDARD, console)]
    if not found:
        raise Failed("there is no URL on standard input; send some, one a line, or name them")
    at = named.index(STANDARD)
    return [*map(common.as_url, named[:at]), *found, *map(common.as_url, named[at + 1 :])]


class _Judge:
    """Judges URLs in their order, each for all who ask, and prints what it finds.

    :param json: for programs.
    :param total: how many URLs there are.
    """

    def __init__(self, console: Console, json: bool, settings: Settings, askers: list[Asker], total: int) -> None:
        self._console, self._json, self._settings, self._askers = console, json, settings, askers
        self._style = Style.of(console.stdout)
        self.progress = ProgressBar(console.stderr, total)
        #: How many URLs are done.
        self.done = 0
        #: The exit code so far.
        self.code = ALLOWED

    async def ask(self, urls: list[str], inquirer: Inquirer) -> None:
        """Judge the URLs by the robots.txt files of their sites, of which some are asked for ahead of their turn."""
        ahead: deque[RouteWait[OriginPolicy] | None] = deque()
        later = iter(urls)
        for url in urls:
            for origin in map(Origin.of, islice(later, _AHEAD - len(ahead))):
                ahead.append(None if origin is None else inquirer.ask(origin))
            wait = ahead.popleft()
            if wait is None:
                self.judge(url, None)
            elif (found := await inquirer.answer(wait)) is not None:  # else the crawl was stopped first
                self.judge(url, found)

    def judge(self, url: str, found: Found | None) -> None:
        """Print the verdicts on one URL, and what is wrong with it once.

        :param found: ``None`` where it has no origin.
        """
        if self._console.stdout.isatty():
            self.progress.clear()
        for number, asker in enumerate(self._askers):
            judgement = verdict.judged(url, found, asker, self._settings)
            if self._json:
                self._console.say_json(verdict.judgement_record(judgement))
            else:
                if self.done or number:
                    self._console.say()
                self._console.say_all(_lines(judgement, self._style, agent=len(self._askers) > 1))
            if not judgement.decided:
                self.code = NO_ANSWER
            elif self.code == ALLOWED and judgement.verdict == "disallowed":
                self.code = DISALLOWED
        if not judgement.decided:
            advice = "see whether the site is up, or name a copy of its file with --robots FILE"
            advice = common.URL_ADVICE if found is None else advice
            self._console.complain(f"{judgement.url} is not decided: {judgement.why}; {advice}")
        self.done += 1
        self.progress.show(self.done)


# A judgement for people.


def _lines(judgement: Judgement, style: Style, *, agent: bool = False) -> Iterator[str]:
    """Yield the lines that explain a judgement.

    :param agent: say who asks.
    """
    word = style.paint(f"{judgement.verdict:<{FACTS - 1}}", Colour.STRONG, _COLOURS[judgement.verdict])
    yield f"{word} {printable(judgement.url)}"
    if agent:
        yield from style.fact("agent", judgement.asker.name)
    yield from style.fact("why", judgement.why)
    if judgement.found is None:
        return
    yield from verdict.access_facts(judgement.found, style)
    file = judgement.found.robots.robots
    if judgement.explanation is None or file is None:
        return
    yield from verdict.group_fact(judgement.explanation, style)
    lost = judgement.lost
    if judgement.rule is not None:
        yield from _excerpt(file, judgement.explanation.groups, judgement.rule, [rule.line for rule in lost], style)
    for rule in lost[:_MOST_LOST]:
        yield from style.fact("lost", f"line {rule.line}: {rule} ({_because(rule, judgement.rule)})")
    if len(lost) > _MOST_LOST:
        yield from style.fact("lost", f"and {len(lost) - _MOST_LOST:,} more")


def _excerpt(
    file: RobotsTxt, groups: Sequence[Group], decided: Rule, losers: Sequence[int], style: Style
) -> Iterator[str]:
    """Yield the lines of a group: its beginning, the rule that decided, those that lost, and a few around the first."""
    group = next(group for group in groups if group.line <= decided.line <= group.last)
    wanted = {group.line, *range(decided.line - _AROUND, decided.line + _AROUND + 1), *losers[:_MOST_LOST]}
    wanted |= {number + 1 for number in wanted if number + 2 in wanted}  # a line as dots would be no shorter
    numbers = [number for number in sorted(wanted) if group.line <= number <= group.last]
    while not file.line_text(numbers[-1]).strip():  # the blank lines before the next record, which is not shown
        numbers.pop()
    digits = len(str(numbers[-1]))
    before = group.line - 1
    for number in numbers:
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
    end = line.find("#")
    at = line.rfind(rule.pattern, 0, len(line) if end < 0 else end) if rule.pattern else -1
    begin, end = (len(line), len(line)) if at < 0 else (at, at + len(rule.pattern))
    parts = (line[:begin], line[begin:end], line[end:])
    before, pattern, after = (printable(part.replace("\t", " ")) for part in parts)
    indent = digits + 6
    colour = Colour.GOOD if rule.kind is RuleKind.ALLOW else Colour.BAD
    head = f"  {style.paint('>', Colour.STRONG)} {rule.line:>{digits}}  "
    whole = style.cut(before + pattern + after, indent)
    shown = whole[len(before) : len(before) + len(pattern)]
    yield f"{head}{whole[: len(before)]}{style.paint(shown, Colour.STRONG, colour)}{whole[len(before) + len(shown) :]}"
    if shown:
        yield f"{' ' * (indent + columns(before))}{style.paint('^' * columns(shown), colour)}"


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
