"""`scrapy robots check URL...`: may these URLs be fetched, and why. `diff` takes its verdicts from here, too.

The verdicts are the same that a crawl comes to.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands import asking, common
from scrapy_robots_rfc.commands.common import BAD, DOUBT, GOOD, NO_ANSWER, STANDARD, STRONG, Failed
from scrapy_robots_rfc.core.agents import NOBODY, Agent, agent_of
from scrapy_robots_rfc.core.decision import Reason
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
    from collections.abc import Mapping, Sequence

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc.commands.asking import FoundRobots
    from scrapy_robots_rfc.commands.common import Console
    from scrapy_robots_rfc.core.decision import Rule
    from scrapy_robots_rfc.core.groups import Record
    from scrapy_robots_rfc.core.preferences import Preference
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.settings import Settings

HELP = "Say whether URLs may be fetched, and why: the verdict, the line that decided, the group, the rules that lost."
#: Verdicts with their exit codes, of which the highest counts, and their colours.
_VERDICTS = {"allowed": (0, GOOD), "disallowed": (1, BAD), "undecided": (NO_ANSWER, DOUBT)}

_AROUND = 2  # lines of a group shown before and after the one that decided
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
    agents = agents_for(opts.agent, ours, settings)
    found = _found_about(urls, ours, settings, console, opts)
    code = 0
    for done, url in enumerate(urls):
        origin = Origin.of(url, ours.schemes)
        if origin is not None and origin not in found:
            raise Failed(f"stopped after {done:,} of {len(urls):,} URLs")
        governs = None if origin is None else found[origin]
        declared = None if governs is None or opts.use is not None else governs.declared
        limits = ours if declared is None else replace(ours, use=declared)
        for number, who in enumerate(agents):
            judgement = judged(url, governs, who, limits)
            if opts.json:
                console.say_json(judgement.record)
            else:
                if done or number:
                    console.say()
                _show(judgement, console, agent=len(agents) > 1)
            verdict = judgement.record["verdict"]
            code = max(code, _VERDICTS[verdict][0])
        if verdict == "undecided":
            advice = "see whether the site is up, or name a copy of its file with --robots FILE"
            advice = common.URL_ADVICE if origin is None else advice
            console.complain(f"{judgement.record['url']} is not decided: {judgement.record['why']}; {advice}")
    return code


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


def _found_about(
    urls: list[str], ours: Settings, settings: ScrapySettings, console: Console, opts: argparse.Namespace
) -> dict[Origin, FoundRobots]:
    """Return what governs the origins of some URLs: by an archive, a file that is given, or the sites' own files."""
    if opts.archive:
        from scrapy_robots_rfc.commands.archived import found_in, time_of  # noqa: PLC0415 - it needs an extra

        return found_in(opts.archive, time_of(opts.at), urls, ours, console)
    origins = dict.fromkeys(origin for url in urls if (origin := Origin.of(url, ours.schemes)) is not None)
    if opts.robots is None:
        return asking.found_about(settings, origins, console)
    (given,) = asking.given_files(settings, [opts.robots], console)
    given.doubt(console)
    return {origin: given.found(origin) for origin in origins}


# A judgement for people.


def _show(judgement: Judgement, console: Console, *, agent: bool) -> None:
    """Print a judgement, and why it is so.

    :param agent: say who asks.
    """
    record, found, explanation, use = judgement
    word = console.paint(f"{record['verdict']:<12}", STRONG, _VERDICTS[record["verdict"]][1])
    console.say(f"{word} {printable(record['url'])}")
    for name in ("agent", "why")[not agent :]:
        console.fact(name, record[name])
    if found is None:
        return
    show_access(found, console)
    if found.declared is not None:
        console.fact("declared", f"{', '.join(found.declared)} (uses of the archived crawl)")
    file, rule, lost = found.robots.robots, record["rule"], record["lost"]
    if explanation is None or file is None:
        return
    show_group(explanation, console)
    show_use(use, console)
    if rule is not None:
        _show_lines(file, explanation, rule["line"], console)
    for each in lost[:_MOST_LOST]:
        console.fact("lost", f"line {each['line']}: {each['kind']}: {each['pattern']} ({_because(each, rule)})")
    if len(lost) > _MOST_LOST:
        console.fact("lost", f"and {len(lost) - _MOST_LOST:,} more")


