"""The summary that a crawl logs at its end, with the origins and the rules that cost most requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import many, printable
from scrapy_robots_rfc.fetching.origin_log import Names, OriginLog
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.settings import PAGE_RULES

HEADING = "What robots.txt did to this crawl (spider {spider}):"

#: How many origins, rules and names the summary lists, and how many causes in brackets.
LISTED, _CAUSES = 10, 5

#: Keys that a `TopK` remembers at least.
KEPT = 1000

# Characters of an origin, a rule or a cause that are shown. They may come from a site, and have any length.
_LONGEST = 100

K = TypeVar("K", bound="Hashable")


class TopK(Generic[K]):
    """Counts keys, and forgets those that count least when they become too many (the summaries of Misra and Gries).

    Every count is exact as long as there are at most twice `bound` keys. With more keys a count may be too low by
    `error`, which is never above the sum of all amounts divided by `bound`.

    :param bound: how many keys are remembered at least; never more than twice as many.
    """

    def __init__(self, bound: int = KEPT) -> None:
        self._bound = bound
        self._counts: dict[K, float] = {}
        #: By how much a count may be too low at most, also that of a key that was forgotten.
        self.error: float = 0.0

    def add(self, key: K, amount: float = 1) -> None:
        """Count a key.

        :param amount: how much it counts, above 0.
        """
        self._counts[key] = self._counts.get(key, 0) + amount
        if len(self._counts) > 2 * self._bound:
            # Subtract the count of the first key beyond the bound from all counts, and keep those above 0.
            cut = sorted(self._counts.values(), reverse=True)[self._bound]
            self.error += cut
            self._counts = {key: count - cut for key, count in self._counts.items() if count > cut}

    def most(self, number: int) -> list[tuple[K, float]]:
        """Return the keys that count most, with their counts; keys with the same count in the order of their text."""
        return sorted(self._counts.items(), key=lambda item: (-item[1], str(item[0])))[:number]


class Cost:
    """The origins and the rules that cost a crawl most requests, and the requests that ROBOTSTXT_EXEMPT let through."""

    def __init__(self) -> None:
        #: Origins.
        self.origins: TopK[str] = TopK()
        #: Origin, with the local file that decides in place of its own; number of the line; rule.
        self.rules: TopK[tuple[str, int, str]] = TopK()
        #: Entry of ROBOTSTXT_EXEMPT -> how many requests it let through.
        self.exempt: Counter[str] = Counter()

    def refused(self, decision: Decision) -> None:
        """Count a request that may not be fetched."""
        if decision.origin is None:
            return
        self.origins.add(decision.origin)
        if decision.rule is not None:
            source = "" if decision.override is None else f" local file {decision.override}"
            self.rules.add((f"{decision.origin}{source}", decision.rule.line, short(str(decision.rule))))


@dataclass(frozen=True, slots=True)
class CrawlSummary:
    """What robots.txt did to a crawl, for the log and for the stats at its end.

    :param counted: the stats of the crawl.
    :param origins: which origins failed, and why.
    :param slowed: origins by the seconds that their requests were held back.
    """

    counted: Mapping[str, Any]
    origins: OriginLog
    cost: Cost
    slowed: TopK[str]

    def text(self, spider: str) -> str | None:
        """Return the text for the log; ``None`` where there is nothing to say. Lines that would be empty are left out.

        :param spider: its name, since several crawls may write to one log.
        """
        dry, local = self._count(stats.DRY_RUN), self._count(stats.OVERRIDDEN)
        decided = f"{local} {'request was' if local == 1 else 'requests were'}" if local else ""
        sections = (
            ("origins: {}", self._origins()),
            ("requests: {}", self._requests()),
            ("dry run: {} of the forbidden were let through", dry),
            ("rules of pages: {}", self._pages()),
            ("local files: {} decided by ROBOTSTXT_OVERRIDES", decided),
            ("origins that cost most requests{}", _ranked(self.cost.origins, str)),
            ("rules that cost most requests{}", _ranked(self.cost.rules, lambda rule: "{} line {}: {}".format(*rule))),
            ("delays: {}", self._delays()),
            ("origins that were slowed down most{}", _ranked(self.slowed, str, " s")),
            ("unreachable: {}", _all_of(self.origins.unreachable)),
            ("stale: {}", _all_of(self.origins.stale)),
        )
        lines = [line.format(found) for line, found in sections if found]
        return "\n  ".join([HEADING.format(spider=spider), *lines]) if lines else None

    def stats(self) -> Iterator[tuple[str, float]]:
        """Yield the stats that are set at the end of the crawl, with their values."""
        for origin, count in self.cost.origins.most(LISTED):
            yield stats.COSTLIEST_ORIGINS.format(origin=origin), count
        # A file may have changed, so that two rules stood in one line: the one that cost more is set last.
        for (origin, line, _), count in reversed(self.cost.rules.most(LISTED)):
            yield stats.COSTLIEST_RULES.format(origin=origin, line=line), count
        for origin, seconds in self.slowed.most(LISTED):
            yield stats.CRAWL_DELAY_ADDED_BY.format(origin=origin), round(seconds, 3)
        for key, names in (
            (stats.UNREACHABLE_BY, self.origins.unreachable),
            (stats.CACHE_STALE_BY, self.origins.stale),
        ):
            for origin, (count, _) in names.named.items():
                yield key.format(origin=origin), count

    def _origins(self) -> str:
        origins = {item.value: self._count(stats.ORIGINS.format(outcome=item.value)) for item in Outcome}
        open_by = _most(self.origins.unavailable, "other causes", _CAUSES)
        details = {
            Outcome.UNAVAILABLE.value: f"{open_by}: everything is allowed" if open_by else "",
            Outcome.SUCCESSFUL.value: _listed({"stale": self._count(stats.CACHE_STALE_ORIGINS)}),
            Outcome.UNREACHABLE.value: _most(self.origins.causes, "other causes", _CAUSES),
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

    def _pages(self) -> str:
        counts = {
            directive: {name: self._count(stats.PAGE.format(directive=directive, source=name)) for name in sources}
            for directive, sources in PAGE_RULES.items()
        }
        sums = {directive: sum(found.values()) for directive, found in counts.items()}
        return _listed(sums, {directive: _listed(found) for directive, found in counts.items()})

    def _delays(self) -> str:
        sites, capped = self._count(stats.CRAWL_DELAY_SITES), self._count(stats.CRAWL_DELAY_CAPPED)
        if not sites:
            return ""
        at_most = f" ({capped} of them at ROBOTSTXT_CRAWL_DELAY_MAX)" if capped else ""
        longest, added = self._count(stats.CRAWL_DELAY_MAX), self._count(stats.CRAWL_DELAY_ADDED)
        between = f"up to {longest:g} s between two requests, {_number(added)} s added"
        return f"{many(sites, 'site')} paced{at_most}, {between}"

    def _count(self, key: str) -> Any:  # noqa: ANN401 - as Scrapy has it
        return self.counted.get(key, 0)


def _ranked(top: TopK[K], name: Callable[[K], str], unit: str = "") -> str:
    """Return what follows a title: how much may be missing, and a line for each key that counts most."""
    found = [(f"{_number(count)}{unit}", name(key)) for key, count in top.most(LISTED)]
    if not found:
        return ""
    error = f" (each may have cost up to {_number(top.error)}{unit} more)" if top.error else ""
    width = max(len(count) for count, _ in found)
    return "\n    ".join([f"{error}:", *(f"{count:>{width}}  {text}" for count, text in found)])


def _all_of(names: Names) -> str:
    """List names with their texts, and how many more there were."""
    more = f", and {names.more} more" if names.more else ""
    return ", ".join(f"{name} ({short(text)})" for name, (_, text) in names.named.items()) + more


def short(site_text: object) -> str:
    """Escape and shorten what may come from a site, so that it neither acts on a terminal nor fills it."""
    text = printable(str(site_text)[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _number(value: float) -> str:
    """Return ``12``, or ``1.5``: with one decimal at most."""
    return f"{value:.1f}".removesuffix(".0")


def _most(counts: Mapping[str, int], rest: str, number: int) -> str:
    """List the names that count most, and one sum for all others."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{count} {short(name)}" for name, count in ordered[:number]]
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
