"""Decide which tests one worker of pytest-xdist runs, and which tests start first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    import pytest

#: The slowest files, those that wait longest first, so that no worker is the last one for long.
SLOW = (
    "test_without_reactor.py",
    "example/test_fleet.py",
    "runtimes/test_waiting.py",
    "test_missing_names.py",
    "scheduling/test_interval.py",
    "scheduling/test_shared_interval.py",
    "scheduling/test_resumed.py",
    "scheduling/test_killed.py",
    "scheduling/test_crawl_delays.py",
    "scheduling/test_other_schedulers.py",
    "commands/test_report_page.py",
    "runtimes/test_proxies.py",
    "scheduling/test_order.py",
    "cache/test_redis_crawls.py",
    "middleware/test_refused_at_start.py",
    "cache/test_crawls_of_one_store.py",
    "cache/stores/test_contract.py",
    "commands/test_single_pages.py",
    "runtimes/test_unreachable.py",
    "scheduling/test_rewritten_requests.py",
    "cache/test_sqlite_crawls.py",
    "commands/test_stopped.py",
    "example/test_demo.py",
    "example/test_readme.py",
    "test_upstream.py",
    "fetching/test_service.py",
    "scheduling/test_order_law.py",
    "scheduling/test_hanging_sites.py",
    "commands/test_check.py",
    "reporting/test_report_when_killed.py",
    "cache/test_memory.py",
    "test_imports.py",
    "test_wheel.py",
)


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]  # pytest-xdist has no types
    """Assigns all tests of a file to one worker."""

    def _split_scope(self, nodeid: str) -> str:
        return file_of(nodeid)


def file_of(nodeid: str) -> str:
    """Return the path of a test file in tests/."""
    return nodeid.partition("::")[0].removeprefix("tests/")


def slow_first(items: list[pytest.Item]) -> None:
    """Move slow tests to the front; otherwise keep the order."""
    ranks = {name: rank for rank, name in enumerate(SLOW)}
    items.sort(key=lambda item: ranks.get(file_of(item.nodeid), len(ranks)))
