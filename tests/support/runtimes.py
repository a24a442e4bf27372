"""The results of the scenarios in each runtime: asyncio, another reactor, no reactor.

A scenario is a coroutine function of a `scenarios_*.py` file with one parameter, `run`, which
crawls. It returns values for a test, as JSON. `runtime_runner.py` runs scenarios in one process for
each runtime. With pytest-xdist, all scenarios run, because one worker has all tests that need them.
Without it, only the scenarios of the same file run.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from tests.support.crawling import Run

    Scenario = Callable[[Run], Awaitable[dict[str, Any]]]

MODES = ("asyncio", "select", "none")
HERE = Path(__file__).parent
ROOT = HERE.parent.parent
MODULES = tuple(sorted(path.stem for path in HERE.glob("scenarios_*.py")))
TIMEOUT = 300  # seconds; the processes take about a tenth of it


def scenarios(module: str) -> dict[str, Scenario]:
    """Return the scenarios of a module, by name."""
    loaded = importlib.import_module(f"tests.support.{module}")
    return {
        name: function
        for name, function in inspect.getmembers(loaded, inspect.iscoroutinefunction)
        if function.__module__ == loaded.__name__
        and [*inspect.signature(function).parameters] == ["run"]
    }


@cache
def module_of(name: str) -> str:
    """Return the module of a scenario."""
    (module,) = [module for module in MODULES if name in scenarios(module)]
    return module


class Crawls:
    """The processes, and the results of the scenarios in them."""

    def __init__(self) -> None:
        self._running: dict[tuple[str, tuple[str, ...]], subprocess.Popen[bytes]] = {}
        self._ended: dict[tuple[str, tuple[str, ...]], dict[str, Any]] = {}

    def result(self, mode: str, name: str) -> Any:
        """Return the result of a scenario in a runtime."""
        run_all = "PYTEST_XDIST_WORKER" in os.environ
        modules = MODULES if run_all else (module_of(name),)
        for each in MODES if run_all else (mode,):
            if (each, modules) not in self._running:
                self._running[each, modules] = _start(each, modules)
        if (mode, modules) not in self._ended:
            self._ended[mode, modules] = _result(self._running[mode, modules])
        return self._ended[mode, modules][name]

    def close(self) -> None:
        """Kill the processes that no test waited for."""
        for process in self._running.values():
            process.kill()
            process.communicate()


def _start(mode: str, modules: Iterable[str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.support.runtime_runner", mode, *modules]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "example_project")}  # as in pyproject
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def _result(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    stdout, stderr = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 0, stderr.decode()
    results: dict[str, Any] = json.loads(stdout)
    return results


class Results:
    """The results of the scenarios in one runtime, by name."""

    def __init__(self, mode: str, crawls: Crawls) -> None:
        self._mode, self._crawls = mode, crawls

    def __getitem__(self, name: str) -> Any:
        return self._crawls.result(self._mode, name)
