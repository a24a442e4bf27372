"""What `python -m bench.calls` counts."""

from __future__ import annotations

import subprocess
import sys

import pytest


def counted(*options: str) -> dict[str, list[int]]:
    """Return hops, files and calls of a cold and a warm request, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.calls", *options],
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    lines = [line.split() for line in done.stdout.splitlines()]
    return {
        line[0]: [int(each) for each in line[1:]]
        for line in lines
        if len(line) == 4 and line[0] in {"cold", "warm"}
    }


@pytest.mark.parametrize("options", [(), ("--stock",)], ids=["ours", "stock"])
def test_a_cold_request_calls_more_than_a_warm_one(options: tuple[str, ...]) -> None:
    """A request whose robots.txt has to be fetched calls more, in more files, than the next one."""
    found = counted(*options)
    assert all(cold >= warm > 0 for cold, warm in zip(found["cold"], found["warm"], strict=True))
    assert found["cold"][2] > found["warm"][2]


def test_a_request_goes_through_few_calls() -> None:
    """A layer that only passes on would show here: the figures are those of docs/bench.md."""
    found = counted()
    (_, cold_files, cold_calls), (_, warm_files, warm_calls) = found["cold"], found["warm"]
    assert (cold_files <= 28, warm_files <= 12) == (True, True)
    assert (cold_calls <= 205, warm_calls <= 29) == (True, True)
