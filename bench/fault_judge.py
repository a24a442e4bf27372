"""Whether a crawl of `bench.faults` obeyed.

Judged by the servers' logs and RFC 9309, without code of the package.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bench.fault_answers import ANSWERS, CLOSED, EITHER, OPEN
from bench.fault_order import is_exact, overtaken

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.fault_plan import Plan, Site
    from bench.fault_servers import Known, Seen

#: What is wrong with a crawl, and what that means.
WRONG = {
    "violation": "a disallowed page was fetched",
    "undecided": "a page was fetched before anything was known",
    "pace": "a Crawl-delay was not obeyed",
    "over-blocked": "an allowed page was refused",
    "lost": "a request came to no end",
    "doubled": "a request came to more than one end",
    "order": "a request left before another one that comes first",
    "late": "the crawl did not close within a second",
    "hung": "the crawl did not end",
    "error": "an error of the package was logged, or the process failed",
}
# Seconds: timers may be early by some milliseconds.
_EARLY = 0.01
# Seconds in which the crawl may not have read yet what a server has sent.
_READING = 0.3
# Seconds in which a crawl closes, once it is asked to and no page is under way any more.
_CLOSING = 1.0
# Seconds after which a page that ends in a reset is asked for again by an HTTP library.
_RESENT = 0.15
# Seconds that a request may wait with a decision that another fetch has overtaken.
_OVERTAKEN = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: a key of `WRONG`, and words."""

    kind: str
    text: str


@dataclass
class Judged:
    """What came of a crawl.

    :param pages: page requests that servers saw and that were judged, by the first answer for their
        robots.txt.
    :param refused: requests that were disallowed, by the same.
    :param exempt: page requests that were not to be judged.
    :param interrupted: whether a signal ended a process of it.
    :param ordered: whether its order was judged.
    """

    seed: int
    pages: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    exempt: int = 0
    left: int = 0
    interrupted: bool = False
    ordered: bool = False
    findings: list[Finding] = field(default_factory=list)


@dataclass(frozen=True)
class Logs:
    """What the servers and the crawl's process wrote down.

    :param reported: lines of the process, see `fault_crawl`.
    :param errors: what it wrote to its standard error.
    """

    seen: Sequence[Seen]
    known: Sequence[Known]
    reported: Sequence[dict[str, Any]]
    errors: str = ""
    code: int | None = 0


def matches(site: Site, path: str) -> bool:
    """Whether the rules of a site allow a path.

    The longest pattern that matches decides, Allow where two are equal.
    """
    best = (0, True)
    for rule in site.rules:
        key, _, pattern = rule.partition(": ")
        end = "$" if pattern.endswith("$") else ""
        regex = ".*".join(map(re.escape, pattern.removesuffix("$").split("*"))) + end
        if pattern and re.match(regex, path, re.DOTALL):
            best = max(best, (len(pattern), key == "Allow"))
    return best[1]


