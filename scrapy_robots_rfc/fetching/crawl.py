"""The middleware methods that are called while fetching."""

from typing import Protocol

from scrapy import Request

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import Origin


class Crawl(Protocol):
    """A crawl that needs robots.txt files."""

    def default_agent(self) -> Agent:
        """Return the agent for requests that don't name one. May raise any spider error."""

    def known_for(self, origin: Origin) -> float:
        """Return how many seconds after its fetch a file counts as known, even if it is stale."""

    def robots_txt_answered(self, request: Request) -> None:
        """Handle a robots.txt request that was answered, or was cancelled after it was sent."""

    def policy_changed(self, robots: OriginPolicy) -> None:
        """Handle an origin's new policy, which also paces later robots.txt requests."""
