"""What `python -m bench.waiting` measures, on few requests."""

from __future__ import annotations

import pytest

from bench.waiting import measure

pytestmark = pytest.mark.once


@pytest.mark.parametrize("how", ["add-on", "around"])
def test_all_wait(how: str) -> None:
    """Of 300 requests all wait in the scheduler, but for those of a moment, and the crawl closes
    in time.
    """
    found = measure(300, 30, how)
    assert found["waiting"] >= 300 - 16
    assert found["closing"] < 15  # a busy machine takes its time
