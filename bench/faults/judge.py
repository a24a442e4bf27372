"""Judge a crawl by the events of its servers and processes, and by RFC 9309.

The judge shares no code with the package. Servers and crawls measure how late their event loops
are, and each limit in seconds grows by that, so no finding depends on the speed of the machine.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from bench.faults.answers import ANSWERS, CLOSED, EITHER, OPEN, RULES
from bench.faults.log import Event, Log
from bench.faults.plan import ROBOTS_TIMEOUT, Plan, Site

#: Kinds of findings.
WRONG = {
    "violation": "a disallowed page was fetched",
    "undecided": "a page was fetched before its robots.txt was known",
    "pace": "a Crawl-delay was not obeyed",
    "over-blocked": "an allowed page was dropped",
    "lost": "a request had no outcome",
    "doubled": "a request had more than one outcome",
    "order": "a request was handed out before another that should come first",
    "late": "the crawl did not close within a second",
    "hung": "the crawl did not end, or made no progress",
    "error": "the package logged a traceback, or the process failed",
}
#: A number of requests.
KILLED = "taken by SIGKILL (in flight)"
# How many seconds timers may be early.
_EARLY = 0.02
# Maximum seconds of a close, from the request to close or from the last page in progress.
_CLOSING = 1.0
# Seconds after which a client must know an answer that was sent.
_ARRIVAL = 0.1
# Seconds for which a request may keep a decision that a later fetch has changed.
_OVERTAKEN = 5.0
_ENDS = ("fetched", "failed", "disallowed", "meddled", "too late")

#: A key of `WRONG`, and a description.
Finding = tuple[str, str]


@dataclass
class Judged:
    """The result of a crawl.

    :param counts: numbers of requests and crawls.
    :param closing: seconds of the slowest close.
    """

    seed: int
    counts: Counter[str] = field(default_factory=Counter)
    closing: float = 0
    findings: list[Finding] = field(default_factory=list)


def matches(site: Site, path: str) -> bool:
    """Return whether the rules of a site allow a path.

    The longest matching pattern decides; Allow wins a tie.
    """
    best = (0, True)
    for rule in site.rules:
        key, _, pattern = rule.partition(": ")
        end = "$" if pattern.endswith("$") else ""
        regex = ".*".join(map(re.escape, pattern.removesuffix("$").split("*"))) + end
        if pattern and re.match(regex, path, re.DOTALL):
            best = max(best, (len(pattern), key == "Allow"))
    return best[1]


def judge(plan: Plan, log: Log) -> Judged:
    """Judge one crawl."""
    one = _Judge(plan, log)
    checks = (one.pages, one.paces, one.drops, one.lost, one.doubled, one.order, one.late, one.ends)
    one.result.findings += [finding for check in checks for finding in check()]
    one.result.counts["crawls that were resumed"] = any(event.process for event in log.events)
    return one.result


class _Judge:
    """Each public method checks one thing."""

    def __init__(self, plan: Plan, log: Log) -> None:
        self.result = Judged(plan.seed)
        self._plan = plan
        self._log = log
        self._start = log.events[0].time if log.events else 0.0
        self._kills = [event.time for event in log.of("killed")]
        closed = [event.detail for event in log.of("closed")]
        self._is_complete = closed[-1:] == ["finished"]

    # Answers that decide about pages.

    def _meaning(self, answer: Event) -> str:
        one = ANSWERS[answer.detail]
        unreachable = one.status in self._plan.settings["ROBOTS_UNREACHABLE_STATUSES"]
        return CLOSED if unreachable else one.meaning

    def _answers(self, site: int | None, until: float = float("inf")) -> list[Event]:
        """Return the answers that may decide about the pages of a site."""
        known = [one for one in self._log.of("known") if one.site == site and one.time < until]
        return [one for one in known if self._meaning(one) != CLOSED]

    def _allows(self, answer: Event, path: str) -> bool:
        site = self._plan.sites[answer.site or 0]
        return self._meaning(answer) == OPEN or matches(site, path)

    def _asked(self, site: int | None, until: float = float("inf")) -> list[Event]:
        """Return the requests for the robots.txt of a site."""
        return [one for one in self._log.of("asked") if one.site == site and one.time < until]

    def _describe(self, event: Event) -> str:
        asked = [f"{one.detail} at {one.time - self._start:.3f}" for one in self._asked(event.site)]
        return (
            f"site {event.site} {event.path} at {event.time - self._start:.3f} s;"
            f" robots.txt was requested: {', '.join(asked) or 'never'};"
            f" {self._plan.sites[event.site or 0].rules}"
        )

    # Checks.

    def pages(self) -> Iterator[Finding]:
        """Find pages that were fetched too early, or although they are disallowed."""
        for page in self._log.of("page"):
            self.result.counts["requests for pages"] += 1
            answers = self._answers(page.site, page.time)
            if not answers:
                yield "undecided", self._describe(page)
            elif not any(self._allows(answer, page.path) for answer in answers):
                yield "violation", self._describe(page)

    def paces(self) -> Iterator[Finding]:
        """Find pages that were sent too soon after another request."""
        for number, site in enumerate(self._plan.sites):
            answers = self._answers(number)
            if not site.pace or not answers or self._meaning(answers[0]) != RULES:
                continue
            asked = self._asked(number, answers[0].time)
            since = asked[-1].time if asked else answers[0].time
            sent = [
                one
                for one in self._log.of("asked", "page")
                if one.site == number and one.time >= since
            ]
            for before, after in pairwise(sent):
                gap = after.time - before.time
                least = site.pace - _EARLY - self._log.lag(before.time - 1, after.time)
                if after.kind == "page" and gap < least and not self._was_resent(before, after):
                    text = f"{gap:.3f} s, not {site.pace:g}, after {before.path or 'robots.txt'}"
                    yield "pace", f"{text}: {self._describe(after)}"

    def _was_resent(self, before: Event, after: Event) -> bool:
        """Return whether an HTTP library repeated a request because a reused connection broke."""
        is_same = (before.number, before.path) == (after.number, after.path)
        popped = (event.time for event in self._log.of("popped") if event.number == after.number)
        was_popped = any(before.time < time < after.time for time in popped)
        return is_same and before.detail == "reset" and not was_popped

    def drops(self) -> Iterator[Finding]:
        """Find requests that should not have been dropped.

        A user's middleware that changes requests for robots.txt may be the reason for any drop.
        """
        is_local = any(part.robots for part in self._plan.parts)
        for event in self._log.of("disallowed"):
            self.result.counts["dropped requests"] += 1
            is_judged = event.proxy in ("", "live") and not is_local
            mistake = self._mistake(event) if is_judged else ""
            if mistake:
                yield "over-blocked", f"{mistake} ({event.detail}): {self._describe(event)}"

    def _mistake(self, event: Event) -> str:
        """Return why dropping a request was wrong, or an empty string if it was right."""
        answers = self._answers(event.site, event.time)
        if event.detail == "rule":
            is_right = any(not self._allows(answer, event.path) for answer in answers)
            return "" if is_right else "no rule disallows it"
        keeps_failures = self._plan.settings["ROBOTS_UNREACHABLE_TTL"] > 10
        until = event.time if keeps_failures else event.time - _OVERTAKEN
        arrived = (one for one in answers if self._has_arrived(one, until))
        if any(self._allows(one, event.path) for one in arrived):
            return "its robots.txt was reachable"
        asked, wanted = len(self._asked(event.site, event.time)), self._attempts_wanted(event)
        if asked < wanted and not self._plan.sites[event.site or 0].down and not answers:
            return f"{asked} of {wanted} attempts"
        return ""

    def _has_arrived(self, answer: Event, until: float) -> bool:
        """Return whether the client must have known an answer, at any load of the machine."""
        asked = self._asked(answer.site, answer.time)
        since = asked[-1].time if asked else answer.time
        in_time = answer.time - since < ROBOTS_TIMEOUT / 2 and self._meaning(answer) != EITHER
        return in_time and answer.time + _ARRIVAL + self._log.lag(since, until) < until

    def _attempts_wanted(self, event: Event) -> int:
        """Return the number of attempts before a site may count as unreachable."""
        if any(one.proxy for one in self._log.of("yielded")):
            # Some attempts use other routes, which may fail. Without a reactor, a hanging proxy
            # blocks connections to all sites (docs/limits.md).
            return 0 if self._plan.runtime == "none" else 1
        # A 407 is not the answer of the site, and is not retried.
        is_refused = any(one.detail == "407" for one in self._asked(event.site, event.time))
        return 1 if is_refused else len(self._plan.settings["ROBOTS_UNREACHABLE_BACKOFF"]) + 1

    def lost(self) -> Iterator[Finding]:
        """Find requests without an outcome. SIGKILL takes those that were in flight."""
        ended = {event.number for event in self._log.of(*_ENDS)}
        taken, unknown = self._taken_by_kills()
        taken -= ended
        reached = {(event.site, event.path) for event in self._log.of(*_ENDS, "page")}
        reached |= {(one.site, one.path) for one in self._log.events if one.number in taken}
        duplicates = self._log.of("duplicate")
        ended |= {event.number for event in duplicates if (event.site, event.path) in reached}
        for event in self._log.of("failed"):
            if event.detail == "RobotsUndecided" and self._is_complete:
                yield "lost", f"undecided at the end: {self._describe(event)}"
        for event in self._log.of("yielded"):
            if event.number in ended:
                continue
            if event.number in taken or unknown:
                unknown -= event.number not in taken
                self.result.counts[KILLED] += 1
            elif self._is_complete:
                yield "lost", f"request {event.number}: {self._describe(event)}"
            else:
                self.result.counts["left by crawls that were closed early"] += 1

    def _taken_by_kills(self) -> tuple[set[int | None], int]:
        """Return the requests that were not in the queue at a SIGKILL.

        The second number is how many SIGKILLs came while a request was taken out of the queue. It
        was in flight, but its number is unknown.
        """
        taken: set[int | None] = set()
        unknown = 0
        for kill in self._kills:
            events = [event for event in self._log.events if event.time <= kill]
            kinds = ("yielded", "pushed", "popped")
            last = {event.number: event.kind for event in events if event.kind in kinds}
            taken |= {number for number, kind in last.items() if kind != "pushed"}
            pops = [event.kind for event in events if event.kind in ("popping", "popped", "no pop")]
            unknown += pops[-1:] == ["popping"]
        return taken, unknown

    def doubled(self) -> Iterator[Finding]:
        """Find requests with several callbacks or errbacks."""
        ends = Counter(event.number for event in self._log.of("fetched", "failed"))
        for number, times in ends.items():
            if times > 1:
                yield "doubled", f"request {number}: {times} times"

    def order(self) -> Iterator[Finding]:
        """Find requests that were handed out in another order than that of Scrapy's own queue.

        When a request is handed out, no other queued request of its origin and slot may come before
        it. Only our queue promises that. (A redirected request keeps its slot.)
        """
        if self._plan.is_wrapped:
            return
        self.result.counts["crawls whose order was judged"] = 1
        queued: dict[int, tuple[tuple[int | None, str], tuple[int, bool, int]]] = {}
        for position, event in enumerate(self._log.events):
            if event.kind == "killed":
                queued.clear()  # the last request may have been handed out
            if event.number is None:
                continue
            if event.kind == "pushed":
                queued[event.number] = (event.site, event.slot), self._rank(event, position)
            elif event.kind == "popped" and event.number in queued:
                part, rank = queued.pop(event.number)
                others = (other for other in queued.items() if other[1][0] == part)
                best = min(others, key=lambda other: other[1][1], default=None)
                if best is not None and best[1][1] < rank:
                    yield "order", f"{event} {rank} was handed out before {best}"

    def _rank(self, event: Event, position: int) -> tuple[int, bool, int]:
        """Return the rank of a request in Scrapy's queue.

        The highest priority comes first. Start requests come last in their priority if they have a
        queue of their own.
        """
        settings = self._plan.settings
        storage = "DISK" if settings["JOBDIR"] else "MEMORY"
        start_queue = settings[f"SCHEDULER_START_{storage}_QUEUE"]
        is_start = event.start and start_queue is not None
        queue = start_queue if is_start else settings[f"SCHEDULER_{storage}_QUEUE"]
        return -event.priority, is_start, -position if "Lifo" in queue else position

    def late(self) -> Iterator[Finding]:
        """Find late closes. Pages in progress may end first."""
        for end in self._log.of("closed"):
            events = self._log.of("asked to end", "left", "fetched", "failed")
            times = [event.time for event in events if event.process == end.process]
            since = max(times, default=end.time)
            late = end.time - since - self._log.lag(since, end.time)
            self.result.closing = max(self.result.closing, late)
            if late > _CLOSING:
                yield "late", f"closed ({end.detail}) {late:.2f} s later"

    def ends(self) -> Iterator[Finding]:
        """Find crawls that hung or failed, and tracebacks."""
        log = self._log
        if log.code is None:
            yield "hung", f"no progress: {log.errors[-1500:]}"
            return  # the rest of the output has the stacks of its threads
        last = max((event.process for event in log.events), default=0)
        if last not in {event.process for event in log.of("closed", "killed")}:
            yield "hung", "the spider was not closed"
        if log.code not in (0, -signal.SIGKILL):
            yield "error", f"exit code {log.code}: {log.errors[-1500:]}"
        for record in re.split(r"^(?=\d{4}-\d\d-\d\d )", log.errors, flags=re.MULTILINE):
            is_ours = "scrapy_robots_rfc" in record and "Traceback" in record
            is_drawn = re.search(r"\bDrawn\b|StopDownload|Meddler", record)
            if (is_ours or "never retrieved" in record) and not is_drawn:
                yield "error", record[-1500:]
