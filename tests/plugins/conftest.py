"""Run the tests of plugins only in the environment that has the plugins (`make plugins`)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if find_spec("scrapy_poet") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Do not let warnings fail these tests: most plugins use interfaces that Scrapy deprecates."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("default"))
