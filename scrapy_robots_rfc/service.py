"""RobotsService: from an origin to what its robots.txt says. One inquiry whoever asks, memory, fetch.

In here: the flow from question to answer, over callables that the middleware hands in. No Scrapy class; what the RFC
decides is in `policy/` and `core/`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._compat import Waiter
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import DecodingError, RobotsUndecided
from scrapy_robots_rfc.flights import Flight, Flights
from scrapy_robots_rfc.identity import Agent, agent_of
from scrapy_robots_rfc.inquiries import Attempted, Inquiries, Inquiry
from scrapy_robots_rfc.policy import backoff, freshness
from scrapy_robots_rfc.policy.access import Access, Asking, Outcome, Successful, Unreachable
from scrapy_robots_rfc.policy.freshness import Limits, Term
from scrapy_robots_rfc.policy.origin import Origin, without_dot_segments
from scrapy_robots_rfc.report import Report

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from scrapy_robots_rfc._compat import Runtime
    from scrapy_robots_rfc.files import RobotsFile
    from scrapy_robots_rfc.policy.pacing import Pace
    from scrapy_robots_rfc.settings import Settings

logger = logging.getLogger(__name__)

#: The request on whose behalf a file is fetched; opaque in here.
Asker: TypeAlias = Any

# Complete disallow (RFC 9309, 2.3.1.4), as a file: it leaves /robots.txt itself allowed (2.2.2).
_CLOSED = RobotsTxt.parse(b"User-agent: *\nDisallow: /\n")


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: its status, its headers as far as they count, and of a 2xx its body, without content coding."""

    status: int
    location: bytes | None
    body: bytes
    retry_after: bytes | None = None


class Download(Protocol):
    """Asks for one URL, follows nothing, raises whatever goes wrong."""

    def __call__(self, url: str, *, timeout: float, asker: Asker, mark: object) -> Awaitable[Answer]:
        """Return the answer.

        :param timeout: seconds.
        :param asker: the request on whose behalf, or ``None``.
        :param mark: names the fetch in `Ports.queued`.
        """


@dataclass(frozen=True, slots=True)
class Ports:
    """What the service needs of the world.

    :param download: asks for one URL.
    :param parse: parses a file; may raise when the user chose the parser.
    :param agent: the agent of a request that brings none of its own.
    :param runtime: tasks, timers, the clock.
    :param closing: whether the crawl is ending.
    :param queued: the marks of the downloads that only stand in a queue.
    :param count: adds one to a stat.
    :param ignored: the exceptions that the stock middleware does not count (IgnoreRequest).
    :param hopeless: the exceptions after which asking again soon is of no use.
    :param fetched: tells the world how a fetch ended; called with (robots, access, asker).
    """

    download: Download
    parse: Callable[[bytes], RobotsFile]
    agent: Callable[[], Agent]
    runtime: Runtime
    closing: Callable[[], bool]
    queued: Callable[[], Collection[Any]]
    count: Callable[[str], None]
    ignored: tuple[type[Exception], ...]
    hopeless: tuple[type[Exception], ...]
    fetched: Callable[[Robots, Access, Asker], Awaitable[None]]


