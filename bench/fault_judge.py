"""Judge a crawl of `bench.faults` by the logs of servers and crawl and by RFC 9309.

The judge shares no code with the package. Servers and crawls measure how late their event loops
are, and each limit in seconds grows by that, so no finding depends on the speed of the machine.
"""

import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from bench.fault_answers import ANSWERS, CLOSED, EITHER, OPEN, RULES
from bench.fault_log import Event, Known, Log, Seen
from bench.fault_order import is_promised, overtaken
from bench.fault_plan import TIMEOUT, Plan, Site

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
# How many seconds timers may be early.
_EARLY = 0.02
# Maximum seconds of a close, from the request to close or from the last page in progress.
_CLOSING = 1.0
# Seconds after which a client must know an answer that was sent.
_ARRIVAL = 0.1
# Seconds for which a request may keep a decision that a later fetch has changed.
_OVERTAKEN = 5.0
# How many seconds older than the file `active.json` its content may be.
_SAVING = 1.0
_ENDS = ("fetched", "failed", "disallowed", "meddled", "too late")


@dataclass(frozen=True, slots=True)
class Finding:
    """A key of `WRONG`, and a description."""

    kind: str
    text: str


@dataclass
class Judged:
    """The result of a crawl.

    :param pages: judged page requests, by the first answer for the robots.txt of their site.
    :param dropped: disallowed requests, by the same.
    :param exempt: page requests to which robots.txt does not apply.
    :param left: requests without an outcome in crawls that were closed early.
    :param killed: requests that SIGKILL took, and that it may take.
    :param closing: seconds of the slowest close.
    :param interrupted: whether the crawl was resumed.
    :param ordered: whether its order was judged.
    """

    seed: int
    pages: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    exempt: int = 0
    left: int = 0
    killed: int = 0
    closing: float = 0
    interrupted: bool = False
    ordered: bool = False
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


