"""`scrapy robots report FILE`: sums up a file of ROBOTS_REPORT, as text, JSON, or a page.

The file is JSON lines. It may be cut short, damaged or made up: broken lines are counted, and raise
nothing. It is read line by line: memory grows with the origins and rules, not with the requests.
"""

import base64
import hashlib
import json
import os
from argparse import Namespace
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from importlib.resources import files as resources
from pathlib import Path
from string import Template
from typing import Any

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import many, printable
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE
from scrapy_robots_rfc.policy.origins import without_userinfo

#: Rows of each list: in the text a screenful, elsewhere what a browser sorts at once.
TOP_OF_TEXT, TOP = 10, 1000
#: A record of ROBOTS_REPORT has one of these fields, however few its feed was asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Octets of a line that are read at once: no record has as many.
LONGEST = 1_000_000
#: The reason of the last records, on ROBOTS_EXEMPT; what stands for a reason that is missing.
EXEMPT, NOT_GIVEN = "exempt", "not given"
_FIELD = 2000  # characters of a field that count: a longer one is no rule, and no link works

#: The lists of the sums, each with its title, and with the names of its key.
_LISTS = {
    "by_reason": ("by reason", ("reason",)),
    "by_origin": ("by origin", ("origin",)),
    "by_rule": ("by rule: origin, line, rule, token", ("origin", "line", "rule", "token")),
    "unreachable": ("robots.txt unreachable", ("why",)),
    "exempt": ("not asked, by entry of ROBOTS_EXEMPT", ("entry",)),
}


def _report(_: object, console: common.Console, opts: Namespace) -> int:
    """Print what the file adds up to; the exit code is 0."""
    sums = summed(opts.file, console)
    if sums["broken"]:
        broken = many(sums["broken"], "broken record")
        name = common.source_name(opts.file)
        console.complain(f"{name}: {broken} left out; all else is summed up")
    if opts.html is not None:
        _write(opts.html, page(sums), opts.file)
    if opts.json:
        console.print_json(sums)
    else:
        show(sums, console)
    return 0


def summed(source: str, console: common.Console) -> dict[str, Any]:
    """Return the sums of a file as an object of JSON, with the largest rows of each list.

    :raises Failed: most of the file is something else.
    """
    counts: Counter[str] = Counter()
    lists = {name: Counter[Any]() for name in _LISTS}
    with common.opened(source, console) as file:
        for line in iter(partial(file.readline, LONGEST), b""):
            fields = None
            # A number of thousands of digits is a ValueError, too.
            with suppress(ValueError, RecursionError):
                fields = json.loads(line.decode("utf-8-sig", "replace"))
            if isinstance(fields, dict) and not MARKS.isdisjoint(fields):
                counts["records"] += 1
                _add(fields, counts, lists)
            elif line.strip():
                counts["broken"] += 1
    if counts["broken"] > counts["records"]:
        raise common.Failed(
            f"{common.source_name(source)} is no report of ROBOTS_REPORT: most of its lines are no"
            " records; name a file that this setting wrote as JSON lines, unpacked, each with one"
            f" of the fields {', '.join(sorted(MARKS))}"
        )
    rows = {
        name: [
            {**dict(zip(names, key, strict=True)), "requests": requests}
            for key, requests in lists[name].most_common(TOP)
        ]
        for name, (_, names) in _LISTS.items()
    }
    return {
        "requests": counts["requests"],
        "dry_run": counts["dry_run"],
        **rows,
        "more": {name: max(0, len(each) - TOP) for name, each in lists.items()},
        "file": source,
        "records": counts["records"],
        "broken": counts["broken"],
    }


