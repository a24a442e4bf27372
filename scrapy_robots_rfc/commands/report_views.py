"""`scrapy robots report` summarizes a ROBOTS_REPORT file as text, JSON or an HTML page.

`report_sums.py` reads the JSON Lines file, and `report_page.js` renders the page.
"""

import json
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from heapq import nsmallest
from importlib.metadata import version
from importlib.resources import files as resources
from itertools import islice
from string import Template
from typing import Any

from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.html_pages import digest, write_page
from scrapy_robots_rfc.commands.report_sums import (
    MARKS,
    MAX_URLS,
    MAX_URLS_OF_GROUP,
    MEANINGS,
    NOT_GIVEN,
    Group,
    Groups,
    Requests,
    Run,
    Sums,
    largest,
)
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import pluralize, printable, ranked, utc_text

#: Maximum number of rows in each list, for text output and for JSON and HTML.
TOP_OF_TEXT, TOP = 10, 1000
#: Maximum number of URLs per group in text output.
URLS_OF_TEXT = 3
#: Maximum number of spiders, and of agents, in the header.
NAMES = 5
NO_SITE = "(no site)"
_INDENT = 22  # for URLs in text output
_DIGEST = 19  # characters of a digest in text output, with the name of the algorithm
_NOT_A_REPORT = (
    "is not a report, because most of its lines are not records; expected an uncompressed JSON"
    " Lines file written by ROBOTS_REPORT, each line with one of the fields "
    + ", ".join(sorted(MARKS))
)
_HOW_TO_LIST = (
    "to write them, crawl with the option `allowed`:"
    ' ROBOTS_REPORT = {"robots.jsonl": {"allowed": True}}'
)
_UNKNOWN = "not known, because the crawl has not written its last records"
_PACKAGE = "scrapy-robots-rfc"
_FOLDER = "scrapy_robots_rfc.commands"  # contains the page's HTML, CSS and JavaScript


def _report(_: object, console: common.Console, opts: Namespace) -> int:
    """Print a summary of the file, and return 0."""
    sums = summed(opts.file, console, Sums(opts.only_run, opts.json or opts.allowed, opts.allowed))
    if sums.broken:
        console.complain(
            f"{common.source_name(opts.file)}: ignored {pluralize(sums.broken, 'broken record')}"
        )
    if opts.html is not None:
        write_page(opts.html, page(sums, opts.file))
    if opts.json:
        console.print_json(as_json(sums, opts.file))
    else:
        show(sums, opts.file, console)
    return 0


def summed(source: str, console: common.Console, sums: Sums) -> Sums:
    """Read a file and return its totals.

    :param sums: empty totals, with the choice of what to include.
    :raises Failed: if the file is not a report, or does not contain this run or allowed requests.
    """
    with common.opened(source, console) as file:
        sums.read(file)
    name, runs = common.source_name(source), pluralize(len(sums.runs), "run")
    chosen = name if sums.only is None else f"run {sums.only} of {name}"
    problems = {
        f"{name} {_NOT_A_REPORT}": sums.broken > sums.records,
        f"{name} contains no records; expected a file written by ROBOTS_REPORT": not sums.records,
        f"{name} only has {runs}, so there is no run {sums.only}": (
            sums.only is not None and not sums.included
        ),
        f"{chosen} has no records of allowed requests; {_HOW_TO_LIST}": (
            sums.keeps_allowed and not sums.allowed_groups and sums.allowed != 0
        ),
    }
    common.refuse(problems)
    return sums


# Text for all output formats.


def meaning(reason: str) -> str:
    """Explain a reason to the user."""
    return MEANINGS.get(reason, "a reason that this version does not recognize")


def share(requests: int, total: int) -> str:
    """Return the percentage of all dropped requests, such as ``6.2%``."""
    text = f"{requests / (total or 1):.1%}"
    return "<0.1%" if requests and text == "0.0%" else text


def counted(sums: Sums) -> str:
    """Return what the counted requests are. Those that a dry run sent were not dropped."""
    return "disallowed" if sums.total.dry_run else "dropped"


def headline(sums: Sums) -> str:
    """Return the report's title."""
    dropped, dry = sums.total.requests, sums.total.dry_run
    requests, percent = pluralize(dropped, "request"), ""
    if sums.allowed is not None:
        total = dropped + sums.allowed
        requests = f"{dropped:,} of {pluralize(total, 'request')}"
        percent = f" ({share(dropped, total)})"
    if not dropped:
        return "No requests were dropped"
    if not dry:
        return f"{requests} dropped{percent}"
    if dry == dropped:
        return f"Dry run: {requests} would be dropped{percent}"
    return f"{requests} disallowed{percent}: {dropped - dry:,} dropped, {dry:,} in a dry run"


