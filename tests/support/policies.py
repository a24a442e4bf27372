"""Sample states of origins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from scrapy_robots_rfc.core.agents import Agent


def origin(host: str) -> Origin:
    """Return the https origin of a host."""
    return Origin("https", host, 443)


def policy(
    cause: str, host: str = "a", outcome: Outcome = Outcome.UNREACHABLE, until: float = 0.0
) -> OriginPolicy:
    """Return the policy of an origin, unreachable by default."""
    return OriginPolicy(
        origin(host), Validity(outcome, until, unreachable_since=0.0), None, cause, None, _agent
    )


def fetch(host: str = "a") -> PendingFetch:
    """Return a new fetch for an origin."""
    return PendingFetch(origin(host))


def _agent() -> Agent:
    raise NotImplementedError
