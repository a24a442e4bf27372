"""What `python -m bench.stores` measures, on few origins."""

from __future__ import annotations

import re

import pytest

from bench.generate import files
from bench.stores import in_redis, in_sqlite, main, values
from tests.support.documents import block

pytestmark = pytest.mark.once


def test_sqlite() -> None:
    """An SQLite file takes more octets than the values in it, and both calls are measured."""
    stored = values(50, [sample.body for sample in files(5, largest=False)])
    assert len(stored) == 50
    found = in_sqlite(stored)
    assert found.octets > sum(map(len, stored.values())) / 50
    assert set(found.rates) == {"put", "get"}


@pytest.mark.usefixtures("redis_installed")
def test_redis() -> None:
    """Of a Redis server, what its memory grows by is measured, and leases too."""
    stored = values(50, [sample.body for sample in files(5, largest=False)])
    found = in_redis(stored)
    assert found.octets > sum(map(len, stored.values())) / 50
    assert set(found.rates) == {"put", "get", "lease"}


def shape(text: str) -> list[str]:
    """The lines of a table without its numbers, and without what depends on how wide they are."""
    return [
        " ".join(re.sub(r"\d[\d,]*", "N", re.sub("-+", "-", line)).split())
        for line in text.splitlines()
    ]


@pytest.mark.usefixtures("redis_installed")
def test_table(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The table in docs/scaling.md is one that the command prints, but for its numbers."""
    monkeypatch.setattr("sys.argv", ["stores", "--origins", "50"])
    assert main() == 0
    assert shape(capsys.readouterr().out.strip()) == shape(
        block("docs/scaling.md", "text", "octets a file")
    )
