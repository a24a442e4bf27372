"""`scrapy robots check URL...`: may these URLs be fetched, and why. `diff` takes its verdicts from here, too.

The verdicts are the same that a crawl comes to.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands import asking, common
from scrapy_robots_rfc.commands.common import FACTS, NO_ANSWER, STANDARD, Colour, Failed, ProgressBar, Style, columns
from scrapy_robots_rfc.core.agents import NOBODY, Agent, agent_of
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule, RuleKind
from scrapy_robots_rfc.core.gemini import deciding_tokens
from scrapy_robots_rfc.core.labels import uses_of
from scrapy_robots_rfc.core.pattern import specificity
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.preferences import refused_by
from scrapy_robots_rfc.core.robotstxt import Explanation, explain
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.middleware.user_agent import default_header
from scrapy_robots_rfc.policy.origins import Origin, without_dot_segments

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.asking import Found, Inquirer
    from scrapy_robots_rfc.commands.common import Console
    from scrapy_robots_rfc.core.groups import Group, Record
    from scrapy_robots_rfc.core.preferences import Preference
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.fetching.queue import RouteWait
    from scrapy_robots_rfc.settings import Settings

HELP = "Say whether URLs may be fetched, and why: the verdict, the line that decided, the group, the rules that lost."
#: Verdicts with their exit codes, of which the highest counts, and their colours.
_VERDICTS = {
    "allowed": (0, Colour.GOOD),
    "disallowed": (1, Colour.BAD),
    "undecided": (NO_ANSWER, Colour.DOUBT),
}

_AHEAD = 64  # URLs whose robots.txt is asked for ahead of the one that is printed next
_AROUND = 2  # lines of a group shown before and after one that matters
_MOST_LOST = 20


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument(
        "urls", metavar="URL", nargs="*", help="absolute, http or https; -, or none: from standard input"
    )
    add_agent(topic)
    topic.add_argument("--robots", metavar="FILE|URL|-", help="the robots.txt to go by, in place of the sites' own")
    topic.add_argument(
        "--archive", metavar="FILE", action="append", help="go by what a crawl kept in its ROBOTSTXT_ARCHIVE"
    )
    topic.add_argument("--at", metavar="TIME", help="with --archive: as it was then, such as 2026-11-22T19:30:00Z")
    topic.add_argument(
        "--use", metavar="LABELS", help="what the pages are for, such as train-ai, as ROBOTSTXT_USE has it"
    )
    topic.add_argument("--json", action="store_true", help="an object in one line for each URL and agent")


def run(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Judge the URLs, print what is found, and return the exit code."""
    urls = _urls(console, opts)
    if (opts.at and not opts.archive) or (opts.archive and opts.robots):
        raise Failed("--at belongs to --archive, and --archive and --robots exclude each other")
    ours = asking.prepared(settings, opts)
    ours = ours if opts.use is None else replace(ours, use=uses_of(opts.use))
    judge = _Judge(console, opts.json, ours, askers_for(opts.agent, ours, settings), len(urls))
    judge.progress.show(0)  # the first site may be slow
    try:
        if opts.archive:
            _replay(urls, judge, console, opts, ours)
        elif opts.robots is None:
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


def _replay(urls: list[str], judge: _Judge, console: Console, opts: argparse.Namespace, settings: Settings) -> None:
    """Judge the URLs by an archive."""
    from scrapy_robots_rfc.commands.archived import found_in, time_of  # noqa: PLC0415 - it needs an extra

    found = found_in(opts.archive, time_of(opts.at), urls, settings, console)
    for url in urls:
        origin = Origin.of(url, settings.schemes)
        judge.judge(url, None if origin is None else found[origin])