def _add(fields: Mapping[str, Any], counts: Counter[str], lists: dict[str, Counter[Any]]) -> None:
    """Count a record. Fields may be missing, and values may be of any kind.

    Requests of exempt sites are counted apart, allowed ones are not.
    """
    rule = _text(fields, "rule")
    reason = _text(fields, "reason") or (NOT_GIVEN if rule is None else Reason.RULE.value)
    requests = common.whole_number(fields.get("count")) or 1
    if fields.get("allowed") is True:
        return
    if reason == EXEMPT:
        lists["exempt"][rule,] += requests
        return
    counts["requests"] += requests
    counts["dry_run"] += requests * (fields.get("dry_run") is True)
    origin = without_userinfo(_text(fields, "origin") or "") or None
    lists["by_reason"][reason,] += requests
    lists["by_origin"][origin,] += requests
    if rule is not None:
        line = common.whole_number(fields.get("line"))
        lists["by_rule"][origin, line, rule, _text(fields, "token")] += requests
    if reason == Reason.UNREACHABLE.value:
        why = (_text(fields, "why") or NOT_GIVEN).removeprefix(UNREACHABLE)
        lists["unreachable"][common.without_passwords(why),] += requests


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field as text that may be shown; ``None`` where it is empty, or no text."""
    value = fields.get(name)
    is_text = isinstance(value, str | int | float)
    return printable(str(value)[:_FIELD]) if value and is_text else None


def show(sums: Mapping[str, Any], console: common.Console) -> None:
    """Print the sums for people."""
    requests = sums["requests"]
    total = f"{many(requests, 'request')} disallowed" if requests else "no request was disallowed"
    console.print(console.paint(total, common.STRONG))
    name = common.source_name(sums["file"])
    console.fact("file", f"{name} ({many(sums['records'], 'record')})")
    if sums["dry_run"]:
        console.fact("dry run", f"{sums['dry_run']:,} of them were let through all the same")
    for kind, (title, names) in _LISTS.items():
        rows = sums[kind]
        number = len(rows) + sums["more"][kind]
        if rows:
            listed = f" ({TOP_OF_TEXT} of {number:,})" if number > TOP_OF_TEXT else ""
            console.print("\n" + console.paint(f"{title}{listed}", common.STRONG))
        for row in rows[:TOP_OF_TEXT]:
            # Exempt requests are in no other number.
            share = "" if kind == EXEMPT else f"{row['requests'] / requests:7.1%}"
            known = [str(row[name]) for name in names if row[name] is not None]
            text = "  ".join(known) or NOT_GIVEN
            console.print(f"  {row['requests']:>9,}{console.paint(share, common.FAINT)}  {text}")


def page(sums: Mapping[str, Any]) -> str:
    """Return the page: a template with a script, which draws the numbers that are embedded."""
    folder = resources("scrapy_robots_rfc.commands")
    style, script, template = (
        (folder / f"report_page.{suffix}").read_text(encoding="utf-8")
        for suffix in ("css", "js", "html")
    )
    data = json.dumps({**sums, "file": printable(common.source_name(sums["file"]))})
    return Template(template).substitute(
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
        # So that `</script>` and `<!--` in a text have no effect.
        data=data.replace("<", "\\u003c"),
    )


def _digest(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _write(name: str, text: str, report: str) -> None:
    """Write a page, but not over the report, or over something that is no file."""
    path = Path(os.path.realpath(name))  # for `/dev/fd/N` that is a pipe, no such path exists
    try:
        is_read = path.exists() and report != common.STANDARD and path.samefile(report)
        if name == common.STANDARD or is_read or (Path(name).exists() and not path.is_file()):
            raise common.Failed(
                f"{name} cannot be written over, since it is no file, or one that is read;"
                " name another file"
            )
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise common.Failed(
            f"{path} cannot be written: {error.strerror};"
            " name a file in a folder of yours, where there is room"
        ) from error


TOPIC = common.Topic(
    "Sum up a report of ROBOTS_REPORT: the disallowed requests by reason, origin and rule.",
    {
        "file": {"metavar": "FILE", "help": "a report in JSON lines; or -, standard input"},
        **common.JSON,
        "--html": {"metavar": "FILE", "help": "write a page with tables and plots, too"},
    },
    _report,
)
