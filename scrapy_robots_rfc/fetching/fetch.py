"""Fetching: one attempt at a robots.txt, redirects followed, in time, conditional where a copy is at hand.

In here: what the service needs of the world, and the loop that asks. What an answer means is `policy/access.py`; what
follows from it is `service.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from scrapy_robots_rfc import stats
from scrapy_robots_rfc.cache.entry import Validators
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.faults import fault_of
from scrapy_robots_rfc.fetching.results import Fetched
from scrapy_robots_rfc.policy import backoff
from scrapy_robots_rfc.policy.access import Access, Asking, Local, Successful, Unreachable
from scrapy_robots_rfc.policy.caching import Caching

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from scrapy_robots_rfc._runtime import Runtime
    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.flights import Flight
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
    from scrapy_robots_rfc.policy.origins import Origin
    from scrapy_robots_rfc.settings import Settings

# Seconds: longer than the flights take to notice that one is over.
_GRACE = 1.0

#: The request on whose behalf a file is fetched; opaque in here.
Asker: TypeAlias = Any


@dataclass(eq=False, slots=True)
class Sent:
    """What a fetch sends.

    :param asker: the request on whose behalf.
    :param proxy: tells which proxy the request under way, or the last one, goes through; without credentials.
    """

    asker: Asker = None
    proxy: Callable[[], str | None] = lambda: None


@dataclass(frozen=True, slots=True)
class Answer:
    """An HTTP answer: its status, its headers as far as they count, and of a 2xx its body, without content coding."""

    status: int
    location: bytes | None
    body: bytes
    retry_after: bytes | None = None
    caching: Caching = field(default_factory=Caching)


class Download(Protocol):
    """Asks for one URL, follows nothing, raises whatever goes wrong."""

    def __call__(
        self, url: str, *, timeout: float, mark: object, sent: Sent, known: Validators | None
    ) -> Awaitable[Answer]:
        """Return the answer.

        :param timeout: seconds.
        :param mark: names the fetch in `Ports.queued`.
        :param sent: on whose behalf; is told what is sent.
        :param known: of the file that is at hand: the answer may be that it still is what there is (304).
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
    :param late: the exceptions that mean that there was no answer in time.
    :param expected: tells the world what was known of a file that crawls share, and that is now asked for again.
    :param fetched: tells it how a fetch ended; called with (robots, access, asker).
    :param loaded: tells it that what is known came out of a store; called with (robots, asker).
    """

    download: Download
    parse: Callable[[bytes], ParsedRobots]
    agent: Callable[[], Agent]
    runtime: Runtime
    closing: Callable[[], bool]
    queued: Callable[[], Collection[Any]]
    count: Callable[[str], None]
    ignored: tuple[type[Exception], ...]
    hopeless: tuple[type[Exception], ...]
    late: tuple[type[Exception], ...]
    expected: Callable[[OriginPolicy], None]
    fetched: Callable[[OriginPolicy, Access, Asker], Awaitable[None]]
    loaded: Callable[[OriginPolicy, Asker], Awaitable[None]]


class Fetching:
    """Asks for files.

    :param settings: of the crawl.
    """

    def __init__(self, settings: Settings, ports: Ports) -> None:
        self._settings = settings
        self._ports = ports

    async def fetch(self, origin: Origin, held: CacheEntry | None, flight: Flight[Any], sent: Sent) -> Fetched:
        """Ask for a file. Ends in a value whatever the network does.

        :param held: the copy at hand, fresh or not.
        :param sent: on whose behalf; is told what is sent.
        :raises RobotsUndecided: it took too long, and nobody waits for it any more.
        """
        self._ports.count(stats.REQUEST_COUNT)
        state: Asking | Fetched = Asking.first(origin)
        while isinstance(state, Asking):
            state = await self._step(state, held, flight, sent)
        return state

    async def _step(self, state: Asking, held: CacheEntry | None, flight: Flight[Any], sent: Sent) -> Asking | Fetched:
        # One that is to give way to others does so by its flight's end, right before Scrapy would call it a failure.
        left = max(min(flight.limit + _GRACE, self._settings.timeout) - flight.spent, 0.1)
        known = _known_at(state.url, held)
        try:
            answer = await self._ports.download(state.url, timeout=left, mark=flight, sent=sent, known=known)
        except Exception as error:
            if flight.done:
                raise
            return Fetched(self._failed(error, sent))
        if flight.done:
            raise RobotsUndecided("too late: nobody waits for this answer any more")
        body = held.body if held is not None and known is not None else None
        following = state.answered(
            answer.status,
            answer.location,
            answer.body,
            unreachable_statuses=self._settings.unreachable_statuses,
            held=body,
        )
        if isinstance(following, Asking):
            self._ports.count(stats.REDIRECT_COUNT)
            return following
        if isinstance(following, Unreachable) and following.route:
            following = through(following, sent)
        return self._concluded(state.url, answer, following, known)

    def _concluded(self, url: str, answer: Answer, access: Access, known: Validators | None) -> Fetched:
        self._ports.count(stats.RESPONSE_COUNT)
        self._ports.count(stats.RESPONSE_STATUS_COUNT.format(status=answer.status))
        date = self._ports.runtime.date()
        if isinstance(access, Unreachable):
            return Fetched(replace(access, retry_after=backoff.retry_after(answer.retry_after, date)))
        freshness = answer.caching.freshness(date)
        if not isinstance(access, Successful):
            return Fetched(access, freshness)
        validators = self._validators(url, answer, access, known)
        if access.status != 304:
            return Fetched(access, freshness, validators)
        self._ports.count(stats.CACHE_REVALIDATED)
        return Fetched(access, freshness, validators, confirmed=True)

    def _validators(self, url: str, answer: Answer, access: Successful, known: Validators | None) -> Validators | None:
        if len(access.body) > self._settings.max_size:
            return None  # a part of the file: a crawl with a larger limit must not be told that it still holds
        tag, modified = answer.caching.tag, answer.caching.modified
        if access.status == 304 and known is not None:  # what a 304 leaves out stays (RFC 9111, 3.2)
            return Validators(url, tag or known.etag, modified or known.last_modified)
        return Validators(url, tag, modified) if tag or modified else None

    def _failed(self, error: Exception, sent: Sent) -> Unreachable | Local:
        if not isinstance(error, self._ports.ignored):
            self._ports.count(stats.EXCEPTION_COUNT.format(exception=type(error)))
        fault = fault_of(error)
        if fault.part is not None:
            return Local(fault.cause, fault.advice, None if fault.expected else error)
        cause = no_answer(self._settings.timeout) if isinstance(error, self._ports.late) else fault.cause
        hopeless = fault.refused or isinstance(error, self._ports.hopeless)
        return through(Unreachable(None, cause, hopeless=hopeless, route=fault.refused), sent)


def through(access: Unreachable, sent: Sent) -> Unreachable:
    """Return a failure with the proxy named by whose route it came: it says nothing about the site then."""
    proxy = sent.proxy()
    return access if proxy is None else replace(access, cause=f"{access.cause}, through proxy {proxy}", route=True)


def cause_of(error: Exception, late: tuple[type[Exception], ...], timeout: float) -> str:
    """Return why a download failed, in words.

    :param late: the exceptions that mean that there was no answer in time, whoever gave up first.
    :param timeout: seconds for the whole fetch.
    """
    fault = fault_of(error)
    return no_answer(timeout) if fault.part is None and isinstance(error, late) else fault.cause


def no_answer(timeout: float) -> str:
    """Return why, where there was no answer in so many seconds."""
    return f"no answer in {timeout:g} s"


def _known_at(url: str, held: CacheEntry | None) -> Validators | None:
    """Return the validators of a copy, where this URL gave it: no other one is asked with them."""
    if held is None or held.body is None or held.validators is None or held.validators.url != url:
        return None
    known = held.validators
    return known if known.etag is not None or known.last_modified is not None else None
