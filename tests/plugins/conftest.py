"""The plugins of docs/plugins.md are in an environment of their own (`make plugins`).

Elsewhere none is run.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent

if find_spec("scrapy_poet") is None:
    collect_ignore_glob = ["test_*.py"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Show warnings as warnings: most plugins are older than what Scrapy wants of them now."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.filterwarnings("default"))
