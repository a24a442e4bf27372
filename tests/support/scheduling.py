"""Decide which tests one worker of pytest-xdist runs, and which tests start first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

#: The files whose tests use the results of scenarios. One worker runs them (see `runtimes.py`).
RUNTIMES = frozenset(
    {
        "fetching/test_local_faults_and_proxies.py",
        "fetching/test_transfers.py",
        "fetching/test_unreachable.py",
        "middleware/test_waiting.py",
        "scheduling/test_prerequisite.py",
        "test_runtimes.py",
    }
)
#: The slowest files, and the group "runtimes". They start first, so that no worker is the last one
#: for long.
SLOW = (
    "runtimes",
    "test_missing_names.py",
    "example/test_fleet.py",
    "scheduling/test_interval.py",
    "test_wheel.py",
    "commands/test_report_page.py",
    "scheduling/test_shared_interval.py",
    "middleware/test_refused_at_start.py",
    "reporting/test_report_when_killed.py",
    "commands/test_stopped.py",
    "cache/test_worker_processes.py",
    "bench/test_crawls.py",
    "bench/test_faults.py",
    "cache/test_memory.py",
    "example/test_readme.py",
    "test_upstream.py",
    "example/test_demo.py",
    "commands/test_check.py",
)


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Assigns all tests of a file, or of a group of files, to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the group that one worker runs: a file in tests/, or "runtimes"."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return "runtimes" if file in RUNTIMES else file


def slow_first(items: list[pytest.Item]) -> None:
    """Move slow tests to the front; otherwise keep the order."""
    ranks = {name: rank for rank, name in enumerate(SLOW)}
    items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))
