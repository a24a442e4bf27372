"""Which tests one worker of pytest-xdist runs, and which begin first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

TESTS = Path(__file__).parents[1]

#: The files whose tests wait for the same processes, which crawl the scenarios under each runtime.
RUNTIMES = frozenset(
    {
        "fetching/test_local_faults_and_proxies.py",
        "fetching/test_transfers.py",
        "fetching/test_unreachable.py",
        "middleware/test_waiting.py",
        "test_runtimes.py",
    }
)
#: What takes longest, as the name of a group or of a file in tests/: it begins first, so that no
#: worker goes on alone at the end.
DEAR = (
    "runtimes",
    "test_missing_names.py",
    "example/test_fleet.py",
    "scheduling/test_interval.py",
    "bench/test_interrupted.py",
    "test_wheel.py",
    "commands/test_report_page.py",
    "scheduling/test_shared_interval.py",
    "middleware/test_refused_at_start.py",
    "reporting/test_report_when_killed.py",
    "commands/test_stopped.py",
    "cache/test_worker_processes.py",
    "bench/test_bench.py",
    "bench/test_restart.py",
    "bench/test_faults.py",
    "cache/test_memory.py",
    "example/test_readme.py",
    "test_upstream.py",
    "example/test_demo.py",
    "commands/test_check.py",
)


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Has one worker run all tests of a file, or of a few that share what is dear, so that it is
    made once.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid)


def group_of(nodeid: str) -> str:
    """Return the name of what one worker runs: a file in tests/, or a group of them."""
    file = nodeid.partition("::")[0].removeprefix("tests/")
    return "runtimes" if file in RUNTIMES else file


def dear_first(items: list[pytest.Item]) -> None:
    """Put first what takes long; apart from that, leave the order as it is."""
    ranks = {name: rank for rank, name in enumerate(DEAR)}
    items.sort(key=lambda item: ranks.get(group_of(item.nodeid), len(ranks)))
