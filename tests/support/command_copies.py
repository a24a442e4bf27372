"""The result of a command, and sample entries for the stores of its tests."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.cache.entry import CacheEntry, Validators, encode
from scrapy_robots_rfc.policy.access import Outcome
from tests.support.entries import made

if TYPE_CHECKING:
    from scrapy_robots_rfc.cache.stores.base import Store

HOUR, DAY = 3600.0, 86_400.0


@dataclass(frozen=True)
class Done:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """The lines of the output."""
        return self.out.splitlines()


NOW = time.time()
OPEN = made(
    Outcome.SUCCESSFUL,
    200,
    "200",
    NOW - 2 * HOUR,
    NOW + 22 * HOUR,
    confirmed=NOW - 2 * HOUR,
    validators=Validators("http://a.example/robots.txt", b'"v1"', b"Tue, 14 Nov 2023 22:13:20 GMT"),
    body=b"User-agent: *\nDisallow: /x\n",
)
MISSING = made(Outcome.UNAVAILABLE, 404, "404", NOW - 2 * DAY, NOW - DAY)
CLOSED = made(
    Outcome.UNREACHABLE,
    None,
    "DownloadTimeoutError",
    NOW - 60,
    NOW + 240,
    unreachable_since=NOW - DAY,
)


def fill(store: Store, **copies: CacheEntry) -> None:
    """Put entries of hosts into a store."""
    for host, copy in copies.items():
        store.put(f"http://{host}.example", encode(copy), DAY)
