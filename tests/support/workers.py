"""Run crawls in processes that start together and can be killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parent

#: The runtimes: two reactors, and none.
MODES = ("asyncio", "select", "none")

#: Maximum seconds of a crawl.
TIMEOUT = 100


class Worker:
    """A process. It crawls after `start`.

    :param mode: the runtime, one of `MODES`.
    :param hold: see `worker_runner.main`.
    """

    def __init__(
        self, mode: str, urls: list[str], settings: dict[str, Any], hold: float | None = None
    ) -> None:
        arguments = {"mode": mode, "urls": urls, "settings": settings, "hold": hold}
        self.process = subprocess.Popen(
            [sys.executable, str(HERE / "worker_runner.py"), json.dumps(arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(HERE.parent.parent)},
        )

    def ready(self) -> None:
        """Wait until the process can start its crawl."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", self.process.communicate()

    def start(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def result(self) -> dict[str, Any]:
        """Wait for the end, and return the results and the log."""
        stdout, stderr = self.process.communicate(timeout=TIMEOUT)
        assert self.process.returncode == 0, stderr
        result: dict[str, Any] = json.loads(stdout)
        return {**result, "log": stderr}


@contextmanager
def fleet(*workers: Worker) -> Iterator[None]:
    """Wait until workers are ready, and kill them at the end of the block."""
    try:
        for worker in workers:
            worker.ready()
        yield
    finally:
        for worker in workers:
            worker.process.kill()
            worker.process.communicate()
