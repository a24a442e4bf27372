"""The policies that a crawl knows, and the rules for which route each one applies to.

A file is the same through every proxy and for every FTP account. But if the site hasn't answered,
its policy (`for_all_routes` is false) only applies to requests with the same route. So there are
two tables: the newest policy of each origin, and the newest failure of each route.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from scrapy.utils.datatypes import LocalCache

from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.fetching.routes import Route
from scrapy_robots_rfc.policy.access import Validity
from scrapy_robots_rfc.policy.origins import Origin

#: Maximum number of failed routes to remember.
FAILED_ROUTES = 10_000


class FixedPolicies(Protocol):
    """Policies that need no fetch, such as the user's exceptions."""

    def policy(self, origin: Origin) -> OriginPolicy | None:
        """Return the policy for an origin, or `None` to fetch the file from its site."""


class KnownPolicies:
    """The policies that a crawl knows.

    :param fixed: looked up first.
    :param memory: the newest policy of each origin. If it isn't for all routes, a request without a
        route has failed.
    """

    def __init__(
        self,
        fixed: Sequence[FixedPolicies],
        memory: MemoryCache,
        clock: Callable[[], float],
    ) -> None:
        self._fixed = fixed
        self.memory: MemoryCache = memory
        self._clock = clock
        # The newest failure of each route. For requests without a route, these are failures of the
        # crawl itself, and of a proxy that a middleware picked.
        self._failures: LocalCache[tuple[Origin, Route], OriginPolicy] = LocalCache(FAILED_ROUTES)

    def fixed(self, origin: Origin) -> OriginPolicy | None:
        """Return an origin's policy if its robots.txt is never fetched, or `None`.

        The user has set it, as in ROBOTS_EXEMPT, or this is an offline replay.
        """
        for policies in self._fixed:
            policy = policies.policy(origin)
            if policy is not None:
                return policy
        return None

    def get(self, origin: Origin, route: Route = None) -> OriginPolicy | None:
        """Return a fresh policy for requests to an origin, or `None` if a fetch is needed.

        :param route: the route of the requests.
        """
        if self._fixed:  # most crawls have none
            fixed = self.fixed(origin)
            if fixed is not None:
                return fixed
        now = self._clock()
        policy: OriginPolicy | None = self.memory.get(origin)
        is_usable = policy is not None and (policy.for_all_routes or route is None)
        if policy is not None and is_usable and now < policy.validity.fresh_until:
            return policy
        failure = self._failures.get((origin, route))
        if failure is None or now >= failure.validity.fresh_until:
            return None
        # If a file was fetched after the failure, but has expired, it has to be fetched again.
        if policy is not None and policy.for_all_routes and failure.fetched < policy.fetched:
            return None
        return failure

    def validity(self, origin: Origin, route: Route, entry: CacheEntry | None) -> Validity | None:
        """Return the validity of the last result for a route, fresh or not, or `None`.

        The log and the stats compare the next result with it.

        :param entry: the origin's entry in memory.
        """
        failure = self._failures.get((origin, route))
        if failure is not None and (entry is None or failure.fetched >= entry.fetched):
            return failure.validity
        return None if entry is None else entry.validity

    def add(self, origin: Origin, route: Route, policy: OriginPolicy, entry: CacheEntry) -> None:
        """Add the result of a fetch, which is for all routes or only for requests without a route.

        :param route: the route of the page that the fetch was started for.
        """
        self.memory.put(origin, policy, entry)
        if route is not None and not policy.for_all_routes:
            # For example, a redirect to another host has dropped the FTP account. `get` wouldn't
            # use the policy for this route, so the same fetch would start again and again.
            self.add_failure(origin, route, policy)

    def add_failure(self, origin: Origin, route: Route, policy: OriginPolicy) -> None:
        """Add the failure of a route, or of the crawl itself, which isn't held against the site."""
        self._failures[origin, route] = policy
