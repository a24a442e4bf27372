"""`scrapy robots report FILE`: sums up a file of ROBOTS_REPORT, as text, JSON, or a page.

The file is JSON lines. It may be cut short, damaged or made up: broken lines are counted, and raise
nothing. It is read line by line: memory grows with the origins and rules, not with the requests.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from importlib.resources import files as resources
from io import BufferedReader
from pathlib import Path
from string import Template
from typing import Any

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import FAINT, STANDARD, STRONG, Console, Failed, source_name
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import many, printable
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE
from scrapy_robots_rfc.policy.origins import without_userinfo

HELP = "Sum up a report of ROBOTS_REPORT: the disallowed requests by reason, origin and rule."
#: Rows of each list: in the text a screenful, elsewhere what a browser sorts at once.
TOP_OF_TEXT, TOP = 10, 1000
NO_ORIGIN = "(no origin)"

ARGUMENTS = (
    common.argument("file", metavar="FILE", help="a report in JSON lines; or -, standard input"),
    common.JSON,
    common.argument("--html", metavar="FILE", help="write a page with tables and plots, too"),
)

#: A record of ROBOTS_REPORT has one of these fields, however few its feed was asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Octets of a line that are read: no record has as many.
LONGEST = 1_000_000
#: The reason of the last records, on ROBOTS_EXEMPT; of one without reason and rule; of the rest.
EXEMPT, NO_REASON, OTHER = "exempt", "not given", "other"
_REASONS = 20  # that are counted by name: a crawl has few, a damaged file may have any number
_FIELD = 2000  # characters of a field that count: a longer one is no rule, and no link works
_LATEST = 32_503_680_000  # the year 3000: a time of another zone may lie behind the last date

#: The lists of the sums, each with the names of its key.
_LISTS = {
    "by_reason": ("reason",),
    "by_spider": ("spider",),
    "by_origin": ("origin",),
    "by_rule": ("origin", "line", "rule", "token"),
    "unreachable": ("why",),
    "exempt": ("entry",),
}


def run(_: object, console: Console, options: argparse.Namespace) -> int:
    """Print what the file adds up to; the exit code is 0."""
    sums = Sums(options.file)
    sums.read(console)
    if sums.broken:
        what = f"{many(sums.broken, 'broken record')} left out"
        first = f"(the first at line {sums.first_broken})"
        console.complain(f"{source_name(sums.file)}: {what} {first}; all else is summed up")
    if options.html is not None:
        _write(options.html, page(sums), sums.file)
    if options.json:
        console.print_json(sums.record(TOP))
    else:
        show(sums, console)
    return 0


def _write(name: str, text: str, report: str) -> None:
    """Write a page, but not over the report, or over something that is no file."""
    path = Path(os.path.realpath(name))  # of a pipe of this process it names nothing
    is_read = path.exists() and report != STANDARD and path.samefile(report)
    if name == STANDARD or is_read or (Path(name).exists() and not path.is_file()):
        why = "since it is no file, or one that is read"
        raise Failed(f"{name} cannot be written over, {why}; name another file")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        advice = "name a file in a folder of yours, where there is room"
        raise Failed(f"{path} cannot be written: {error.strerror}; {advice}") from error


def show(sums: Sums, console: Console) -> None:
    """Print the sums for people."""
    record = sums.record(TOP_OF_TEXT)
    requests = record["requests"]
    total = f"{many(requests, 'request')} disallowed" if requests else "no request was disallowed"
    console.print(console.paint(total, STRONG))
    console.fact("file", f"{source_name(sums.file)} ({many(sums.records, 'record')})")
    for name, text in _FACTS.items():
        if record[name]:
            console.fact(name.replace("_", " "), text.format(record[name]))
    for kind, (title, name_of) in _TABLES.items():
        rows = record[kind]
        more = record["more"][kind]
        if rows:
            listed = f" ({len(rows):,} of {len(rows) + more:,})" if more else ""
            console.print()
            console.print(console.paint(f"{title}{listed}", STRONG))
        for row in rows:
            share = "" if kind == "exempt" else _share(row["requests"] / requests)
            share = console.paint(share, FAINT)
            console.print(f"  {row['requests']:>9,}{share}  {printable(name_of(row))}")


def _share(part: float) -> str:
    return f"{'<0.1%' if part < 0.0005 else f'{part:.1%}':>7}"


def _rule_text(row: dict[str, Any]) -> str:
    line = "" if row["line"] is None else f" line {row['line']}"
    token = "" if row["token"] is None else f" (for {row['token']})"
    return f"{row['origin'] or NO_ORIGIN}{line}: {row['rule']}{token}"


#: What is printed of the whole report, unless it is 0 or unknown.
_FACTS = {
    "from": "{}",
    "to": "{}",
    "dry_run": "{:,} of them were let through all the same",
    "stale": "{:,} were decided by an earlier copy, because its refresh failed",
}
#: The lists of the sums that are shown as tables, each with its title, and the name of a row.
_TABLES: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "by_reason": ("by reason", lambda row: row["reason"]),
    "by_spider": ("by spider", lambda row: row["spider"] or "(no name)"),
    "by_origin": ("by origin", lambda row: row["origin"] or NO_ORIGIN),
    "by_rule": ("by rule", _rule_text),
    "unreachable": (
        "robots.txt unreachable",
        lambda row: f"{row['why']}, of {many(row['origins'], 'origin')}",
    ),
    "exempt": ("not asked, by entry of ROBOTS_EXEMPT", lambda row: row["entry"]),
}


def page(sums: Sums) -> str:
    """Return the page: a template with a script, which draws the numbers that are embedded."""
    data = {**sums.record(TOP), "totals": sums.totals, "title": source_name(sums.file)}
    folder = resources("scrapy_robots_rfc.commands")
    style, script, template = (
        (folder / f"report_page.{suffix}").read_text(encoding="utf-8")
        for suffix in ("css", "js", "html")
    )
    return Template(template).substitute(
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
        # So that `</script>` and `<!--` in a text have no effect.
        data=json.dumps(_escaped(data)).replace("<", "\\u003c"),
    )


def _escaped(value: Any) -> Any:  # noqa: ANN401 - a value of JSON
    """Return a value with escapes for what could not be seen, or turns other text round."""
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    if isinstance(value, dict):
        return {_escaped(key): _escaped(item) for key, item in value.items()}
    return value


def _digest(text: str) -> str:
    """Return the hash by which a Content-Security-Policy allows a script or a style."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _lines(file: BufferedReader) -> Iterator[bytes]:
    """Yield the lines; of one that is too long, only the beginning."""
    while line := file.readline(LONGEST):
        rest = line
        while rest and not rest.endswith(b"\n"):
            rest = file.readline(LONGEST)
        yield line


