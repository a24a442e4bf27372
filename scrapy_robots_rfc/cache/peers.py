"""Peers: the crawls on one event loop that ask for a robots.txt in the same way, with the same settings for it.

They show each other their entries, and while one of them fetches a file the others wait. For crawls in several
processes see `shared.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_robots_rfc.cache.entry import CacheEntry
    from scrapy_robots_rfc.policy.origins import Origin

# For how many origins a crawl remembers by which route it got their file. Peers fetch the files of others themselves.
_REMEMBERED = 10_000

# Event loop, kind of crawl -> the crawls that share.
_GROUPS: dict[tuple[object, Hashable], list[Peers]] = {}


class Peers:
    """A crawl among its peers.

    :param route: returns the route of the request that asks for a file, as its proxy: see `fetching/routes.py`.
    :param closing: whether this crawl is ending: peers do not wait for what it still fetches.
    """

    def __init__(self, route: Callable[[Any], Hashable], closing: Callable[[], bool]) -> None:
        self._route, self._closing = route, closing
        self._entry: Callable[[Origin], CacheEntry | None] = lambda _: None
        self._key: tuple[object, Hashable] | None = None
        self._group: list[Peers] = []
        self._fetching: dict[Origin, Hashable] = {}
        self._had: dict[Origin, Hashable] = {}

    def join(self, loop: object, kind: Hashable, entry: Callable[[Origin], CacheEntry | None]) -> None:
        """Share with the crawls of the same kind on an event loop, until `leave`.

        :param kind: equal for crawls that ask for a robots.txt, and judge its answer, in the same way.
        :param entry: returns what this crawl remembers of an origin.
        """
        self._entry = entry
        self._key = loop, kind
        self._group = _GROUPS.setdefault(self._key, [])
        self._group.append(self)

    def leave(self) -> None:
        """Share nothing any more."""
        if self._key is not None:
            self._group.remove(self)
            if not self._group:
                _GROUPS.pop(self._key, None)
            self._key, self._group = None, []

    def look(self, origin: Origin, asker: object) -> tuple[CacheEntry | None, bool]:
        """Return the newest entry that a peer got by the same route, fresh or not; and whether a peer is fetching."""
        if len(self._group) < 2:
            return None, False
        route = self._route(asker)
        others = [peer for peer in self._group if peer is not self and not peer._closing()]
        found = (peer._entry(origin) for peer in others if origin in peer._had and peer._had[origin] == route)
        newest = max((entry for entry in found if entry), key=lambda entry: entry.fetched, default=None)
        return newest, any(origin in peer._fetching and peer._fetching[origin] == route for peer in others)

    def begin(self, origin: Origin, asker: object) -> None:
        """Let the others wait for what this crawl fetches."""
        self._fetching[origin] = self._route(asker)

    def end(self, origin: Origin) -> None:
        """Let the others go on."""
        self._fetching.pop(origin, None)

    def keep(self, origin: Origin, asker: object, *, shared: bool) -> None:
        """Note the route by which this crawl got the file that it remembers.

        :param shared: whether the others may have it.
        """
        self._had.pop(origin, None)
        if shared:
            self._had[origin] = self._route(asker)
            if len(self._had) > _REMEMBERED:
                del self._had[next(iter(self._had))]
