"""What `python -m bench.waiting` measures, on few requests."""

from __future__ import annotations

import pytest

from bench.waiting import measure

pytestmark = pytest.mark.once


def test_what_is_set_aside_is_bounded() -> None:
    """Of 300 requests that wait, as many are set aside as may be, and the crawl closes in time."""
    found = measure(300, 30, 100)
    assert found["aside"] == 100
    assert found["closing"] < 15  # a busy machine takes its time
