"""What `python -m bench.hosts` measures, with few hosts.

That its crawls are what it says, not what they take.
"""

from __future__ import annotations

import pytest

from bench.crawl import OFF, OURS, STOCK
from bench.hosts import kib, measure, one_more

pytestmark = pytest.mark.once


@pytest.mark.parametrize("mode", [OFF, STOCK, OURS])
def test_crawls_are_alike(mode: str) -> None:
    """Each crawl comes to every page, by one robots.txt of each origin where it obeys that."""
    found = measure(mode, 40, 10)
    assert (found["through"], found["fetched"]) == (40, 0 if mode == OFF else 40)


def test_memory_of_a_host() -> None:
    """A host's share is what a crawl has more at its end than at its start, less that of the
    crawl without.
    """
    off = {"0": 1000, "10": 2000 * 1024}
    assert kib({"0": 5000, "10": 4000 + 2030 * 1024}, off, 10) == 3.0


def test_memory_of_one_more_host() -> None:
    """What one more host takes is the same for the second half of them."""
    off = {"5": 1000, "10": 2000 * 1024}
    assert one_more({"5": 5000, "10": 4000 + 2010 * 1024}, off, 10) == 2.0
