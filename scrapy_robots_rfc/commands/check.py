"""`scrapy robots check URL...`: may these URLs be fetched, and why, as in a crawl."""

from __future__ import annotations

import argparse
from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.commands import asking, common
from scrapy_robots_rfc.commands.asking import FoundRobots, Unknown
from scrapy_robots_rfc.commands.common import BAD, DOUBT, GOOD, STRONG, Console, Failed, argument
from scrapy_robots_rfc.core.agents import NOBODY, Agent, agent_of
from scrapy_robots_rfc.core.decision import Reason, Rule
from scrapy_robots_rfc.core.gemini import deciding_tokens
from scrapy_robots_rfc.core.groups import Record
from scrapy_robots_rfc.core.labels import unknown_labels, uses_of
from scrapy_robots_rfc.core.lint import markup_line
from scrapy_robots_rfc.core.pattern import specificity
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.preferences import Preference, refused_by
from scrapy_robots_rfc.core.robotstxt import Explanation, RobotsTxt, explain
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.middleware.user_agent import default_header
from scrapy_robots_rfc.policy.origins import Origin, other_reading
from scrapy_robots_rfc.settings import Settings

HELP = "Say whether URLs may be fetched, and why: the line that decided, and the rules that lost."
#: Verdicts with their exit codes, of which the highest counts, and their colours.
_VERDICTS = {"allowed": (0, GOOD), "disallowed": (1, BAD), "undecided": (common.NO_ANSWER, DOUBT)}
_AROUND = 2  # lines of a group shown before and after the one that decided
_BINARY_LINES = 50  # that are searched for NUL, which no text has

ARGUMENTS = (
    argument(
        "urls", metavar="URL", nargs="*", help=f"{common.URL_HELP}; -, or none: standard input"
    ),
    common.AGENT,
    argument("--robots", metavar="FILE|-", help="decide by this file, and ask no site for its own"),
    argument("--archive", metavar="FILE", action="append", help="decide by a ROBOTS_ARCHIVE"),
    argument("--at", metavar="TIME", help="with --archive: as it was at 2026-11-22T19:30:00Z"),
    argument("--use", metavar="LABELS", help="what the pages are for: train-ai, as in ROBOTS_USE"),
    common.JSON,
)


