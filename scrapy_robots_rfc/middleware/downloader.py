"""RfcRobotsTxtMiddleware: the way of a request, which goes on, waits, or is refused.

`process_request` has the steps in their order. See `fetching/` for how a robots.txt is got,
`enforcement.py` for what follows from a decision, and `scheduling/` for where requests wait.
"""

from collections.abc import Coroutine
from functools import lru_cache, partial
from inspect import isawaitable
from typing import Any, Self, TypeAlias

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime, Waiter
from scrapy_robots_rfc._scrapy import is_closing
from scrapy_robots_rfc.core.agents import NOBODY, Agent
from scrapy_robots_rfc.core.decision import Decision, Reason, Refusal
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.fetching.download import MARK as OUR_MARK
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE, OriginPolicy
from scrapy_robots_rfc.fetching.pending import TICK, PendingFetch
from scrapy_robots_rfc.fetching.service import RobotsService, undecided
from scrapy_robots_rfc.leaves import FINAL_URLS, LEAVES, SHARED_TURNS, asked_for
from scrapy_robots_rfc.middleware.enforcement import Enforcement
from scrapy_robots_rfc.middleware.progress import Progress
from scrapy_robots_rfc.middleware.startup import Misspelt, has_third_party, settings_of
from scrapy_robots_rfc.middleware.user_agent import UserAgents
from scrapy_robots_rfc.policy.origins import Origin
from scrapy_robots_rfc.scheduling.gate import GATES, MARK, Gate, HandedOut
from scrapy_robots_rfc.scheduling.throttle import Throttle
from scrapy_robots_rfc.settings import Settings

#: What `process_request` may return, as a value or later.
_Passed: TypeAlias = Coroutine[Any, Any, Request | None] | Request | None

# Authorities whose origin is remembered, so that it is not parsed for each request; a crawl of many
# hosts has more.
_MOST_ORIGINS = 10_000

#: Seconds that a request waits in the downloader for its robots.txt, and up to a `TICK` more,
#: before it goes back to the scheduler. Most files come sooner, and their requests stay in their
#: order.
MOMENT = 0.75

#: Seconds for which a stale file still counts for a request that waited for it.
STALE_FOR = 60.0


