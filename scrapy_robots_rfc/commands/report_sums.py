"""What a report adds up to: by origin, rule, reason, spider and time.

In here: sums, in memory that grows with the origins and rules, not with the requests. How they are shown is
`report_text.py` and `report_page.py`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy_robots_rfc.commands.report_records import EXEMPT
from scrapy_robots_rfc.commands.report_times import Timeline, date
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.robots import UNREACHABLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized
    from typing import TypeVar

    from scrapy_robots_rfc.commands.report_files import ReportFile
    from scrapy_robots_rfc.commands.report_records import Record

    K = TypeVar("K")

#: Reasons that are counted by name: no crawl has more, but a damaged file may.
_REASONS = 20
OTHER = "other"


class RuleKey(NamedTuple):
    """A rule in its file, for a token."""

    origin: str | None
    line: int | None
    rule: str
    token: str | None


@dataclass(slots=True)
class Sums:
    """The sums.

    :param origins: origin -> reason -> requests; the origin is ``None`` where the report does not name it.
    :param examples: a rule -> the URL of the first request that it disallowed.
    :param unreachable: cause -> origin -> requests.
    :param exempt: entry of ROBOTSTXT_EXEMPT -> requests.
    :param dry_run: how many requests were let through all the same.
    :param stale: how many an earlier copy decided.
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

    def add(self, record: Record) -> None:
        """Count a record."""
        if record.reason == EXEMPT:
            self.exempt[record.rule or OTHER] += record.count
            return
        count, reason = record.count, record.reason
        if reason not in self.reasons and len(self.reasons) >= _REASONS:
            reason = OTHER
        self.requests += count
        self.dry_run += count * record.dry_run
        self.stale += count * record.stale
        self.reasons[reason] += count
        self.spiders[record.spider] += count
        self.origins.setdefault(record.origin, Counter())[reason] += count
        if record.rule is not None:
            key = RuleKey(record.origin, record.line, record.rule, record.token)
            self.rules[key] += count
            if record.url is not None:
                self.examples.setdefault(key, record.url)
        if reason == Reason.UNREACHABLE.value:
            cause = (record.why or OTHER).removeprefix(UNREACHABLE)
            self.unreachable.setdefault(cause, Counter())[record.origin] += count
        if record.time is not None:
            self.first = record.time if self.first is None else min(self.first, record.time)
            self.last = record.time if self.last is None else max(self.last, record.time)
            self.timeline.add(record.time, reason, count)

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


def percent(part: float, gap: str = "") -> str:
    """Return a share of all requests for people: a part that is not nothing is not said to be.

    :param part: from 0 to 1.
    :param gap: what stands before the sign.
    """
    return f"<{gap}0.1{gap}%" if 0 < part < 0.0005 else f"{part * 100:.1f}{gap}%"


def most(counts: Counter[K], top: int | None = None) -> list[tuple[K, int]]:
    """Return those that count most, the largest first, then by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], str(item[0])))[:top]


def record_of(sums: Sums, files: Iterable[ReportFile], top: int) -> dict[str, Any]:
    """Return the sums as an object of JSON.

    :param top: how many origins, rules and so on are listed.
    """
    kinds: tuple[Sized, ...] = (sums.reasons, sums.spiders, sums.origins, sums.rules, sums.unreachable, sums.exempt)
    return {
        "requests": sums.requests,
        "from": date(sums.first),
        "to": date(sums.last),
        "dry_run": sums.dry_run,
        "stale": sums.stale,
        **_lists(sums, top),
        "more": {name: max(0, len(kind) - top) for name, kind in zip(_lists(sums, 0), kinds, strict=True)},
        "over_time": _over_time(sums),
        "files": [
            {
                "file": file.name,
                "records": file.reading.records,
                "broken": file.reading.broken,
                "breaks_off": file.reading.breaks_off,
            }
            for file in files
        ],
    }


def _lists(sums: Sums, top: int) -> dict[str, list[dict[str, Any]]]:
    def counted(count: int) -> dict[str, Any]:
        return {"requests": count, "share": round(sums.share(count), 4)}

    return {
        "by_reason": [{"reason": reason, **counted(count)} for reason, count in most(sums.reasons, top)],
        "by_spider": [{"spider": spider, **counted(count)} for spider, count in most(sums.spiders, top)],
        "by_origin": [
            {"origin": origin, **counted(count), "by_reason": dict(sums.origins[origin])}
            for origin, count in most(sums.by_origin, top)
        ],
        "by_rule": [
            {**key._asdict(), **counted(count), "example": sums.examples.get(key)}
            for key, count in most(sums.rules, top)
        ],
        "unreachable": [
            {"why": cause, **counted(count), "origins": len(sums.unreachable[cause])}
            for cause, count in most(sums.by_cause, top)
        ],
        "exempt": [{"entry": entry, "requests": count} for entry, count in most(sums.exempt, top)],
    }


def _over_time(sums: Sums) -> dict[str, Any]:
    buckets = [
        {"from": date(bucket.start), "requests": bucket.counts.total(), "by_reason": dict(bucket.counts)}
        for bucket in sums.timeline.buckets()
    ]
    return {"seconds": sums.timeline.width, "buckets": buckets}
