"""`scrapy robots report` summarizes a ROBOTS_REPORT file as text, JSON or an HTML page.

`report_sums.py` reads the JSON Lines file, and `report_page.js` renders the page.
"""

import base64
import hashlib
import json
import os
from argparse import Namespace
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import asdict
from importlib.resources import files as resources
from itertools import islice
from pathlib import Path
from string import Template
from typing import Any

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.report_sums import (
    MARKS,
    MAX_URLS,
    MAX_URLS_OF_GROUP,
    MEANINGS,
    NOT_GIVEN,
    Dropped,
    Group,
    Run,
    Sums,
)
from scrapy_robots_rfc.core.text import pluralize, printable

#: Maximum number of rows in each list, for text output and for JSON and HTML.
TOP_OF_TEXT, TOP = 10, 1000
#: Maximum number of URLs per group in text output.
URLS_OF_TEXT = 3
#: Maximum number of spiders, and of agents, in the header.
NAMES = 5
NO_SITE = "(no site)"
_INDENT = 22  # for URLs in text output
_FOLDER = "scrapy_robots_rfc.commands"  # contains the page's HTML, CSS and JavaScript


def _report(_: object, console: common.Console, opts: Namespace) -> int:
    """Print a summary of the file, and return 0."""
    sums = summed(opts.file, console, only=opts.only_run, keeps_all=opts.json)
    if sums.broken:
        broken = pluralize(sums.broken, "broken record")
        name = common.source_name(opts.file)
        console.complain(f"{name}: ignored {broken}")
    if opts.html is not None:
        _write(opts.html, page(sums, opts.file))
    if opts.json:
        console.print_json(as_json(sums, opts.file))
    else:
        show(sums, opts.file, console)
    return 0


def summed(
    source: str, console: common.Console, *, only: int | None = None, keeps_all: bool = False
) -> Sums:
    """Read a file and return its totals.

    :param only: the number of the only run to include, or `None` for all runs.
    :param keeps_all: True to keep every URL.
    :raises Failed: if the file is not a report, or does not contain this run.
    """
    sums = Sums(only, keeps_all)
    with common.opened(source, console) as file:
        sums.read(file)
    name = common.source_name(source)
    if sums.broken > sums.records:
        raise common.Failed(
            f"{name} is not a report, because most of its lines are not records;"
            " expected an uncompressed JSON Lines file written by ROBOTS_REPORT, each line with one"
            f" of the fields {', '.join(sorted(MARKS))}"
        )
    if only is not None and not 1 <= only <= len(sums.runs):
        runs = pluralize(len(sums.runs), "run")
        raise common.Failed(f"{name} only has {runs}, so there is no run {only}")
    return sums


# Text for all output formats.


def meaning(reason: str) -> str:
    """Explain a reason to the user."""
    return MEANINGS.get(reason, "a reason that this version does not recognize")


def share(requests: int, total: int) -> str:
    """Return the percentage of all dropped requests, such as ``6.2%``."""
    text = f"{requests / (total or 1):.1%}"
    return "<0.1%" if requests and text == "0.0%" else text


def headline(sums: Sums) -> str:
    """Return the report's title."""
    requests, dry = pluralize(sums.total.requests, "request"), sums.total.dry_run
    if not sums.total.requests:
        return "No requests were dropped"
    if not dry:
        return f"{requests} dropped"
    if dry == sums.total.requests:
        return f"Dry run: {requests} would be dropped"
    return f"{requests} disallowed: {sums.total.requests - dry:,} dropped, {dry:,} in a dry run"


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
        "allowed": f"{pluralize(sums.allowed, 'request')}, not counted below" * bool(sums.allowed),
        "exempt": f"{pluralize(exempt, 'request')}, not judged by robots.txt" * bool(exempt),
        "broken": f"{pluralize(sums.broken, 'record')} ignored" * bool(sums.broken),
    }
    return [(name, text) for name, text in rows.items() if text]