class Judge:
    """Judges one crawl.

    :param logs: all that is known of it.
    """

    def __init__(self, plan: Plan, logs: Logs) -> None:
        self._plan, self._logs = plan, logs
        self._start = min((one.time for one in logs.seen), default=0.0)
        self._judged = Judged(plan.seed)

    def judge(self) -> Judged:
        """Return what came of it."""
        found, logs = self._judged, self._logs
        found.interrupted = any(one["process"] for one in logs.reported)
        found.ordered = is_exact(self._plan)
        found.findings += [
            *self._pages(),
            *self._paces(),
            *self._refusals(),
            *self._ends(),
            *self._doubled(),
            *self._late(),
            *(Finding("order", text) for text in overtaken(self._plan, logs.reported, logs.seen)),
            *self._errors(),
        ]
        return found

    def _meaning(self, answer: str) -> str:
        one = ANSWERS[answer]
        return CLOSED if one.status in self._plan.unreachable else one.meaning

    def _answers(self, site: int, until: float) -> list[Known]:
        """The answers by which the pages of a site might be decided."""
        return [
            one
            for one in self._logs.known
            if one.site == site and one.time < until and self._meaning(one.answer) != CLOSED
        ]

    def _allows(self, answer: Known, path: str) -> bool:
        return self._meaning(answer.answer) == OPEN or matches(self._plan.sites[answer.site], path)

    def _said(self, site: int, path: str, at: float) -> str:
        answers = [
            f"{one.answer} at {one.time - self._start:.3f}"
            for one in self._logs.seen
            if one.site == site and one.page is None
        ]
        return (
            f"site {site} {path} at {at - self._start:.3f} s; robots.txt was asked for:"
            f" {', '.join(answers) or 'never'}"
        )

    def _pages(self) -> Iterator[Finding]:
        for one in self._logs.seen:
            if one.page is None:
                continue
            if one.exempt:
                self._judged.exempt += 1
                continue
            site = self._plan.sites[one.site]
            self._judged.pages[site.script[0]] += 1
            path = site.pages[one.page].path
            answers = self._answers(one.site, one.time)
            if not answers:
                yield Finding("undecided", self._said(one.site, path, one.time))
            elif not any(self._allows(answer, path) for answer in answers):
                yield Finding("violation", f"{self._said(one.site, path, one.time)}; {site.rules}")

    def _paces(self) -> Iterator[Finding]:
        for number, site in enumerate(self._plan.sites):
            reported = [
                one.time
                for one in self._answers(number, float("inf"))
                if self._meaning(one.answer) not in {OPEN, EITHER}
            ]
            if not site.pace or not reported or not self._paced(reported[0], number):
                continue
            seen = [one for one in self._logs.seen if one.site == number]
            since = max(
                (one.time for one in seen if one.page is None and one.time < reported[0]),
                default=reported[0],
            )
            for before, after in self._neighbours(seen):
                gap = after.time - before.time
                if before.time < since or gap >= site.pace - _EARLY or self._is_early(before):
                    continue
                if not self._resent(before, after) and not self._left_before(after, before):
                    what = "robots.txt" if before.page is None else "a page"
                    yield Finding(
                        "pace",
                        f"{gap:.3f} s after {what}, {site.pace:g} are asked for:"
                        f" {self._said(number, '', after.time)}",
                    )

    def _is_early(self, exempt: Seen) -> bool:
        """Whether an exempt page was sent when its process knew nothing of the site's pace.

        A resumed crawl reads the file again, from its store, for the first page that is judged.
        """
        if not exempt.exempt:
            return False
        opened = [one for one in self._logs.reported if one["event"] == "opened"]
        began = max((one["time"] for one in opened if one["time"] <= exempt.time), default=0.0)
        judged = {
            one["number"]
            for one in self._logs.reported
            if one["event"] == "yielded" and one["site"] == exempt.site and not one["exempt"]
        }
        known = [one.time for one in self._logs.known if one.site == exempt.site]
        known += [
            one["time"]
            for one in self._logs.reported
            if one["event"] in {"left", "disallowed"} and one["number"] in judged
        ]
        return exempt.time < min((at for at in known if at >= began), default=began) + _READING

    def _neighbours(self, seen: Sequence[Seen]) -> Iterator[tuple[Seen, Seen]]:
        """Yield each page that waits for its turn, with what came before; exempt ones do not wait.

        Behind an exempt one it is compared with the last other one, too.
        """
        last: Seen | None = None
        for before, after in pairwise(seen):
            if not before.exempt:
                last = before
            if after.page is None or after.exempt:
                continue
            yield before, after
            if last is not None and last is not before:
                yield last, after

    def _left_before(self, page: Seen, exempt: Seen) -> bool:
        """Whether a page had its turn before an exempt one was sent, which waits for no turn."""
        popped = [
            one["time"]
            for one in self._logs.reported
            if one["event"] == "popped" and one["number"] == page.number and one["time"] < page.time
        ]
        return exempt.exempt and bool(popped) and popped[-1] <= exempt.time

    def _resent(self, before: Seen, after: Seen) -> bool:
        """Whether an HTTP library sent a request again whose connection was reset.

        No middleware hears of that; Twisted can be asked not to do it, aiohttp cannot.
        """
        same = (before.number, before.page) == (after.number, after.page)
        soon = after.time - before.time < _RESENT
        return self._plan.runtime == "none" and same and soon and before.answer == "reset"

    def _paced(self, since: float, site: int) -> bool:
        """Whether no answer that says nothing of a pace came first."""
        return not any(
            self._meaning(one.answer) in {OPEN, EITHER} for one in self._answers(site, since)
        )

    def _refusals(self) -> Iterator[Finding]:
        proxies = {
            one["number"]: one["proxy"] for one in self._logs.reported if one["event"] == "yielded"
        }
        for one in self._logs.reported:
            if one["event"] != "disallowed" or one["site"] is None:
                continue
            number, path, at = one["site"], one["path"], one["time"]
            self._judged.refused[self._plan.sites[number].script[0]] += 1
            if proxies.get(one["number"]) in {"dead", "407", "hang"} or self._is_local(number, at):
                continue
            why = self._over(number, path, at, one["reason"])
            if why:
                yield Finding(
                    "over-blocked", f"{why} ({one['reason']}): {self._said(number, path, at)}"
                )

    def _is_local(self, site: int, until: float) -> bool:
        """Whether a part of the user's meddled with a robots.txt, or with where it redirects to."""
        away = any("away" in name for name in self._plan.sites[site].script)
        return any(
            one["event"] == "local" and (away or one["site"] == site) and one["time"] < until
            for one in self._logs.reported
        )

    def _over(self, number: int, path: str, at: float, reason: str) -> str:
        """Say why a page should not have been refused; nothing: an empty string."""
        site, answers = self._plan.sites[number], self._answers(number, at)
        if reason == "rule":
            return (
                ""
                if any(not self._allows(answer, path) for answer in answers)
                else "no rule disallows it"
            )
        late = 0.0 if self._plan.settings["ROBOTS_UNREACHABLE_TTL"] > 10 else _OVERTAKEN
        sure = [
            one for one in answers if self._meaning(one.answer) != EITHER and one.time < at - late
        ]
        if any(self._allows(one, path) for one in sure):
            return "its robots.txt could be reached"
        asked = [
            one.answer
            for one in self._logs.seen
            if one.site == number and one.page is None and one.time < at
        ]
        # Attempts are shared among routes of which some fail; a 407 says nothing of the site, and
        # is not asked again.
        routes = any(one.get("proxy") for one in self._logs.reported)
        wanted = 1 if routes or "407" in asked else self._plan.attempts
        if routes and self._plan.runtime == "none":
            wanted = 0  # a proxy that hangs takes connections of all sites (docs/limits.md)
        if len(asked) < wanted and not site.down and not answers:
            return f"{len(asked)} of {wanted} attempts"
        return ""

    @property
    def _complete(self) -> bool:
        """Whether the crawl came to its end, and no process of it was killed or closed early."""
        closed = [one["reason"] for one in self._logs.reported if one["event"] == "closed"]
        processes = 1 + max((one["process"] for one in self._logs.reported), default=0)
        return closed == ["shutdown"] * (processes - 1) + ["finished"]

    def _ends(self) -> Iterator[Finding]:
        last = max((one["process"] for one in self._logs.reported), default=0)
        closed = [
            one
            for one in self._logs.reported
            if one["event"] == "closed" and one["process"] == last
        ]
        if not closed and not self._killed(last):
            if not self._spoiled:
                yield Finding("hung", "the spider was not closed")
            return
        ends = {"fetched", "failed", "disallowed", "meddled"}
        reached = {
            (one.site, self._plan.sites[one.site].pages[one.page].path)
            for one in self._logs.seen
            if one.page is not None
        }
        reached |= {
            (one["site"], one["path"]) for one in self._logs.reported if one["event"] in ends
        }
        ended = {one["number"] for one in self._logs.reported if one["event"] in ends}
        ended |= {
            one["number"]
            for one in self._logs.reported
            if one["event"] == "duplicate" and (one["site"], one["path"]) in reached
        }
        for one in self._logs.reported:
            if one["event"] == "failed" and one["kind"] == "RobotsUndecided" and self._complete:
                yield Finding(
                    "lost",
                    f"undecided at the end: {self._said(one['site'], one['path'], one['time'])}",
                )
            if one["event"] != "yielded" or one["number"] in ended:
                continue
            if self._complete:
                yield Finding(
                    "lost",
                    f"request {one['number']}: {self._said(one['site'], one['path'], one['time'])}",
                )
            else:
                self._judged.left += 1

    def _killed(self, process: int) -> bool:
        """Whether a process was killed, so that it could not close its spider."""
        signs = [interruption.sign for interruption in self._plan.interruptions]
        return signs[process : process + 1] == ["SIGKILL"]

    def _doubled(self) -> Iterator[Finding]:
        """Requests with more than one callback or errback. A killed crawl may repeat some."""
        if any(map(self._killed, range(len(self._plan.interruptions)))):
            return
        ends = Counter(
            one["number"] for one in self._logs.reported if one["event"] in {"fetched", "failed"}
        )
        for number, times in ends.items():
            if times > 1:
                yield Finding("doubled", f"request {number}: {times} times")

    def _late(self) -> Iterator[Finding]:
        """Crawls that close late. What the downloader has under way may end first."""
        reported = self._logs.reported
        for end in (one for one in reported if one["event"] == "closed"):
            events = [one for one in reported if one["process"] == end["process"]]
            ends = {"asked to end", "left", "fetched", "failed"}
            since = max(
                (one["time"] for one in events if one["event"] in ends), default=end["time"]
            )
            if end["time"] - since > _CLOSING:
                yield Finding("late", f"closed ({end['reason']}) {end['time'] - since:.2f} s later")

    def _errors(self) -> Iterator[Finding]:
        if self._logs.code is None:
            if not self._spoiled:
                why = f"the process did not end in time: {self._logs.errors[:1500]}"
                yield Finding("hung", why)
            return  # what is left is where its threads stood
        if self._logs.code and self._logs.code != -signal.SIGKILL:
            yield Finding("error", f"exit code {self._logs.code}: {self._logs.errors[-1500:]}")
        for record in re.split(r"^(?=\d{4}-\d\d-\d\d )", self._logs.errors, flags=re.MULTILINE):
            if self._is_damaged(record):
                continue
            ours = (
                "scrapy_robots_rfc" in record and "Traceback" in record
            )  # a line without one is meant to be read
            if (ours or "never retrieved" in record) and not re.search(
                r"\bDrawn\b|StopDownload|Meddler", record
            ):
                yield Finding("error", record[-1500:])

    def _is_damaged(self, record: str) -> bool:
        """Whether Scrapy's own queue complains of files that a killed process has left."""
        return self._spoiled and "queuelib" in record

    @property
    def _spoiled(self) -> bool:
        """Whether a killed process has left files of Scrapy's own queue in pieces.

        Such a queue may say that it has a request, and not give it: the crawl goes on for ever.
        """
        killed = any(map(self._killed, range(len(self._plan.interruptions))))
        return killed and self._plan.scheduler == "user-queue"
