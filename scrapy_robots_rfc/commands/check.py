"""`scrapy robots check` judges URLs as a crawl would, and `show` prints a site's robots.txt."""

import math
import re
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from typing import Any

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands.agents import AGENT, NamedAgent, agents_of, show_agent
from scrapy_robots_rfc.commands.annotated import annotated_lines, html_page, show_lines
from scrapy_robots_rfc.commands.archive_reader import found_in
from scrapy_robots_rfc.commands.common import (
    BAD,
    DOUBT,
    GOOD,
    JSON,
    NO_ANSWER,
    STANDARD,
    STRONG,
    URL_ADVICE,
    URL_HELP,
    USES,
    Console,
    Failed,
    FoundRobots,
    Topic,
    Unknown,
    as_url,
    crawl,
    found_about,
    is_url,
    not_a_url,
    origin_of,
    parsed,
    prepared,
    read,
    refuse,
    source_name,
    stripped,
)
from scrapy_robots_rfc.commands.html_pages import write_page
from scrapy_robots_rfc.commands.page_uses import PageFields, find_with_pages
from scrapy_robots_rfc.core.agents import NO_AGENT
from scrapy_robots_rfc.core.decision import Decision, Reason, Rule
from scrapy_robots_rfc.core.explanation import (
    Explanation,
    explain,
    groups_of,
    raw_lines,
    records_of,
)
from scrapy_robots_rfc.core.lines import LineKind, as_text
from scrapy_robots_rfc.core.near_misses import near_misses
from scrapy_robots_rfc.core.preferences import POLICY_TOKENS, parse_uses
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import join_items, printable
from scrapy_robots_rfc.core.uses import find_refusal, unknown_labels
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin, other_reading
from scrapy_robots_rfc.settings import Settings

#: Exit code and colour for each verdict. A command exits with the highest code.
_VERDICTS = {
    "allowed": (0, GOOD),
    "disallowed": (1, BAD),
    "undecided": (NO_ANSWER, DOUBT),
}
_ONLY_ROBOTS_TXT = (
    "only robots.txt was read; the page's headers and meta tags, or the site's tdmrep.json, may"
    " refuse a use, too (--page reads them)"
)
_CONTEXT = 2  # lines to print before and after the deciding line
#: The scheme in a URL that Scrapy's `Request` accepts. `localhost:8000/x` does not have a scheme.
_REQUESTED = re.compile("[A-Za-z][A-Za-z0-9+.-]*(?=://)|(?:about|data)(?=:)")


# `check`.


def _check(settings: ScrapySettings, console: Console, opts: Namespace) -> int:
    """Judge the URLs, print the verdicts, and return the exit code."""
    urls = _urls(console, opts)
    problems = {
        "--at needs --archive": opts.at is not None and not opts.archive,
        "--archive and --robots cannot be combined": opts.archive and opts.robots,
        "--page fetches pages, so it cannot be combined with --archive or --robots": (
            opts.page and (opts.archive or opts.robots)
        ),
    }
    refuse(problems)
    uses = parse_uses(opts.use)
    if opts.page:
        settings.set(
            "ROBOTS_USE", settings["ROBOTS_USE"] or [] if uses is None else uses, "cmdline"
        )
    our_settings = prepared(settings)
    for label, hint in unknown_labels((our_settings.use or ()) if uses is None else uses):
        console.complain(f"unknown use {label!r}, so it also declares all known ones; {hint}")
    agents = agents_of(opts, our_settings, settings)
    requested = {
        (url, agent): Origin.of(url, our_settings.schemes) for url in urls for agent in agents
    }
    found, pages = _found_about(requested, our_settings, settings, console, opts)
    _warn_of_odd_files(found.values(), console)
    no_url = Unknown(not_a_url(our_settings.schemes), URL_ADVICE)
    is_table = len(urls) > 1 and len(agents) > 1 and not opts.json
    records = list[dict[str, Any]]()
    for url, agent in product(urls, agents):
        origin = requested[url, agent]
        governs = no_url if origin is None else found[origin]
        recorded = None if isinstance(governs, Unknown) else governs.agent
        if recorded is not None and not opts.agent:  # the project's agent may have changed
            agent = NamedAgent(recorded, "archive")  # noqa: PLW2901 - for this URL
        record = _judged(url, governs, agent, our_settings, uses)
        on_page = pages.get((url, agent), {}) if record["verdict"] == "allowed" else {}
        record |= on_page
        records.append(record)
        if opts.json:
            console.print_json(record)
        elif not is_table:
            if len(records) > 1:
                console.print()
            _show_verdict(record, governs, console)
        if record["verdict"] == "undecided" and len(records) % len(agents) == 0:
            advice = "check whether the page opens in a browser" if on_page else governs.advice
            console.complain(f"{record['url']} is undecided: {record['why']}; {advice}")
    if is_table:
        _show_table([agent.name for agent in agents], records, console)
    return max(_VERDICTS[record["verdict"]][0] for record in records)


