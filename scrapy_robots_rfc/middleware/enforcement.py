"""Enforce decisions by updating stats, logging, sending signals and raising exceptions.

The decisions are made in `fetching/parsed.py`.
"""

import logging
from weakref import WeakKeyDictionary, WeakSet

from scrapy import Request
from scrapy.crawler import Crawler
from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._scrapy import is_one_page_command
from scrapy_robots_rfc.core.decision import Decision, Reason, Refusal
from scrapy_robots_rfc.errors import RobotsDisallowed, UnreachableError
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.access import Access, Local
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.scheduling.throttle import Throttle
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: Meta key of scrapy-zyte-api's requests that start a session. Their responses don't reach the
#: spider, so they aren't judged. If one were dropped, the plugin would start session after session.
STARTS_SESSION = "_is_session_init_request"

# Maximum number of origins whose exceptions are kept. Each may need many kilobytes.
_MAX_ERRORS = 100


class Enforcement:
    """Enforces a crawl's decisions.

    :param throttle: releases the turn of a dropped request.
    """

    def __init__(self, crawler: Crawler, settings: Settings, throttle: Throttle) -> None:
        self._crawler = crawler
        self._count = stats.of(crawler).inc_value
        self._throttle = throttle
        # `request_allowed` would be sent for nearly every request, so only do so for a report.
        self._sends_allowed = bool(settings.report)
        self._has_uses = settings.use is not None
        #: The policy that each request was judged by, for `RfcUseMiddleware`.
        self.judged_by: WeakKeyDictionary[Request, OriginPolicy] = WeakKeyDictionary()
        self._dry_run = settings.dry_run
        self._is_one_page_command = is_one_page_command(crawler)
        #: Disallowed requests that were let through in a dry run.
        self.let_through: WeakSet[Request] = WeakSet()
        # Origin -> the exception because of which its robots.txt was not requested.
        self._errors: LocalCache[str | None, Exception] = LocalCache(_MAX_ERRORS)
        crawler.signals.connect(self._attempted, signals.robots_attempted)

    def _attempted(self, policy: OriginPolicy, access: Access | None, **_: object) -> None:
        """If the crawl itself failed, keep the exception, which `drop` shows as the cause."""
        if isinstance(access, Local) and access.error is not None:
            self._errors[str(policy.origin)] = access.error

    def conclude(
        self, request: Request, policy: OriginPolicy, decision: Decision, why: str | None
    ) -> None:
        """Count a decision, and drop the request if it is disallowed.

        :param why: the reason if the request is disallowed, or `None` if it is allowed.
        :raises RobotsDisallowed: the request is disallowed.
        """
        if self._dry_run:  # the same object may have been sent before
            self.let_through.discard(request)
        if policy.exempt is not None:  # its pages are always allowed
            self._count(stats.EXEMPTED)
            self._count(stats.EXEMPTED_BY.format(site=policy.exempt))
            return
        if self._has_uses:
            self.judged_by[request] = policy
        if decision.stale:
            self._count(stats.CACHE_STALE_DECISIONS)
        if policy.override is not None:
            self._count(stats.OVERRIDDEN)
        # Many URLs share one `Decision`, so its origin is only added if the decision is reported.
        if why is not None:
            decision = decision._replace(origin=str(policy.origin))
            self.drop(request, decision, Refusal(why), policy)
            return
        self._count(stats.ALLOWED)
        if self._sends_allowed:
            decision = decision._replace(origin=str(policy.origin))
            explanation = Refusal(policy.why(decision))  # both signals have the same arguments
            self._send(signals.request_allowed, request, decision, explanation, policy)

    def drop(
        self, request: Request, decision: Decision, refusal: Refusal, policy: OriginPolicy | None
    ) -> None:
        """Drop a request or its response. Count it, log it, send a signal, and raise an exception.

        :param policy: the policy that decided, or `None` if the robots.txt could not be fetched.
        :raises RobotsDisallowed: always, except in a dry run.
        :raises UnreachableError: raised instead if a single-page command couldn't get robots.txt.
        """
        shown = request_text(request)
        spider = {"spider": self._crawler.spider}
        text = "Forbidden by %s: %s (%s)"
        if self._dry_run:
            text = "Forbidden by %s, let through (dry run): %s (%s)"
        logger.debug(text, refusal.by, shown, refusal.why, extra=spider)
        self._count(stats.FORBIDDEN)
        self._count(stats.FORBIDDEN_BY.format(reason=decision.reason.value))
        self._send(signals.request_disallowed, request, decision, refusal, policy)
        if self._dry_run:
            self._count(stats.DRY_RUN)
            self.let_through.add(request)
            return
        self._throttle.release(request)
        self.judged_by.pop(request, None)  # the same object may be sent again
        cause = self._errors.get(decision.origin) if decision.reason is Reason.LOCAL else None
        if self._is_one_page_command and decision.reason in (Reason.UNREACHABLE, Reason.LOCAL):
            raise UnreachableError(f"{refusal.why}; {shown} was not sent") from cause
        raise RobotsDisallowed(decision, refusal.why, refusal.by) from cause

    def _send(
        self,
        signal: object,
        request: Request,
        decision: Decision,
        explanation: Refusal,
        policy: OriginPolicy | None,
    ) -> None:
        """Send `request_disallowed` or `request_allowed`."""
        self._crawler.signals.send_catch_log(
            signal,
            request=request,
            decision=decision,
            why=explanation.why,
            policy=policy,
            # Without an Allow or Disallow rule, a Content-Usage line may be responsible.
            line=explanation.line if decision.rule is None else decision.rule.line,
        )


def unreachable_decision(origin: Origin | None) -> Decision:
    """Return the decision about a request whose robots.txt can't be fetched.

    :param origin: `None` if its URL has no valid authority.
    """
    return Decision(False, Reason.UNREACHABLE, origin=None if origin is None else str(origin))


def request_text(request: Request) -> str:
    """Format a request for log lines, without the credentials in its URL."""
    return f"<{request.method} {without_userinfo(request.url)}>"
