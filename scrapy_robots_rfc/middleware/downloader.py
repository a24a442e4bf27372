"""RfcRobotsTxtMiddleware: each request goes on, is set aside, or refused (`RobotsDisallowed`).

`process_request` asks for its turn, `_judge` and `_finish` have the other steps in their order. See
`fetching/service.py` for how a robots.txt is fetched, and `enforcement.py` for what follows from a decision.
"""

from __future__ import annotations

import logging
from functools import lru_cache
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from scrapy import Request, Spider
from scrapy import signals as scrapy_signals
from scrapy.exceptions import DontCloseSpider, IgnoreRequest
from scrapy.utils.httpobj import urlparse_cached

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.cache.client import CacheClient
from scrapy_robots_rfc.cache.stores.opening import errors_of, store_of
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.core.text import many
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.download import MARK, Hooks
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE, FileParser, OriginPolicy
from scrapy_robots_rfc.fetching.replay import IGNORE_MISSING, HttpCache, Replay
from scrapy_robots_rfc.fetching.service import RobotsService, undecided
from scrapy_robots_rfc.leaves import SOURCES, asked_for, load_leaves
from scrapy_robots_rfc.middleware.deferred import WAITED, DeferredRequests
from scrapy_robots_rfc.middleware.enforcement import Enforcement, request_text
from scrapy_robots_rfc.middleware.progress import Progress
from scrapy_robots_rfc.middleware.scheduling import SchedulerBridge
from scrapy_robots_rfc.middleware.startup import Misspelt, settings_of, startup_lines
from scrapy_robots_rfc.middleware.user_agent import UserAgents
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.throttle import Throttle

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.queue import RouteWait
    from scrapy_robots_rfc.settings import Settings

    #: What `process_request` may return, as a value or later.
    _Passed: TypeAlias = Coroutine[Any, Any, Request | None] | Request | None

logger: logging.Logger = logging.getLogger(__name__)

# Authorities whose origin is kept, so that it is not parsed for each request; a crawl of many hosts has more.
_KEPT_ORIGINS = 10_000