class Judge:
    """Judges one crawl."""

    def __init__(self, plan: Plan, log: Log) -> None:
        self._plan = plan
        self._log = log
        self._start = min((one.time for one in log.seen), default=0.0)
        self._judged = Judged(plan.seed)
        self._kills = list(log.of("killed"))

    def judge(self) -> Judged:
        """Return the result of the crawl."""
        judged = self._judged
        judged.interrupted = any(event.process for event in self._log.events)
        judged.ordered = is_promised(self._plan)
        judged.findings += [
            *self._pages(),
            *self._paces(),
            *self._drops(),
            *self._lost(),
            *self._doubled(),
            *self._late(),
            *(Finding("order", text) for text in overtaken(self._plan, self._log.events)),
            *self._errors(),
        ]
        return judged

    # Answers that decide about pages.

    def _meaning(self, answer: str) -> str:
        one = ANSWERS[answer]
        return CLOSED if one.status in self._plan.unreachable else one.meaning

    def _answers(self, site: int, until: float) -> list[Known]:
        """Return the answers that may decide about the pages of a site."""
        return [
            one
            for one in self._log.known
            if one.site == site and one.time < until and self._meaning(one.answer) != CLOSED
        ]

    def _allows(self, answer: Known, path: str) -> bool:
        return self._meaning(answer.answer) == OPEN or matches(self._plan.sites[answer.site], path)

    def _requested(self, site: int, until: float = float("inf")) -> list[Seen]:
        """Return the requests for the robots.txt of a site."""
        return [
            one
            for one in self._log.seen
            if one.site == site and one.page is None and one.time < until
        ]

    def _describe(self, site: int, path: str, at: float) -> str:
        answers = [f"{one.answer} at {one.time - self._start:.3f}" for one in self._requested(site)]
        return (
            f"site {site} {path} at {at - self._start:.3f} s; robots.txt was requested:"
            f" {', '.join(answers) or 'never'}"
        )

    # Fetched pages.

    def _pages(self) -> Iterator[Finding]:
        for one in self._log.seen:
            if one.page is None:
                continue
            if one.exempt:
                self._judged.exempt += 1
                continue
            site = self._plan.sites[one.site]
            self._judged.pages[site.script[0]] += 1
            path = site.pages[one.page].path
            answers = self._answers(one.site, one.time)
            text = self._describe(one.site, path, one.time)
            if not answers:
                yield Finding("undecided", text)
            elif not any(self._allows(answer, path) for answer in answers):
                yield Finding("violation", f"{text}; {site.rules}")

    # Crawl-delay.

    def _paces(self) -> Iterator[Finding]:
        for number, site in enumerate(self._plan.sites):
            since = self._paced_since(number)
            if not site.pace or since is None:
                continue
            seen = [one for one in self._log.seen if one.site == number and one.time >= since]
            for before, after in self._neighbours(seen):
                gap = after.time - before.time
                least = site.pace - _EARLY - self._log.lag(before.time - 1, after.time)
                if gap >= least or self._is_excused(before, after):
                    continue
                name = "robots.txt" if before.page is None else "a page"
                text = self._describe(number, "", after.time)
                yield Finding("pace", f"{gap:.3f} s after {name}, not {site.pace:g}: {text}")

    def _paced_since(self, site: int) -> float | None:
        """Return the time since when the crawl knows a Crawl-delay, or `None` if it never does."""
        answers = self._answers(site, float("inf"))
        if not answers or self._meaning(answers[0].answer) != RULES:
            return None
        first = answers[0].time
        return max((one.time for one in self._requested(site, first)), default=first)

    def _neighbours(self, seen: list[Seen]) -> Iterator[tuple[Seen, Seen]]:
        """Yield each page that waits for its turn, with the request before it.

        Exempt pages do not wait. A page after an exempt page is also yielded with the last request
        that was not exempt.
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

    def _is_excused(self, before: Seen, after: Seen) -> bool:
        """Return whether a short interval between two requests is permitted."""
        popped = [event.time for event in self._log.of("popped") if event.number == after.number]
        if before.exempt:
            turns = [time for time in popped if time < after.time]
            had_its_turn = bool(turns) and turns[-1] <= before.time
            return had_its_turn or not self._knows_pace(before)
        # An HTTP library silently repeats a request if a reused connection breaks.
        is_same = (before.number, before.page) == (after.number, after.page)
        was_popped = any(before.time < time < after.time for time in popped)
        return is_same and before.answer == "reset" and not was_popped

    def _knows_pace(self, exempt: Seen) -> bool:
        """Return whether the process that sent an exempt page had judged a page of its site.

        Before that, it may not have read the robots.txt, or not again after it was resumed.
        """
        processes = [event.process for event in self._log.of("opened") if event.time < exempt.time]
        return any(
            event.site == exempt.site
            and event.process == max(processes, default=0)
            and event.time < exempt.time
            and not event.exempt
            for event in self._log.of("left", "disallowed")
        )

    # Dropped requests.

    def _drops(self) -> Iterator[Finding]:
        for event in self._log.of("disallowed"):
            if event.site is None:
                continue
            self._judged.dropped[self._plan.sites[event.site].script[0]] += 1
            if event.proxy in {"dead", "407", "hang"} or self._is_local(event):
                continue
            mistake = self._mistake(event, event.site)
            if mistake:
                text = self._describe(event.site, event.path, event.time)
                yield Finding("over-blocked", f"{mistake} ({event.reason}): {text}")

    def _is_local(self, dropped: Event) -> bool:
        """Return whether a user's middleware changed the robots.txt request or a redirect."""
        script = self._plan.sites[dropped.site or 0].script
        is_elsewhere = any("away" in name or "dead" in name for name in script)
        return any(
            event.time < dropped.time and (is_elsewhere or event.site == dropped.site)
            for event in self._log.of("local")
        )

    def _mistake(self, event: Event, site: int) -> str:
        """Return why dropping a request was wrong, or an empty string if it was right."""
        answers = self._answers(site, event.time)
        if event.reason == "rule":
            is_right = any(not self._allows(answer, event.path) for answer in answers)
            return "" if is_right else "no rule disallows it"
        keeps_failures = self._plan.settings["ROBOTS_UNREACHABLE_TTL"] > 10
        until = event.time if keeps_failures else event.time - _OVERTAKEN
        arrived = (one for one in answers if self._has_arrived(one, until))
        if any(self._allows(one, event.path) for one in arrived):
            return "its robots.txt was reachable"
        requested = len(self._requested(site, event.time))
        wanted = self._attempts_wanted(site, event.time)
        if requested < wanted and not self._plan.sites[site].down and not answers:
            return f"{requested} of {wanted} attempts"
        return ""

    def _has_arrived(self, answer: Known, until: float) -> bool:
        """Return whether the client must have known an answer, at any load of the machine."""
        if self._meaning(answer.answer) == EITHER:
            return False
        asked = [one.time for one in self._requested(answer.site, answer.time)]
        since = asked[-1] if asked else answer.time
        in_time = answer.time - since < TIMEOUT / 2
        return in_time and answer.time + _ARRIVAL + self._log.lag(since, until) < until

    def _attempts_wanted(self, site: int, until: float) -> int:
        """Return the number of attempts before a site may count as unreachable."""
        if any(event.proxy for event in self._log.of("yielded")):
            # Some attempts use other routes, which may fail. Without a reactor, a hanging proxy
            # blocks connections to all sites (docs/limits.md).
            return 0 if self._plan.runtime == "none" else 1
        # A 407 is not the answer of the site, and is not retried.
        answers = [one.answer for one in self._requested(site, until)]
        return 1 if "407" in answers else self._plan.attempts

    # Lost and doubled requests.

    @property
    def _is_complete(self) -> bool:
        """Whether the crawl was finished.

        Third-party schedulers may lose requests by SIGKILL.
        """
        closed = [event.reason for event in self._log.of("closed")]
        if self._kills and self._plan.scheduler != "own":
            return False
        return closed[-1:] == ["finished"]

    def _lost(self) -> Iterator[Finding]:
        if self._log.code is not None and not self._was_closed and not self._is_damaged:
            yield Finding("hung", "the spider was not closed")
        ended = {event.number for event in self._log.of(*_ENDS)}
        reached = {(event.site, event.path) for event in self._log.of(*_ENDS)}
        reached |= {
            (one.site, self._plan.sites[one.site].pages[one.page].path)
            for one in self._log.seen
            if one.page is not None
        }
        taken = self._taken_by_kills() - ended
        taken_pages = {
            (event.site, event.path) for event in self._log.events if event.number in taken
        }
        for event in self._log.of("duplicate"):
            if (event.site, event.path) in reached | taken_pages:
                ended.add(event.number)
        unfinished_pops = self._unfinished_pops()
        for event in self._log.events:
            where = self._describe(event.site or 0, event.path, event.time)
            if event.error == "RobotsUndecided" and self._is_complete:
                yield Finding("lost", f"undecided at the end: {where}")
            if event.kind != "yielded" or event.number in ended:
                continue
            if event.number in taken:
                self._judged.killed += 1
            elif unfinished_pops:
                unfinished_pops -= 1
                self._judged.killed += 1
            elif self._is_complete:
                yield Finding("lost", f"request {event.number}: {where}")
            else:
                self._judged.left += 1

    @property
    def _was_closed(self) -> bool:
        last = max((event.process for event in self._log.events), default=0)
        done = {event.process for event in self._log.of("closed", "killed")}
        return last in done

    def _taken_by_kills(self) -> set[int | None]:
        """Return the requests that SIGKILL may take.

        They were in flight, or queued after the last save.
        """
        taken: set[int | None] = set()
        for kill in self._kills:
            last: dict[int | None, Event] = {}
            for event in self._log.of("yielded", "pushed", "popped"):
                if event.time <= kill.time:
                    last[event.number] = event
            saved = kill.seconds - _SAVING - self._log.lag(kill.seconds - 5, kill.seconds)
            for number, event in last.items():
                if event.kind != "pushed" or event.time > saved:
                    taken.add(number)
        return taken

    def _unfinished_pops(self) -> int:
        """Return how many SIGKILLs came while a request was taken out of the queue.

        The request was in flight, but its number is unknown.
        """
        unfinished = 0
        for kill in self._kills:
            events = self._log.of("popping", "popped", "no pop")
            pops = [event.kind for event in events if event.time <= kill.time]
            unfinished += pops[-1:] == ["popping"]
        return unfinished

    def _doubled(self) -> Iterator[Finding]:
        """Find requests with several callbacks or errbacks. Each SIGKILL may repeat a request.

        Scrapy's FIFO queue on disk may also return a request that it had handed out, although our
        wrapper has given that request back since then. Then the request comes twice.
        """
        repeats = 2 if self._plan.scheduler == "user-queue" else 1
        ends = Counter(event.number for event in self._log.of("fetched", "failed"))
        for number, times in ends.items():
            if times > 1 + repeats * len(self._kills):
                yield Finding("doubled", f"request {number}: {times} times")

    # The end.

    def _late(self) -> Iterator[Finding]:
        """Find late closes. Pages in progress may end first."""
        for end in self._log.of("closed"):
            kinds = ("asked to end", "left", "fetched", "failed")
            times = [e.time for e in self._log.of(*kinds) if e.process == end.process]
            since = max(times, default=end.time)
            late = end.time - since - self._log.lag(since, end.time)
            self._judged.closing = max(self._judged.closing, late)
            if late > _CLOSING:
                yield Finding("late", f"closed ({end.reason}) {late:.2f} s later")

    def _errors(self) -> Iterator[Finding]:
        if self._log.code is None:
            if not self._is_damaged:
                yield Finding("hung", f"no progress: {self._log.errors[-1500:]}")
            return  # the rest of the output has the stacks of its threads
        if self._log.code and self._log.code != -signal.SIGKILL and not self._is_damaged:
            yield Finding("error", f"exit code {self._log.code}: {self._log.errors[-1500:]}")
        records = re.split(r"^(?=\d{4}-\d\d-\d\d )", self._log.errors, flags=re.MULTILINE)
        for record in records:
            if self._is_damaged and re.search("queuelib|_read_dqs_state|spider_closed", record):
                continue
            is_ours = "scrapy_robots_rfc" in record and "Traceback" in record
            is_drawn = re.search(r"\bDrawn\b|StopDownload|Meddler", record)
            if (is_ours or "never retrieved" in record) and not is_drawn:
                yield Finding("error", record[-1500:])

    @property
    def _is_damaged(self) -> bool:
        """Whether SIGKILL may have damaged files that Scrapy writes.

        Then Scrapy's own queue may never return a request that it counts. If the kill comes while
        Scrapy writes active.json, at the end of a crawl, the file is empty.
        """
        has_empty_state = "_read_dqs_state" in self._log.errors
        return bool(self._kills) and (self._plan.scheduler == "user-queue" or has_empty_state)
