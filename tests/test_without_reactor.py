"""The tests of `runtimes/` without a reactor, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

#: pytest without its plugins for event loops, and in one process.
COMMAND = "-m pytest -q -n 0 -p no:twisted -p no:anyio -o addopts=--import-mode=importlib"


def test_without_a_reactor(pytestconfig: pytest.Config) -> None:
    """Crawls without a reactor have the same results as crawls with one."""
    warnings = [f"-W{rule}" for rule in pytestconfig.getoption("pythonwarnings") or ()]
    done = subprocess.run(
        [sys.executable, *COMMAND.split(), *warnings, "tests/runtimes"],
        cwd=pytestconfig.rootpath,
        env={**os.environ, "TESTS_WITHOUT_REACTOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
