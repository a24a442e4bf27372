"""The interface that the middleware provides to robots.txt fetching."""

from typing import Protocol

from scrapy import Request

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.pending import PendingFetch


class Crawl(Protocol):
    """The crawl that robots.txt files are fetched for."""

    def agent(self) -> Agent:
        """Return the agent of requests that name none; may raise what the spider raises."""

    def sent(self, request: Request) -> None:
        """Note that a robots.txt request was answered, or was cancelled after it was sent."""

    def found(self, robots: OriginPolicy) -> None:
        """Note what governs an origin from now on, or paces the request for its next file."""

    def over(self, fetch: PendingFetch) -> None:
        """Note that a fetch has ended, just before those who wait for it continue."""
