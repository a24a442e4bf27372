"""What came of the scenarios under each runtime: `runtime_runner.py` crawls those of a few files in one process.

A process is started when a test first asks for one of its scenarios, and once in a run of the suite: workers of
pytest-xdist that ask for the same one wait for it.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

MODES = ("asyncio", "select", "none")
HERE = Path(__file__).parent
ROOT = HERE.parent.parent


#: The files of scenarios that one process crawls: few processes, since each loads Scrapy, and none that takes long.
PROCESSES = (
    ("scenarios", "scenarios_sharing", "scenarios_spiders", "scenarios_steering", "scenarios_stores"),
    ("scenarios_failing", "scenarios_report", "scenarios_transfers"),
    ("scenarios_local", "scenarios_routes", "scenarios_waiting"),
)


@cache
def process_of(name: str) -> tuple[str, ...]:
    """Return the modules whose scenarios are crawled by the process that crawls this one."""
    (found,) = [modules for modules in PROCESSES if any(name in scenarios(module) for module in modules)]
    return found


def scenarios(module: str) -> dict[str, Any]:
    """Return the scenarios of a file, by name."""
    found: dict[str, Any] = importlib.import_module(f"tests.scrapy.{module}").SCENARIOS
    return found


class Results:
    """What came of every scenario under one runtime, by its name.

    :param mode: the runtime.
    :param folder: where the results are kept; the workers of a run share it.
    """

    def __init__(self, mode: str, folder: Path) -> None:
        self._mode = mode
        self._folder = folder
        self._known: dict[tuple[str, ...], dict[str, Any]] = {}

    def __getitem__(self, name: str) -> Any:
        """Return what came of a scenario."""
        modules = process_of(name)
        if modules not in self._known:
            self._known[modules] = self._of(modules)
        return self._known[modules][name]

    def _of(self, modules: tuple[str, ...]) -> dict[str, Any]:
        kept = self._folder / f"{self._mode}-{modules[0]}.json"
        with kept.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not kept.exists():
                kept.write_bytes(self._crawled(modules))
        found: dict[str, Any] = json.loads(kept.read_bytes())
        return found

    def _crawled(self, modules: tuple[str, ...]) -> bytes:
        command = [sys.executable, "-m", "tests.scrapy.runtime_runner", self._mode, *modules]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=90, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout
