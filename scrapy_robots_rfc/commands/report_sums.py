"""What the records of ROBOTSTXT_REPORT add up to: by reason, spider, origin, rule and time.

Memory grows with the origins and rules, not with the requests. `report.py` shows the sums.
"""

from __future__ import annotations

import datetime
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE
from scrapy_robots_rfc.policy.origins import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sized
    from typing import TypeVar

    from scrapy_robots_rfc.commands.report_files import ReportFile

    K = TypeVar("K")

#: The reason of the last records: how often an entry of ROBOTSTXT_EXEMPT was used.
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
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LATEST = 32_503_680_000  # the year 3000: `datetime` must have dates for the buckets behind it, too, and ends in 9999


class RuleKey(NamedTuple):
    """A rule in its file, for a token."""

    origin: str | None
    line: int | None
    rule: str
    token: str | None


class Timeline:
    """Counts requests by time and reason, in a number of buckets that does not grow: they get wider instead."""

    def __init__(self) -> None:
        self.width = WIDTHS[0]
        self._buckets: dict[int, Counter[str]] = {}
        self._first = self._last = 0

    def add(self, time: float, reason: str, count: int) -> None:
        """Count requests.

        :param time: seconds since 1970.
        """
        index = int(time) // self.width
        if not self._buckets:
            self._first = self._last = index
        self._first, self._last = min(self._first, index), max(self._last, index)
        while self._last - self._first >= MOST_BUCKETS:
            self._widen()
            index = int(time) // self.width
        self._buckets.setdefault(index, Counter())[reason] += count

    def _widen(self) -> None:
        wider = next((width for width in WIDTHS if width > self.width), self.width * 10)
        factor = wider // self.width
        together: dict[int, Counter[str]] = {}
        for index, counts in self._buckets.items():
            together.setdefault(index // factor, Counter()).update(counts)
        self.width, self._buckets = wider, together
        self._first, self._last = self._first // factor, self._last // factor

    def buckets(self) -> Iterator[tuple[int, Counter[str]]]:
        """Yield the begin of each bucket, in seconds since 1970, and its counts by reason; empty buckets, too."""
        if self._buckets:
            for index in range(self._first, self._last + 1):
                yield index * self.width, self._buckets.get(index, Counter())


@dataclass(slots=True)
class Sums:
    """The sums.

    :param first: the time of the first request, in seconds since 1970; ``None``: no record has a time.
    :param dry_run: how many requests were let through all the same.
    :param stale: how many an earlier copy decided.
    :param origins: origin -> reason -> requests; the origin is ``None`` where the report does not name it.
    :param examples: rule -> the URL of the first request that it disallowed.
    :param unreachable: cause -> origin -> requests.
    :param exempt: entry of ROBOTSTXT_EXEMPT -> requests, which are in no other sum.
    """

    requests: int = 0
    first: float | None = None
    last: float | None = None
    dry_run: int = 0
    stale: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    spiders: Counter[str | None] = field(default_factory=Counter)
    origins: dict[str | None, Counter[str]] = field(default_factory=dict)
    rules: Counter[RuleKey] = field(default_factory=Counter)
    examples: dict[RuleKey, str] = field(default_factory=dict)
    unreachable: dict[str, Counter[str | None]] = field(default_factory=dict)
    exempt: Counter[str] = field(default_factory=Counter)
    timeline: Timeline = field(default_factory=Timeline)

    def add(self, fields: Mapping[str, Any]) -> None:
        """Count a record.

        :param fields: those of ROBOTSTXT_REPORT, as far as they are there; values of any kind.
        """
        get = fields.get
        rule, origin = _text(get("rule")), _address(get("origin"))
        reason = _text(get("reason")) or (NO_REASON if rule is None else Reason.RULE.value)
        count = _number(get("count")) or 1
        if reason == EXEMPT:
            self.exempt[rule or OTHER] += count
            return
        if reason not in self.reasons and len(self.reasons) >= _REASONS:
            reason = OTHER
        self.requests += count
        self.dry_run += count * _flag(get("dry_run"))
        self.stale += count * _flag(get("stale"))
        self.reasons[reason] += count
        self.spiders[_text(get("spider"))] += count
        self.origins.setdefault(origin, Counter())[reason] += count
        if rule is not None:
            key = RuleKey(origin, _number(get("line")), rule, _text(get("token")))
            self.rules[key] += count
            url = _address(get("url"))
            if url is not None:
                self.examples.setdefault(key, url)
        if reason == Reason.UNREACHABLE.value:
            cause = (_text(get("why")) or OTHER).removeprefix(UNREACHABLE)
            self.unreachable.setdefault(cause, Counter())[origin] += count
        time = _time(get("time"))
        if time is not None:
            self.first = time if self.first is None else min(self.first, time)
            self.last = time if self.last is None else max(self.last, time)
            self.timeline.add(time, reason, count)

    @property
    def by_origin(self) -> Counter[str | None]:
        """Origin -> requests."""
        return Counter({origin: reasons.total() for origin, reasons in self.origins.items()})

    @property
    def by_cause(self) -> Counter[str]:
        """Why a robots.txt was unreachable -> requests."""
        return Counter({cause: origins.total() for cause, origins in self.unreachable.items()})

    def share(self, count: int) -> float:
        """Return which part of all requests that is, from 0 to 1."""
        return count / self.requests if self.requests else 0.0


def most(counts: Counter[K], top: int | None = None) -> list[tuple[K, int]]:
    """Return those that count most, the largest first, then by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:top]


def record_of(sums: Sums, files: Iterable[ReportFile], top: int) -> dict[str, Any]:
    """Return the sums as an object of JSON.

    :param top: how many origins, rules and so on are listed.
    """

    def rows(counts: Counter[K], name: str = "") -> Iterator[tuple[K, dict[str, Any]]]:
        for key, count in most(counts, top):
            yield key, {**({name: key} if name else {}), "requests": count, "share": round(sums.share(count), 4)}

    kinds: tuple[Sized, ...] = (sums.reasons, sums.spiders, sums.origins, sums.rules, sums.unreachable, sums.exempt)
    lists: dict[str, list[dict[str, Any]]] = {
        "by_reason": [row for _, row in rows(sums.reasons, "reason")],
        "by_spider": [row for _, row in rows(sums.spiders, "spider")],
        "by_origin": [
            {**row, "by_reason": dict(sums.origins[origin])} for origin, row in rows(sums.by_origin, "origin")
        ],
        "by_rule": [{**key._asdict(), **row, "example": sums.examples.get(key)} for key, row in rows(sums.rules)],
        "unreachable": [{**row, "origins": len(sums.unreachable[cause])} for cause, row in rows(sums.by_cause, "why")],
        "exempt": [{"entry": entry, "requests": count} for entry, count in most(sums.exempt, top)],
    }
    buckets = [
        {"from": date(start), "requests": counts.total(), "by_reason": dict(counts)}
        for start, counts in sums.timeline.buckets()
    ]
    told = ("records", "broken", "breaks_off")
    return {
        "requests": sums.requests,
        "from": date(sums.first),
        "to": date(sums.last),
        "dry_run": sums.dry_run,
        "stale": sums.stale,
        **lists,
        "more": {name: max(0, len(kind) - top) for name, kind in zip(lists, kinds, strict=True)},
        "over_time": {"seconds": sums.timeline.width, "buckets": buckets},
        "files": [{"file": file.name, **{name: getattr(file, name) for name in told}} for file in files],
    }


def date(time: float | None) -> str | None:
    """Return a time as ISO 8601 in UTC, to the second: ``2026-11-21T22:40:01Z``."""
    return None if time is None else f"{_EPOCH + datetime.timedelta(seconds=int(time)):%Y-%m-%dT%H:%M:%SZ}"


# The values of fields: a file may hold any.


def _text(value: object) -> str | None:
    return str(value)[:_KEPT] or None if isinstance(value, str | int | float) else None


def _address(value: object) -> str | None:
    """Return a URL, without what may be a password."""
    text = _text(value)
    return None if text is None else without_userinfo(text)


def _number(value: object) -> int | None:
    """Return a whole number; ``None`` for one that no crawl could count to."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return value if isinstance(value, int) and value is not True and 0 < value < 10**15 else None


def _flag(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _time(value: object) -> float | None:
    """Return seconds since 1970; a time without a zone is one of UTC."""
    try:
        time = datetime.datetime.fromisoformat(_text(value) or "")
    except ValueError:
        return None
    seconds = ((time if time.tzinfo else time.replace(tzinfo=datetime.UTC)) - _EPOCH).total_seconds()
    return seconds if 0 <= seconds < _LATEST else None
