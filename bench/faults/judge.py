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
from math import inf

from bench.faults.answers import ANSWERS, CLOSED, EITHER, OPEN, RULES
from bench.faults.log import Event, Log
from bench.faults.plan import ROBOTS_TIMEOUT, Plan
from tests.support.plain_matcher import matches

#: Kinds of findings.
WRONG = {
    "violation": "a disallowed page was fetched",
    "undecided": "a page was fetched before its robots.txt was known",
    "pace": "a Crawl-delay was not obeyed",
    "over-blocked": "an allowed page was dropped",
    "lost": "a request had no outcome",
    "doubled": "a request had more than one outcome",
    "late": "the crawl did not close within a second",
    "hung": "the crawl did not end",
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


def judge(plan: Plan, log: Log) -> Judged:
    """Judge one crawl."""
    one = _Judge(plan, log)
    checks = (one.pages, one.paces, one.drops, one.lost, one.doubled, one.late, one.ends)
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

    # Answers that decide about pages.

    def _meaning(self, answer: Event) -> str:
        one = ANSWERS[answer.detail]
        unreachable = one.status in self._plan.settings["ROBOTS_UNREACHABLE_STATUSES"]
        return CLOSED if unreachable else one.meaning

    def _answers(self, site: int | None, until: float = inf) -> list[Event]:
        """Return the answers that may decide about the pages of a site."""
        known = self._log.of("known", site=site, until=until)
        return [one for one in known if self._meaning(one) != CLOSED]

    def _allows(self, answer: Event, path: str) -> bool:
        """Return whether the longest matching pattern allows a path. Allow wins a tie."""
        rules = [rule.partition(": ") for rule in self._plan.sites[answer.site or 0].rules]
        matching = [
            (len(pattern), key == "Allow")
            for key, _, pattern in rules
            if matches(pattern.encode(), path.encode())
        ]
        return self._meaning(answer) == OPEN or max(matching, default=(0, True))[1]

    def _last_asked(self, answer: Event) -> float:
        """Return when the robots.txt of an answer was requested."""
        asked = self._log.of("asked", site=answer.site, until=answer.time)
        return max((one.time for one in asked), default=0)

    def _describe(self, event: Event) -> str:
        asked = [
            f"{one.detail} at {one.time - self._start:.3f}"
            for one in self._log.of("asked", site=event.site)
        ]
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
            since = self._last_asked(answers[0])
            events = self._log.of("asked", "page", site=number)
            for before, after in pairwise(event for event in events if event.time >= since):
                # An HTTP library repeats a request if a reused connection breaks.
                is_repeated = before.detail == "reset" and before.number == after.number
                gap = after.time - before.time
                least = site.pace - _EARLY - self._log.lag(before.time - 1, after.time)
                if after.kind == "page" and gap < least and not is_repeated:
                    text = f"{gap:.3f} s, not {site.pace:g}, after {before.path or 'robots.txt'}"
                    yield "pace", f"{text}: {self._describe(after)}"

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
        asked = [one.detail for one in self._log.of("asked", site=event.site, until=event.time)]
        wanted = len(self._plan.settings["ROBOTS_UNREACHABLE_BACKOFF"]) + 1
        # A proxy may have failed instead of the site, and a 407 is not retried.
        has_proxies = any(one.proxy for one in self._log.of("pushed"))
        is_unexplained = not (answers or has_proxies or "407" in asked)
        if is_unexplained and len(asked) < wanted and not self._plan.sites[event.site or 0].down:
            return f"{len(asked)} of {wanted} attempts"
        return ""

    def _has_arrived(self, answer: Event, until: float) -> bool:
        """Return whether the client must have known an answer, at any load of the machine."""
        since = self._last_asked(answer)
        in_time = answer.time - since < ROBOTS_TIMEOUT / 2 and self._meaning(answer) != EITHER
        return in_time and answer.time + _ARRIVAL + self._log.lag(since, until) < until

    def lost(self) -> Iterator[Finding]:
        """Find queued requests without an outcome. SIGKILL takes those that were in flight."""
        if not any(event.detail == "finished" for event in self._log.of("closed")):
            return
        for event in self._log.of("failed"):
            if event.detail == "RobotsUndecided":
                yield "lost", f"undecided at the end: {self._describe(event)}"
        taken, unknown = self._taken_by_kills()
        kinds = ("fetched", "failed", "disallowed", "duplicate")
        ended = {event.number for event in self._log.of(*kinds)}
        lost = {event.number: event for event in self._log.of("pushed")}
        for number in lost.keys() - ended:
            if number in taken or unknown:
                unknown -= number not in taken
                self.result.counts[KILLED] += 1
            else:
                yield "lost", f"request {number}: {self._describe(lost[number])}"

    def _taken_by_kills(self) -> tuple[set[int | None], int]:
        """Return the requests that were not in the queue at a SIGKILL.

        The second number is how many SIGKILLs came while a request was taken out of the queue. It
        was in flight, but its number is unknown.
        """
        taken: set[int | None] = set()
        unknown = 0
        for kill in self._log.of("killed"):
            events = list(self._log.of("pushed", "popping", "popped", until=kill.time))
            last = {event.number: event.kind for event in events}
            taken |= {number for number, kind in last.items() if kind == "popped"}
            pops = [event.kind for event in events if event.kind != "pushed"]
            unknown += pops[-1:] == ["popping"]
        return taken, unknown

    def doubled(self) -> Iterator[Finding]:
        """Find requests with several callbacks or errbacks."""
        ends = Counter(event.number for event in self._log.of("fetched", "failed"))
        for number, times in ends.items():
            if times > 1:
                yield "doubled", f"request {number}: {times} times"

    def late(self) -> Iterator[Finding]:
        """Find late closes. Pages in progress may end first."""
        for end in self._log.of("closed"):
            events = self._log.of("asked to end", "pushed", "duplicate", "fetched", "failed")
            times = [event.time for event in events if event.process == end.process]
            since = max(times, default=end.time)
            late = end.time - since - self._log.lag(since, end.time)
            self.result.closing = max(self.result.closing, late)
            if late > _CLOSING:
                yield "late", f"closed ({end.detail}) {late:.2f} s later"

    def ends(self) -> Iterator[Finding]:
        """Find crawls that hung or failed, and tracebacks."""
        log = self._log
        if log.code == -signal.SIGABRT:
            yield "hung", f"stopped: {log.errors[-1500:]}"
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