def _show_table(
    agents: Sequence[str], records: Sequence[Mapping[str, Any]], console: Console
) -> None:
    """Print the verdicts in a table with a row for each URL and a column for each agent.

    :param records: the records of the first URL for each agent, then those of the next URL.
    """
    rows = [["", *agents]]
    for first in range(0, len(records), len(agents)):
        own = records[first : first + len(agents)]
        rows.append([own[0]["url"], *map(_cell, own)])
    widths = [max(map(len, map(printable, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = map(str.ljust, map(printable, row), widths)
        console.print("  ".join(cells).rstrip())
    texts = (f"{each['url']}: {_near_text(near)}" for each in records for near in each["near"])
    for text in dict.fromkeys(texts):
        console.fact("near", text)


def _near_text(near: Mapping[str, Any]) -> str:
    return f"line {near['line']}: {near['text']} does not match: {near['why']}"


def _cell(record: Mapping[str, Any]) -> str:
    """Return a verdict, its line, the page's status and the refused uses for the table."""
    is_use = record["reason"] == Reason.USE.value
    refused = [use for use in record["declared"] if is_use and record["use"].get(use) is False]
    facts = {"line": record["line"], **(record["page"] or {}), "refuses": join_items(refused)}
    shown = [f"{name} {value}" for name, value in facts.items() if value and name != "url"]
    return f"{record['verdict']} ({', '.join(shown)})" if shown else f"{record['verdict']}"


def _urls(console: Console, opts: Namespace) -> list[str]:
    """Return the URLs from the command line or, if there are none, from standard input."""
    if opts.urls and opts.urls != [STANDARD]:
        return [as_url(url) for url in opts.urls]
    if opts.robots == STANDARD:
        raise Failed("standard input is used for the robots.txt; pass the URLs as arguments")
    is_given = opts.urls or not console.stdin.isatty()
    data = read(STANDARD, console) if is_given else b""
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    lines = map(str.strip, re.split("[\r\n]+", text))
    urls = [as_url(line) for line in lines if line and not line.startswith("#")]
    if not urls:
        raise Failed("no URLs on standard input; write one per line, or pass them as arguments")
    return urls


def _found_about(
    requested: Mapping[tuple[str, NamedAgent], Origin | None],
    our_settings: Settings,
    settings: ScrapySettings,
    console: Console,
    opts: Namespace,
) -> tuple[Mapping[Origin, FoundRobots | Unknown], Mapping[tuple[str, NamedAgent], PageFields]]:
    """Return the robots.txt for each of the URLs' origins, and with `--page`, their pages."""
    if opts.page:
        return crawl(settings, partial(find_with_pages, requested=requested))
    origins = dict.fromkeys(filter(None, requested.values()))
    if opts.archive:
        return found_in(opts, origins, our_settings, console), {}
    if opts.robots is None:
        return found_about(settings, origins), {}
    return _given_files(origins, our_settings, console, opts.robots), {}


def _given_files(
    origins: Iterable[Origin], our_settings: Settings, console: Console, source: str
) -> dict[Origin, FoundRobots]:
    """Return the file from `--robots` for each origin."""
    refuse({"--robots takes a file; without it, the site's file is fetched": is_url(source)})
    body = read(source, console, our_settings.max_size)
    schemes = {origin.scheme for origin in origins}
    given = {scheme: parsed(body, scheme, our_settings) for scheme in schemes}
    validity = Validity(Outcome.SUCCESSFUL, math.inf)
    return {
        origin: FoundRobots(
            OriginPolicy(origin, validity, None, "given", given[origin.scheme], lambda: NO_AGENT),
            source_name(source),
        )
        for origin in origins
    }


def _judged(
    url: str,
    found: FoundRobots | Unknown,
    agent: NamedAgent,
    settings: Settings,
    uses: tuple[str, ...] | None,
) -> dict[str, Any]:
    """Return the verdict on a URL as a JSON object, which always has the same keys."""
    record: dict[str, Any] = {
        "url": stripped(url),
        **agent.record,
        **dict.fromkeys(("verdict", "why", "reason", "rule", "line", "group", "group_why")),
        "group_lines": [],
        "lost": [],
        "near": [],
        "use": {},
        "declared": [],
        "page": None,
        "robots_txt": None,
    }
    if isinstance(found, Unknown):
        return record | _without_file(url, found, settings)
    policy, file = found.policy, found.file
    tokens = agent.tokens
    decision, refused = policy.verdict(url, agent.agent, settings)
    # If a URL can be read in two ways, it is disallowed if either reading is disallowed.
    other = other_reading(url)
    deciding = url if other is None or not file.decide(url, tokens).allowed else other
    explanation = explain(file, deciding, tokens)
    use = file.preferences(url, tokens)
    declared = next((one for one in (uses, found.use, settings.use) if one is not None), ())
    refusal = find_refusal(declared, use)
    line = decision.rule and decision.rule.line
    if refused is None and refusal is not None:
        line = refusal.line
        decision = decision._replace(allowed=False, reason=Reason.USE, rule=None)
        refused = f"{policy.source} {refusal.why}"
    return record | {
        "verdict": _verdict(decision, is_archived=found.archived is not None),
        "why": refused or policy.why(decision),
        "reason": decision.reason.value,
        "rule": None if decision.rule is None else _rule_record(decision.rule),
        "line": line,
        **_group_record(explanation),
        "lost": [_rule_record(rule) for rule in explanation.matches if rule != decision.rule],
        "near": _near_records(file, explanation, deciding, decision),
        "use": {label: preference.allowed for label, preference in use.items()},
        "declared": list(declared),
        "robots_txt": {"url": found.source, **_access_record(found)},
    }


def _near_records(
    file: RobotsTxt, explanation: Explanation, url: str, decision: Decision
) -> list[dict[str, Any]]:
    """Return the lines that were probably meant to decide otherwise, as JSON objects."""
    kind = LineKind.DISALLOW if decision.allowed else LineKind.ALLOW
    return [
        {"line": line.number, "text": line.text.strip(), "why": why}
        for line, why in near_misses(file, explanation, url, kind)
    ]


def _without_file(url: str, unknown: Unknown, settings: Settings) -> dict[str, Any]:
    """Return the verdict on text that isn't a URL, or a URL whose scheme doesn't use robots.txt."""
    scheme = _REQUESTED.match(url)
    name = "" if scheme is None else scheme[0].lower()
    if not name or name in settings.schemes:
        return {"verdict": "undecided", "why": unknown.why}
    why = f"robots.txt applies to {join_items(list(settings.schemes))} URLs, not to {name}"
    return {"verdict": "allowed", "why": why, "reason": Reason.EXEMPT.value}


def _verdict(decision: Decision, *, is_archived: bool) -> str:
    """Return a decision's key in `_VERDICTS`."""
    # Without a robots.txt, there is no verdict yet. In an archived crawl, the URL was dropped.
    if decision.reason in (Reason.UNREACHABLE, Reason.LOCAL) and not is_archived:
        return "undecided"
    return "allowed" if decision.allowed else "disallowed"


def _show_verdict(record: dict[str, Any], governs: FoundRobots | Unknown, console: Console) -> None:
    """Print a verdict, its reasons, the lines around the deciding one and the rules that lost."""
    _show_reasons(record, governs, console)
    if isinstance(governs, Unknown) or governs.policy.robots is None:
        return
    # Print the deciding line and the lines around it.
    decided = record["line"] or 0
    for first, last in record["group_lines"]:
        if first <= decided <= last:
            lines = raw_lines(governs.file)
            for line in range(max(decided - _CONTEXT, first), min(decided + _CONTEXT, last) + 1):
                text = as_text(lines[line - 1]).replace("\t", " ").rstrip()
                mark = console.paint(">", STRONG, GOOD) if line == decided else " "
                if text:
                    console.print(f"{mark} {line:>5}  {printable(text)}")
    for lost in record["lost"]:
        console.fact("lost", f"line {lost['line']}: {lost['kind']}: {lost['pattern']}")
    for near in record["near"]:
        console.fact("near", _near_text(near))


def _show_reasons(record: dict[str, Any], governs: FoundRobots | Unknown, console: Console) -> None:
    """Print a verdict, where the file came from, and the group that applies."""
    word = console.paint(f"{record['verdict']:<12}", STRONG, _VERDICTS[record["verdict"]][1])
    console.print(f"{word} {printable(record['url'])}")
    console.fact("why", record["why"])
    if record["page"] and record["page"]["status"]:
        console.fact("page", "{url} (status {status})".format_map(record["page"]))
    if isinstance(governs, Unknown):
        return
    _show_access(governs, console)
    show_agent(record, console)
    _show_notes(record, governs, console)
    if governs.policy.robots is not None:
        _show_group(record, console)


def _show_notes(record: dict[str, Any], governs: FoundRobots, console: Console) -> None:
    """Print what the verdict does not take into account."""
    if record["declared"] and record["verdict"] == "allowed" and record["page"] is None:
        console.fact("note", _ONLY_ROBOTS_TXT)
    if record["group"] is not None:
        for each in governs.file.records_for([record["group"]], ["visit-time"]):
            text = printable(f"line {each.line}: Visit-time: {as_text(each.value)}")
            console.fact("note", f"{text} is not obeyed; start the crawl at that time")


CHECK = Topic(
    "Show whether URLs may be fetched and why, with the deciding line and the rules that lost.",
    {
        "urls": {
            "metavar": "URL",
            "nargs": "*",
            "help": f"{URL_HELP}; if - or omitted, read from stdin",
        },
        **AGENT,
        "--robots": {"metavar": "FILE|-", "help": "use this file instead of fetching one"},
        "--archive": {
            "metavar": "FILE",
            "action": "append",
            "help": "use a ROBOTS_ARCHIVE file; may be repeated",
        },
        "--at": {"metavar": "TIME", "help": "with --archive: a time, such as 2026-11-22T19:30:00Z"},
        "--page": {"action": "store_true", "help": "also fetch allowed pages, to read their uses"},
        "--use": {
            "metavar": "LABELS",
            "type": parse_uses,
            "action": "extend",
            "help": "how the pages will be used, as in ROBOTS_USE; may be repeated",
        },
        **JSON,
    },
    _check,
)


# `show`.

# Stands for the site of a file from `--robots` if no URL is given.
_ANY_SITE = "https://www.example"


def _show(settings: ScrapySettings, console: Console, opts: Namespace) -> int:
    """Print a site's robots.txt, or fail if it is unreachable."""
    problems = {
        "without a URL, --robots is needed": not (opts.url or opts.robots),
        "--html needs --url": opts.html and not opts.page_url,
        "--url and --json cannot be combined; use check --json and lint --json": (
            opts.page_url and opts.json
        ),
    }
    refuse(problems)
    our_settings = prepared(settings)
    page = "" if (opts.page_url or "/").startswith("/") else opts.page_url
    origin = origin_of(opts.url or page or _ANY_SITE, our_settings.schemes)
    if opts.robots is None:
        found = found_about(settings, [origin])[origin]
    else:
        found = _given_files([origin], our_settings, console, opts.robots)[origin]
    _warn_of_odd_files([found], console)
    agents = agents_of(opts, our_settings, settings)
    if opts.page_url:
        url = _page_url(opts.page_url, origin, our_settings)
        judged = [_judged(url, found, agent, our_settings, None) for agent in agents]
        code = _show_annotated(found, judged, console, opts)
    else:
        code = 0
        shown = [_file_record(found, agent, our_settings) for agent in agents]
        _show_records(found, shown, console, opts)
    if found.policy.outcome in (Outcome.UNREACHABLE, Outcome.LOCAL):
        raise Failed(found.problem)
    return code


def _page_url(value: str, origin: Origin, our_settings: Settings) -> str:
    """Return the URL from `--url`, which may be a path on the site."""
    url = f"{origin}{value}" if value[:1] == "/" else value
    if origin_of(url, our_settings.schemes) != origin:
        raise Failed(f"--url must be the path or URL of a page of {origin}")
    return as_url(url)


def _show_records(
    found: FoundRobots, records: Iterable[dict[str, Any]], console: Console, opts: Namespace
) -> None:
    """Print the file as each agent reads it."""
    for number, record in enumerate(records):
        if opts.json:
            console.print_json(record)
            continue
        if number:
            console.print()
        _show_file(found, record, console)


def _show_annotated(
    found: FoundRobots, records: Iterable[dict[str, Any]], console: Console, opts: Namespace
) -> int:
    """Print the verdict for each agent and the entire file, and return the exit code."""
    views = [(record, annotated_lines(found.file, record)) for record in records]
    if opts.html:
        write_page(opts.html, html_page(views))
    for number, (record, lines) in enumerate(views):
        if number:
            console.print()
        _show_reasons(record, found, console)
        console.print()
        show_lines(lines, console)
    return max(_VERDICTS[record["verdict"]][0] for record, _ in views)


def _show_file(found: FoundRobots, record: dict[str, Any], console: Console) -> None:
    """Print a record returned by `_file_record`."""
    _show_access(found, console)
    if record["fresh_for"] is not None:
        console.fact("fresh for", f"{record['fresh_for']:,.0f} s")
    if record["size"] is None:
        return
    cut = " (the file is longer, but the rest is ignored)" if record["truncated"] else ""
    console.fact("size", f"{record['size']:,} bytes{cut}")
    show_agent(record, console)
    _show_group(record, console)
    console.fact("delay", record["delay"])
    for each in record["records"]:
        console.fact("record", f"line {each['line']}: {each['key']}: {each['value']}")
    for group in record["groups"]:
        mark = console.paint(">", STRONG, GOOD) if group["applies"] else " "
        names = printable(", ".join(filter(None, group["tokens"]))) or "(no name)"
        names += " (applies)" * group["applies"]
        for token in group["tokens"]:
            if token.lower() in POLICY_TOKENS:
                names += f" (sets what may be used for {POLICY_TOKENS[token.lower()]})"
        console.print(f"\n{mark} {group['line']:>5}  {names}")
        for rule in group["rules"]:
            text = printable(f"{rule['kind']}: {rule['pattern']}")
            console.print(f"  {rule['line']:>5}    {text}")


def _file_record(found: FoundRobots, agent: NamedAgent, settings: Settings) -> dict[str, Any]:
    """Return a file as a JSON object. If there is no file, its values are null or empty."""
    policy, file = found.policy, found.file
    tokens = agent.tokens
    explanation = explain(file, "/", tokens)
    applying = {group.line for group in explanation.groups}
    delay, interval = _interval(policy, agent, settings)
    fresh_for = policy.validity.fresh_until - Runtime().clock()
    return {
        "origin": str(policy.origin),
        "robots_txt": policy.origin.robots_url,
        **agent.record,
        **_access_record(found),
        "fresh_for": round(fresh_for, 1) if math.isfinite(fresh_for) else None,
        "size": None if policy.robots is None else file.content.size,
        **_group_record(explanation),
        "delay": delay,
        "interval": interval,
        "use": {label: one.allowed for label, one in file.preferences("/", tokens).items()},
        "sitemaps": list(policy.sitemaps),
        "records": [
            {"line": each.line, "key": each.key, "value": each.value} for each in records_of(file)
        ],
        "groups": [
            {
                "line": group.line,
                "tokens": list(group.tokens),
                "applies": group.line in applying,
                "rules": [_rule_record(rule) for rule in group.rules],
            }
            for group in groups_of(file)
        ],
    }


def _interval(
    policy: OriginPolicy, agent: NamedAgent, settings: Settings
) -> tuple[str, float | None]:
    """Return a site's current interval in words, and the number of seconds that a crawl waits."""
    bound = policy.bound(agent.agent)
    if bound is None:
        return "none", None
    text = policy.cited(bound.text)
    longest = settings.crawl_delay_max
    if not longest:
        return f"{text}; ignored (ROBOTS_CRAWL_DELAY_MAX = 0)", None
    refused = policy.interval_problem(f"{policy.origin}/", bound, settings)
    if refused is not None:
        return f"{refused}; every page is disallowed", None
    if bound.seconds <= longest:
        return text, bound.seconds
    return f"{text}; shortened to {longest:g} s (ROBOTS_CRAWL_DELAY_MAX)", longest


SHOW = Topic(
    "Show a site's robots.txt: how it was fetched, its groups, and anything else it contains.",
    {
        "url": {
            "metavar": "URL",
            "nargs": "?",
            "help": f"of any page, {URL_HELP}; optional with --robots",
        },
        **AGENT,
        "--robots": {"metavar": "FILE|-", "help": "use this file instead of fetching one"},
        "--url": {
            "dest": "page_url",
            "metavar": "PAGE",
            "help": "show the entire file, with what decides about this URL or path",
        },
        "--html": {"metavar": "FILE", "help": "with --url: also write an HTML page"},
        **JSON,
    },
    _show,
)


# Shared by both.


def _warn_of_odd_files(found: Iterable[FoundRobots | Unknown], console: Console) -> None:
    """Warn about files that look like web pages or binary data, or are too long."""
    files = {one.source: one.file for one in found if isinstance(one, FoundRobots)}
    for source, file in files.items():
        kind = "an HTML page" if file.is_page else "a binary file"
        if file.is_page or b"\0" in file.content.data:
            console.complain(
                f"{source} looks like {kind}, not a robots.txt;"
                " run `scrapy robots lint` on it for details"
            )
        if file.content.truncated:
            size = file.content.size
            console.complain(
                f"{source} is longer than ROBOTS_MAX_SIZE, so only its first {size} bytes are read"
            )


def _access_record(found: FoundRobots) -> dict[str, Any]:
    """Return the JSON fields that describe how a robots.txt was fetched."""
    policy = found.policy
    return {
        "result": policy.outcome.value,
        "redirected_to": found.redirected_to,
        "archived": found.archived,
        "digest": found.digest,
        "dry_run": found.dry_run,
        "status": policy.status,
        "cause": policy.cause,
        "truncated": found.file.content.truncated,
        "stale": policy.stale,
        "override": policy.override,
        "exempt": policy.exempt,
    }


def _rule_record(rule: Rule) -> dict[str, Any]:
    """Return a rule as a JSON object."""
    return {"line": rule.line, "kind": rule.kind.value, "pattern": rule.pattern}


def _show_access(found: FoundRobots, console: Console) -> None:
    """Print where the file came from and the result of the fetch."""
    policy, source = found.policy, found.source
    if policy.cause == "given" and policy.status is None:
        text = f"{source} (given)"
    elif policy.override is not None:
        text = f"{policy.source} (replaces {source}, ROBOTS_OVERRIDES)"
    elif policy.exempt is not None:
        text = f"{source} (not requested, ROBOTS_EXEMPT)"
    else:
        cause = policy.cause + f", archived {found.archived}" * bool(found.archived)
        text = f"{source} {policy.outcome.explained(cause, stale=policy.stale)}"
    console.fact("robots.txt", text)
    if found.redirected_to is not None:
        console.fact("redirected", f"to {found.redirected_to}")
    if found.digest is not None:
        console.fact("digest", found.digest)
    if found.dry_run:
        console.fact("dry run", "the crawl also sent its disallowed requests")


def _group_record(explanation: Explanation) -> dict[str, Any]:
    """Return the JSON fields for the group that applies."""
    return {
        "group": explanation.token,
        "group_why": explanation.group_reason,
        "group_lines": [[group.line, group.last] for group in explanation.groups],
    }


def _show_group(record: dict[str, Any], console: Console) -> None:
    """Print the group that applies, its lines and its preferences for the use of pages."""
    lines = ", ".join(f"{first}-{last}" for first, last in record["group_lines"])
    console.fact("group", record["group_why"] + f" (lines {lines})" * bool(lines))
    for label, allowed in record["use"].items():
        console.fact("use", f"{label}: {USES[allowed]}")
