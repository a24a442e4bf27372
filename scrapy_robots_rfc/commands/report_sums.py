"""What a file of ROBOTS_REPORT adds up to, by reason, spider, origin, rule and time. `report.py` shows the sums.

It is JSON lines, JSON or CSV, packed or not, and can be cut short, damaged or made up: what is broken is counted and
left out, and raises nothing. It is read line by line: memory grows with the origins and rules, not with the requests.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import math
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import IO, Any

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import Console, Failed, opened, source_name
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE
from scrapy_robots_rfc.policy.origins import without_userinfo

#: A record of ROBOTS_REPORT has one of these fields, however few its feed has asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Characters of a line that are read, and of an object over several lines: more than a JSON array in one line needs.
LONGEST = 10_000_000

#: How packed files begin, and what opens them.
_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
#: What reading a packed file raises where it is damaged. The OSErrors of bz2 and gzip have no number.
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, MemoryError)

#: What stands around the objects of a JSON array.
_AROUND = "[], \t\r\n"

#: The reason of the last records: how often an entry of ROBOTS_EXEMPT was used.
EXEMPT = "exempt"
#: The reason of a record whose feed has neither the reason nor a rule.
NO_REASON = "not given"
OTHER = "other"
_REASONS = 20  # how many are counted by name: a crawl has four, but a damaged file may have any number
_KEPT = 2000  # characters of a field that are kept: a longer one is no rule and no link that a browser follows

_HOUR, _DAY = 3600, 86_400
#: Seconds of a bucket of time. Each is a multiple of the one before, so that buckets can be put together.
WIDTHS = (1, 2, 10, 30, 60, 120, 600, 1800, _HOUR, 2 * _HOUR, 6 * _HOUR, 12 * _HOUR, _DAY, 7 * _DAY, 28 * _DAY)
#: Buckets at most: a bar for each fits the narrowest screen.
MOST_BUCKETS = 120
_LATEST = 32_503_680_000  # the year 3000: `datetime` must have dates for the buckets behind it, too, and ends in 9999


@dataclass(slots=True)
class Report:
    """A report, and how its reading went.

    :param name: as on the command line; ``-`` is standard input.
    :param records: how many records there were.
    :param broken: how many could not be read, or are of another kind.
    :param first: the line where the first of those ends.
    :param breaks_off: whether its end could not be read, or is that of half a record.
    """

    name: str
    records: int = 0
    broken: int = 0
    first: int = 0
    breaks_off: bool = False
    _line: int = 0
    _last: bool = False

    def read(self, console: Console) -> Iterator[Mapping[str, Any]]:
        """Yield the fields of each record.

        :raises Failed: the file cannot be read, or holds something else.
        """
        with opened(self.name, console) as file:
            for fields in self._parsed(file):
                if isinstance(fields, dict) and not MARKS.isdisjoint(fields):
                    self.records += 1
                    yield fields
                else:
                    self.broken, self.first = self.broken + 1, self.first or self._line
                    self.breaks_off = self._last
        if self.broken and not self.records:
            what = f"name a file that this setting wrote, with one of the fields {', '.join(sorted(MARKS))}"
            read = "records of ROBOTS_REPORT in a format that is read (JSON lines, JSON, CSV)"
            raise Failed(f"{source_name(self.name)} holds no {read}; {what}")

    def _parsed(self, file: io.BufferedReader) -> Iterator[object]:
        """Yield the objects or rows of a file; what stands for a broken one is none of both.

        Its first octets tell how it is packed, its first line the format.
        """
        begin = file.peek(8)
        unpacked = next((opener(file) for magic, opener in _PACKED if begin.startswith(magic)), file)
        text = io.TextIOWrapper(unpacked, encoding="utf-8-sig", errors="replace", newline="\n")
        try:
            lines = self._lines(text)
            first = next((line for line in lines if not line.isspace()), "")
            delimiter = next((each for each in ",;\t|" if not MARKS.isdisjoint(_cells(first, each) or [])), None)
            lines = chain([first], lines)
            yield from _objects(lines) if delimiter is None else _rows(lines, delimiter)
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk failed: the file is not damaged
            self._line, self._last = self._line + 1, True
            yield None
        finally:
            text.detach()  # else it would close standard input

    def _lines(self, text: io.TextIOWrapper) -> Iterator[str]:
        """Yield the lines, each as far as it is not too long."""
        while line := text.readline(LONGEST):
            end = line
            while end and not end.endswith("\n"):
                end = text.readline(LONGEST)
            self._line, self._last = self._line + 1, not end
            yield line


def _objects(lines: Iterable[str]) -> Iterator[object]:
    """Yield the objects of JSON lines, or of a JSON array: in one line, or each in lines of its own."""
    begun = ""
    for line in lines:
        text = line.strip(_AROUND)
        if begun and text.startswith("{"):
            begun = ""
            yield None  # the object before has no end
        if begun or text == "{":
            begun += line
            if text != "}" and len(begun) < LONGEST:
                continue
            text, begun = begun.strip(_AROUND), ""
        try:
            yield from json.loads(f"[{text}]")
        except (ValueError, RecursionError):  # a ValueError: a number of thousands of digits, too
            yield None
    if begun:
        yield None


def _rows(lines: Iterable[str], delimiter: str) -> Iterator[object]:
    """Yield the rows of CSV, of which each is a line, since no field of a report holds a line end.

    A crawl that went on with a file wrote the header again, perhaps behind half a row.
    """
    rows = (_cells(line, delimiter) for line in lines)
    columns = next(rows) or []
    for row in rows:
        if row is None or (row and len(row) != len(columns)) or (row != columns and row[1:] == columns[1:] != []):
            yield None
        elif row and row != columns:
            yield dict(zip(columns, row, strict=True))


def _cells(line: str, delimiter: str) -> list[str] | None:
    """Return the cells of a row; ``None``: it is none."""
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None


class Timeline:
    """Counts requests by time and reason, in a number of buckets that does not grow: they get wider instead."""

    def __init__(self) -> None:
        self.width: int = WIDTHS[0]
        self._buckets: dict[int, Counter[str]] = defaultdict(Counter)

    def add(self, time: float, reason: str, count: int) -> None:
        """Count requests.

        :param time: seconds since 1970.
        """
        self._buckets[int(time) // self.width][reason] += count
        while max(self._buckets) - min(self._buckets) >= MOST_BUCKETS:
            wider = next((width for width in WIDTHS if width > self.width), self.width * 10)
            narrow, self._buckets = self._buckets, defaultdict(Counter)
            for index, counts in narrow.items():
                self._buckets[index * self.width // wider].update(counts)
            self.width = wider

    def buckets(self) -> Iterator[tuple[int, Counter[str]]]:
        """Yield the begin of each bucket, in seconds since 1970, and its counts by reason; empty buckets, too."""
        if self._buckets:
            for index in range(min(self._buckets), max(self._buckets) + 1):
                yield index * self.width, self._buckets.get(index, Counter())


#: The lists of the sums, each with what it is by.
_LISTS = {
    "by_reason": ("reason",),
    "by_spider": ("spider",),
    "by_origin": ("origin",),
    "by_rule": ("origin", "line", "rule", "token"),
    "unreachable": ("why",),
    "exempt": ("entry",),
}


class Sums:
    """The sums. Requests of exempt sites, and those that are allowed, are counted apart from all others."""

    def __init__(self) -> None:
        #: How many were disallowed.
        self.requests: int = 0
        self._dry_run = self._stale = self._allowed = 0
        #: Name of a list -> what it is by -> a second division -> requests; the lists without a second one have "".
        self._lists: dict[str, dict[Any, Counter[Any]]] = {name: defaultdict(Counter) for name in _LISTS}
        #: Rule -> the URL of the first request that it disallowed.
        self._examples: dict[Any, str] = {}
        self._first, self._last = math.inf, -math.inf
        self._timeline = Timeline()

    def add(self, fields: Mapping[str, Any]) -> None:
        """Count a record.

        :param fields: those of ROBOTS_REPORT, as far as they are there; values of any kind.
        """
        get, lists = fields.get, self._lists
        rule, origin = _text(get("rule")), without_userinfo(_text(get("origin")) or "") or None
        reason = _text(get("reason")) or (NO_REASON if rule is None else Reason.RULE.value)
        count = common.whole_number(get("count")) or 1
        if _flag(get("allowed")):
            self._allowed += count
            return
        if reason == EXEMPT:
            lists["exempt"][rule or OTHER][""] += count
            return
        if reason not in lists["by_reason"] and len(lists["by_reason"]) >= _REASONS:
            reason = OTHER
        self.requests += count
        self._dry_run += count * _flag(get("dry_run"))
        self._stale += count * _flag(get("stale"))
        lists["by_reason"][reason][""] += count
        lists["by_spider"][_text(get("spider"))][""] += count
        lists["by_origin"][origin][reason] += count
        if rule is not None:
            key = (origin, common.whole_number(get("line")), rule, _text(get("token")))
            lists["by_rule"][key][""] += count
            if url := without_userinfo(_text(get("url")) or ""):
                self._examples.setdefault(key, url)
        if reason == Reason.UNREACHABLE.value:
            lists["unreachable"][(_text(get("why")) or OTHER).removeprefix(UNREACHABLE)][origin] += count
        time = common.seconds_of(_text(get("time")) or "")
        if time is not None and 0 <= time < _LATEST:
            self._first, self._last = min(self._first, time), max(self._last, time)
            self._timeline.add(time, reason, count)

    @property
    def totals(self) -> dict[str, int]:
        """Reason -> requests; those of exempt sites, too."""
        exempt = sum(parts.total() for parts in self._lists["exempt"].values())
        return {**{reason: parts.total() for reason, parts in self._lists["by_reason"].items()}, EXEMPT: exempt}

    def record(self, report: Report, top: int) -> dict[str, Any]:
        """Return the sums as an object of JSON.

        :param top: how many origins, rules and so on are listed.
        """
        buckets = [
            {"from": common.date_text(start), "requests": counts.total(), "by_reason": dict(counts)}
            for start, counts in self._timeline.buckets()
        ]
        return {
            "requests": self.requests,
            "from": common.date_text(self._first),
            "to": common.date_text(self._last),
            "dry_run": self._dry_run,
            "stale": self._stale,
            "allowed": self._allowed,
            **{name: list(self._rows(name, top)) for name in self._lists},
            "more": {name: max(0, len(each) - top) for name, each in self._lists.items()},
            "over_time": {"seconds": self._timeline.width, "buckets": buckets},
            "file": report.name,
            "records": report.records,
            "broken": report.broken,
            "breaks_off": report.breaks_off,
        }

    def _rows(self, name: str, top: int) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list: those that count most, the largest first, then by name."""
        for key, parts in sorted(self._lists[name].items(), key=lambda item: (-item[1].total(), str(item[0])))[:top]:
            row = dict(zip(_LISTS[name], key if name == "by_rule" else (key,), strict=True))
            row["requests"] = parts.total()
            if name != "exempt":
                row["share"] = round(parts.total() / self.requests, 4)
            if name == "by_origin":
                row["by_reason"] = dict(parts)
            elif name == "by_rule":
                row["example"] = self._examples.get(key)
            elif name == "unreachable":
                row["origins"] = len(parts)
            yield row


def _text(value: object) -> str | None:
    """Return a field as text; ``None`` for anything else that a file may hold."""
    return str(value)[:_KEPT] or None if isinstance(value, str | int | float) else None


def _flag(value: object) -> bool:
    return str(value).lower() == "true"