def _urls(console: Console, opts: argparse.Namespace) -> list[str]:
    sources = opts.urls or [STANDARD]
    found: list[str] = []
    if STANDARD in sources:
        if opts.robots == STANDARD:
            raise Failed("standard input is the robots.txt: name the URLs on the command line")
        if opts.urls or not console.stdin.isatty():
            found = [url for _, url in common.urls_in(STANDARD, console)]
        if not found:
            raise Failed("there is no URL on standard input; send some, one a line, or name them")
    return [url for source in sources for url in (found if source == STANDARD else [common.as_url(source)])]


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
        self.code = 0

    async def ask(self, urls: list[str], inquirer: Inquirer) -> None:
        """Judge the URLs by the robots.txt files of their sites, of which some are asked for ahead of their turn."""
        ahead: deque[RouteWait[OriginPolicy] | None] = deque()
        later = iter(urls)
        for url in urls:
            for coming in islice(later, _AHEAD - len(ahead)):
                origin = Origin.of(coming, self._settings.schemes)
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
            judgement = judged(url, found, asker, self._settings)
            if self._json:
                self._console.say_json(judgement_record(judgement))
            else:
                if self.done or number:
                    self._console.say()
                self._console.say_all(_lines(judgement, self._style, agent=len(self._askers) > 1))
            self.code = max(self.code, _VERDICTS[judgement.verdict][0])
        if judgement.verdict == "undecided":
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
    word = style.paint(f"{judgement.verdict:<{FACTS - 1}}", Colour.STRONG, _VERDICTS[judgement.verdict][1])
    yield f"{word} {printable(judgement.url)}"
    if agent:
        yield from style.fact("agent", judgement.asker.name)
    yield from style.fact("why", judgement.why)
    if judgement.found is None:
        return
    yield from access_facts(judgement.found, style)
    file = judgement.found.robots.robots
    if judgement.explanation is None or file is None:
        return
    yield from group_fact(judgement.explanation, style)
    yield from use_facts(judgement.use, style)
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
    at = line.partition("#")[0].rfind(rule.pattern) if rule.pattern else -1
    begin, end = (len(line), len(line)) if at < 0 else (at, at + len(rule.pattern))
    parts = (line[:begin], line[begin:end], line[end:])
    before, pattern, after = (printable(part.replace("\t", " ")) for part in parts)
    indent = digits + 6
    colour = Colour.GOOD if rule.kind is RuleKind.ALLOW else Colour.BAD
    whole = style.cut(before + pattern + after, indent)
    shown, rest = whole[len(before) :][: len(pattern)], whole[len(before) + len(pattern) :]
    head = f"  {style.paint('>', Colour.STRONG)} {rule.line:>{digits}}  {whole[: len(before)]}"
    yield f"{head}{style.paint(shown, Colour.STRONG, colour)}{rest}"
    if shown:
        yield f"{' ' * (indent + columns(before))}{style.paint('^' * columns(shown), colour)}"


def _because(rule: Rule, decided: Rule | None) -> str:
    """Return why a rule that matches did not decide (RFC 9309, 2.2.2)."""
    if decided is None:
        return "it does not count here"
    own, other = specificity(to_octets(rule.pattern)), specificity(to_octets(decided.pattern))
    if own < other:
        return f"less specific: {own} octets, not {other}"
    return f"as specific, and of such the {'first one' if rule.kind is decided.kind else 'allow'} decides"


# Who asks.


@dataclass(frozen=True, slots=True)
class Asker:
    """A crawler that asks robots.txt.

    :param name: what the command line calls it, else the project.
    """

    name: str
    agent: Agent


def add_agent(topic: argparse.ArgumentParser) -> None:
    """Add the option that says who asks."""
    text = "product token, or User-Agent; A,B: A, or else B; as often as you like (default: the project's)"
    topic.add_argument("--agent", metavar="TOKEN", action="append", help=text)


def askers_for(names: Sequence[str] | None, settings: Settings, scrapy_settings: ScrapySettings) -> list[Asker]:
    """Return who asks, each of them once: those whom the command line names, else the crawl.

    :param names: as ROBOTSTXT_USER_AGENT takes them: ``foobot-news,foobot`` are one, in order of preference.
    :raises Failed: one is empty.
    """
    found: dict[Agent, Asker] = {}
    for name in names or ():
        agent = agent_of(name)
        if agent is None:
            raise Failed("--agent names nobody: give it a product token, or a User-Agent header")
        found.setdefault(agent, Asker(name.strip(), agent))
    if not found:
        agent = settings.user_agent or agent_of(default_header(scrapy_settings)) or NOBODY
        own = ",".join(agent.tokens) if settings.user_agent is not None else ""
        found[agent] = Asker(own or agent.identification, agent)
    return list(found.values())