class RfcRobotsTxtMiddleware:
    """Downloader middleware that obeys robots.txt as RFC 9309 says.

    :param crawler: the crawl; the settings of this package are read here, once.
    :raises NotConfigured: ROBOTSTXT_OBEY is false.
    :raises SettingError: a setting, or the spider's `robotstxt_user_agent`, is not accepted.
    :raises StoreError: the store of ROBOTS_CACHE cannot work.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = self._settings = settings_of(crawler, RfcRobotsTxtMiddleware)
        self._crawler, self._schemes = crawler, settings.schemes
        self._misspelt: Misspelt | None = None
        assert crawler.stats is not None
        self._count, runtime = crawler.stats.inc_value, Runtime()
        self._origins = lru_cache(_KEPT_ORIGINS)(lambda start: Origin.of(start, settings.schemes))
        self.user_agents: UserAgents = UserAgents(crawler, settings.user_agent)
        parse = FileParser(crawler, settings)
        # Leaves hear of the end after this middleware, which completes the sums then. They are made
        # before a store is opened: their settings may be wrong.
        for name in ("spider_opened", "spider_idle", "spider_closed"):
            crawler.signals.connect(getattr(self, f"_{name}"), getattr(scrapy_signals, name))
        self._leaves = load_leaves(crawler, settings)
        cache = HttpCache(crawler, settings)
        agent, reader = self.user_agents.default, self.user_agents.expected
        # Local files are read before a store is opened.
        sources = [source(crawler, settings, parse, agent) for source in asked_for(SOURCES, settings)]
        self._replay: Replay | None = None
        if crawler.settings.getbool(IGNORE_MISSING):
            self._replay = Replay(sources, settings, parse, agent, cache)
            sources = [self._replay]
        store = self._open_store(settings)
        throttle = self._throttle = Throttle(crawler, settings, self.origin_of, runtime, store)
        hooks = Hooks(
            parse,
            agent,
            reader,
            self.user_agents.sent,
            cache.store,
            in_place=throttle.waiting_in_place,
            abandoned=throttle.answered,
            expected=lambda robots: throttle.expect(robots, reader()),
            found=throttle.fetched,
        )
        #: What spiders may ask, see docs/service.md.
        self.service: RobotsService = RobotsService(crawler, settings, hooks, store, sources)
        self.enforcement: Enforcement = Enforcement(crawler, settings, throttle, runtime.utc)
        self._bridge = SchedulerBridge(crawler, self._request_scheduled)
        self._deferred = self._make_deferred(runtime)
        self._progress = Progress(crawler, self._deferred, throttle, runtime)

    def _make_deferred(self, runtime: Runtime) -> DeferredRequests[OriginPolicy]:
        return DeferredRequests(
            hold=self._hold,
            usual=self.service.routes.usual,
            scheduler=self._bridge,
            runtime=runtime,
            throttle=self._throttle,
        )

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    def process_request(self, request: Request) -> _Passed:
        """Let a request through, set it aside, or raise.

        This is no coroutine function, so that a request whose file is at hand does not pay for a coroutine.

        :raises RobotsDisallowed: it may not be fetched.
        :raises AgentError: its meta `robotstxt_user_agent` is neither a string nor a list of strings.
        """
        if self._throttle.begun and not self._throttle.take(request):
            _, batch = self._deferred.leaving.get(id(request), (None, None))
            if batch is None:  # else it came back without passing the scheduler, and waits for the file first
                return self._wait_for_turn(request, lambda: self._judge(request))
        return self._judge(request)

    def _judge(self, request: Request) -> _Passed:
        if self._misspelt is not None and not self._misspelt.seen.issuperset(request.meta):
            self._misspelt.look_at(request.meta)
        waited = request.meta.pop(WAITED, None)
        parts = urlparse_cached(request)
        if request.meta.get("dont_obey_robotstxt") or parts.scheme not in self._schemes:
            return self._pass_exempt(request)
        origin = self.origin_of(request)
        own = parts.path == ROBOTS_TXT and not parts.query and not parts.params
        if origin is None:  # no robots.txt belongs to such a request
            why = None if own else "no valid authority"
        else:
            why = None if self._replay is None else self._replay.why_closed(request, origin)
        if why is not None:
            closed = Decision(False, Reason.UNREACHABLE, origin=None if origin is None else str(origin))
            self.enforcement.refuse(request, closed, f"{UNREACHABLE}{why}")
            return None
        if origin is None or own:
            self._let_through(None if origin is None else self.service.at_hand(origin, counted=False))
            return None
        agent = self.user_agents.of(request)
        if self._deferred.leaving and (wait := self._deferred.returned(request)) is not None:
            # It was returned to be set aside, and came back without passing the scheduler.
            return self._wait_in_place(request, agent, wait, past_scheduler=True)
        robots = None
        if waited is not None:
            robots = self._deferred.reserved(origin, self.service.routes.of(request), waited)
        robots = robots or self.service.at_hand(origin, request)
        if robots is None:
            return self._wait(request, agent, self.service.ask(origin, request))
        return self._finish(request, robots, agent)

    def _pass_exempt(self, request: Request) -> _Passed:
        """Count a request that is not judged; it keeps the interval of its site if the file is at hand."""
        if MARK in request.meta:  # a request of ours
            self.user_agents.passes(request)
            return None
        origin = self.origin_of(request) if self._throttle.keeps else None
        robots = None if origin is None else self.service.at_hand(origin, counted=False)
        if robots is not None and not self._throttle.lets_go(request, robots, self.user_agents.default()):
            return self._wait_for_turn(request, lambda: self._pass_exempt(request))
        self._count(stats.EXEMPTED)
        return None

    def _wait(self, request: Request, agent: Agent, wait: RouteWait[OriginPolicy]) -> _Passed:
        """Set a request aside by returning it to the engine; if too many are set aside, let it wait in place."""
        self._throttle.release(request)  # the request for the robots.txt needs that turn
        if wait.value is not None:  # without asyncio, the fetch may be over already
            return self._finish(request, wait.value, agent)
        if not self._bridge.usable() or (self._deferred.full and not wait.settled):
            return self._wait_in_place(request, agent, wait)
        return self._set_aside(request, wait)

    def _set_aside(self, request: Request, wait: RouteWait[OriginPolicy] | None) -> Request:
        """Have the engine schedule a request, so that `_request_scheduled` takes it."""
        self._bridge.listen(on=True)
        self._deferred.leave(request, wait)
        return request

    async def _wait_in_place(
        self, request: Request, agent: Agent, wait: RouteWait[OriginPolicy], *, past_scheduler: bool = False
    ) -> Request | None:
        self._throttle.release(request)  # if it came past the scheduler, it has taken the turn once more
        robots = await self._deferred.wait_in_place(wait)
        if robots is not None:
            found = self._finish(request, robots, agent)
            return await found if isawaitable(found) else found
        if not past_scheduler and self._bridge.usable():
            return self._set_aside(request, wait)  # to the scheduler, for a crawl that is resumed
        self._count(stats.UNDECIDED)
        logger.debug("Not decided before the spider closed: %s", request_text(request), extra=self._extra)
        raise undecided(wait.key)

    def _finish(self, request: Request, robots: OriginPolicy, agent: Agent) -> _Passed:
        """Judge a request."""
        if robots.file is not None and robots.file.unread(agent):
            return self._wait_in_place(request, agent, self.service.read_for(robots, agent))
        if self.enforcement.judge(request, robots, agent):
            return None
        return self._wait_for_turn(request, lambda: self._finish(request, robots, agent))

    def _let_through(self, robots: OriginPolicy | None) -> None:
        """Count a request for a robots.txt itself, which may always be fetched (RFC 9309, 2.2.2)."""
        if robots is None or not self.enforcement.exempts(robots):
            self._count(stats.ALLOWED)

    def _wait_for_turn(self, request: Request, then: Callable[[], _Passed]) -> _Passed:
        """Set a request aside whose site's turn has not come, as `_wait` does.

        :param then: goes on where the request has to wait in place.
        """
        past_scheduler = MARK in request.meta or self._deferred.leaving.pop(id(request), None) is not None
        if past_scheduler or not self._bridge.usable() or self._deferred.full:
            return self._wait_for_turn_in_place(request, then, past_scheduler=past_scheduler)
        return self._set_aside(request, None)

    async def _wait_for_turn_in_place(
        self, request: Request, then: Callable[[], _Passed], *, past_scheduler: bool
    ) -> Request | None:
        try:
            await self._throttle.wait_in_place(request)
        except RobotsUndecided:
            if past_scheduler or not self._bridge.usable():
                raise
            return self._set_aside(request, None)
        found = then()
        return await found if isawaitable(found) else found

    def _request_scheduled(self, request: Request) -> None:
        """Take a request that `process_request` has returned, before the engine queues it."""
        turn = self._deferred.leaving.get(id(request), (None, True))[1] is None
        if self._deferred.take(request):
            if not turn:
                self._count(stats.SET_ASIDE)
            raise IgnoreRequest  # the engine forgets it, without errback

    def _spider_idle(self) -> None:
        if len(self._deferred):
            raise DontCloseSpider

    async def _spider_closed(self) -> None:
        """Count what waited to the end, and close each part, whatever another one raises.

        The leaves hear of this signal next; all sums of the crawl are there by the first await.
        """
        errors = list[Exception]()
        for close in (self._progress.close, self._count_waiting, self._throttle.close, self.service.close):
            try:
                closed: Any = close()
                if isawaitable(closed):
                    await closed
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are to be closed
                errors.append(error)
        if errors:
            raise errors[0]  # Scrapy logs it; the others may follow from it

    def _count_waiting(self) -> None:
        """Count and log what became of the requests that waited to the end."""
        stats_collector = self._crawler.stats
        assert stats_collector is not None
        self.service.origin_log.closed()
        self._tell_of_undecided(stats_collector.get_value("scheduler/unserializable"))

    def _tell_of_undecided(self, unwritten: int | None) -> None:
        turns, kept = self._throttle.left(), self._crawler.settings["JOBDIR"]
        # The queue in memory is not closed: Scrapy drops it, and with JOBDIR it has what cannot be written there.
        undecided = self._throttle.undecided + self._deferred.queued()
        then = "in JOBDIR, and decided when the crawl is resumed" if kept else "dropped, as all that is queued"
        if kept and unwritten:
            then += "; what cannot be written there is dropped"
        for count, what in (
            (undecided.total(), "a robots.txt"),
            (turns, "the turn of their site" if turns > 1 else "the turn of its site"),
        ):
            if count:
                self._count(stats.UNDECIDED, count)
                text = "%s waited for %s when the spider closed: %s %s"
                they_are = "it is" if count == 1 else "they are"
                logger.info(text, many(count, "request"), what, they_are, then, extra=self._extra)

    def _hold(self, origin: Origin, robots: OriginPolicy) -> tuple[Callable[[], OriginPolicy], float]:
        """See `DeferredRequests`; requests that have to wait for their turn come later by an interval."""
        if self._deferred.nothing_to_take:
            self._bridge.listen(on=False)
        paced = self._throttle.expect(robots, self.user_agents.expected())  # so that they stay in the scheduler
        late = self._settings.crawl_delay_max if paced else 0.0
        return self.service.memory.hold(origin, robots), robots.validity.fresh_until + late

    @property
    def _extra(self) -> dict[str, Any]:
        return {"spider": self._crawler.spider}

    def origin_of(self, request: Request) -> Origin | None:
        """Return the origin of a request; ``None``: it has none."""
        parts = urlparse_cached(request)
        return self._origins(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/")  # without user name and password

    def _spider_opened(self, spider: Spider) -> None:
        """Log what is odd about the settings, and what is wrong with the product tokens."""
        for level, line in startup_lines(self._crawler.settings, self._settings, RfcRobotsTxtMiddleware):
            logger.log(level, line, extra={"spider": spider})
        self.user_agents.opened(spider)
        self._misspelt = Misspelt(spider, self._settings)
        self._progress.begin()

    def _open_store(self, settings: Settings) -> CacheClient | None:
        # What an offline replay knows may be of any age, so that no other crawl may have it.
        if self._replay is not None:
            return None
        with errors_of(settings.cache):
            found = store_of(settings.cache, self._crawler)
            if found is None:
                return None
            store, name = found
            client = CacheClient(store, name, runtime=Runtime(), count=self._count)
            client.start()
        return client


def robots_service(crawler: Crawler) -> RobotsService:
    """Return the service of a running crawl, for spiders and extensions: ``robots_service(self.crawler)``.

    :raises RuntimeError: as `at_work`.
    """
    return at_work(crawler).service


def at_work(crawler: Crawler) -> RfcRobotsTxtMiddleware:
    """Return the middleware of a running crawl, for other middlewares.

    :raises RuntimeError: the crawl does not use `RfcRobotsTxtMiddleware`, does not obey robots.txt, or has not started.
    """
    middleware = crawler.get_downloader_middleware(RfcRobotsTxtMiddleware)
    if middleware is None:
        raise RuntimeError("RfcRobotsTxtMiddleware is not at work: enable it, and set ROBOTSTXT_OBEY to True")
    return middleware