@dataclass(frozen=True, slots=True, eq=False)
class Robots:
    """What is known of an origin's robots.txt, and what follows from it.

    :param origin: whose file it is.
    :param term: what governs, and until when.
    :param status: the HTTP status of the last fetch; ``None`` without an answer.
    :param cause: how the last fetch ended, in a word or two: ``200``, ``404``, ``DownloadTimeoutError``.
    :param file: the parsed file that is obeyed; ``None`` where there is none.
    :param fetched: when the last fetch ended, on the service's clock.
    """

    origin: Origin
    term: Term
    status: int | None
    cause: str
    file: RobotsFile | None = field(repr=False)
    _agent: Callable[[], Agent] = field(repr=False)
    fetched: float = 0.0

    @property
    def outcome(self) -> Outcome:
        """What governs the decisions: the file, that there is none, or that nobody knows (RFC 9309, 2.3.1)."""
        return self.term.outcome

    @property
    def stale(self) -> bool:
        """Whether the file is an earlier one, obeyed because its refresh was unreachable."""
        return self.term.stale

    @property
    def robots(self) -> RobotsTxt | None:
        """The file itself: groups, rules, records. ``None`` where there is none, or another parser has it."""
        return None if self.file is None else self.file.robots

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The URLs of all Sitemap records."""
        return () if self.robots is None else self.robots.sitemaps

    def crawl_delay(self, agent: str | list[str] | None = None) -> float | None:
        """The Crawl-delay, in seconds; ``None`` where there is none.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return None if self.file is None else self.file.crawl_delay(self._named(agent))

    def pace(self, agent: str | list[str] | None = None) -> Pace | None:
        """What Crawl-delay, Request-rate and Visit-time ask for; ``None`` where they ask for nothing.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return None if self.file is None else self.file.pace(self._named(agent))

    def decide(self, url: str, agent: str | list[str] | None = None) -> Decision:
        """Whether a URL of this origin may be fetched, and why. Nothing is counted, no signal is sent.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return replace(self.judge(url, self._named(agent)), origin=str(self.origin))

    def judge(self, url: str, agent: Agent) -> Decision:
        """As `decide`, for an agent that is known; the decision has no origin yet."""
        if self.file is not None:
            decision = self.file.decide(url, agent)
            if decision.allowed and (resolved := without_dot_segments(url)) is not None:
                return self.file.decide(resolved, agent)
            return decision
        if self.term.outcome is Outcome.UNAVAILABLE:
            return _UNAVAILABLE
        closed = _CLOSED.decide(url, ())
        return closed if closed.allowed else _UNREACHABLE

    def why(self, decision: Decision) -> str:
        """What a decision rests on, for log lines, errors and people."""
        if decision.rule is not None:
            return f"robots.txt line {decision.rule.line}: {decision.rule}"
        return _WHY[decision.reason].format(token=decision.token, cause=self.cause)

    def _named(self, agent: str | list[str] | None) -> Agent:
        return agent_of(agent) or self._agent()


#: What a decision without a rule rests on.
_WHY = {
    Reason.RULE: "robots.txt: a rule",
    Reason.NO_RULE: "robots.txt: no rule of the group `{token}` matches",
    Reason.NO_GROUP: "robots.txt: no group is meant for this crawler",
    Reason.ROBOTS_TXT: "robots.txt itself may always be fetched",
    Reason.UNAVAILABLE: "robots.txt unavailable: {cause}",
    Reason.UNREACHABLE: "robots.txt unreachable: {cause}",
    Reason.PARSER: "robots.txt: the verdict of ROBOTSTXT_PARSER",
    Reason.CRAWL_DELAY: "robots.txt: asks for a longer interval than ROBOTSTXT_CRAWL_DELAY_MAX",
}

_UNAVAILABLE = Decision(True, Reason.UNAVAILABLE)
_UNREACHABLE = Decision(False, Reason.UNREACHABLE)


