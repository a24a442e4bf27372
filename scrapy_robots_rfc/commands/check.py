"""`scrapy robots check URL...`: may these URLs be fetched, and why, as in a crawl."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.commands import asking, common
from scrapy_robots_rfc.commands.asking import FoundRobots, Unknown
from scrapy_robots_rfc.core.agents import NOBODY, Agent, agent_of
from scrapy_robots_rfc.core.decision import Reason, Rule
from scrapy_robots_rfc.core.findings import Explanation, explain, raw_lines
from scrapy_robots_rfc.core.lines import as_text
from scrapy_robots_rfc.core.preferences import refused_by, unknown_labels, uses_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.middleware.user_agent import default_header
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin, other_reading
from scrapy_robots_rfc.settings import Settings

HELP = "Say whether URLs may be fetched, and why: the line that decided, and the rules that lost."
#: Verdicts with their exit codes, of which the highest counts, and their colours.
_VERDICTS = {
    "allowed": (0, common.GOOD),
    "disallowed": (1, common.BAD),
    "undecided": (common.NO_ANSWER, common.DOUBT),
}
_USES = {True: "yes", False: "no", None: "neither yes nor no"}
_AROUND = 2  # lines of a group shown before and after the one that decided
#: The scheme of a URL that Scrapy's `Request` takes. `localhost:8000/x` has none there.
_REQUESTED = re.compile("[A-Za-z][A-Za-z0-9+.-]*(?=://)|(?:about|data)(?=:)")
_BINARY_LINES = 50  # that are searched for NUL, which no text has

ARGUMENTS: dict[str, Any] = {
    "urls": {"metavar": "URL", "nargs": "*", "help": f"{common.URL_HELP}; - or none: stdin"},
    **common.AGENT,
    "--robots": {"metavar": "FILE|-", "help": "decide by this file, and ask no site for its own"},
    "--archive": {"metavar": "FILE", "action": "append", "help": "decide by a ROBOTS_ARCHIVE"},
    "--at": {"metavar": "TIME", "help": "with --archive: as it was at 2026-11-22T19:30:00Z"},
    "--use": {"metavar": "LABELS", "help": "what the pages are for: train-ai, as in ROBOTS_USE"},
    **common.JSON,
}


def run(settings: ScrapySettings, console: common.Console, opts: argparse.Namespace) -> int:
    """Judge the URLs, print the verdicts, and return the exit code."""
    urls = _urls(console, opts)
    if (opts.at and not opts.archive) or (opts.archive and opts.robots):
        raise common.Failed("--at belongs to --archive; --archive and --robots exclude each other")
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
    for number, (url, agent) in enumerate(product(urls, agents)):
        governs = found[Origin.of(url, ours.schemes)]
        record = judged(url, governs, agent, ours, uses)
        code = max(code, _VERDICTS[record["verdict"]][0])
        if opts.json:
            console.print_json(record)
        else:
            if number:
                console.print()
            _show(record, governs, console, several=len(agents) > 1)
        if record["verdict"] == "undecided" and agent == agents[-1]:
            console.complain(f"{record['url']} is not decided: {record['why']}; {governs.advice}")
    return code


def _urls(console: common.Console, opts: argparse.Namespace) -> list[str]:
    """Return the URLs of the command line, or else those of standard input."""
    if opts.urls and opts.urls != [common.STANDARD]:
        return [common.as_url(url) for url in opts.urls]
    if opts.robots == common.STANDARD:
        raise common.Failed("standard input is the robots.txt: name the URLs on the command line")
    is_given = opts.urls or not console.stdin.isatty()
    octets = (
        common.read(common.STANDARD, console).removeprefix(b"\xef\xbb\xbf") if is_given else b""
    )
    lines = (line.decode("utf-8", "surrogateescape").strip() for line in octets.splitlines())
    urls = [common.as_url(line) for line in lines if line and not line.startswith("#")]
    if not urls:
        raise common.Failed("no URL is on standard input: send some, one a line, or name them")
    return urls


def _found_about(
    urls: list[str],
    ours: Settings,
    settings: ScrapySettings,
    console: common.Console,
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
        found = {one: _given(files[one.scheme], opts.robots, one) for one in origins}
    for doubt in dict.fromkeys(map(_doubt, found.values())):
        if doubt is not None:
            console.complain(doubt)
    what = common.NO_URL.format(" or ".join(ours.schemes))
    governing: dict[Origin | None, FoundRobots | Unknown] = {one: found[one] for one in origins}
    return governing | {None: Unknown(f"it is {what}", common.URL_ADVICE)}


def _given(file: ParsedRobots, source: str, origin: Origin) -> FoundRobots:
    """Return what governs an origin by a file of the command line: a path, or ``-``."""
    validity = Validity(Outcome.SUCCESSFUL, math.inf)
    robots = OriginPolicy(origin, validity, None, "given", file, lambda: NOBODY)
    return FoundRobots(robots, common.source_name(source))


def _doubt(found: FoundRobots | Unknown) -> str | None:
    """Return a warning of a web page or a binary file, which would allow everything."""
    if not isinstance(found, FoundRobots) or found.robots.robots is None:
        return None
    file = found.robots.robots
    if any("\0" in line for line in raw_lines(file)[:_BINARY_LINES]):
        what = "a binary file"
    elif file.is_page:
        what = "an HTML page"
    else:
        return None
    return f"{found.source} looks like {what}, no robots.txt: see what scrapy robots lint says"


def judged(
    url: str,
    found: FoundRobots | Unknown,
    agent: Agent,
    settings: Settings,
    uses: tuple[str, ...] | None,
) -> dict[str, Any]:
    """Return the verdict on a URL, as `--json` prints it; its keys are always the same."""
    if isinstance(found, FoundRobots):
        result = _judged_by(url, found, agent, settings, uses)
    else:
        result = _judged_without(url, found, settings)
    return {
        "url": common.stripped(url),
        "agent": name_of(agent),
        "tokens": list(agent.tokens),
        **dict.fromkeys(("verdict", "why", "reason", "rule", "group", "group_why")),
        "group_lines": [],
        "lost": [],
        "use": {},
        "robots_txt": None,
        **result,
    }


def _judged_without(url: str, found: Unknown, settings: Settings) -> dict[str, Any]:
    """Return the keys of a verdict that rests on no robots.txt."""
    scheme = _REQUESTED.match(url)
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
    file = robots.robots or RobotsTxt()
    # Of two readings of a URL, the one that is disallowed decides.
    other = other_reading(url)
    deciding = url if other is None or not file.decide(url, agent.tokens).allowed else other
    explanation = explain(file, deciding, agent.tokens)
    use = file.preferences(url, agent.tokens)
    if uses is None:  # `--use` is not given
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
        **group_record(explanation),
        "lost": [rule_record(rule) for rule in explanation.matches if rule != decision.rule],
        "use": {label: preference.allowed for label, preference in use.items()},
        "robots_txt": {"url": found.source, **access_record(found)},
    }


def _show(
    record: dict[str, Any], governs: FoundRobots | Unknown, console: common.Console, several: bool
) -> None:
    """Print a verdict and what it rests on, with the agent where there are several."""
    word = console.paint(f"{record['verdict']:<12}", common.STRONG, _VERDICTS[record["verdict"]][1])
    console.print(f"{word} {printable(record['url'])}")
    if several:
        console.fact("agent", record["agent"])
    console.fact("why", record["why"])
    if isinstance(governs, FoundRobots):
        show_access(governs, console)
        if governs.robots.robots is not None:
            show_group(record, console)
            _show_rules(record, governs.robots.robots, console)


def _show_rules(record: dict[str, Any], file: RobotsTxt, console: common.Console) -> None:
    """Print the line that decided, as the file has it, with those around it; and what lost."""
    decided = 0 if record["rule"] is None else record["rule"]["line"]
    for first, last in record["group_lines"]:
        if first <= decided <= last:
            lines = raw_lines(file)
            for line in range(max(decided - _AROUND, first), min(decided + _AROUND, last) + 1):
                text = as_text(lines[line - 1]).replace("\t", " ").rstrip()
                mark = console.paint(">", common.STRONG, common.GOOD) if line == decided else " "
                if text:
                    console.print(f"{mark} {line:>5}  {printable(text)}")
    for lost in record["lost"]:
        console.fact("lost", f"line {lost['line']}: {lost['kind']}: {lost['pattern']}")


def agents_for(
    names: Sequence[str] | None, settings: Settings, scrapy_settings: ScrapySettings
) -> list[Agent]:
    """Return the crawlers that the command line names, each once, or else the project's."""
    found: dict[Agent, None] = {}
    for name in names or ():
        agent = agent_of(name)
        if agent is None or not (agent.tokens or any(map(str.isalnum, name))):
            raise common.Failed("--agent names no crawler: give a product token or a User-Agent")
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


def show_access(found: FoundRobots, console: common.Console) -> None:
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


def group_record(explanation: Explanation) -> dict[str, Any]:
    """Return which group applies, as keys of an object of JSON."""
    return {
        "group": explanation.token,
        "group_why": explanation.choice,
        "group_lines": [[group.line, group.last] for group in explanation.groups],
    }


def show_group(record: dict[str, Any], console: common.Console) -> None:
    """Print which group applies, where it is in the file, and what it says of the use of pages."""
    lines = ", ".join(f"{first}-{last}" for first, last in record["group_lines"])
    console.fact("group", record["group_why"] + f" (lines {lines})" * bool(lines))
    for label, allowed in record["use"].items():
        console.fact("use", f"{label}: {_USES[allowed]}")
