"""Small runs of `bench/paced.py`.

What a crawl, and a fleet, do with paced sites beside free ones.
"""

from __future__ import annotations

import pytest

from bench.paced import beside, fleet
from tests.support.redis_server import COMMAND, RedisServer

pytestmark = pytest.mark.once


def test_paced_sites_beside_free_ones() -> None:
    """The interval is obeyed, the downloader has one page of a paced site at most, and closing
    waits for no other.
    """
    found, crawled = beside(delay=1.0, paced=4, queued=200, free=4, pages=150)
    assert found.least >= 1.0
    assert crawled["most"] <= 4
    assert crawled["left_over"] > 600
    assert found.pages[0] == found.pages[1]


@pytest.mark.skipif(COMMAND is None, reason="redis-server is not installed")
def test_fleet_with_one_queue_in_redis() -> None:
    """Two workers obey the interval together.

    What waits in the worker that gets SIGTERM, the other one fetches.
    """
    with RedisServer() as server:
        found = fleet(server.url, delay=1.0, paced=(3, 6), free=(3, 40), workers=2)
    assert found.least >= 1.0
    assert found.pages == (138, 138)
