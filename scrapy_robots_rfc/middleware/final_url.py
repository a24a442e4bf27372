"""Judge the final URL of pages fetched by a browser or API that follows redirects itself.

When Scrapy follows a redirect, it creates a new request, which is judged before it is sent. But a
third-party handler or middleware may return a page from a different URL than the one that was
judged.
"""

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from typing import Any, TypeAlias

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.http import Response
from scrapy.utils.defer import ensure_awaitable

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc._scrapy import is_closing
from scrapy_robots_rfc.core.decision import Decision, Refusal
from scrapy_robots_rfc.core.percent import request_target
from scrapy_robots_rfc.core.text import shorten
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE, OriginPolicy
from scrapy_robots_rfc.fetching.service import undecided_error
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.middleware.enforcement import STARTS_SESSION, unreachable_decision
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.settings import Settings

#: Maximum seconds to hold a page while fetching the robots.txt for its final URL.
FETCH_TIME = 10.0

#: Meta key that holds the judged URL until the response arrives. If a plugin sends the request to
#: a different URL, it copies the key.
JUDGED = "robots_judged_url"

_Passed: TypeAlias = Coroutine[Any, Any, Response] | Response


class FinalUrls:
    """Drops pages whose final URL is disallowed.

    It replaces the middleware's `process_request` method, to save each URL before it is judged, and
    adds a `process_response` method. Other crawls don't have the latter, because Scrapy would call
    it for every response. If a subclass has one, it gets the responses that are let through.

    :param middleware: judges requests before they are sent.
    """

    def __init__(
        self, crawler: Crawler, settings: Settings, middleware: RfcRobotsTxtMiddleware
    ) -> None:
        self._crawler = crawler
        self._settings = settings
        self._middleware = middleware
        self._count = stats.of(crawler).inc_value
        self._runtime = Runtime()
        methods: Any = middleware  # they are replaced
        methods.process_request = self._with_url(middleware.process_request)
        own = getattr(middleware, "process_response", None)
        methods.process_response = self.process_response if own is None else self._before(own)

    # `wraps` keeps the signature, so Scrapy still passes `spider` to a method that takes it.

    def _with_url(self, judge: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `process_request` that saves a request's URL before the middleware judges it.

        Our own robots.txt requests have `dont_obey_robotstxt`, so their responses aren't judged.
        """

        @wraps(judge)
        def save_first(request: Request, **spider: object) -> object:
            if not request.meta.get("dont_obey_robotstxt"):
                request.meta[JUDGED] = request.url
            return judge(request=request, **spider)

        return save_first

    def _before(self, own: Callable[..., Any]) -> Callable[..., Any]:
        """Return a `process_response` that judges responses before a subclass's own one."""

        @wraps(own)
        async def judge_first(request: Request, response: Response, **spider: object) -> object:
            response = await ensure_awaitable(self.process_response(request, response))
            return await ensure_awaitable(own(request=request, response=response, **spider))

        return judge_first

    def process_response(self, request: Request, response: Response) -> _Passed:
        """Let a response through, but judge its URL first if it differs from the judged one.

        :raises RobotsDisallowed: robots.txt disallows the URL of the response.
        """
        judged = request.meta.pop(JUDGED, None)
        url = response.url
        # The page wasn't redirected. `request.url` differs from the judged URL if a plugin has sent
        # the request to its own API.
        if url in (judged, request.url) or request.meta.get(STARTS_SESSION):
            return response
        if judged is None:
            if request.meta.get("dont_obey_robotstxt"):  # see `_with_url`
                return response
            judged = request.url  # another middleware answered before the request was judged
        origin = Origin.of(url, self._settings.schemes)
        if origin is None:
            if url.partition(":")[0].lower() in self._settings.schemes:
                self._drop_unknown(request, url, "no valid authority", None)
            return response  # robots.txt doesn't apply to its scheme, or this is a dry run
        # The URLs may only differ in ways that don't matter to robots.txt, such as the fragment.
        same_origin = origin == Origin.of(judged, self._settings.schemes)
        if same_origin and request_target(url) == request_target(judged):
            return response
        return self._judge(request, response, origin)

    async def _judge(self, request: Request, response: Response, origin: Origin) -> Response:
        """Return a response if its URL is allowed, or drop it.

        :raises IgnoreRequest: if the URL is disallowed, or its robots.txt doesn't arrive in time.
        """
        agent = self._middleware.user_agents.of(request)
        gate = self._middleware.gate
        policy = gate.policy_for(request, origin, gate.permits.get(request))
        if policy is None:
            policy = await self._fetch(origin, request)
        if policy is None and is_closing(self._crawler):
            self._count(stats.UNDECIDED)
            raise undecided_error(origin)
        if policy is None:
            self._drop_unknown(request, response.url, f"not known after {FETCH_TIME:g} s", origin)
        elif policy.exempt is None:  # pages of exempt sites are always allowed
            decision, why = policy.verdict(response.url, agent, self._settings)
            if why is not None:
                decision = decision._replace(origin=str(origin))
                self._drop(request, response.url, decision, why, policy)
        return response  # allowed, or this is a dry run

    async def _fetch(self, origin: Origin, request: Request) -> OriginPolicy | None:
        """Fetch an origin's robots.txt, or return `None` if that takes too long.

        If an attempt to fetch the robots.txt fails, don't wait for the retries, which would take
        too long. Return the policy that applies until then.
        """
        result: Waiter[OriginPolicy | None] = Waiter()

        def stop_after_failure(
            policy: OriginPolicy, delays: tuple[float, ...], **_: object
        ) -> None:
            # `delays` are the waits before retries. Without any, the fetch ends by itself.
            if policy.origin == origin and delays:
                result.resolve(policy)

        async def wait() -> None:
            result.resolve(await self._middleware.service.fetch_for(origin, request))

        # Signals hold weak references, so this is disconnected when the coroutine ends.
        self._crawler.signals.connect(stop_after_failure, signals.robots_attempted)
        task = self._runtime.spawn(wait())
        timer = self._runtime.call_later(FETCH_TIME, partial(result.resolve, None))
        try:
            return await result
        finally:
            timer.cancel()
            task.cancel()

    def _drop_unknown(self, request: Request, url: str, cause: str, origin: Origin | None) -> None:
        """Drop a page because we couldn't get the robots.txt for its final URL."""
        self._drop(request, url, unreachable_decision(origin), f"{UNREACHABLE}{cause}", None)

    def _drop(
        self,
        request: Request,
        url: str,
        decision: Decision,
        why: str,
        policy: OriginPolicy | None,
    ) -> None:
        """Drop a page, and report which URL it was redirected to.

        :param why: why that URL may not be used.
        """
        self._count(stats.FORBIDDEN_REDIRECTS)
        why = f"redirected to {shorten(without_userinfo(url))}; {why}"
        self._middleware.enforcement.drop(request, decision, Refusal(why), policy)