def _object(line: bytes) -> object:
    """Return the value that a line of JSON has; ``None`` for anything else."""
    try:
        return json.loads(line.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):  # a number of thousands of digits is a ValueError, too
        return None


class Sums:
    """The sums. Requests of exempt sites, and those that are allowed, are counted apart."""

    def __init__(self, file: str) -> None:
        self.file: str = file
        self.records: int = 0
        self.broken: int = 0
        #: The number of the first line that is no record.
        self.first_broken: int = 0
        #: How many requests were disallowed.
        self.requests: int = 0
        self._dry_run = self._stale = self._allowed = 0
        #: Name of a list -> key -> part of it, or "" where the list has no parts -> requests.
        self._lists: dict[str, dict[Any, Counter[Any]]] = {
            name: defaultdict(Counter) for name in _LISTS
        }
        #: Key of a rule -> the URL of the first request that it disallowed.
        self._examples: dict[Any, str] = {}
        self._first, self._last = math.inf, -math.inf

    def read(self, console: Console) -> None:
        """Count the records of the file; raise `Failed` where most of it is something else."""
        with common.opened(self.file, console) as file:
            for number, line in enumerate(_lines(file), 1):
                fields = _object(line)
                if isinstance(fields, dict) and not MARKS.isdisjoint(fields):
                    self.records += 1
                    self._add(fields)
                elif line.strip():
                    self.broken += 1
                    self.first_broken = self.first_broken or number
        if self.broken > self.records:
            found = f"{many(self.records, 'record')}, and {many(self.broken, 'other line')}"
            raise Failed(
                f"{source_name(self.file)} is no report of ROBOTS_REPORT: it has {found};"
                " name a file that this setting wrote as JSON lines, unpacked,"
                f" each with one of the fields {', '.join(sorted(MARKS))}"
            )

    def _add(self, fields: Mapping[str, Any]) -> None:
        """Count a record. Fields may be missing, and values may be of any kind."""
        get, lists = fields.get, self._lists
        rule = _text(get("rule"))
        count = common.whole_number(get("count")) or 1
        reason = _text(get("reason")) or (NO_REASON if rule is None else Reason.RULE.value)
        if get("allowed") is True:
            self._allowed += count
            return
        if reason == EXEMPT:
            lists["exempt"][rule or OTHER,][""] += count
            return
        if (reason,) not in lists["by_reason"] and len(lists["by_reason"]) >= _REASONS:
            reason = OTHER
        origin = without_userinfo(_text(get("origin")) or "") or None
        self.requests += count
        self._dry_run += count * (get("dry_run") is True)
        self._stale += count * (get("stale") is True)
        lists["by_reason"][reason,][""] += count
        lists["by_spider"][_text(get("spider")),][""] += count
        lists["by_origin"][origin,][reason] += count
        if rule is not None:
            key = (origin, common.whole_number(get("line")), rule, _text(get("token")))
            lists["by_rule"][key][""] += count
            if url := without_userinfo(_text(get("url")) or ""):
                self._examples.setdefault(key, url)
        if reason == Reason.UNREACHABLE.value:
            why = (_text(get("why")) or OTHER).removeprefix(UNREACHABLE)
            lists["unreachable"][why,][origin] += count
        time = common.seconds_of(_text(get("time")) or "")
        if time is not None and 0 <= time < _LATEST:
            self._first, self._last = min(self._first, time), max(self._last, time)

    @property
    def totals(self) -> dict[str, int]:
        """Reason -> requests; those of exempt sites are among them."""
        totals = {reason: parts.total() for (reason,), parts in self._lists["by_reason"].items()}
        return {**totals, EXEMPT: sum(parts.total() for parts in self._lists["exempt"].values())}

    def record(self, top: int) -> dict[str, Any]:
        """Return the sums as an object of JSON, with so many rows of each list."""
        has_times = self._first <= self._last
        return {
            "requests": self.requests,
            "from": common.date_text(self._first) if has_times else None,
            "to": common.date_text(self._last) if has_times else None,
            "dry_run": self._dry_run,
            "stale": self._stale,
            "allowed": self._allowed,
            **{name: list(self._rows(name, top)) for name in self._lists},
            "more": {name: max(0, len(each) - top) for name, each in self._lists.items()},
            "file": self.file,
            "records": self.records,
            "broken": self.broken,
        }

    def _rows(self, name: str, top: int) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list that count most, the largest first, then by name."""
        rows = self._lists[name].items()
        ordered = sorted(rows, key=lambda row: (-row[1].total(), str(row[0])))
        for key, parts in ordered[:top]:
            row = {**dict(zip(_LISTS[name], key, strict=True)), "requests": parts.total()}
            if name == "by_origin":
                row["by_reason"] = dict(parts)
            elif name == "by_rule":
                row["example"] = self._examples.get(key)
            elif name == "unreachable":
                row["origins"] = len(parts)
            yield row


def _text(value: object) -> str | None:
    """Return a field as text; ``None`` for an empty one, and for any other kind of value."""
    return str(value)[:_FIELD] or None if isinstance(value, str | int | float) else None