class RfcRobotsTxtMiddleware:
    """Downloader middleware that obeys robots.txt as RFC 9309 says.

    :param crawler: the crawl; the settings of this package are read here, once.
    :raises NotConfigured: ROBOTSTXT_OBEY is false.
    :raises SettingError: a setting, or the spider's `robotstxt_user_agent`, is not accepted.
    :raises StoreError: the store of ROBOTS_CACHE cannot work.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._settings: Settings = settings_of(crawler, RfcRobotsTxtMiddleware)
        self._count = stats.of(crawler).inc_value
        self._runtime = Runtime()
        self._misspelt = Misspelt(crawler, self._settings)
        self._timer: Cancellable | None = None
        schemes = self._settings.schemes
        self._origins = lru_cache(_MOST_ORIGINS)(lambda start: Origin.of(start, schemes))
        # When the moment of each request ends that waits for one. While so many do, others wait in
        # the scheduler at once.
        self._moments: dict[Waiter[OriginPolicy | None], float] = {}
        self._most_moments = max(1, crawler.settings.getint("CONCURRENT_REQUESTS") // 4)
        self.user_agents: UserAgents = UserAgents(crawler, self._settings.user_agent)
        # Leaves hear of the end after this middleware, which completes the sums then. They are made
        # before a store is opened: their settings may be wrong.
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)
        # Signals have weak references to them.
        self._leaves = [leaf(crawler, self._settings) for leaf in asked_for(LEAVES, self._settings)]
        #: What spiders may ask, see docs/spiders.md.
        self.service: RobotsService = RobotsService(crawler, self._settings, self)
        share = None
        store = self.service.store
        if store is not None and store.shared:
            share = partial(load_object(SHARED_TURNS), store, self._runtime)
        self._throttle = Throttle(crawler, self._settings, self.origin_of, self._runtime, share)
        known = partial(self.service.cached, counted=False)
        self._gate = Gate(crawler, self.origin_of, known, self._throttle)
        GATES[crawler] = self._gate
        self.enforcement: Enforcement = Enforcement(crawler, self._settings, self._throttle)
        self._progress = Progress(crawler, self._gate, self._throttle, self._runtime)
        if has_third_party(crawler.settings):
            load_object(FINAL_URLS)(crawler, self._settings, self)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the middleware of a crawl."""
        return cls(crawler)

    # The way of a request.

    def process_request(self, request: Request) -> _Passed:
        """Let a request through, let it wait, or raise.

        This is no coroutine function, so that a request whose file is cached does not pay for a
        coroutine.

        :raises RobotsDisallowed: it may not be fetched.
        :raises AgentError: its meta `robotstxt_user_agent` is neither a string nor a list of
            strings.
        """
        if not self._misspelt.seen.issuperset(request.meta):
            self._misspelt.look_at(request.meta)
        out = self._gate.handed_out.pop(request, None)
        passed: _Passed = None
        try:
            passed = self._passed(request, out)
        finally:
            if out is not None and not isawaitable(passed):
                self._gate.judged(out)
        return passed

    def _passed(self, request: Request, out: HandedOut | None) -> _Passed:
        """Judge a request now if its file is cached; otherwise have it wait.

        :param out: how a queue of ours handed it out; ``None``: its origin was ready, or it came
            another way.
        """
        # With the mark it came back past our queues, as those of media pipelines do: it waits in
        # place.
        inline = MARK in request.meta and self._gate.taken_back(request) is not None
        parts = urlparse_cached(request)
        if request.meta.get("dont_obey_robotstxt") or parts.scheme not in self._settings.schemes:
            return self._pass_exempt(request)
        origin = self.origin_of(request)
        own = parts.path == ROBOTS_TXT and not parts.query and not parts.params
        why = None
        if origin is None:
            why = None if own else "no valid authority"
        elif self.service.cache.offline and self.service.exception_of(origin) is None:
            why = self.service.cache.why_closed(request)
        if why is not None:
            name = None if origin is None else str(origin)
            closed = Decision(False, Reason.UNREACHABLE, origin=name)
            self.enforcement.refuse(request, closed, Refusal(f"{UNREACHABLE}{why}"), None)
            return None
        if origin is None or own:  # a robots.txt is always allowed (RFC 9309, 2.2.2)
            self._count(stats.ALLOWED)
            return None
        stale_for = 0.0
        if out is not None and out.waited:  # for its turn, too
            stale_for = STALE_FOR + self._throttle.interval(origin)
        robots = self.service.cached(origin, request, stale_for=stale_for)
        if robots is None:
            fetch = self.service.fetch(origin, request)
            robots = fetch.value  # without asyncio it may be over already
            if robots is None:
                return self._wait(request, fetch, out, inline=inline)
        return self._judge(request, robots, out, inline=inline)

    def _pass_exempt(self, request: Request) -> _Passed:
        """Count a request that is not judged.

        One for a robots.txt is ours, and waits for the turn of its site.
        """
        if OUR_MARK not in request.meta:
            self._count(stats.EXEMPTED)
            return None
        self.user_agents.passes(request)
        origin = self.origin_of(request)
        if origin is not None and not self._throttle.take(request, origin):
            return self._wait_for_ours(request, origin)
        return None

    async def _wait_for_ours(self, request: Request, origin: Origin) -> None:
        """Have a request for a robots.txt wait; that time does not count as its site's."""
        fetch: PendingFetch = request.meta[OUR_MARK].fetch
        fetch.paused = True
        try:
            await self._throttle.wait_in_place(request, origin)
        finally:
            fetch.paused = False

    def _judge(
        self, request: Request, robots: OriginPolicy, out: HandedOut | None, *, inline: bool
    ) -> _Passed:
        """Judge a request; if it may be fetched, let it leave in the turn of its site."""
        agent = self.user_agents.of(request)
        file = robots.file
        if file is not None and file.large and file.unread(agent):
            return self._wait(request, self.service.read_for(robots, agent), out, inline=inline)
        decision, why = robots.verdict(request.url, agent, self._settings)
        leaves = why is None or self._settings.dry_run
        if leaves and not self._throttle.admit(request, robots, agent):
            if inline:
                return self._wait_for_turn(request, robots)
            return self._gate.send_back(request, out, None)
        self.enforcement.conclude(request, robots, decision, why)
        return None

    async def _wait_for_turn(self, request: Request, robots: OriginPolicy) -> Request | None:
        """Wait in the downloader for the turn of a request that never passes the scheduler."""
        await self._throttle.wait_in_place(request, robots.origin)
        found = self._judge(request, robots, None, inline=True)
        return await found if isawaitable(found) else found

    def _wait(
        self, request: Request, fetch: PendingFetch, out: HandedOut | None, *, inline: bool
    ) -> _Passed:
        """Let a request wait for its file: in the downloader, or in the scheduler."""
        self._throttle.release(request)  # the request for the robots.txt needs that turn
        trial = out is not None and out.trial
        if inline or (trial and len(self._moments) < self._most_moments):
            return self._wait_in_place(request, fetch, out, inline=inline)
        return self._gate.send_back(request, out, fetch)

    async def _wait_in_place(
        self, request: Request, fetch: PendingFetch, out: HandedOut | None, *, inline: bool
    ) -> Request | None:
        """Wait in the downloader, and be judged.

        What came from the scheduler goes back there after a `MOMENT`.
        """
        waiting = self._progress.in_place
        waiting.append(fetch)
        waiter = fetch.waiter()
        if not inline:
            self._moments[waiter] = self._runtime.clock() + MOMENT
        try:
            robots = await waiter
            if robots is not None:
                found = self._judge(request, robots, out, inline=inline)
                return await found if isawaitable(found) else found
            if not inline:
                return self._gate.send_back(request, out, fetch)
        finally:
            waiting.remove(fetch)
            self._moments.pop(waiter, None)
            if out is not None:
                self._gate.judged(out)
        self._count(stats.UNDECIDED)
        raise undecided(fetch.origin)

    def origin_of(self, request: Request) -> Origin | None:
        """Return the origin of a request; ``None``: it has none."""
        parts = urlparse_cached(request)
        without_password = parts.netloc.rpartition("@")[2]
        return self._origins(f"{parts.scheme}://{without_password}/")

    # What `fetching/` asks and says, see `Crawl` there.

    def sent(self, request: Request) -> None:
        """Look at the headers with which a request of ours was sent.

        The interval of its site counts from now on.
        """
        self.user_agents.sent(request)
        self._throttle.answered(request)

    def found(self, robots: OriginPolicy) -> None:
        """Pace a site by the file that was fetched now."""
        try:
            agent = self.agent()
        except Exception:  # noqa: BLE001 - of the spider's property; the next page that is judged shows it
            agent = NOBODY
        self._throttle.note(robots, agent)

    def agent(self) -> Agent:
        """Return the agent of a request that has no name of its own."""
        return self.user_agents.default()

    def over(self, fetch: PendingFetch) -> None:
        """Let the requests in the scheduler go that wait for a fetch."""
        self._gate.fetch_over(fetch)

    # The crawl begins and ends.

    def _spider_opened(self, spider: Spider) -> None:
        """Log what is wrong with the product tokens, and with attributes of the spider."""
        self._tick()  # first: what follows asks the spider's properties, which may raise
        self.user_agents.opened(spider)
        self._misspelt.look_at_spider(spider)

    def _tick(self) -> None:
        """Look after what waits, from time to time."""
        self._timer = self._runtime.call_later(TICK, self._tick)
        now = self._runtime.clock()
        for waiter in [waiter for waiter, end in self._moments.items() if end <= now]:
            waiter.resolve(None)
        if is_closing(self._crawler):
            self._gate.note_closing()
        self.service.tick()
        self._throttle.tick()
        self._gate.tick()
        self._progress.look()

    async def _spider_closed(self) -> None:
        """Count what waited to the end, and close each part, whatever another one raises.

        The leaves hear of this signal next; all sums of the crawl are there by the first await.
        """
        GATES.pop(self._crawler, None)
        if self._timer is not None:  # a crawl may be closed before it is opened for all
            self._timer.cancel()
        errors: list[Exception] = []
        sums = (self._progress.close, self._throttle.close)
        for close in (*sums, self.service.close):
            try:
                closed: Any = close()
                if isawaitable(closed):
                    await closed
            except Exception as error:  # noqa: BLE001 - whatever it is, the others are to be closed
                errors.append(error)
        if errors:
            raise errors[0]  # Scrapy logs it; the others may follow from it


def robots_service(crawler: Crawler) -> RobotsService:
    """Return the service of a running crawl: ``robots_service(self.crawler)`` in a spider.

    :raises RuntimeError: as `at_work`.
    """
    return at_work(crawler).service


def at_work(crawler: Crawler) -> RfcRobotsTxtMiddleware:
    """Return the middleware of a running crawl, for other middlewares.

    :raises RuntimeError: the crawl does not use `RfcRobotsTxtMiddleware`, does not obey robots.txt,
        or has not started.
    """
    middleware = crawler.get_downloader_middleware(RfcRobotsTxtMiddleware)
    if middleware is None:
        raise RuntimeError(
            "RfcRobotsTxtMiddleware is not at work: enable it, and set ROBOTSTXT_OBEY to True"
        )
    return middleware
