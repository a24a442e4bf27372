"""What a file of ROBOTS_REPORT adds up to, by reason, spider, origin, rule and time. `report.py` shows the sums.

It is JSON lines, and can be cut short, damaged or made up: what is broken is counted and left out,
and raises nothing. It is read line by line: memory grows with the origins and rules, not with the
requests.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from typing import Any

from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.commands.common import Console, Failed, opened, source_name
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import many
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE
from scrapy_robots_rfc.policy.origins import without_userinfo

#: A record of ROBOTS_REPORT has one of these fields, however few its feed has asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Octets of a line that are read: no record has as many.
LONGEST = 1_000_000

#: The reason of the last records: how often an entry of ROBOTS_EXEMPT was used.
EXEMPT = "exempt"
#: The reason of a record whose feed has neither the reason nor a rule.
NO_REASON = "not given"
OTHER = "other"
_REASONS = (
    20  # how many are counted by name: a crawl has four, but a damaged file may have any number
)
_KEPT = 2000  # characters of a field that are kept: a longer one is no rule and no link that a browser follows

_HOUR, _DAY = 3600, 86_400
#: Seconds of a bucket of time. Each is a multiple of the one before, so that buckets can be put
#: together.
WIDTHS = (
    1,
    2,
    10,
    30,
    60,
    120,
    600,
    1800,
    _HOUR,
    2 * _HOUR,
    6 * _HOUR,
    12 * _HOUR,
    _DAY,
    7 * _DAY,
    28 * _DAY,
)
#: Buckets at most: a bar for each fits the narrowest screen.
MOST_BUCKETS = 120
_LATEST = 32_503_680_000  # the year 3000: `datetime` must have dates for the buckets behind it, too, and ends in 9999


@dataclass(slots=True)
class Report:
    """A report, and how its reading went.

    :param name: as on the command line; ``-`` is standard input.
    :param records: how many records there were.
    :param broken: how many could not be read, or are of another kind.
    :param first: the number of the first of those.
    :param breaks_off: whether it ends with half a record.
    """

    name: str
    records: int = 0
    broken: int = 0
    first: int = 0
    breaks_off: bool = False

    def read(self, console: Console) -> Iterator[Mapping[str, Any]]:
        """Yield the fields of each record.

        :raises Failed: the file cannot be read, or most of it is something else.
        """
        with opened(self.name, console) as file:
            for number, (line, is_whole) in enumerate(_lines(file), 1):
                fields = _object(line)
                if isinstance(fields, dict) and not MARKS.isdisjoint(fields):
                    self.records += 1
                    yield fields
                elif line.strip():
                    self.broken += 1
                    self.first = self.first or number
                    self.breaks_off = not is_whole
        if self.broken > self.records:
            what = f"it has {many(self.records, 'record')}, and {many(self.broken, 'other line')}"
            accepted = (
                f"JSON lines, unpacked, each with one of the fields {', '.join(sorted(MARKS))}"
            )
            advice = f"name a file that this setting wrote as {accepted}"
            raise Failed(
                f"{source_name(self.name)} is no report of ROBOTS_REPORT: {what}; {advice}"
            )


def _lines(file: BufferedReader) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines, each as far as it is not too long, and whether its end is there."""
    while line := file.readline(LONGEST):
        end = line
        while end and not end.endswith(b"\n"):
            end = file.readline(LONGEST)
        yield line, bool(end)


def _object(line: bytes) -> object:
    """Return the object of a line; ``None`` for what is no JSON."""
    try:
        return json.loads(line.decode("utf-8-sig", "replace"))
    except (ValueError, RecursionError):  # a ValueError: a number of thousands of digits, too
        return None


class Timeline:
    """Counts requests by time and reason, in a number of buckets that does not grow.

    They get wider instead.
    """

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
        """Yield the begin of each bucket, in seconds since 1970, and its counts by reason.

        Empty buckets, too.
        """
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
        #: Name of a list -> what it is by -> a second division -> requests; the lists without a
        #: second one have "".
        self._lists: dict[str, dict[Any, Counter[Any]]] = {
            name: defaultdict(Counter) for name in _LISTS
        }
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
        if get("allowed") is True:
            self._allowed += count
            return
        if reason == EXEMPT:
            lists["exempt"][rule or OTHER][""] += count
            return
        if reason not in lists["by_reason"] and len(lists["by_reason"]) >= _REASONS:
            reason = OTHER
        self.requests += count
        self._dry_run += count * (get("dry_run") is True)
        self._stale += count * (get("stale") is True)
        lists["by_reason"][reason][""] += count
        lists["by_spider"][_text(get("spider"))][""] += count
        lists["by_origin"][origin][reason] += count
        if rule is not None:
            key = (origin, common.whole_number(get("line")), rule, _text(get("token")))
            lists["by_rule"][key][""] += count
            if url := without_userinfo(_text(get("url")) or ""):
                self._examples.setdefault(key, url)
        if reason == Reason.UNREACHABLE.value:
            lists["unreachable"][(_text(get("why")) or OTHER).removeprefix(UNREACHABLE)][
                origin
            ] += count
        time = common.seconds_of(_text(get("time")) or "")
        if time is not None and 0 <= time < _LATEST:
            self._first, self._last = min(self._first, time), max(self._last, time)
            self._timeline.add(time, reason, count)

    @property
    def totals(self) -> dict[str, int]:
        """Reason -> requests; those of exempt sites, too."""
        exempt = sum(parts.total() for parts in self._lists["exempt"].values())
        return {
            **{reason: parts.total() for reason, parts in self._lists["by_reason"].items()},
            EXEMPT: exempt,
        }

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
        for key, parts in sorted(
            self._lists[name].items(), key=lambda item: (-item[1].total(), str(item[0]))
        )[:top]:
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