def facts(sums: Sums, source: str) -> list[tuple[str, str]]:
    """Return the header rows, such as file, time, spider and agent."""
    runs = list(sums.runs.values())
    ran = runs[0].ending if len(runs) == 1 else f"{len(runs):,}" * bool(runs)
    if sums.only is not None:
        ran = f"only run {sums.only} of {len(runs)}"
    exempt = sums.exempt.total()
    rows = {
        "file": f"{common.source_name(source)} ({pluralize(sums.records, 'record')})",
        "time": sums.total.period,
        "runs" if ran.isdigit() else "run": ran,
        "spider" + "s" * (len(sums.spiders) > 1): _named(sums.spiders),
        "agent" + "s" * (len(sums.agents) > 1): _named(sums.agents),
        "version": f"{_PACKAGE} {', '.join(islice(sums.versions, NAMES))}" * bool(sums.versions),
        "allowed": _UNKNOWN if sums.allowed is None else pluralize(sums.allowed, "request"),
        counted(sums): _dropped(sums),
        "exempt": f"{pluralize(exempt, 'request')}, not judged by robots.txt" * bool(exempt),
        "broken": f"{pluralize(sums.broken, 'record')} ignored" * bool(sums.broken),
        "created": f"{_short(utc_text(Runtime().date()))} by {_PACKAGE} {version(_PACKAGE)}",
    }
    return [(name, text) for name, text in rows.items() if text]


def _dropped(sums: Sums) -> str:
    """Return why the log's summary may have another number, or an empty string."""
    pages, lost = sums.reasons[Reason.PAGE.value], sums.lost
    by_robots = f"{sums.total.requests - pages:,} because of robots.txt"
    by_pages = f", {pages:,} because of their pages" * bool(pages)
    missing = f"; {lost:,} more have no record (failed writes, or an item_filter)" * bool(lost)
    return f"{by_robots}{by_pages}{missing}" * bool(pages or lost)


def _short(time: str) -> str:
    """Return an ISO 8601 time as people write it, without fractions of seconds."""
    return f"{time[:19].replace('T', ' ')} UTC"


def _named(counts: Counter[str | None]) -> str:
    """Return the most frequent names, with request counts if there are several names."""
    if len(counts) == 1:
        return next(iter(counts)) or NOT_GIVEN
    names = [f"{name or NOT_GIVEN} ({count:,})" for name, count in ranked(counts)[:NAMES]]
    more = len(counts) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")


def _described(run: Run) -> str:
    """Return a run's number, spider, time and how it ended."""
    dry = "dry run" if run.dry_run else ""
    details = [run.spider or NOT_GIVEN, run.period, dry, run.ending]
    return f"run {run.number}: {', '.join(filter(None, details))}"


# JSON.


def as_json(sums: Sums, source: str) -> dict[str, Any]:
    """Return the totals as a JSON object."""
    total = sums.total.requests
    # Exempt requests aren't included in the total, so they don't get a percentage.
    exempt = [{"entry": entry, "requests": n} for entry, n in ranked(sums.exempt)[:TOP]]
    lists: dict[str, tuple[list[dict[str, Any]], int]] = {
        "runs": ([asdict(run) for run in islice(sums.runs.values(), TOP)], len(sums.runs)),
        "by_spider": (_rows("spider", sums.spiders, total), len(sums.spiders)),
        "by_agent": (_rows("agent", sums.agents, total), len(sums.agents)),
        "by_reason": (_rows("reason", sums.reasons, total), len(sums.reasons)),
        "by_origin": (_sites(sums), len(sums.sites)),
        "by_rule": (_rows("rule", sums.rules, total), len(sums.rules)),
        "exempt": (exempt, len(sums.exempt)),
    }
    for row in lists["by_reason"][0]:
        row["meaning"] = meaning(row["reason"])
    return {
        "requests": total,
        "dry_run": sums.total.dry_run,
        "allowed": sums.allowed,
        "lost": sums.lost,
        "first": sums.total.first,
        "last": sums.total.last,
        "run": sums.only,
        **{name: rows for name, (rows, _) in lists.items()},
        "dropped": [_group_record(sums, *each) for each in largest(sums.groups)],
        "allowed_urls": [_group_record(sums, *each) for each in largest(sums.allowed_groups)]
        if sums.keeps_allowed
        else None,
        "more": {name: max(0, size - TOP) for name, (_, size) in lists.items()},
        "versions": list(islice(sums.versions, TOP)),
        "file": source,
        "records": sums.records,
        "broken": sums.broken,
    }


