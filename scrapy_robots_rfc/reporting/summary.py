"""The summary of a crawl, which is logged at its end."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.text import pluralize, ranked, shorten
from scrapy_robots_rfc.policy.access import REDIRECTED, Outcome
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.settings import PAGE_RULES

HEADING = "robots.txt summary (spider {spider}):"

# Maximum number of sites, rules or entries to list.
_LISTED = 10
# Maximum number of causes shown in parentheses.
_CAUSES = 5
# Maximum number of causes to count separately. Sites can produce any number of them.
_MAX_CAUSES = 100
# Maximum number of sites to count in addition to those that are named.
_MAX_SITES = 100_000
#: Minimum number of sites, and of rules, whose counts are remembered.
REMEMBERED = 1000
#: Maximum number of (rule, site) pairs to remember.
MAX_PAIRS = 100_000


class Sites:
    """Names the first few sites, each with its latest text, and counts the others.

    A site is counted once, however often it is added.

    :param most: maximum number of sites to name.
    """

    def __init__(self, most: int = _LISTED) -> None:
        self._most = most
        self._texts: dict[str, str] = {}
        self._others: set[int] = set()  # hashes

    def add(self, site: str, text: str = "") -> None:
        """Add a site, or replace its text."""
        if site in self._texts or len(self._texts) < self._most:
            self._texts[site] = text
        elif len(self._others) < _MAX_SITES:
            self._others.add(hash(site))

    def __len__(self) -> int:
        return len(self._texts) + len(self._others)

    def __str__(self) -> str:
        texts = [
            f"{shorten(site)} ({shorten(text)})" if text else shorten(site)
            for site, text in self._texts.items()
        ]
        more = f" and {len(self._others):,} more" if self._others else ""
        return ", ".join(texts) + more


class TopK:
    """Counts keys in bounded memory, forgetting the rarest ones if there are too many.

    This is the Misra-Gries algorithm. Counts are exact for up to twice `bound` keys. With more
    keys, a count may be too low by up to `error`, which is at most the sum of all counts divided
    by `bound`.

    :param bound: minimum number of keys to remember. The maximum is twice as high.
    """

    def __init__(self, bound: int = REMEMBERED) -> None:
        self._bound = bound
        self.counts: Counter[str] = Counter()
        #: Maximum error in any count. Forgotten keys count as 0.
        self.error: int = 0

    def add(self, key: str) -> bool:
        """Count a key. Return True if any keys were forgotten."""
        self.counts[key] += 1
        if len(self.counts) <= 2 * self._bound:
            return False
        # Subtract the count for the first key beyond the bound from all counts.
        cut = self.counts.most_common(self._bound + 1)[-1][1]
        self.error += cut
        self.counts -= Counter(dict.fromkeys(self.counts, cut))
        return True


class RuleCounts:
    """Counts the requests and sites for each rule in bounded memory."""

    def __init__(self) -> None:
        self.requests = TopK()
        # Hashes of the sites where each rule was found.
        self._sites: defaultdict[str, set[int]] = defaultdict(set)
        self._pairs = 0
        # The first place where each rule was found.
        self._places: dict[str, str] = {}

    def add(self, rule: str, site: str, place: str) -> None:
        """Count a request that a rule disallowed.

        :param place: the rule's site and line number.
        """
        sites = self._sites[rule]
        if self._pairs < MAX_PAIRS and hash(site) not in sites:
            sites.add(hash(site))
            self._pairs += 1
        self._places.setdefault(rule, place)
        if self.requests.add(rule):
            for forgotten in self._sites.keys() - self.requests.counts.keys():
                self._pairs -= len(self._sites.pop(forgotten))
                del self._places[forgotten]

    def text(self, rule: str) -> str:
        """Return a rule followed by its place, or by the number of sites if there are several."""
        sites = len(self._sites[rule])
        if sites <= 1:
            return f"{rule} ({self._places[rule]})"
        least = "at least " if self._pairs >= MAX_PAIRS else ""
        return f"{rule} ({least}{sites:,} sites)"


class Summary:
    """Collects what the stats don't contain, and formats it together with them."""

    def __init__(self) -> None:
        self._dropped = TopK()
        self._rules = RuleCounts()
        self._causes: defaultdict[Outcome, Counter[str]] = defaultdict(Counter)
        self._unreachable = Sites()
        # The causes at sites whose pages were still waiting for another attempt at the end.
        self._waiting: Counter[str] = Counter()
        #: The names that the crawl obeyed robots.txt as, and where they are set.
        self.agent: str = ""
        #: The sites for which an earlier copy was used, and why.
        self.stale: Sites = Sites()

    def disallowed(
        self, decision: Decision, site: str, why: str = "", line: int | None = None
    ) -> None:
        """Count a request that robots.txt disallows; see `signals.py`."""
        self._dropped.add(site)
        rule = decision.rule
        if rule is not None or decision.reason is Reason.USE:
            # A refused use has a text such as "robots.txt line 3: refuses search (...)".
            text = why[why.find("refuses ") :] if rule is None else str(rule)
            local = "" if decision.override is None else f" local file {decision.override}"
            number = line if rule is None else rule.line
            place = f"{site}{local}" if number is None else f"{site}{local} line {number}"
            self._rules.add(shorten(text), site, place)

    def concluded(
        self, origin: Origin, outcome: Outcome, cause: str, *, is_final: bool = True
    ) -> None:
        """Count the cause of what now applies to an origin's pages.

        :param is_final: False if the pages were still waiting when the spider closed.
        """
        if outcome is Outcome.UNREACHABLE:
            self._unreachable.add(str(origin), cause)
        cause = cause.partition(REDIRECTED)[0]  # count the same failure at any URL together
        causes = self._causes[outcome] if is_final else self._waiting
        is_known = cause in causes or len(causes) < _MAX_CAUSES
        causes[cause if is_known else "other"] += 1

    def text(self, counted: Mapping[str, Any], spider: str) -> str | None:
        """Return the summary, or `None` if there is nothing to report.

        :param counted: the crawl's stats.
        :param spider: the spider's name, because several crawls may share a log.
        """
        counts = Counter(counted)
        sections = (
            ("sites: {}", _origins(counts, self._causes, self._waiting)),
            ("requests: {}", _requests(counts)),
            ("dry run: {} sent although disallowed", counts[stats.DRY_RUN]),
            ("page rules: {}", _pages(counts)),
            ("decided by local files (ROBOTS_OVERRIDES): {}", counts[stats.OVERRIDDEN]),
            (
                "sites with the most disallowed requests{}",
                _ranked(self._dropped, str),
            ),
            (
                "rules with the most disallowed requests{}",
                _ranked(self._rules.requests, self._rules.text),
            ),
            ("delays: {}", _delays(counts)),
            ("unreachable: {}", self._unreachable),
            ("stale: {}", self.stale),
        )
        lines = [line.format(value) for line, value in sections if value]
        if not lines:
            return None
        if self.agent:
            lines.append(f"obeyed as: {self.agent}")
        return "\n  ".join([HEADING.format(spider=spider), *lines])


