"""The summary that a crawl logs at its end, with what cost most requests."""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from scrapy import Spider, signals as scrapy_signals
from scrapy.crawler import Crawler

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import many, short
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.reporting.origin_log import Names, OriginLog
from scrapy_robots_rfc.settings import PAGE_RULES, Settings

logger: logging.Logger = logging.getLogger(__name__)

HEADING = "What robots.txt did to this crawl (spider {spider}):"

# Origins, rules and entries that are listed.
_LISTED = 10
# Causes that stand in brackets.
_CAUSES = 5
#: Origins, and rules, whose costs are remembered at least.
REMEMBERED = 1000


class TopK:
    """Counts keys in bounded memory: forgets those that count least when they become too many.

    These are the summaries of Misra and Gries. Every count is exact as long as there are at most
    twice `bound` keys. With more keys a count may be too low by `error`, which is never above the
    sum of all counts divided by `bound`.

    :param bound: how many keys are remembered at least; never more than twice as many.
    """

    def __init__(self, bound: int = REMEMBERED) -> None:
        self._bound = bound
        self.counts: Counter[str] = Counter()
        #: The most that any count is too low; a forgotten key counts as 0.
        self.error: int = 0

    def add(self, key: str) -> None:
        """Count a key."""
        self.counts[key] += 1
        if len(self.counts) > 2 * self._bound:
            # Subtract the count of the first key beyond the bound from all counts.
            cut = self.counts.most_common(self._bound + 1)[-1][1]
            self.error += cut
            self.counts -= Counter(dict.fromkeys(self.counts, cut))


class Summary:
    """Sums a crawl up when its spider is closed.

    It counts the origins and the rules that cost most requests.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        self._crawler = crawler
        self._log = OriginLog(crawler, settings)
        self._origins = TopK()
        self._rules = TopK()
        crawler.signals.connect(self.refused, signals.request_disallowed)
        crawler.signals.connect(self._closed, scrapy_signals.spider_closed)

    def refused(self, decision: Decision) -> None:
        """Count a request that may not be fetched. A rule of a page is not one of robots.txt."""
        if decision.origin is None or decision.reason is Reason.PAGE:
            return
        self._origins.add(decision.origin)
        rule = decision.rule
        if rule is not None:
            local = "" if decision.override is None else f" local file {decision.override}"
            self._rules.add(f"{decision.origin}{local} line {rule.line}: {short(str(rule))}")

    def _closed(self, spider: Spider) -> None:
        self._log.closed()
        text = self.text(stats.of(self._crawler).get_stats(), self._log, spider.name)
        if text is not None:
            logger.info(text, extra={"spider": spider})

    def text(self, counted: Mapping[str, Any], log: OriginLog, spider: str) -> str | None:
        """Return the text for the log, without lines that would be empty; ``None``: all would be.

        :param counted: the stats of the crawl.
        :param spider: its name, since several crawls may write to one log.
        """
        counts = Counter(counted)
        sections = (
            ("origins: {}", _origins(counts, log)),
            ("requests: {}", _requests(counts)),
            ("dry run: {} of the forbidden were let through", counts[stats.DRY_RUN]),
            ("rules of pages: {}", _pages(counts)),
            ("decided by local files of ROBOTS_OVERRIDES: {}", counts[stats.OVERRIDDEN]),
            ("origins that cost most requests{}", _ranked(self._origins)),
            ("rules that cost most requests{}", _ranked(self._rules)),
            ("delays: {}", _delays(counts)),
            ("unreachable: {}", _all_of(log.unreachable)),
            ("stale: {}", _all_of(log.stale)),
        )
        lines = [line.format(found) for line, found in sections if found]
        return "\n  ".join([HEADING.format(spider=spider), *lines]) if lines else None


def exempted(counted: Mapping[str, Any]) -> dict[str, int]:
    """Return entry of ROBOTS_EXEMPT -> requests that it let pass, by the stats of a crawl."""
    begin = stats.EXEMPTED_BY.partition("{")[0]
    return {
        str(name).removeprefix(begin): count
        for name, count in counted.items()
        if str(name).startswith(begin)
    }


def _origins(counts: Counter[str], log: OriginLog) -> str:
    stale = counts[stats.ORIGINS_STALE]
    names = {
        Outcome.SUCCESSFUL: f"successful ({stale} stale)" if stale else "successful",
        **{
            item: item.explained(_by_cause(log.causes[item]))
            for item in (Outcome.UNAVAILABLE, Outcome.UNREACHABLE)
        },
    }
    return _listed(
        (counts[stats.ORIGINS.format(outcome=item.value)], names.get(item, item.value), "")
        for item in Outcome
    )


def _requests(counts: Counter[str]) -> str:
    forbidden = _listed(
        (counts[stats.FORBIDDEN_BY.format(reason=item.value)], item.value, "") for item in Reason
    )
    exempt = exempted(counts)
    rows = [
        (counts[stats.ALLOWED], "allowed", ""),
        (counts[stats.FORBIDDEN], "forbidden", forbidden),
        (counts[stats.UNDECIDED], "undecided", ""),
        (sum(exempt.values()), "exempt", _most(exempt, "of other sites", _LISTED)),
    ]
    return _listed(rows)


def _pages(counts: Counter[str]) -> str:
    rows = []
    for directive, sources in PAGE_RULES.items():
        keys = {source: stats.PAGE.format(directive=directive, source=source) for source in sources}
        dropped = _listed((counts[key], source, "") for source, key in keys.items())
        rows.append((sum(counts[key] for key in keys.values()), directive, dropped))
    return _listed(rows)


def _delays(counts: Counter[str]) -> str:
    sites = counts[stats.CRAWL_DELAY_SITES]
    added = f"{counts[stats.CRAWL_DELAY_ADDED]:.1f}".removesuffix(".0")
    return f"{many(sites, 'site')} paced, {added} s added" if sites else ""


def _ranked(top: TopK) -> str:
    """Return what follows a title: how much may be missing, and a line for each of the first."""
    found = top.counts.most_common(_LISTED)
    if not found:
        return ""
    error = f" (each may have cost up to {top.error} more)" if top.error else ""
    width = len(str(found[0][1]))
    return "\n    ".join([f"{error}:", *(f"{count:>{width}}  {text}" for text, count in found)])


def _all_of(names: Names) -> str:
    """List names with their texts, and how many more there were."""
    more = f", and {names.more} more" if names.more else ""
    return ", ".join(f"{name} ({short(text)})" for name, text in names.named.items()) + more


def _most(counts: Mapping[str, int], rest: str, number: int) -> str:
    """List the names that count most, and one sum for all others."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = [f"{count} {short(name)}" for name, count in ordered[:number]]
    others = sum(count for _, count in ordered[number:])
    return ", ".join([*named, f"{others} {rest}"] if others else named)


def _by_cause(counts: Mapping[str, int]) -> str:
    """Name the only cause, or the most frequent ones with their counts."""
    return short(next(iter(counts))) if len(counts) == 1 else _most(counts, "other causes", _CAUSES)


def _listed(rows: Iterable[tuple[int, str, str]]) -> str:
    """Return "3 rule, 2 unreachable (2 503)" of counts, names and details; 0 is left out."""
    return ", ".join(
        f"{count} {name}{f' ({detail})' if detail else ''}" for count, name, detail in rows if count
    )
