"""A small run of `bench/paced.py`: what one crawl does with paced sites beside free ones."""

from __future__ import annotations

import pytest

from bench.paced import beside

pytestmark = pytest.mark.once


def test_paced_sites_beside_free_ones() -> None:
    """The interval is kept, the downloader has one page of a paced site at most, and closing waits for no other."""
    found, told = beside(delay=1.0, paced=4, queued=50, free=4, pages=60)
    assert found.least >= 1.0
    assert told["most"] <= 4
    assert told["left_over"] > 150
    assert found.pages[0] == found.pages[1]
