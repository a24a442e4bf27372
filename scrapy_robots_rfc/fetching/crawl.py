"""The methods of the middleware that fetching calls."""

from typing import Protocol

from scrapy import Request

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.policy.origins import Origin


class Crawl(Protocol):
    """The crawl that robots.txt files are fetched for."""

    def default_agent(self) -> Agent:
        """Return the agent of requests that name none; may raise any error of the spider."""

    def known_for(self, origin: Origin) -> float:
        """Return the seconds for which a file is known after its fetch, even if it is stale."""

    def robots_txt_answered(self, request: Request) -> None:
        """Note that a robots.txt request was answered, or was cancelled after it was sent."""

    def policy_changed(self, robots: OriginPolicy) -> None:
        """Note the policy of an origin. It also paces the request for the next file."""

    def fetch_ended(self, fetch: PendingFetch) -> None:
        """Note that a fetch has ended, just before those who wait for it continue."""