def _named(counts: Counter[str | None]) -> str:
    """Return the most frequent names, with request counts if there are several names."""
    if len(counts) == 1:
        return next(iter(counts)) or NOT_GIVEN
    names = [f"{name or NOT_GIVEN} ({count:,})" for name, count in counts.most_common(NAMES)]
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
    exempt = [{"entry": entry, "requests": n} for entry, n in sums.exempt.most_common(TOP)]
    lists: dict[str, tuple[list[dict[str, Any]], int]] = {
        "runs": ([asdict(run) for run in islice(sums.runs.values(), TOP)], len(sums.runs)),
        "by_spider": (_rows("spider", sums.spiders, total), len(sums.spiders)),
        "by_agent": (_rows("agent", sums.agents, total), len(sums.agents)),
        "by_reason": (_rows("reason", sums.reasons, total), len(sums.reasons)),
        "by_origin": (_rows("origin", sums.origins, total), len(sums.origins)),
        "unreachable": (_rows("why", sums.causes, total), len(sums.causes)),
        "exempt": (exempt, len(sums.exempt)),
    }
    for row in lists["by_reason"][0]:
        row["meaning"] = meaning(row["reason"])
    return {
        "requests": total,
        "dry_run": sums.total.dry_run,
        "allowed": sums.allowed,
        "first": sums.total.first,
        "last": sums.total.last,
        "run": sums.only,
        **{name: rows for name, (rows, _) in lists.items()},
        "dropped": [_group_record(sums, *each) for each in sums.largest_groups()],
        "more": {name: max(0, size - TOP) for name, (_, size) in lists.items()},
        "file": source,
        "records": sums.records,
        "broken": sums.broken,
    }


def _rows(name: str, counts: Counter[Any], total: int) -> list[dict[str, Any]]:
    return [
        {name: key, "requests": requests, "share": share(requests, total)}
        for key, requests in counts.most_common(TOP)
    ]


