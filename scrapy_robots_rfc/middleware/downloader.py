"""RfcRobotsTxtMiddleware, which lets each request through, makes it wait, or drops it.

A request from the scheduler is usually judged immediately, because its robots.txt was known when it
was handed out. A request waits here only if it bypassed the scheduler or something has changed
since. See `scheduling/` for requests in the scheduler, `fetching/` for robots.txt files, and
`enforcement.py` for how decisions are applied.
"""

import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import lru_cache, partial
from inspect import isawaitable
from typing import Any, Self, TypeAlias
from urllib.parse import ParseResult, SplitResult, urlparse

from scrapy import Request, Spider, signals
from scrapy.crawler import Crawler
from scrapy.exceptions import IgnoreRequest, NotConfigured
from scrapy.utils.httpobj import urlparse_cached
from scrapy.utils.misc import load_object

from scrapy_robots_rfc import stats
from scrapy_robots_rfc._runtime import Cancellable, Runtime
from scrapy_robots_rfc.core.agents import NO_AGENT, Agent
from scrapy_robots_rfc.core.decision import Refusal
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.errors import RobotsUndecided
from scrapy_robots_rfc.fetching.download import MARK
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE, OriginPolicy
from scrapy_robots_rfc.fetching.pending import TICK, PendingFetch
from scrapy_robots_rfc.fetching.service import RobotsService, undecided_error
from scrapy_robots_rfc.middleware.enforcement import Enforcement, unreachable_decision
from scrapy_robots_rfc.middleware.startup import (
    NameChecker,
    checked_settings,
    has_third_party_component,
    third_party_before,
    uses_our_queue,
)
from scrapy_robots_rfc.middleware.user_agent import UserAgents
from scrapy_robots_rfc.optional import COMPONENTS, FINAL_URLS, SHARED_TURNS, value_of
from scrapy_robots_rfc.policy.origins import Origin, Scheme
from scrapy_robots_rfc.scheduling.disk import close_requests, open_requests, refuse_our_file
from scrapy_robots_rfc.scheduling.gate import Gate, GateKeeper, Permit
from scrapy_robots_rfc.scheduling.throttle import Throttle
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: The return type of `process_request`, which may be a coroutine.
_Result: TypeAlias = Coroutine[Any, Any, Request | None] | Request | None

# Maximum number of authorities to cache origins for, so that not every request is parsed.
_MAX_ORIGINS = 10_000