def _rows(name: str, counts: Counter[Any], total: int) -> list[dict[str, Any]]:
    return [
        {name: key, "requests": requests, "share": share(requests, total)}
        for key, requests in ranked(counts)[:TOP]
    ]


def _sites(sums: Sums, most: int = TOP) -> list[dict[str, Any]]:
    """Return the sites with the most dropped requests as JSON objects. Ties are sorted by name."""
    sites = nsmallest(most, sums.sites.items(), lambda item: (-item[1].requests, item[0] or ""))
    return [
        {
            "origin": origin,
            "requests": site.requests,
            "share": share(site.requests, sums.total.requests),
            "allowed": site.allowed,
            **dict.fromkeys(("outcome", "status", "why", "crawl_delay")),
            **site.state,
            "files": [
                {"robots_url": url, "digest": digest, "first_fetched": first, "fetched": last}
                for (url, digest), (first, last) in site.files.items()
            ],
        }
        for origin, site in sites
    ]


def _group_record(
    sums: Sums, group: Group, dropped: Requests, most: int | None = None
) -> dict[str, Any]:
    """Return a group as a JSON object.

    :param most: maximum number of URLs, or `None` for all.
    """
    urls = list(islice(dropped.urls.items(), most))
    return {
        **group._asdict(),
        "requests": dropped.requests,
        "dry_run": dropped.dry_run,
        "share": share(dropped.requests, sums.total.requests),
        "urls": [{"url": url, "requests": number, "dry_run": dry} for url, (number, dry) in urls],
        "more": _more(dropped, urls),
    }


def _more(dropped: Requests, urls: list[tuple[str, list[int]]]) -> int:
    """Return the number of requests in a group for URLs that aren't listed."""
    return dropped.requests - sum(number for _, (number, _) in urls)


# Text.


#: The text, the number of requests and the indented lines of a row.
_Row = tuple[str, int, Sequence[str]]


def show(sums: Sums, source: str, console: common.Console) -> None:
    """Print the totals as text."""
    console.print(console.paint(headline(sums), common.STRONG))
    for name, text in facts(sums, source):
        console.fact(name, text)
    total = sums.total.requests
    if len(sums.runs) > 1:
        runs = [(_described(run), run.requests) for run in sums.runs.values()]
        _show_list("runs (use --run N to show only one)", *_first(runs), console)
    reasons = [(f"{name}: {meaning(name)}", n) for name, n in ranked(sums.reasons)]
    _show_list("by reason", *_first(reasons), console, total)
    sites = list(_site_rows(sums))
    more = len(sums.sites) - len(sites)
    _show_list("by site (--json has whole digests)", sites, more, console, total)
    _show_list("by rule or cause", *_first(ranked(sums.rules)), console, total)
    _show_list("exempt, by ROBOTS_EXEMPT entry", *_first(ranked(sums.exempt)), console)
    title = f"{counted(sums)} URLs, by reason and rule (--json lists every URL)"
    groups = list(_group_rows(sums, sums.groups, TOP_OF_TEXT, URLS_OF_TEXT))
    _show_list(title, groups, len(sums.groups) - len(groups), console, total)
    allowed = list(_group_rows(sums, sums.allowed_groups))
    total = sum(requests for _, requests, _ in allowed)
    _show_list("allowed URLs, by reason and rule", allowed, 0, console, total)


def _show_list(
    title: str, rows: Sequence[_Row], more: int, console: common.Console, total: int | None = None
) -> None:
    """Print rows, with percentages if a total is given.

    :param more: the number of rows that are left out.
    """
    if rows:
        console.print("\n" + console.paint(title, common.STRONG))
    for text, requests, lines in rows:
        part = "" if total is None else console.paint(f"{share(requests, total):>7}", common.FAINT)
        console.print(f"  {requests:>9,}{part}  {text}")
        for line in lines:
            console.print(" " * _INDENT + line)
    if more:
        console.print(f"{'and':>11} {more:,} more")


def _first(counts: Sequence[tuple[str | None, int]]) -> tuple[list[_Row], int]:
    """Return the first rows of a list, and the number of rows that are left out."""
    rows = [(name or NOT_GIVEN, requests, ()) for name, requests in counts[:TOP_OF_TEXT]]
    return [*rows], len(counts) - len(rows)


def _site_rows(sums: Sums) -> Iterator[_Row]:
    """Yield the first sites, each with its robots.txt."""
    for site in _sites(sums, TOP_OF_TEXT):
        allowed = "" if site["allowed"] is None else f" ({site['allowed']:,} allowed)"
        yield f"{site['origin'] or NO_SITE}{allowed}", site["requests"], [*_robots_txt(site)]