def exempted(counted: Mapping[str, Any]) -> dict[str, int]:
    """Return the number of requests exempted by each ROBOTS_EXEMPT entry, from the stats."""
    prefix = stats.EXEMPTED_BY.partition("{")[0]
    return {
        str(name).removeprefix(prefix): count
        for name, count in counted.items()
        if str(name).startswith(prefix)
    }


def _origins(
    counts: Counter[str], causes: Mapping[Outcome, Counter[str]], waiting: Counter[str]
) -> str:
    stale = counts[stats.ORIGINS_STALE]
    names = {
        Outcome.SUCCESSFUL: f"successful ({stale} stale)" if stale else "successful",
        **{
            item: item.explained(_by_cause(causes[item]))
            for item in (Outcome.UNAVAILABLE, Outcome.UNREACHABLE)
        },
    }
    number = {item: counts[stats.ORIGINS.format(outcome=item.value)] for item in Outcome}
    number[Outcome.UNREACHABLE] -= waiting.total()
    still = f"unreachable so far ({_by_cause(waiting)}), so pages were waiting"
    rows = [(number[item], names.get(item, item.value), "") for item in Outcome]
    return _listed([*rows, (waiting.total(), still, "")], "; ")


def _requests(counts: Counter[str]) -> str:
    disallowed = _listed(
        (counts[stats.FORBIDDEN_BY.format(reason=item.value)], item.value, "") for item in Reason
    )
    exempt = exempted(counts)
    rows = [
        (counts[stats.ALLOWED], "allowed", ""),
        (counts[stats.FORBIDDEN], "disallowed", disallowed),
        (counts[stats.UNDECIDED], "undecided", ""),
        (sum(exempt.values()), "exempt", _most(exempt, "on other sites", _LISTED)),
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
    added = f"{counts[stats.CRAWL_DELAY_ADDED]:,.1f}".removesuffix(".0")
    parallel = " in total, but sites wait at the same time" if sites > 1 else ""
    return f"{pluralize(sites, 'site')} paced, {added} s added{parallel}" if sites else ""


def _ranked(top: TopK, text: Callable[[str], str]) -> str:
    """Return a line for each of the highest counts, and the possible error if there is one.

    Lines with equal counts are sorted by their text.

    :param text: returns the text for a key.
    """
    rows = sorted(top.counts.items(), key=lambda row: (-row[1], text(row[0])))[:_LISTED]
    if not rows:
        return ""
    error = f" (each count may be too low by up to {top.error:,})" if top.error else ""
    width = len(f"{rows[0][1]:,}")
    lines = [f"{count:>{width},}  {text(key)}" for key, count in rows]
    more = len(top.counts) - len(rows)
    if more or top.error:
        lines.append("and more" if top.error else f"and {more:,} more")
    return "\n    ".join([f"{error}:", *lines])


def _most(counts: Mapping[str, int], rest: str, number: int) -> str:
    """Return the names with the highest counts, plus the total for the rest."""
    ordered = ranked(counts)
    named = [f"{count:,}x {shorten(name)}" for name, count in ordered[:number]]
    others = sum(count for _, count in ordered[number:])
    return ", ".join([*named, f"{others:,}x {rest}"] if others else named)


def _by_cause(counts: Mapping[str, int]) -> str:
    """Return the only cause, or the most frequent causes with their counts."""
    if len(counts) == 1:
        return shorten(next(iter(counts)))
    return _most(counts, "other", _CAUSES)


def _listed(rows: Iterable[tuple[int, str, str]], separator: str = ", ") -> str:
    """Join (count, name, details) rows, as in "3 rule, 2 unreachable (2x 503)".

    Rows with a count of 0 are omitted.
    """
    texts = []
    for count, name, detail in rows:
        if count:
            texts.append(f"{count:,} {name}" + f" ({detail})" * bool(detail))
    return separator.join(texts)
