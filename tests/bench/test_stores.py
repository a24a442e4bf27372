"""What `python -m bench.stores` measures, on few origins."""

from __future__ import annotations

import pytest

from bench.generate import files
from bench.stores import in_redis, in_sqlite, values

pytestmark = pytest.mark.once


def test_sqlite() -> None:
    """An SQLite file takes more octets than the values in it, and both calls are measured."""
    kept = values(50, [sample.body for sample in files(5, largest=False)])
    assert len(kept) == 50
    found = in_sqlite(kept)
    assert found.octets > sum(map(len, kept.values())) / 50
    assert set(found.rates) == {"put", "get"}


@pytest.mark.usefixtures("redis_installed")
def test_redis() -> None:
    """Of a Redis server, what its memory grows by is measured, and leases too."""
    kept = values(50, [sample.body for sample in files(5, largest=False)])
    found = in_redis(kept)
    assert found.octets > sum(map(len, kept.values())) / 50
    assert set(found.rates) == {"put", "get", "lease"}
