"""Queues on disk whose process was killed."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.disk_queues import drained
from tests.support.killed_queue import KINDS, opened

if TYPE_CHECKING:
    from pathlib import Path


def steps_until_killed(folder: Path, seed: str) -> list[str]:
    """Run the process that pushes and pops, kill it at a random moment, and return its lines."""
    command = [sys.executable, "-m", "tests.support.killed_queue", str(folder), seed]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(random.Random(seed).randrange(100, 600))]
        process.kill()
        return [line.strip() for line in (*lines, *process.stdout) if line.endswith("\n")]


def test_three_kills(tmp_path: Path) -> None:
    """A killed process loses only what it had popped, and nothing comes twice."""
    stored: set[str] = set()
    popped: set[str] = set()
    unknown = 0
    for seed in ("a", "b", "c"):
        step = ""
        for line in steps_until_killed(tmp_path, seed):
            step, _, url = line.partition(" ")
            if step == "push":
                stored.add(url)
            elif step == "popped":
                popped.add(url)
        unknown += step == "pop"  # it may have popped a request without saying which
    left = [url for kind in KINDS for url in drained(opened(tmp_path / kind, kind), 5_000)]
    assert len(stored - popped) > 40
    assert len(left) == len(set(left))
    assert not popped.intersection(left)
    assert len(stored - popped - set(left)) <= unknown
    # A request may be stored without the line that says so.
    assert len(set(left) - stored) <= 3
