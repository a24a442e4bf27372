"""What came of the scenarios under each runtime: `runtime_runner.py` crawls them in a process of
their own.

The processes of the suite crawl all scenarios under all runtimes, and begin when a test first asks
for one of them: all such tests run in one worker of pytest-xdist. Without it, somebody runs few
tests, and only the scenarios of the file that has the one in question are crawled.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MODES = ("asyncio", "select", "none")
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MODULES = tuple(sorted(path.stem for path in HERE.glob("scenarios_*.py")))
TIMEOUT = 300  # seconds until the processes that hang fail their tests; they take a tenth of it


@cache
def module_of(name: str) -> str:
    """Return the module that has a scenario."""
    (found,) = [module for module in MODULES if name in scenarios(module)]
    return found


def scenarios(module: str) -> dict[str, Any]:
    """Return the scenarios of a file, by name."""
    found: dict[str, Any] = importlib.import_module(f"tests.support.{module}").SCENARIOS
    return found


class Crawls:
    """The processes, and what came of each scenario in them."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, tuple[str, ...]], subprocess.Popen[bytes]] = {}
        self._ended: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}

    def of(self, mode: str, name: str) -> Any:
        """Return what came of a scenario under a runtime."""
        together = "PYTEST_XDIST_WORKER" in os.environ
        modules = MODULES if together else (module_of(name),)
        for each in MODES if together else (mode,):
            if (each, modules) not in self._running:
                self._running[each, modules] = _start(each, modules)
        if (mode, modules) not in self._ended:
            self._ended[mode, modules] = _result(self._running[mode, modules])
        return self._ended[mode, modules][name]

    def close(self) -> None:
        """End what no test waited for."""
        for process in self._running.values():
            process.kill()
            process.communicate()


def _start(mode: str, modules: Iterable[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.runtime_runner", mode, *modules]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def _result(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    stdout, stderr = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, stderr.decode()
    found: dict[str, Any] = json.loads(stdout)
    return found


class Results:
    """What came of every scenario under one runtime, by its name.

    :param mode: the runtime.
    """

    def __init__(self, mode: str, crawls: Crawls) -> None:
        self._mode, self._crawls = mode, crawls

    def __getitem__(self, name: str) -> Any:
        """Return what came of a scenario."""
        return self._crawls.of(self._mode, name)