def _show_lines(file: RobotsTxt, explanation: Explanation, line: int, console: Console) -> None:
    """Print the line of the rule that decided, as it stands in the file, and those around it in its group."""
    group = next(group for group in explanation.groups if group.line <= line <= group.last)
    for number in range(max(line - _AROUND, group.line), min(line + _AROUND, group.last) + 1):
        text = file.line_text(number).replace("\t", " ").rstrip()
        mark = console.paint(">", STRONG, GOOD) if number == line else " "
        if text:
            console.say(f"{mark} {number:>5}  {printable(text)}")


def _because(rule: dict[str, Any], decided: dict[str, Any] | None) -> str:
    """Return why a rule that matches did not decide (RFC 9309, 2.2.2)."""
    if decided is None:
        return "it does not count here"
    own, other = (specificity(to_octets(each["pattern"])) for each in (rule, decided))
    if own < other:
        return f"less specific: {own} octets, not {other}"
    return f"as specific, and of such the {'first one' if rule['kind'] == decided['kind'] else 'allow'} decides"


# Who asks.


class NamedAgent(NamedTuple):
    """A crawler that asks robots.txt.

    :param name: what the command line calls it, else the project.
    """

    name: str
    agent: Agent


def add_agent(topic: argparse.ArgumentParser) -> None:
    """Add the option that says who asks."""
    text = "product token, or User-Agent; A,B: A, or else B; as often as you like (default: the project's)"
    topic.add_argument("--agent", metavar="TOKEN", action="append", help=text)


def agents_for(names: Sequence[str] | None, settings: Settings, scrapy_settings: ScrapySettings) -> list[NamedAgent]:
    """Return who asks, each of them once: those whom the command line names, else the crawl.

    :param names: as ROBOTSTXT_USER_AGENT takes them: ``foobot-news,foobot`` are one, in order of preference.
    :raises Failed: one is empty.
    """
    found: dict[Agent, NamedAgent] = {}
    for name in names or ():
        agent = agent_of(name)
        if agent is None:
            raise Failed("--agent names nobody: give it a product token, or a User-Agent header")
        found.setdefault(agent, NamedAgent(name.strip(), agent))
    if not found:
        agent = settings.user_agent or agent_of(default_header(scrapy_settings)) or NOBODY
        own = ",".join(agent.tokens) if settings.user_agent is not None else ""
        found[agent] = NamedAgent(own or agent.identification, agent)
    return list(found.values())


# What is found out about a URL.


class Judgement(NamedTuple):
    """What is found out about a URL.

    :param record: what `--json` prints; its keys are always the same.
    :param found: what governs the URL; ``None`` where it has no origin.
    :param explanation: which rules match; ``None`` where there is no file, or another parser has it.
    :param use: what the file says of the use of the page.
    """

    record: dict[str, Any]
    found: FoundRobots | None
    explanation: Explanation | None
    use: Mapping[str, Preference]


