"""Where a robots.txt comes from, if not from its site as a page does.

`leaves.py` says what loads which source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from scrapy.settings import BaseSettings

from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.policy.origins import Origin


class Source(Protocol):
    """What is known of origins without a request, such as the user's exceptions."""

    def robots(self, origin: Origin) -> OriginPolicy | None:
        """Return what governs an origin; ``None``: its site is asked."""


def first_of(sources: Iterable[Source], origin: Origin) -> OriginPolicy | None:
    """Return what the first source that knows an origin says of it."""
    for source in sources:
        if (robots := source.robots(origin)) is not None:
            return robots
    return None


class Transfer(Protocol):
    """How the files of a kind of schemes are transferred, where Scrapy's download handler does it otherwise."""

    def __call__(self, handler: Any, settings: BaseSettings, mark: str, limit: int) -> None:  # noqa: ANN401 - Scrapy's
        """Have a download handler get requests with a mark in this way.

        :param settings: of the crawl.
        :param mark: a meta key.
        :param limit: octets of a file that are transferred.
        """
