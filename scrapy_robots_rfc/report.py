"""What a crawl says of its origins: that a robots.txt fails and what follows, how that ended, and all in one line.

In here: words, and the counts of origins that they are made of. What governs is decided elsewhere.
"""

from __future__ import annotations

import logging
from collections import Counter
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.policy.access import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from scrapy_robots_rfc.policy.origin import Origin

logger = logging.getLogger(__name__)

#: What follows from an unreachable file, by what governs then.
FOLLOWS = {
    Outcome.SUCCESSFUL: "an earlier copy is obeyed",
    Outcome.UNREACHABLE: "none of its pages is fetched",
    Outcome.UNAVAILABLE: "it has been for so long that it counts as unavailable, and all of its pages may be fetched",
}

#: The same where nothing is dropped.
FOLLOWS_DRY = {**FOLLOWS, Outcome.UNREACHABLE: "all of its pages are forbidden, and fetched: this is a dry run"}

#: Causes that are counted by name: what a site sends can be part of one.
KEPT_CAUSES = 100

#: Causes that are named; the others are summed up.
_NAMED = 5


class Report:
    """Says, and counts, what becomes of origins.

    :param count: adds one to a stat.
    :param dry_run: whether nothing is dropped.
    """

    def __init__(self, count: Callable[[str], None], *, dry_run: bool = False) -> None:
        self._count = count
        self._follows = FOLLOWS_DRY if dry_run else FOLLOWS
        #: Why origins were unreachable -> how many.
        self.causes: Counter[str] = Counter()
        self._waiting: dict[Origin, str] = {}

    def failed(self, origin: Origin, cause: str, outcome: Outcome, again: float, attempts: int) -> None:
        """Warn that a file cannot be reached.

        :param outcome: what governs.
        :param again: in how many seconds it is asked for again.
        :param attempts: how many more are made while its requests wait.
        """
        follows = self._follows[outcome]
        if attempts:
            follows = f"its requests wait for up to {attempts} more attempts; if they fail, {follows}"
        message = "%s is unreachable (%s): %s; it is asked for again in %g s"
        logger.warning(message, origin.robots_url, cause, follows, round(again, 2))

    def again(self, origin: Origin, cause: str) -> None:
        """An attempt has failed, and another one is to come."""
        self._waiting[origin] = cause

    def closed(self) -> None:
        """Count the origins that the end of the crawl found waiting for another attempt: they were unreachable."""
        for cause in self._waiting.values():
            self._unreachable(cause)
        self._waiting.clear()

    def concluded(self, origin: Origin, cause: str, outcome: Outcome, *, changed: bool, attempts: int) -> None:
        """Count what governs an origin, and say how several attempts ended.

        :param changed: whether something else governed before, or nothing.
        :param attempts: how many there were.
        """
        self._waiting.pop(origin, None)
        if changed and outcome is Outcome.UNREACHABLE:
            self._unreachable(cause)
        elif changed:
            self._count(stats.ORIGINS.format(outcome=outcome.value))
        if attempts < 2:
            return
        if outcome is Outcome.UNREACHABLE:
            logger.info(
                "%s stays unreachable (%s) after %d attempts: %s",
                origin.robots_url,
                cause,
                attempts,
                self._follows[outcome],
            )
        else:
            self._count(stats.RECOVERED)
            logger.info("%s can be reached again (%s)", origin.robots_url, cause)

    def _unreachable(self, cause: str) -> None:
        self._count(stats.ORIGINS.format(outcome=Outcome.UNREACHABLE.value))
        known = cause in self.causes or len(self.causes) < KEPT_CAUSES
        self.causes[cause if known else "other"] += 1


def summary(counted: Mapping[str, Any], causes: Mapping[str, int]) -> str | None:
    """Return the line; ``None`` where there is nothing to say.

    :param counted: the stats of the crawl.
    :param causes: why origins were unreachable -> how many.
    """
    origins = {item.value: counted.get(stats.ORIGINS.format(outcome=item.value), 0) for item in Outcome}
    dropped = {item.value: counted.get(stats.FORBIDDEN_BY.format(reason=item.value), 0) for item in Reason}
    exempt = _exempt(counted)
    requests = {
        "allowed": counted.get(stats.ALLOWED, 0),
        "forbidden": counted.get(stats.FORBIDDEN, 0),
        "undecided": counted.get(stats.UNDECIDED, 0),
        "exempt": sum(exempt.values()),
    }
    if not any(origins.values()) and not any(requests.values()):
        return None
    stale = {"stale": counted.get(stats.CACHE_STALE_ORIGINS, 0)}
    details = {
        Outcome.SUCCESSFUL.value: _listed(stale),
        Outcome.UNREACHABLE.value: _most(causes, "other causes"),
        "forbidden": _listed(dropped),
        "exempt": _most(exempt, "of other sites"),
    }
    line = f"robots.txt of origins: {_listed(origins, details) or 0}; requests: {_listed(requests, details) or 0}"
    fetched = counted.get(stats.DRY_RUN, 0)
    return f"{line}; dry run: {fetched} of the forbidden were let through" if fetched else line


def _exempt(counted: Mapping[str, Any]) -> dict[str, int]:
    """Return the entries of ROBOTSTXT_EXEMPT that were used, and how often."""
    before = stats.EXEMPTED_BY.format(site="")
    return {key.removeprefix(before): count for key, count in counted.items() if key.startswith(before)}


def _most(counts: Mapping[str, int], rest: str) -> str:
    """List those that count most, and all others in one."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    named = dict(ordered[:_NAMED])
    others = sum(count for _, count in ordered[_NAMED:])
    return _listed({**named, rest: others} if others else named)


def _listed(counts: Mapping[str, int], details: Mapping[str, str] | None = None) -> str:
    """Return "3 rule, 2 unreachable (2 503)"; what is 0 is left out."""
    parts = []
    for name, count in counts.items():
        if count:
            detail = (details or {}).get(name)
            parts.append(f"{count} {name}{f' ({detail})' if detail else ''}")
    return ", ".join(parts)