def _group_record(
    sums: Sums, group: Group, dropped: Dropped, most: int | None = None
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


def _more(dropped: Dropped, urls: list[tuple[str, list[int]]]) -> int:
    """Return the number of requests in a group for URLs that aren't listed."""
    return dropped.requests - sum(number for _, (number, _) in urls)


# Text.


def show(sums: Sums, source: str, console: common.Console) -> None:
    """Print the totals as text."""
    console.print(console.paint(headline(sums), common.STRONG))
    for name, text in facts(sums, source):
        console.fact(name, text)
    total = sums.total.requests
    if len(sums.runs) > 1:
        runs = {_described(run): run.requests for run in sums.runs.values()}
        _show_list("runs (use --run N to show only one)", runs.items(), console)
    reasons = [(f"{name}: {meaning(name)}", n) for name, n in sums.reasons.most_common()]
    _show_list("by reason", reasons, console, total)
    _show_list("by site", sums.origins.most_common(), console, total)
    _show_list("robots.txt unreachable, by cause", sums.causes.most_common(), console, total)
    _show_list("exempt, by ROBOTS_EXEMPT entry", sums.exempt.most_common(), console)
    _show_groups(sums, console)


def _show_list(
    title: str,
    rows: Collection[tuple[str | None, int]],
    console: common.Console,
    total: int | None = None,
) -> None:
    """Print the first rows of a list, with percentages if a total is given."""
    if rows:
        console.print("\n" + console.paint(title, common.STRONG))
    for name, requests in islice(rows, TOP_OF_TEXT):
        _show_row(name or NOT_GIVEN, requests, console, total)
    _show_rest(len(rows) - TOP_OF_TEXT, "more", console)


def _show_row(text: str, requests: int, console: common.Console, total: int | None = None) -> None:
    part = "" if total is None else console.paint(f"{share(requests, total):>7}", common.FAINT)
    console.print(f"  {requests:>9,}{part}  {text}")


def _show_rest(number: int, what: str, console: common.Console) -> None:
    if number > 0:
        console.print(f"{'and':>11} {number:,} {what}")


def _show_groups(sums: Sums, console: common.Console) -> None:
    """Print the dropped URLs, grouped by reason and rule."""
    if sums.groups:
        what = "disallowed" if sums.total.dry_run else "dropped"
        title = f"{what} URLs, by reason and rule (--json lists every URL)"
        console.print("\n" + console.paint(title, common.STRONG))
    for group, dropped in sums.largest_groups(TOP_OF_TEXT):
        title = _title(group, dropped, sums)
        _show_row(title, dropped.requests, console, sums.total.requests)
        urls = list(islice(dropped.urls.items(), URLS_OF_TEXT))
        for url, (number, dry) in urls:
            times = f" ({number:,} times)" * (number > 1)
            console.print(" " * _INDENT + url + times + _in_dry_run(dry, sums))
        if more := _more(dropped, urls):
            console.print(" " * _INDENT + f"and {pluralize(more, 'more request')}")
    _show_rest(len(sums.groups) - TOP_OF_TEXT, "more", console)


def _title(group: Group, dropped: Dropped, sums: Sums) -> str:
    """Return a group's site and reason, and its agent if there are several agents."""
    details = [group.reason]
    if group.token is not None:
        details.append(f"group {group.token}")
    if len(sums.agents) > 1:
        details.append(f"agent {group.agent or NOT_GIVEN}")
    why = group.why or group.rule or NOT_GIVEN
    text = f"{group.origin or NO_SITE}: {why} ({', '.join(details)})"
    return text + _in_dry_run(dropped.dry_run, sums)


def _in_dry_run(requests: int, sums: Sums) -> str:
    """Return a note about requests sent in a dry run, unless the headline already covers them."""
    is_mixed = sums.total.dry_run < sums.total.requests
    return f", {requests:,} in a dry run" if requests and is_mixed else ""


# HTML.


def page(sums: Sums, source: str) -> str:
    """Return the HTML page. Its script renders the embedded data."""
    folder = resources(_FOLDER)
    style = (folder / "report_page.css").read_text(encoding="utf-8")
    script = (folder / "report_page.js").read_text(encoding="utf-8")
    data = {
        **as_json(sums, source),
        "headline": headline(sums),
        "facts": [(name, printable(text)) for name, text in facts(sums, source)],
        "runs": [
            {"name": _described(run), "requests": run.requests}
            for run in islice(sums.runs.values(), TOP)
        ],
        "dropped": list(_bounded(sums)),
    }
    data["more"]["dropped"] = max(0, len(sums.groups) - TOP)
    return Template(_template()).substitute(
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
        # Escape `<`, because `</script>` would end the data and `<!--` would start a comment.
        data=json.dumps(data).replace("<", "\\u003c"),
    )


def _template() -> str:
    return (resources(_FOLDER) / "report_page.html").read_text(encoding="utf-8")


def _bounded(sums: Sums) -> Iterator[dict[str, Any]]:
    """Yield the groups to show on the page, with a limited number of URLs."""
    left = MAX_URLS
    for group, dropped in sums.largest_groups(TOP):
        record = _group_record(sums, group, dropped, min(left, MAX_URLS_OF_GROUP))
        left -= len(record["urls"])
        yield record


def _digest(text: str) -> str:
    """Return the hash that a Content-Security-Policy needs to allow a script or stylesheet."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _write(name: str, text: str) -> None:
    """Write the page. Only overwrite an empty file or an earlier page."""
    path = Path(os.path.realpath(name))  # if `/dev/fd/N` is a pipe, this path doesn't exist
    try:
        if name == common.STANDARD or (Path(name).exists() and not path.is_file()):
            raise common.Failed(
                f"refusing to write to {name}, because it is not a regular file; use another file"
            )
        if path.exists() and not _is_page(path):
            raise common.Failed(
                f"refusing to overwrite {name}, because this command did not write it; delete it,"
                " or use another file"
            )
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise common.Failed(
            f"{path} cannot be written: {error.strerror};"
            " check the permissions and the free space, or use another file"
        ) from error


def _is_page(path: Path) -> bool:
    """Return True if a file is empty or an earlier page."""
    start = _template().partition("$")[0].encode()
    with path.open("rb") as file:
        return file.read(len(start)) in (start, b"")


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
        **common.JSON,
        "--html": {"metavar": "FILE", "help": "also write a searchable HTML page"},
    },
    _report,
)
