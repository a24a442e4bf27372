"""What the service calls in rooms above its own, which it must not import. The middleware passes these hooks to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from scrapy import Request

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
    from scrapy_robots_rfc.policy.access import Access, Local, Outcome
    from scrapy_robots_rfc.policy.origins import Origin


class OriginListener(Protocol):
    """Is told which robots.txt cannot be reached, what follows, and how that ends. `OriginLog` of `reporting/` is one.

    In each method, `cause` says why the last attempt failed, and `alone` whether that concerns one route only.
    """

    def failed(self, origin: Origin, cause: str, outcome: Outcome, again: float, *, alone: bool = False) -> None:
        """A file cannot be reached; it is asked for again in so many seconds.

        :param outcome: what governs until then.
        """

    def begins(self, origin: Origin, cause: str, delays: Sequence[float], until: str, *, alone: bool = False) -> None:
        """A file cannot be reached, and requests wait for further attempts.

        :param delays: seconds before each of them.
        :param until: when the last one is over at the latest.
        """

    def goes_on(self, origin: Origin, cause: str, made: int, delays: Sequence[float], until: str) -> None:
        """A further attempt has failed, and it is not the last one.

        :param made: how many attempts were made.
        """

    def other_route(self, origin: Origin, cause: str) -> None:
        """A file cannot be reached by one route, and is asked for by the route of another request."""

    def routes_failed(self, origin: Origin, cause: str, attempts: int) -> None:
        """A file could not be reached by any of the routes that were tried, with so many attempts in all."""

    def local(self, origin: Origin, access: Local, outcome: Outcome) -> None:
        """The crawl itself failed, so that the site was not asked."""

    def again(self, origin: Origin, cause: str) -> None:
        """The first attempt has failed, and another one is to come."""

    def concluded(
        self, origin: Origin, cause: str, outcome: Outcome, *, changed: bool, reached: bool, attempts: int
    ) -> None:
        """It is known what governs an origin.

        :param changed: whether something else governed before, or nothing.
        :param reached: whether the last attempt had an answer.
        """

    def began_stale(self, origin: Origin, cause: str) -> None:
        """An earlier file is obeyed from now on, because its refresh failed."""


@dataclass(frozen=True, slots=True)
class Hooks:
    """What the service calls.

    :param listener: is told which files cannot be reached.
    :param agent: gives the agent of a request that brings none of its own.
    :param parse: parses a file; may raise when the user chose the parser.
    :param expected: called before a file of a shared store is asked for again, with what was known of it.
    :param loaded: called with what came out of a store or another crawl, and the request that it was looked up for.
    :param fetched: called with what governs after a fetch, how the fetch ended, and the request that it was made for.
    """

    listener: OriginListener
    agent: Callable[[], Agent]
    parse: Callable[[bytes], ParsedRobots]
    expected: Callable[[OriginPolicy], None]
    loaded: Callable[[OriginPolicy, Request | None], Coroutine[Any, Any, None]]
    fetched: Callable[[OriginPolicy, Access, Request | None], Coroutine[Any, Any, None]]