def run(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Judge the URLs, print the verdicts, and return the exit code."""
    urls = _urls(console, opts)
    if (opts.at and not opts.archive) or (opts.archive and opts.robots):
        raise Failed("--at belongs to --archive, and --archive and --robots exclude each other")
    ours = asking.prepared(settings)
    uses = uses_of(opts.use)
    for label, nearest in unknown_labels(uses or ()):
        console.complain(
            f"--use {label} is not a known label: only a site that names it can refuse it;"
            f" the nearest known label is {nearest}"
        )
    agents = agents_for(opts.agent, ours, settings)
    found = _found_about(urls, ours, settings, console, opts)
    code = 0
    undecided = []
    for number, (url, agent) in enumerate(product(urls, agents)):
        governs = found[Origin.of(url, ours.schemes)]
        record = judged(url, governs, agent, ours, uses)
        code = max(code, _VERDICTS[record["verdict"]][0])
        if opts.json:
            console.print_json(record)
        else:
            if number:
                console.print()
            _show(record, console, several=len(agents) > 1)
            if isinstance(governs, FoundRobots):
                _show_file(url, record, governs, agent, console)
        if record["verdict"] == "undecided" and agent == agents[-1]:
            shown = record["url"] or common.EMPTY
            undecided.append(f"{shown} is not decided: {record['why']}; {governs.advice}")
    console.complain_of(undecided)
    return code


def _urls(console: Console, opts: argparse.Namespace) -> list[str]:
    """Return the URLs of the command line, or else those of standard input."""
    if opts.urls and opts.urls != [common.STANDARD]:
        return [common.as_url(url) for url in opts.urls]
    if opts.robots == common.STANDARD:
        raise Failed("standard input is the robots.txt: name the URLs on the command line")
    is_given = opts.urls or not console.stdin.isatty()
    octets = common.read(common.STANDARD, console).removeprefix(BOM_UTF8) if is_given else b""
    lines = (line.decode("utf-8", "surrogateescape").strip() for line in octets.splitlines())
    urls = [common.as_url(line) for line in lines if line and not line.startswith("#")]
    if not urls:
        raise Failed("there is no URL on standard input; send some, one a line, or name them")
    return urls


def _found_about(
    urls: list[str],
    ours: Settings,
    settings: ScrapySettings,
    console: Console,
    opts: argparse.Namespace,
) -> Mapping[Origin | None, FoundRobots | Unknown]:
    """Return what governs some URLs by their origins, of which what is no URL has ``None``."""
    origins = dict.fromkeys(filter(None, (Origin.of(url, ours.schemes) for url in urls)))
    found: Mapping[Origin, FoundRobots | Unknown]
    if opts.archive:
        from scrapy_robots_rfc.commands.archived import found_in  # noqa: PLC0415 - needs an extra

        found = found_in(opts.archive, opts.at, origins, ours, console)
    elif opts.robots is None:
        found = asking.found_about(settings, origins)
    else:
        octets = common.read(opts.robots, console, ours.max_size)
        schemes = {origin.scheme for origin in origins}
        files = {scheme: asking.parsed(octets, scheme, ours) for scheme in schemes}
        found = {one: asking.given(files[one.scheme], opts.robots, one) for one in origins}
    known = [each for each in found.values() if isinstance(each, FoundRobots)]
    doubts = dict.fromkeys(filter(None, map(_doubt, known)))
    console.complain_of(list(doubts))
    what = common.NO_URL.format(" or ".join(ours.schemes))
    governing: dict[Origin | None, FoundRobots | Unknown] = {one: found[one] for one in origins}
    return governing | {None: Unknown(f"it is {what}", common.URL_ADVICE)}


def _doubt(found: FoundRobots) -> str | None:
    """Return a warning of a web page or a binary file, which would allow everything."""
    file = found.robots.robots
    if file is None:
        return None
    if any("\0" in line for line in file.raw_lines[:_BINARY_LINES]):
        what = "a binary file"
    elif markup_line(file.lines()) is not None:
        what = "an HTML page"
    else:
        return None
    again = common.STANDARD if found.source == common.source_name(common.STANDARD) else found.source
    return f"{found.source} looks like {what}, no robots.txt: see scrapy robots lint {again}"


def judged(
    url: str,
    found: FoundRobots | Unknown,
    agent: Agent,
    settings: Settings,
    uses: tuple[str, ...] | None,
) -> dict[str, Any]:
    """Return the verdict on a URL, as `--json` prints it; its keys are always the same.

    :param uses: what the page is for; ``None``: as the archived crawl declared, else the settings.
    """
    if isinstance(found, FoundRobots):
        result = _judged_by(url, found, agent, settings, uses)
    else:
        result = _judged_without(url, found, settings)
    return {
        "url": common.stripped(url),
        "agent": name_of(agent),
        "tokens": list(agent.tokens),
        **dict.fromkeys(("verdict", "why", "reason", "rule", "group")),
        "group_lines": [],
        "lost": [],
        "use": {},
        **dict.fromkeys(("declared", "robots_txt")),
        **result,
    }


def _judged_without(url: str, found: Unknown, settings: Settings) -> dict[str, Any]:
    """Return the keys of a verdict that rests on no robots.txt."""
    scheme = common.REQUESTED.match(url)
    name = "" if scheme is None else scheme[0].lower()
    if not name or name in settings.schemes:
        return {"verdict": "undecided", "why": found.why}
    why = f"for {name} no robots.txt is asked for, only for {', '.join(settings.schemes)}"
    return {"verdict": "allowed", "why": why, "reason": Reason.EXEMPT.value}


def _judged_by(
    url: str, found: FoundRobots, agent: Agent, settings: Settings, uses: tuple[str, ...] | None
) -> dict[str, Any]:
    """Return the keys of a verdict by what governs an origin."""
    robots = found.robots
    decision, why = robots.verdict(url, agent, settings.limit)
    explanation, use = _explained(url, robots, agent)
    if uses is None:
        uses = settings.use if found.declared is None else found.declared
    refusal = refused_by(uses or (), use)
    if why is None and refusal is not None:
        decision = decision._replace(allowed=False, reason=Reason.USE, rule=None)
        why = f"{robots.source} {refusal.why}"
    verdict = "allowed" if decision.allowed else "disallowed"
    if decision.reason in (Reason.UNREACHABLE, Reason.LOCAL):
        verdict = "undecided"
    return {
        "verdict": verdict,
        "why": why or robots.why(decision),
        "reason": decision.reason.value,
        "rule": None if decision.rule is None else rule_record(decision.rule),
        "group": explanation.token,
        "group_lines": [[group.line, group.last] for group in explanation.groups],
        "lost": [rule_record(rule) for rule in explanation.matches if rule != decision.rule],
        "use": {label: preference.allowed for label, preference in use.items()},
        "declared": None if found.declared is None else list(found.declared),
        "robots_txt": {"url": found.source, **access_record(found)},
    }


def _explained(
    url: str, robots: OriginPolicy, agent: Agent
) -> tuple[Explanation, Mapping[str, Preference]]:
    """Return which rules of a file match, if there is one, and what it says of the page's use."""
    file = robots.robots or RobotsTxt()
    # Of two readings of a URL, the one that is disallowed decides.
    other = other_reading(url)
    deciding = url if other is None or not file.decide(url, agent.tokens).allowed else other
    explanation = explain(file, deciding, deciding_tokens(file, deciding, agent.tokens))
    return explanation, file.preferences(url, agent.tokens)


def _show(record: dict[str, Any], console: Console, *, several: bool) -> None:
    """Print a verdict, with the agent where there are several."""
    word = console.paint(f"{record['verdict']:<12}", STRONG, _VERDICTS[record["verdict"]][1])
    console.print(f"{word} {printable(record['url'] or common.EMPTY)}")
    if several:
        console.fact("agent", record["agent"])
    console.fact("why", record["why"])


def _show_file(
    url: str, record: dict[str, Any], found: FoundRobots, agent: Agent, console: Console
) -> None:
    """Print what a verdict rests on."""
    show_access(found, console)
    if found.declared:
        console.fact("declared", f"{', '.join(found.declared)} (uses of the archived crawl)")
    file = found.robots.robots
    if file is None:
        return
    explanation, use = _explained(url, found.robots, agent)
    show_group(explanation, console)
    show_use(use, console)
    rule = record["rule"]
    if rule is not None:
        _show_lines(file, explanation, rule["line"], console)
    for lost in record["lost"]:
        text = f"line {lost['line']}: {lost['kind']}: {lost['pattern']} ({_because(lost, rule)})"
        console.fact("lost", text)


def _show_lines(file: RobotsTxt, explanation: Explanation, line: int, console: Console) -> None:
    """Print the line that decided, as the file has it, and those around it in its group."""
    group = next(group for group in explanation.groups if group.line <= line <= group.last)
    for number in range(max(line - _AROUND, group.line), min(line + _AROUND, group.last) + 1):
        text = file.line_text(number).replace("\t", " ").rstrip()
        mark = console.paint(">", STRONG, GOOD) if number == line else " "
        if text:
            console.print(f"{mark} {number:>5}  {printable(text)}")


def _because(lost: dict[str, Any], decided: dict[str, Any] | None) -> str:
    """Return why a rule that matches did not decide (RFC 9309, 2.2.2)."""
    if decided is None:
        return "it does not count here"
    own, other = (specificity(to_octets(rule["pattern"])) for rule in (lost, decided))
    if own < other:
        return f"less specific: {own} octets, not {other}"
    preferred = "first one" if lost["kind"] == decided["kind"] else "allow"
    return f"as specific, and of such the {preferred} decides"


def agents_for(
    names: Sequence[str] | None, settings: Settings, scrapy_settings: ScrapySettings
) -> list[Agent]:
    """Return the crawlers that the command line names, each once, or else the project's."""
    found: dict[Agent, None] = {}
    for name in names or ():
        agent = agent_of(name)
        if agent is None or not (agent.tokens or any(map(str.isalnum, name))):
            raise Failed("--agent names no crawler: give a product token, or a User-Agent header")
        found[agent] = None
    own = settings.user_agent or agent_of(default_header(scrapy_settings)) or NOBODY
    return list(found) or [own]


def name_of(agent: Agent) -> str:
    """Return a crawler's product tokens, or the User-Agent header that they are from."""
    return ",".join(agent.tokens) if agent.identification in agent.tokens else agent.identification


def access_record(found: FoundRobots) -> dict[str, Any]:
    """Return the result of the fetch of a robots.txt, as keys of an object of JSON."""
    names = ("status", "cause", "stale", "override", "exempt")
    known = {name: getattr(found.robots, name) for name in names}
    return {"result": found.robots.outcome.value, **known}


def rule_record(rule: Rule) -> dict[str, Any]:
    """Return a rule as an object of JSON."""
    return {"line": rule.line, "kind": rule.kind.value, "pattern": rule.pattern}


def show_access(found: FoundRobots, console: Console) -> None:
    """Print where the file is from, and how its fetch ended."""
    robots, source = found.robots, found.source
    if robots.cause == "given" and robots.status is None:
        text = f"{source} (given)"
    elif robots.override is not None:
        text = f"{robots.source} (in place of {source}, by ROBOTS_OVERRIDES)"
    elif robots.exempt is not None:
        text = f"{source} (not asked, by ROBOTS_EXEMPT)"
    else:
        text = f"{source} {common.meaning(robots.outcome, robots.cause, stale=robots.stale)}"
    console.fact("robots.txt", text)


def show_use(
    use: Mapping[str, Preference], console: Console, licenses: Sequence[Record] = ()
) -> None:
    """Print what a file says of the use of pages, and under which licenses."""
    for label, preference in use.items():
        word = {True: "yes", False: "no", None: "neither yes nor no"}[preference.allowed]
        console.fact("use", f"{label}: {word} (line {preference.line}: {preference.source[:200]})")
    for record in licenses:
        console.fact("license", f"{record.value} (line {record.line})")


def show_group(explanation: Explanation, console: Console) -> None:
    """Print which group applies, and where it is in the file."""
    groups = explanation.groups
    ends = [f"{one.line}-{one.last}" if one.line < one.last else str(one.line) for one in groups]
    lines = ", ".join(ends)
    plural = "" if lines.isdigit() else "s"
    together = ", together" if len(ends) > 1 else ""
    where = f" (line{plural} {lines}{together})" if ends else ""
    console.fact("group", f"{explanation.choice}{where}")