class RobotsService:
    """The robots.txt files of a crawl.

    :param settings: of the crawl.
    :param ports: what the service needs of the world.
    """

    def __init__(self, settings: Settings, ports: Ports) -> None:
        self._settings = settings
        self._ports = ports
        self._limits = Limits(
            settings.cache_max_age, settings.unreachable_ttl, settings.stale_max_age, settings.unreachable_max_age
        )
        self._backoff = backoff.Backoff(settings.unreachable_backoff, settings.retry_after_max)
        self._report = Report(ports.count)
        self._memory: OrderedDict[Origin, Robots] = OrderedDict()
        self._flights: Flights[Attempted[Robots]] = Flights(
            ports.runtime, settings.timeout, closing=ports.closing, queued=ports.queued
        )
        self._inquiries: Inquiries[Robots] = Inquiries(
            ports.runtime, settings.concurrent_fetches, closing=ports.closing, attempt=self._attempt
        )

    async def robots(self, url: str) -> Robots:
        """Return what is known of the robots.txt that a URL falls under; fetch it if it is not at hand.

        Shares memory and fetches with the crawl. Await it in a spider's callback, under any reactor or none.

        :param url: absolute, http or https.
        :raises ValueError: another scheme, or no valid authority.
        :raises RobotsUndecided: the spider was closed first.
        """
        origin = Origin.of(url)
        if origin is None:
            raise ValueError("not an absolute http or https URL with a valid authority")
        return await self.get(origin)

    @property
    def report(self) -> Report:
        """What was said of origins, and why they were unreachable."""
        return self._report

    def at_hand(self, origin: Origin) -> Robots | None:
        """Return what is known and still fresh, without waiting for anything."""
        robots = self._memory.get(origin)
        if robots is None or self._ports.runtime.clock() >= robots.term.fresh_until:
            return None
        self._memory.move_to_end(origin)
        self._ports.count(stats.CACHE_HITS)
        return robots

    async def get(self, origin: Origin, asker: Asker = None) -> Robots:
        """Return what is known of an origin's robots.txt; fetch it if it is not at hand. One fetch, whoever waits.

        :param asker: the request on whose behalf; its proxy is inherited.
        :raises RobotsUndecided: the spider was closed first.
        """
        robots = self.at_hand(origin)
        if robots is not None:
            return robots
        waiter: Waiter[Robots | None] = Waiter()
        self.ask(origin, asker, waiter.resolve)
        robots = await waiter
        if robots is None:
            raise undecided(origin)
        return robots

    def ask(self, origin: Origin, asker: Asker, listener: Callable[[Robots | None], object]) -> None:
        """Tell a listener what is known of an origin's robots.txt as soon as that is known; fetch it anew.

        :param asker: the request on whose behalf; its proxy is inherited.
        :param listener: called once, perhaps before this returns; with ``None`` when the spider was closed first.
        """
        if self._ports.closing():
            listener(None)
            return
        self._ports.count(stats.WAITS if origin in self._inquiries else stats.CACHE_MISSES)
        self._inquiries.ask(origin, asker, listener)

    def _attempt(self, inquiry: Inquiry[Robots], listener: Callable[[Attempted[Robots] | None], object]) -> None:
        self._flights.watch(inquiry.key, partial(self._fetch, inquiry), partial(self._too_late, inquiry), listener)

    async def _fetch(self, inquiry: Inquiry[Robots], flight: Flight[Attempted[Robots]]) -> Attempted[Robots]:
        """Fetch a file and keep what follows. Ends in a value whatever the network does; raises when too late."""
        self._ports.count(stats.REQUEST_COUNT)
        state: Asking | Access = Asking.first(inquiry.key)
        while isinstance(state, Asking):
            state = await self._step(state, inquiry.asker, flight)
        attempted = self._conclude(inquiry, state)
        flight.result = attempted  # what the listeners get should a signal handler hang
        await self._ports.fetched(attempted.value, state, inquiry.asker)
        return attempted

    async def _step(self, state: Asking, asker: Asker, flight: Flight[Attempted[Robots]]) -> Asking | Access:
        left = max(self._settings.timeout - flight.spent, 0.1)
        try:
            answer = await self._ports.download(state.url, timeout=left, asker=asker, mark=flight)
        except Exception as error:
            if flight.done:
                raise
            return self._failed(error)
        if flight.done:
            raise RobotsUndecided("too late: nobody waits for this answer any more")
        following = state.answered(
            answer.status, answer.location, answer.body, unreachable_statuses=self._settings.unreachable_statuses
        )
        if isinstance(following, Asking):
            self._ports.count(stats.REDIRECT_COUNT)
        else:
            self._ports.count(stats.RESPONSE_COUNT)
            self._ports.count(stats.RESPONSE_STATUS_COUNT.format(status=answer.status))
        if isinstance(following, Unreachable):
            return replace(following, retry_after=backoff.retry_after(answer.retry_after, self._ports.runtime.date()))
        return following

    def _failed(self, error: Exception) -> Unreachable:
        if not isinstance(error, self._ports.ignored):
            self._ports.count(stats.EXCEPTION_COUNT.format(exception=type(error)))
        cause = str(error) if isinstance(error, DecodingError) else type(error).__name__
        return Unreachable(None, cause, hopeless=isinstance(error, self._ports.hopeless))

    def _too_late(self, inquiry: Inquiry[Robots]) -> Attempted[Robots]:
        access = Unreachable(None, f"no answer in {self._settings.timeout:g} s")
        attempted = self._conclude(inquiry, access)
        self._ports.runtime.spawn(self._tell(attempted.value, access, inquiry.asker))
        return attempted

    async def _tell(self, robots: Robots, access: Access, asker: Asker) -> None:
        await self._ports.fetched(robots, access, asker)

    def _conclude(self, inquiry: Inquiry[Robots], access: Access) -> Attempted[Robots]:
        """Turn the result of a fetch into what is known from now on; remember it, unless it is asked for again."""
        origin: Origin = inquiry.key
        file, access = self._parsed(origin, access)
        before = self._memory.get(origin)
        old = inquiry.last or before
        now = self._ports.runtime.clock()
        term = freshness.renew(old.term if old else None, access.outcome, now, self._limits_after(access))
        if term.stale and old is not None:
            file = old.file
        robots = Robots(origin, term, access.status, access.cause, file, self._ports.agent, now)
        self._ports.count(stats.RESULT.format(outcome=access.outcome.value))
        again = None
        if isinstance(access, Unreachable):
            # An earlier copy, or a failure so old that it opens the origin, is no reason to keep requests waiting.
            if term.outcome is Outcome.UNREACHABLE and not access.hopeless:
                again = self._backoff.again(inquiry.attempts, access.retry_after)
            self._warn(robots, old, again)
        if again is None:
            changed = before is None or before.outcome is not robots.outcome
            made = inquiry.attempts + 1
            self._report.concluded(origin, robots.cause, robots.outcome, changed=changed, attempts=made)
            self._remember(robots)
        return Attempted(robots, again)

    def _limits_after(self, access: Access) -> Limits:
        """Leave a server alone for as long as it asks."""
        if not isinstance(access, Unreachable) or access.retry_after is None:
            return self._limits
        ttl = self._backoff.at_least(self._limits.unreachable_ttl, access.retry_after)
        return replace(self._limits, unreachable_ttl=ttl)

    def _parsed(self, origin: Origin, access: Access) -> tuple[RobotsFile | None, Access]:
        if not isinstance(access, Successful):
            return None, access
        if len(access.body) > self._settings.max_size:
            self._ports.count(stats.TRUNCATED)
        try:
            return self._ports.parse(access.body), access
        except Exception as error:
            self._ports.count(stats.PARSER_ERRORS)
            logger.exception("ROBOTSTXT_PARSER failed on %s", origin.robots_url)
            cause = f"ROBOTSTXT_PARSER raised {type(error).__name__}"
            return None, Unreachable(access.status, cause, hopeless=True)

    def _warn(self, robots: Robots, old: Robots | None, again: float | None) -> None:
        """Say that a file cannot be reached and what follows: at the first failure of a run, and when that changes."""
        if old is not None and old.term.unreachable_since is not None and old.outcome is robots.outcome:
            return
        attempts = 0 if again is None else len(self._settings.unreachable_backoff)
        if again is None:
            again = robots.term.fresh_until - self._ports.runtime.clock()
        self._report.failed(robots.origin, robots.cause, robots.outcome, again, attempts)

    def _remember(self, robots: Robots) -> None:
        self._memory[robots.origin] = robots
        self._memory.move_to_end(robots.origin)
        while len(self._memory) > self._settings.cache_size:
            self._memory.popitem(last=False)
            self._ports.count(stats.CACHE_EVICTIONS)


def undecided(origin: Origin) -> RobotsUndecided:
    """Return the error of a request that the end of the crawl left without a verdict."""
    return RobotsUndecided(f"the spider closed before {origin.robots_url} was there")
