"""Fixtures for the tests of the SQLite store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.sqlite_files import KEY, LONG, opened

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The path of the file."""
    return tmp_path / "robots.sqlite"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    """A store with one value."""
    made = opened(path)
    made.put(KEY, b"one", LONG)
    yield made
    made.close()