# What is found out about a URL.


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is found out about a URL.

    :param url: without userinfo.
    :param verdict: ``undecided``, where the file is unreachable or the crawl itself failed, too.
    :param why: what the verdict is based on, for people; or what is wrong with the URL.
    :param decision: ``None``: nothing could be asked.
    :param rule: the rule that decided.
    :param lost: the rules that match, and did not decide.
    :param found: what governs it; ``None`` where nothing could be asked.
    :param explanation: ``None`` where there is no file, or another parser has it.
    :param use: what the file says of the use of the page.
    """

    url: str
    asker: Asker
    verdict: Literal["allowed", "disallowed", "undecided"]
    why: str
    decision: Decision | None = None
    rule: Rule | None = None
    lost: tuple[Rule, ...] = ()
    found: Found | None = None
    explanation: Explanation | None = None
    use: Mapping[str, Preference] = field(default_factory=dict)


def judged(url: str, found: Found | None, asker: Asker, settings: Settings) -> Judgement:
    """Return the verdict on a URL.

    :param found: ``None``: it has no origin.
    """
    if found is None:
        return Judgement(common.stripped(url), asker, "undecided", f"it is {common.NO_URL}")
    robots, agent = found.robots, asker.agent
    decision, why = robots.verdict(url, agent, settings.limit, Runtime().utc)
    decision, rule = replace(decision, origin=str(robots.origin)), decision.rule
    explanation, lost = None, tuple[Rule, ...]()
    use: Mapping[str, Preference] = {}
    if robots.robots is not None:
        assert robots.file is not None
        resolved = without_dot_segments(url)  # of two readings of a URL, the one that is disallowed decides
        deciding = url if resolved is None or not robots.file.decide(url, agent).allowed else resolved
        explanation = explain(robots.robots, deciding, deciding_tokens(robots.robots, deciding, agent.tokens))
        use = robots.robots.preferences(url, agent.tokens)
        if why is None and (refusal := refused_by(settings.use or (), use)) is not None:
            decision, rule = replace(decision, allowed=False, reason=Reason.USE, rule=None), None
            why = f"{robots.source} {refusal}"
        lost = tuple(each for each in explanation.matches if rule is None or each.line != rule.line)
    unknown, why = decision.reason in (Reason.UNREACHABLE, Reason.LOCAL), why or robots.why(decision)
    verdict: Any = "undecided" if unknown else "allowed" if decision.allowed else "disallowed"
    return Judgement(common.stripped(url), asker, verdict, why, decision, rule, lost, found, explanation, use)


# A judgement as JSON.


def judgement_record(judgement: Judgement) -> dict[str, Any]:
    """Return a judgement as an object of JSON; its keys are always the same."""
    decision, found, explanation = judgement.decision, judgement.found, judgement.explanation
    groups = () if explanation is None else explanation.groups
    return {
        "url": judgement.url,
        "agent": judgement.asker.name,
        "tokens": list(judgement.asker.agent.tokens),
        "verdict": judgement.verdict,
        "why": judgement.why,
        "reason": None if decision is None else decision.reason.value,
        "rule": None if judgement.rule is None else rule_record(judgement.rule),
        "group": None if explanation is None else explanation.token,
        "group_lines": [[group.line, group.last] for group in groups],
        "lost": [rule_record(rule) for rule in judgement.lost],
        "use": use_record(judgement.use),
        "robots_txt": None if found is None else {"url": found.source, **access_record(found)},
    }


def access_record(found: Found) -> dict[str, Any]:
    """Return what came of the fetch of a robots.txt, as keys of an object of JSON."""
    robots = found.robots
    return {
        "result": robots.outcome.value,
        "status": robots.status,
        "cause": robots.cause,
        "stale": robots.stale,
        "override": robots.override,
        "exempt": robots.exempt,
        "redirects": [{"url": hop.url, "status": hop.status, "target": hop.target} for hop in found.hops],
    }


def use_record(use: Mapping[str, Preference]) -> dict[str, bool | None]:
    """Return what is said of uses as an object of JSON."""
    return {label: preference.allowed for label, preference in use.items()}


def rule_record(rule: Rule) -> dict[str, Any]:
    """Return a rule as an object of JSON."""
    return {"line": rule.line, "kind": rule.kind.value, "pattern": rule.pattern}


# What `check` and `show` say of a file, as text.


def access_facts(found: Found, style: Style) -> Iterator[str]:
    """Yield where the file came from, what came of it, and the redirects that its fetch followed."""
    robots, source = found.robots, found.source
    if robots.cause == "given" and robots.status is None:
        text = f"{source} (given)"
    elif robots.override is not None:
        text = f"{robots.source} (in place of {source}, by ROBOTSTXT_OVERRIDES)"
    elif robots.exempt is not None:
        text = f"{source} (not asked, by ROBOTSTXT_EXEMPT)"
    else:
        stale = ", an earlier copy is obeyed" if robots.stale else ""
        text = f"{source} ({robots.outcome.value}: {robots.cause}{stale})"
    yield from style.fact("robots.txt", text)
    for hop in found.hops:
        where = "without a usable Location" if hop.target is None else f"to {hop.target}"
        yield from style.fact("redirected", f"{hop.status} {where}")


def use_facts(use: Mapping[str, Preference], style: Style, licenses: Sequence[Record] = ()) -> Iterator[str]:
    """Yield what a file says of the use of pages, and under which licenses."""
    for label, preference in use.items():
        word = {True: "yes", False: "no", None: "neither yes nor no"}[preference.allowed]
        yield from style.fact("use", f"{label}: {word} (line {preference.line}: {preference.source[:200]})")
    for record in licenses:
        yield from style.fact("license", f"{record.value} (line {record.line})")


def group_fact(explanation: Explanation, style: Style) -> Iterator[str]:
    """Yield which group applies, and where it stands."""
    groups = explanation.groups
    ends = [str(group.line) if group.line == group.last else f"{group.line}-{group.last}" for group in groups]
    plural = "" if len(ends) == 1 and ends[0].isdigit() else "s"
    places = f" (line{plural} {', '.join(ends)}{', together' if len(ends) > 1 else ''})" if ends else ""
    yield from style.fact("group", f"{explanation.choice}{places}")