class RfcRobotsTxtMiddleware(GateKeeper):
    """Downloader middleware that obeys robots.txt according to RFC 9309.

    :param crawler: the crawl. Our settings are read once, in the constructor.
    :raises NotConfigured: ROBOTSTXT_OBEY is false.
    :raises SettingError: a setting, or the spider's `robotstxt_user_agent`, is invalid.
    :raises StoreError: the ROBOTS_CACHE store cannot be used.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._settings: Settings = checked_settings(crawler, RfcRobotsTxtMiddleware)
        self._count = stats.of(crawler).inc_value
        self._runtime = Runtime()
        self._names = NameChecker(crawler, self._settings)
        self._timer: Cancellable | None = None
        schemes = self._settings.schemes
        # Returns the origin for a scheme and authority.
        self._origin_at = lru_cache(_MAX_ORIGINS)(partial(_origin_at, schemes))
        # Scrapy keeps each request's parsed URL. A third-party middleware may have changed the URL
        # since then, so parse it again.
        has_changes = bool(third_party_before(crawler.settings, RfcRobotsTxtMiddleware))
        self._parse_url = _parse_again if has_changes else urlparse_cached
        self.user_agents: UserAgents = UserAgents(crawler, self._settings.user_agent)
        crawler.signals.connect(self._spider_opened, signals.spider_opened)
        crawler.signals.connect(self._spider_closed, signals.spider_closed)
        # Create the optional components, such as the report, after connecting these signals,
        # because their own handlers need the totals that `_spider_closed` sets. But create them
        # before the service opens its store, because their settings may be invalid. They are only
        # kept here because signals hold weak references.
        self._components = [
            load_object(path)(crawler, self._settings)
            for key, path in COMPONENTS.items()
            if value_of(self._settings, key)
        ]
        #: The service for spiders (see docs/spiders.md).
        self.service: RobotsService = RobotsService(crawler, self._settings, self)
        share = None
        store = self.service.store
        if store is not None and store.shared:  # its workers take turns at each site
            share = partial(load_object(SHARED_TURNS), store, self._runtime)
        #: Gives requests their turns.
        self.throttle: Throttle = Throttle(
            crawler, self._settings, self.origin_of, self._runtime, share
        )
        self.gate: Gate = Gate(crawler, self._origin_at, self.service, self.throttle, schemes)
        self.enforcement: Enforcement = Enforcement(crawler, self._settings, self.throttle)
        self._failed_steps: set[Callable[[], object]] = set()
        if has_third_party_component(crawler.settings):
            # A third-party download handler, such as a browser, may follow redirects by itself. So
            # also judge final URLs. It replaces `process_request`, and adds `process_response`.
            load_object(FINAL_URLS)(crawler, self._settings, self)

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the middleware for a crawl, and lock its JOBDIR.

        :raises JobDirError: another crawl uses the JOBDIR, or it can't be used for another reason.
        """
        # The queue needs the file even if the crawl doesn't obey robots.txt. Open it before the
        # files that another crawl may be using, such as the store of robots.txt files.
        if uses_our_queue(crawler.settings):
            open_requests(crawler)
        else:
            refuse_our_file(crawler)
        try:
            return cls(crawler)
        except NotConfigured:  # the crawl starts without this object, and its queue needs the file
            raise
        except Exception:
            close_requests(crawler)  # the crawl will not start
            raise

    # A request, step by step.

    def process_request(self, request: Request) -> _Result:
        """Let a request through, make it wait, or drop it.

        This isn't a coroutine function, to avoid the cost of a coroutine if the file is cached.

        :raises RobotsDisallowed: the request may not be fetched.
        :raises AgentError: its meta `robotstxt_user_agent` is neither a string nor a list of
            strings.
        """
        if not self._names.checked_keys.issuperset(request.meta):
            self._names.check_meta(request.meta)
        if MARK in request.meta:  # one of our own robots.txt requests
            return self._pace_robots_txt(request)
        parts = self._parse_url(request)
        if request.meta.get("dont_obey_robotstxt") or parts.scheme not in self._settings.schemes:
            if parts.netloc:  # otherwise it has no site, such as a `data:` URL
                self._count(stats.EXEMPTED)
            return None
        origin = self._origin_at(parts.scheme, parts.netloc)
        # A robots.txt is always allowed (RFC 9309, 2.2.2).
        is_robots_txt = parts.path == ROBOTS_TXT and not parts.query and not parts.params
        problem = None
        if origin is None and not is_robots_txt:
            problem = "no valid authority"
        elif origin is not None and self.service.offline is not None:  # may not be sent either
            problem = self._offline_problem(request, origin)
        if problem is not None:
            self._drop_unreachable(request, origin, problem)
            return None
        if origin is None or is_robots_txt:  # without an origin, it is always a robots.txt
            self._count(stats.ALLOWED)
            return None
        policy = self.gate.policy_for(request, origin, self.gate.permits.get(request))
        if policy is None:
            return self._wait_for_file(request, origin)
        return self._judge(request, policy)

    def _offline_problem(self, request: Request, origin: Origin) -> str | None:
        """Return why a request may not be sent in an offline replay, or `None` if it may.

        It may be sent if the HTTP cache answers it, or if the user has set its site's policy.
        """
        policy = self.service.known.fixed(origin)
        if policy is not None and policy.is_set_by_user:
            return None
        problem: str | None = self.service.offline.problem(request)
        return problem

    def _drop_unreachable(self, request: Request, origin: Origin | None, cause: str) -> None:
        """Drop a request because its robots.txt can't be fetched. In a dry run, it is let through.

        :raises RobotsDisallowed: this isn't a dry run.
        """
        refusal = Refusal(f"{UNREACHABLE}{cause}")
        self.enforcement.drop(request, unreachable_decision(origin), refusal, None)

    def _pace_robots_txt(self, request: Request) -> _Result:
        """Let one of our robots.txt requests through when its site's turn comes.

        :raises IgnoreRequest: the fetch ended while an earlier middleware held the request.
        """
        if request.meta[MARK].fetch.has_ended:
            raise IgnoreRequest("the fetch no longer waits for this robots.txt request")
        self.user_agents.save_header(request)  # for `robots_txt_answered`
        origin = self.origin_of(request)
        if origin is None or self.throttle.take(request, origin):
            return None
        return self._wait_with_robots_txt(request, origin)

    async def _wait_with_robots_txt(self, request: Request, origin: Origin) -> None:
        """Wait for the site's turn. See `PendingFetches.tick` for what doesn't count meanwhile."""
        fetch: PendingFetch = request.meta[MARK].fetch
        fetch.waits_for_turn = True
        try:
            await self.throttle.wait_for_turn(request, origin)
        finally:
            fetch.waits_for_turn = False

    def _judge(self, request: Request, policy: OriginPolicy) -> _Result:
        """Judge a request. If it is allowed, let it through when its site's turn comes."""
        agent = self.user_agents.of(request)
        decision, why = policy.verdict(request.url, agent, self._settings)
        may_be_sent = why is None or self._settings.dry_run
        if may_be_sent and not self.throttle.admit(request, policy, agent):
            return self._wait_for_turn(request, policy)
        # The policy was only for this time. If the same object is sent again, it bypasses the
        # scheduler, and may need another file.
        self.gate.permits.pop(request, None)
        self.enforcement.conclude(request, policy, decision, why)
        return None

    # Waiting, for requests that didn't wait in the scheduler.

    async def _wait_for_file(self, request: Request, origin: Origin) -> Request | None:
        """Wait for a request's robots.txt, then judge the request."""
        # The request may have taken its site's turn when it left the scheduler. Give it back,
        # because the robots.txt request goes to the same site and needs a turn first.
        self.throttle.release(request)
        policy = await self.service.fetch_for(origin, request)
        if policy is None:  # the spider is closing
            return self._return_or_fail(request, undecided_error(origin))
        return await _result_of(self._judge(request, policy))

    async def _wait_for_turn(self, request: Request, policy: OriginPolicy) -> Request | None:
        """Wait for a request's turn if its interval wasn't known earlier, then judge it."""
        try:
            await self.throttle.wait_for_turn(request, policy.origin)
        except RobotsUndecided as error:
            return self._return_or_fail(request, error)
        # The file may have expired, or been fetched again, during the wait.
        route = self.service.routes.of(request)
        policy = self.service.known.get(policy.origin, route) or policy
        permit = Permit(policy, route)
        if not self.gate.covers(permit, request, policy.origin):  # it is too old
            return await self._wait_for_file(request, policy.origin)
        return await _result_of(self._judge(request, policy))

    def _return_or_fail(self, request: Request, error: RobotsUndecided) -> Request:
        """Return a request to the scheduler that handed it out, because the spider is closing.

        :raises RobotsUndecided: the request didn't come from the scheduler.
        """
        if request in self.gate.permits:
            return self.gate.return_request(request)
        self._count(stats.UNDECIDED)
        raise error

    def origin_of(self, request: Request) -> Origin | None:
        """Return the origin of a request, or `None` if it has none."""
        url = self._parse_url(request)
        return self._origin_at(url.scheme, url.netloc)

    # Called by `fetching/` (see `Crawl` in `service.py`).

    def robots_txt_answered(self, request: Request) -> None:
        """Check the headers of a robots.txt request that was sent, and start its interval."""
        self.user_agents.check_header(request)
        self.throttle.answered(request)

    def default_agent(self) -> Agent:
        """Return the agent for requests that don't name one."""
        return self.user_agents.default()

    def policy_changed(self, policy: OriginPolicy) -> None:
        """Pace a site according to what its file requests for the crawl's own agent."""
        try:
            agent = self.default_agent()
        except Exception:  # noqa: BLE001 - raised again when a page is checked
            agent = NO_AGENT
        self.throttle.note(policy, agent)

    # Start and end of the crawl.

    def _spider_opened(self, spider: Spider) -> None:
        """Check the spider's product tokens and attributes."""
        self._tick()  # first, because the checks read spider properties, which may raise
        self.user_agents.check_tokens(spider)
        self._names.check_spider(spider)

    def _tick(self) -> None:
        """Run periodic maintenance."""
        self._timer = self._runtime.call_later(TICK, self._tick)
        for step in (self.throttle.tick, self.service.pending.tick):
            try:
                step()
            except Exception:  # still run the other steps
                if step not in self._failed_steps:
                    self._failed_steps.add(step)
                    text = "Periodic maintenance failed, and will be retried every %g s"
                    logger.exception(text, TICK, extra={"spider": self._crawler.spider})

    async def _spider_closed(self) -> None:
        """Close all components, even if some of them raise."""
        if self._timer is not None:  # `spider_opened` may not have reached this middleware
            self._timer.cancel()
        errors: list[Exception] = []
        # The report and the log handle the same signal once this coroutine awaits something. So
        # first close the objects that set the last stats, which don't need to wait.
        for close in (self.gate.count_waiting, self.throttle.close, self.service.close):
            try:
                closing: Any = close()
                if isawaitable(closing):
                    await closing
            except Exception as error:  # noqa: BLE001 - still close the others
                errors.append(error)
        if errors:
            raise errors[0]  # Scrapy logs it; the others may be consequences


