"""What the service tells the rooms above it, which it does not import. The middleware fills these hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy_robots_rfc.policy.access import Local, Outcome
    from scrapy_robots_rfc.policy.origins import Origin


class OriginListener(Protocol):
    """Is told what becomes of origins: which robots.txt fails, what follows, and how that ends.

    In all of them, `cause` says why the last attempt failed, and `alone` whether it concerns one route only.
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
        """A further attempt has failed, and it is not the last one; so many were made."""

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
        """An earlier copy is obeyed from now on, because its refresh failed."""
