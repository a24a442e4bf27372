"""What `bench/instructions.py` says of what it has counted."""

from __future__ import annotations

import pytest

from bench.crawl import OFF, OURS, STOCK
from bench.instructions import environment, report

pytestmark = pytest.mark.once


@pytest.mark.parametrize(
    ("ours", "status"),
    [
        ((3.2e9, 1.01e7, 2e7), 0),
        ((3.3e9, 1.01e7, 2e7), 1),
        ((3.2e9, 1.02e7, 2e7), 1),
        ((3.2e9, 1.01e7, 2.1e7), 1),
    ],
    ids=["reached", "start", "page", "origin"],
)
def test_a_target_that_is_missed(ours: tuple[float, float, float], status: int) -> None:
    """The status is 1 where a start, a page or an origin takes more than the design asks for,
    else 0.
    """
    assert report({OURS: ours, STOCK: (3e9, 1.015e7, 2e7), OFF: (3e9, 1e7, 1.5e7)}) == status


def test_crawls_take_bytecode_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the user's Python writes no bytecode, that of the crawls does.

    Else compiling would be counted.
    """
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("HOME", "/home/user")
    found = environment()
    assert "PYTHONDONTWRITEBYTECODE" not in found
    assert found["HOME"] == "/home/user"