def judged(url: str, found: FoundRobots | None, who: NamedAgent, settings: Settings) -> Judgement:
    """Return the verdict on a URL.

    :param found: ``None``: it has no origin.
    """
    record: dict[str, Any] = {
        "url": common.stripped(url),
        "agent": who.name,
        "tokens": list(who.agent.tokens),
        "verdict": "undecided",
        "why": f"it is {common.NO_URL}",
        **dict.fromkeys(("reason", "rule", "group")),
        "group_lines": [],
        "lost": [],
        "use": {},
        "declared": None,
        "robots_txt": None,
    }
    explanation: Explanation | None = None
    use: Mapping[str, Preference] = {}
    if found is None:
        return Judgement(record, None, explanation, use)
    robots, agent = found.robots, who.agent
    decision, why = robots.verdict(url, agent, settings.limit, Runtime().utc)
    decision = replace(decision, origin=str(robots.origin))
    if robots.robots is not None:
        assert robots.file is not None
        resolved = without_dot_segments(url)  # of two readings of a URL, the one that is disallowed decides
        deciding = url if resolved is None or not robots.file.decide(url, agent).allowed else resolved
        explanation = explain(robots.robots, deciding, deciding_tokens(robots.robots, deciding, agent.tokens))
        use = robots.robots.preferences(url, agent.tokens)
        if why is None and (refusal := refused_by(settings.use or (), use)) is not None:
            decision = replace(decision, allowed=False, reason=Reason.USE, rule=None)
            why = f"{robots.source} {refusal.why}"
        line = None if decision.rule is None else decision.rule.line
        record["group"] = explanation.token
        record["group_lines"] = [[group.line, group.last] for group in explanation.groups]
        record["lost"] = [rule_record(rule) for rule in explanation.matches if rule.line != line]
        record["use"] = use_record(use)
    unknown = decision.reason in (Reason.UNREACHABLE, Reason.LOCAL)
    record["verdict"] = "undecided" if unknown else "allowed" if decision.allowed else "disallowed"
    record["why"] = why or robots.why(decision)
    record["reason"] = decision.reason.value
    record["rule"] = None if decision.rule is None else rule_record(decision.rule)
    record["declared"] = None if found.declared is None else list(found.declared)
    record["robots_txt"] = {"url": found.source, **access_record(found)}
    return Judgement(record, found, explanation, use)


# Parts of what is printed as JSON.


def access_record(found: FoundRobots) -> dict[str, Any]:
    """Return what came of the fetch of a robots.txt, as keys of an object of JSON."""
    robots = found.robots
    return {
        "result": robots.outcome.value,
        "status": robots.status,
        "cause": robots.cause,
        "stale": robots.stale,
        "override": robots.override,
        "exempt": robots.exempt,
        "redirects": [asdict(hop) for hop in found.hops],
    }


def use_record(use: Mapping[str, Preference]) -> dict[str, bool | None]:
    """Return what is said of uses as an object of JSON."""
    return {label: preference.allowed for label, preference in use.items()}


def rule_record(rule: Rule) -> dict[str, Any]:
    """Return a rule as an object of JSON."""
    return {"line": rule.line, "kind": rule.kind.value, "pattern": rule.pattern}


# What `check` and `show` say of a file, as text.


def show_access(found: FoundRobots, console: Console) -> None:
    """Print where the file came from, what came of it, and the redirects that its fetch followed."""
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
    console.fact("robots.txt", text)
    for hop in found.hops:
        where = "without a usable Location" if hop.target is None else f"to {hop.target}"
        console.fact("redirected", f"{hop.status} {where}")


def show_use(use: Mapping[str, Preference], console: Console, licenses: Sequence[Record] = ()) -> None:
    """Print what a file says of the use of pages, and under which licenses."""
    for label, preference in use.items():
        word = {True: "yes", False: "no", None: "neither yes nor no"}[preference.allowed]
        console.fact("use", f"{label}: {word} (line {preference.line}: {preference.source[:200]})")
    for record in licenses:
        console.fact("license", f"{record.value} (line {record.line})")


def show_group(explanation: Explanation, console: Console) -> None:
    """Print which group applies, and where it stands."""
    groups = explanation.groups
    ends = [str(group.line) if group.line == group.last else f"{group.line}-{group.last}" for group in groups]
    plural = "" if len(ends) == 1 and ends[0].isdigit() else "s"
    places = f" (line{plural} {', '.join(ends)}{', together' if len(ends) > 1 else ''})" if ends else ""
    console.fact("group", f"{explanation.choice}{places}")