def _parse_again(request: Request) -> ParseResult:
    """Parse a request's URL, even if Scrapy has its parsed form."""
    return urlparse(request.url)


def _origin_at(schemes: Mapping[str, Scheme], scheme: str, netloc: str) -> Origin | None:
    """Return the origin for a scheme and authority, or `None` if there is none."""
    return Origin.of_parts(SplitResult(scheme, netloc, "", "", ""), schemes)


async def _result_of(result: _Result) -> Request | None:
    """Return a step's result, awaiting it if necessary."""
    return await result if isawaitable(result) else result


def robots_service(crawler: Crawler) -> RobotsService:
    """Return a running crawl's service. In a spider, use ``robots_service(self.crawler)``.

    :raises RuntimeError: as for `running_middleware`.
    """
    return running_middleware(crawler).service


def running_middleware(crawler: Crawler) -> RfcRobotsTxtMiddleware:
    """Return a running crawl's middleware, for use by other middlewares.

    :raises RuntimeError: the crawl does not use `RfcRobotsTxtMiddleware`, does not obey robots.txt,
        or has not started.
    """
    middleware = crawler.get_downloader_middleware(RfcRobotsTxtMiddleware)
    if middleware is None:
        raise RuntimeError(
            "RfcRobotsTxtMiddleware is not active; enable it, and set ROBOTSTXT_OBEY = True"
        )
    return middleware
