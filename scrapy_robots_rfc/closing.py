"""Closing: what robots.txt did to a crawl, in a few lines of the log and in stats.

In here: words and keys for what was counted, and which origins and rules cost most. Who counts is others' business.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import many, printable
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from scrapy_robots_rfc.core.decision import Decision
    from scrapy_robots_rfc.tally import Names
    from scrapy_robots_rfc.troubles import Troubles

HEADING = "What robots.txt did to this crawl (spider {spider}):"

#: How many origins, rules and names are listed, and how many causes in brackets.
LISTED, _NAMED = 10, 5

# Characters of a rule or a cause: both are a site's, and may be as long as it likes.
_LONGEST = 100


class Cost:
    """Which origins, and which of their rules, cost a crawl most requests; and which exceptions spared it how many."""

    def __init__(self) -> None:
        #: Origins.
        self.origins: Tally[str] = Tally()
        #: Origin, with the local file that decides there in its place; number of the line; rule.
        self.rules: Tally[tuple[str, int, str]] = Tally()
        #: Entries of ROBOTSTXT_EXEMPT that were used -> by how many requests.
        self.exempt: Counter[str] = Counter()

    def refused(self, decision: Decision) -> None:
        """Count a request that may not be fetched."""
        if decision.origin is None:
            return
        self.origins.add(decision.origin)
        if decision.rule is not None:
            source = "" if decision.override is None else f" local file {decision.override}"
            self.rules.add((f"{decision.origin}{source}", decision.rule.line, _short(str(decision.rule))))


@dataclass(frozen=True, slots=True)
class Closing:
    """The end of a crawl.

    :param counted: the stats of the crawl.
    :param troubles: which origins failed, and why.
    :param slowed: origins by the seconds that their requests were held back.
    """

    counted: Mapping[str, Any]
    troubles: Troubles
    cost: Cost
    slowed: Tally[str]

    def text(self, spider: str) -> str | None:
        """Return what the log says; ``None`` where there is nothing to say. Lines that would be empty are left out.

        :param spider: its name: several may crawl in one process, and one log.
        """
        lines = [
            *_titled("origins", self._origins()),
            *_titled("requests", self._requests()),
            *_titled("dry run", self._dry_run()),
            *_titled("local files", self._overridden()),
            *_ranked("origins that cost most requests", self.cost.origins, str),
            *_ranked("rules that cost most requests", self.cost.rules, _cited),
            *_titled("delays", self._delays()),
            *_ranked("origins that were slowed down most", self.slowed, str, " s"),
            *_titled("unreachable", _all_of(self.troubles.unreachable)),
            *_titled("stale", _all_of(self.troubles.stale)),
        ]
        return "\n  ".join([HEADING.format(spider=spider), *lines]) if lines else None

    def stats(self) -> Iterator[tuple[str, float]]:
        """Yield the same as stats, as far as they are not counted already."""
        for origin, count in self.cost.origins.most(LISTED):
            yield stats.COSTLIEST_ORIGINS.format(origin=origin), count
        # Two rules may have stood in one line, one after the other: the one that cost more is set last.
        for (origin, line, _), count in reversed(self.cost.rules.most(LISTED)):
            yield stats.COSTLIEST_RULES.format(origin=origin, line=line), count
        for origin, seconds in self.slowed.most(LISTED):
            yield stats.CRAWL_DELAY_ADDED_BY.format(origin=origin), round(seconds, 3)
        for key, names in (
            (stats.UNREACHABLE_BY, self.troubles.unreachable),
            (stats.CACHE_STALE_BY, self.troubles.stale),
        ):
            for origin, (count, _) in names.named.items():
                yield key.format(origin=origin), count

    def _origins(self) -> str:
        origins = {item.value: self._count(stats.ORIGINS.format(outcome=item.value)) for item in Outcome}
        details = {
            Outcome.SUCCESSFUL.value: _listed({"stale": self._count(stats.CACHE_STALE_ORIGINS)}),
            Outcome.UNREACHABLE.value: _most(self.troubles.causes, "other causes", _NAMED),
        }
        return _listed(origins, details)

    def _requests(self) -> str:
        forbidden = {item.value: self._count(stats.FORBIDDEN_BY.format(reason=item.value)) for item in Reason}
        exempt = self.cost.exempt
        requests = {
            "allowed": self._count(stats.ALLOWED),
            "forbidden": self._count(stats.FORBIDDEN),
            "undecided": self._count(stats.UNDECIDED),
            "exempt": exempt.total(),
            "reused": self._count(stats.REUSED),
        }
        return _listed(requests, {"forbidden": _listed(forbidden), "exempt": _most(exempt, "of other sites", LISTED)})

    def _dry_run(self) -> str:
        count = self._count(stats.DRY_RUN)
        return f"{count} of the forbidden were let through" if count else ""

    def _overridden(self) -> str:
        count = self._count(stats.OVERRIDDEN)
        requests = "request was" if count == 1 else "requests were"
        return f"{count} {requests} decided by ROBOTSTXT_OVERRIDES" if count else ""

    def _delays(self) -> str:
        sites, capped = self._count(stats.CRAWL_DELAY_SITES), self._count(stats.CRAWL_DELAY_CAPPED)
        if not sites:
            return ""
        paced = f"{many(sites, 'site')} paced"
        at_most = f" ({capped} of them at ROBOTSTXT_CRAWL_DELAY_MAX)" if capped else ""
        longest, added = self._count(stats.CRAWL_DELAY_MAX), self._count(stats.CRAWL_DELAY_ADDED)
        return f"{paced}{at_most}, up to {longest:g} s between two requests, {_number(added)} s added"

    def _count(self, key: str) -> Any:  # noqa: ANN401 - as Scrapy has it
        return self.counted.get(key, 0)


def _titled(title: str, text: str) -> list[str]:
    return [f"{title}: {text}"] if text else []


def _ranked(title: str, tally: Tally[Any], name: Any, unit: str = "") -> list[str]:  # noqa: ANN401 - of any key
    """Return a line for each key that counts most, below their title."""
    found = [(f"{_number(count)}{unit}", name(key)) for key, count in tally.most(LISTED)]
    if not found:
        return []
    error = f" (each may have cost up to {_number(tally.error)}{unit} more)" if tally.error else ""
    width = max(len(count) for count, _ in found)
    return [f"{title}{error}:", *(f"  {count:>{width}}  {text}" for count, text in found)]


def _cited(rule: tuple[str, int, str]) -> str:
    origin, line, text = rule
    return f"{origin} line {line}: {text}"


def _all_of(names: Names) -> str:
    """List names with what was said of them, and how many more there were."""
    found: Iterable[str] = (f"{name} ({_short(what)})" for name, (_, what) in names.named.items())
    return ", ".join(found) + (f", and {names.more} more" if names.more else "")


def _short(text: str) -> str:
    """Return a site's text so that it neither acts on a terminal nor fills it."""
    text = printable(text[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _number(value: float) -> str:
    """Return ``12``, or ``1.5``: a tenth is as exact as anybody reads."""
    return f"{value:.1f}".removesuffix(".0")


def _most(counts: Mapping[str, int], rest: str, number: int) -> str:
    """List those that count most, and all others in one."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{count} {_short(name)}" for name, count in ordered[:number]]
    others = sum(count for _, count in ordered[number:])
    return ", ".join([*named, f"{others} {rest}"] if others else named)


def _listed(counts: Mapping[str, int], details: Mapping[str, str] | None = None) -> str:
    """Return "3 rule, 2 unreachable (2 503)"; what is 0 is left out."""
    parts = []
    for name, count in counts.items():
        if count:
            detail = (details or {}).get(name)
            parts.append(f"{count} {name}{f' ({detail})' if detail else ''}")
    return ", ".join(parts)
