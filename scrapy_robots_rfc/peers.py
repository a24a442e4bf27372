"""Peers: the crawls of one process, on one event loop, that would ask for a robots.txt in the same way.

In here: which crawls these are, what one of them has for the others, and which of them fetches while the others wait.
What a copy is worth to a crawl is the service's business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    from scrapy_robots_rfc.policy.origin import Origin
    from scrapy_robots_rfc.stores.codec import Copy

#: What an asker's robots.txt is asked for by: the proxy, for instance. `None` is the way of most requests.
Route: TypeAlias = "Hashable"

# Origins of which a crawl remembers by which route it has their file, oldest first; its peers fetch others themselves.
_REMEMBERED = 10_000

#: By event loop and kind: the crawls that ask alike.
_GROUPS: dict[tuple[object, Hashable], list[Peers]] = {}


class Peers:
    """A crawl among its peers. It costs a look-up a fetch where there are none.

    :param route: tells the route of the request on whose behalf a file is fetched.
    :param closing: whether this crawl is ending: what it still fetches is waited for by nobody.
    """

    def __init__(self, route: Callable[[Any], Route], closing: Callable[[], bool]) -> None:
        self._route, self._closing = route, closing
        self._copy: Callable[[Origin], Copy | None] = lambda _: None
        self._key: tuple[object, Hashable] | None = None
        self._group: list[Peers] = []
        self._fetching: dict[Origin, Route] = {}
        self._had: dict[Origin, Route] = {}

    def join(self, loop: object, kind: Hashable, copy: Callable[[Origin], Copy | None]) -> None:
        """Share with the crawls of an event loop that are of the same kind, until `leave`.

        :param kind: equal for crawls whose requests for a robots.txt, and what they make of the answer, are alike.
        :param copy: gives what this crawl remembers of an origin.
        """
        self._copy = copy
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

    def look(self, origin: Origin, asker: object) -> tuple[Copy | None, bool]:
        """Return the newest copy that a peer got by the same route, fresh or not; and whether a peer is fetching."""
        if len(self._group) < 2:
            return None, False
        route = self._route(asker)
        others = [peer for peer in self._group if peer is not self and not peer._closing()]
        found = (peer._copy(origin) for peer in others if origin in peer._had and peer._had[origin] == route)
        newest = max((copy for copy in found if copy), key=lambda copy: copy.fetched, default=None)
        return newest, any(origin in peer._fetching and peer._fetching[origin] == route for peer in others)

    def begin(self, origin: Origin, asker: object) -> None:
        """Have the others wait for what this crawl fetches."""
        self._fetching[origin] = self._route(asker)

    def end(self, origin: Origin) -> None:
        """Let the others go on."""
        self._fetching.pop(origin, None)

    def keep(self, origin: Origin, asker: object, *, shared: bool) -> None:
        """Take note of where the file that this crawl remembers is from.

        :param shared: whether the others may have it.
        """
        self._had.pop(origin, None)
        if shared:
            self._had[origin] = self._route(asker)
            if len(self._had) > _REMEMBERED:
                del self._had[next(iter(self._had))]
