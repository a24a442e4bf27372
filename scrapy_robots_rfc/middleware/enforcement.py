"""What follows from a decision about a request: counts, log line, signal and exception.

See `fetching/parsed.py` for how a request is judged.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING
from weakref import WeakSet

from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._scrapy import asks_once
from scrapy_robots_rfc.core.decision import Decision, Reason, Refusal
from scrapy_robots_rfc.errors import RobotsDisallowed, UnreachableError
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.crawler import Crawler

    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.scheduling.throttle import Throttle
    from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

#: Origins of which it is remembered that their INFO line was logged; after so many others, it may
#: be logged again.
MOST_LOGGED = 10_000


class Enforcement:
    """Enforces the decisions of a crawl.

    :param settings: of the crawl.
    :param throttle: has the turn of a request, which is given up if it is refused.
    """

    def __init__(self, crawler: Crawler, settings: Settings, throttle: Throttle) -> None:
        assert crawler.stats is not None
        self._crawler = crawler
        self._count = crawler.stats.inc_value
        self._throttle = throttle
        self._signals_allowed = settings.report_allowed
        self._dry_run = settings.dry_run
        self._asks_once = asks_once(crawler)
        # Hashes of the origins whose INFO line was logged.
        self._logged: LocalCache[int, None] = LocalCache(MOST_LOGGED)
        #: Requests that are refused, and that a dry run lets through.
        self.let_through: WeakSet[Request] = WeakSet()

    def count_exempt(self, robots: OriginPolicy) -> None:
        """Count a request to a site that is exempt."""
        self._count(stats.EXEMPTED)
        self._count(stats.EXEMPTED_BY.format(site=robots.exempt))

    def conclude(
        self,
        request: Request,
        robots: OriginPolicy,
        decision: Decision,
        why: str | None,
    ) -> None:
        """Count a decision, and refuse the request if it may not be fetched.

        :param why: the reason; ``None``: it may be fetched.
        :raises RobotsDisallowed: it may not be fetched.
        """
        if decision.stale:
            self._count(stats.CACHE_STALE_DECISIONS)
        if robots.override is not None:
            self._count(stats.OVERRIDDEN)
        if why is not None:
            decision = decision._replace(origin=str(robots.origin))
            self.refuse(request, decision, Refusal(why), robots)
            return
        self._count(stats.ALLOWED)
        if self._signals_allowed:
            decision = decision._replace(origin=str(robots.origin))
            why = robots.why(decision)
            self._send(signals.request_allowed, request, decision, why=why, robots=robots)

    def refuse(
        self,
        request: Request,
        decision: Decision,
        refusal: Refusal,
        robots: OriginPolicy | None = None,
    ) -> None:
        """Count, log and signal that a request may not be fetched, and raise.

        :param refusal: why; a line of robots.txt in it counts where no rule of it decided.
        :param robots: what is known of its origin; ``None``: it has no origin.
        :raises RobotsDisallowed: always, except in a dry run.
        :raises UnreachableError: in its place, in a command for one page, where robots.txt is not
            known.
        """
        why = refusal.why
        by = refusal.by
        url = request_text(request)
        spider = {"spider": self._crawler.spider}
        if self._dry_run:
            text = "Forbidden by %s, let through (dry run): %s (%s)"
            logger.debug(text, by, url, why, extra=spider)
        else:
            self._throttle.release(request)
            logger.debug("Forbidden by %s: %s (%s)", by, url, why, extra=spider)
        # An unreachable robots.txt was warned of when it was fetched.
        if robots is not None and decision.reason is not Reason.UNREACHABLE:
            self._log_once(robots.origin, why)
        self._count(stats.FORBIDDEN)
        self._count(stats.FORBIDDEN_BY.format(reason=decision.reason.value))
        line = refusal.line
        self._send(signals.request_disallowed, request, decision, line, why=why, robots=robots)
        if self._dry_run:
            self._count(stats.DRY_RUN)
            self.let_through.add(request)
            return
        if self._asks_once and decision.reason in (Reason.UNREACHABLE, Reason.LOCAL):
            raise UnreachableError(f"{why}; {url} was not asked for")
        raise RobotsDisallowed(decision, why, by)

    def refuse_allowed(
        self, request: Request, decision: Decision, refusal: Refusal, robots: OriginPolicy | None
    ) -> None:
        """Refuse a request that was allowed, or its response, and no longer count it as allowed.

        For middlewares that stand behind `RfcRobotsTxtMiddleware`.

        :raises RobotsDisallowed: always, except in a dry run.
        """
        self._count(stats.ALLOWED, -1)
        self.refuse(request, decision, refusal, robots)

    def _send(
        self,
        signal: object,
        request: Request,
        decision: Decision,
        line: int | None = None,
        **more: object,
    ) -> None:
        """Send a signal about a decision; see `signals.py` for the arguments."""
        if decision.rule is not None:
            line = decision.rule.line
        self._crawler.signals.send_catch_log(
            signal, request=request, decision=decision, line=line, **more
        )

    def _log_once(self, origin: Origin, why: str) -> None:
        """Log at INFO that pages of an origin are forbidden, once."""
        if hash(origin) in self._logged:
            return
        self._logged[hash(origin)] = None
        text = "A page of %s is forbidden (%s); every request that is dropped is logged at DEBUG"
        if self._dry_run:
            text = (
                "A page of %s is forbidden (%s); every request that would be dropped is logged at"
                " DEBUG"
            )
        logger.info(text, origin, why, extra={"spider": self._crawler.spider})


def request_text(request: Request) -> str:
    """Return a request as log lines have it, without the credentials that a URL may contain."""
    return f"<{request.method} {without_userinfo(request.url)}>"