def _robots_txt(site: dict[str, Any]) -> Iterator[str]:
    """Yield lines about a site's robots.txt: its state, and each file that was used."""
    state = site["why"] or site["outcome"]
    delay = f"; Crawl-delay {site['crawl_delay']:g} s" if site["crawl_delay"] else ""
    if state is not None:
        yield f"robots.txt {state}{delay}"
    for file in site["files"]:
        url, digest, *fetched = file.values()
        times = " to ".join(dict.fromkeys(map(_short, filter(None, fetched))))
        requested = f"requested {times}" * bool(times)
        yield ", ".join(filter(None, (url, _shortened(digest), requested)))


def _shortened(digest: str | None) -> str:
    return f"{digest[:_DIGEST]}..." if digest else ""


def _group_rows(
    sums: Sums, groups: Groups, most: int | None = None, most_urls: int | None = None
) -> Iterator[_Row]:
    """Yield groups with their URLs.

    :param most: maximum number of groups, or `None` for all.
    :param most_urls: maximum number of URLs in each, or `None` for all.
    """
    for group, kept in largest(groups, most):
        urls = list(islice(kept.urls.items(), most_urls))
        lines = [
            url + f" ({number:,} times)" * (number > 1) + _in_dry_run(dry, sums)
            for url, (number, dry) in urls
        ]
        if more := _more(kept, urls):
            lines.append(f"and {pluralize(more, 'more request')}")
        yield _title(group, kept, sums), kept.requests, lines


def _title(group: Group, dropped: Requests, sums: Sums) -> str:
    """Return a group's site and reason, and its agent and file if there are several of them."""
    details = [
        group.reason,
        f"group {group.token}" * (group.token is not None),
        f"agent {group.agent or NOT_GIVEN}" * (len(sums.agents) > 1),
        _shortened(group.digest) * (len(sums.sites[group.origin].files) > 1),
    ]
    why = f"{group.why or group.rule or NOT_GIVEN} ({', '.join(filter(None, details))})"
    return f"{group.origin or NO_SITE}: {why}{_in_dry_run(dropped.dry_run, sums)}"


def _in_dry_run(requests: int, sums: Sums) -> str:
    """Return a note about requests sent in a dry run, unless the headline already covers them."""
    is_mixed = sums.total.dry_run < sums.total.requests
    return f", {requests:,} in a dry run" if requests and is_mixed else ""


# HTML.


def page(sums: Sums, source: str) -> str:
    """Return the HTML page. Its script renders the embedded data."""
    files = (resources(_FOLDER) / f"report_page.{suffix}" for suffix in ("html", "css", "js"))
    template, style, script = (file.read_text(encoding="utf-8") for file in files)
    lists = {"dropped": sums.groups, "allowed_urls": sums.allowed_groups}
    data = {
        **as_json(sums, source),
        "counted": counted(sums),
        "headline": headline(sums),
        "facts": [(name, printable(text)) for name, text in facts(sums, source)],
        "runs": [
            {"name": _described(run), "requests": run.requests}
            for run in islice(sums.runs.values(), TOP)
        ],
        **{name: list(_bounded(sums, groups)) for name, groups in lists.items()},
    }
    for name, groups in lists.items():
        data["more"][name] = max(0, len(groups) - TOP)
    return Template(template).substitute(
        style=style,
        script=script,
        counted=counted(sums),
        style_hash=digest(style),
        script_hash=digest(script),
        # Escape `<`, because `</script>` would end the data and `<!--` would start a comment.
        data=json.dumps(data).replace("<", "\\u003c"),
    )


def _bounded(sums: Sums, groups: Groups) -> Iterator[dict[str, Any]]:
    """Yield the groups to show on the page, with a limited number of URLs."""
    left = MAX_URLS
    for group, dropped in largest(groups, TOP):
        record = _group_record(sums, group, dropped, min(left, MAX_URLS_OF_GROUP))
        left -= len(record["urls"])
        yield record


TOPIC = common.Topic(
    "Summarize a ROBOTS_REPORT file: dropped requests by reason, site and rule.",
    {
        "file": {
            "metavar": "FILE",
            "help": "a report in JSON Lines format, or - for standard input",
        },
        "--run": {
            "metavar": "N",
            "dest": "only_run",
            "type": int,
            "help": "only include run number N",
        },
        "--allowed": {
            "action": "store_true",
            "help": "also list the allowed URLs, if the crawl recorded them",
        },
        **common.JSON,
        "--html": {"metavar": "FILE", "help": "also write a searchable HTML page"},
    },
    _report,
)
