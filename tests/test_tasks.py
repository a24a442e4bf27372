"""Background tasks, with each reactor."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.defer import Deferred
from twisted.python import log

from scrapy_robots_rfc._runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.reactor, pytest.mark.usefixtures("few_to_collect")]


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """The events that Twisted logs."""
    logged: list[dict[str, Any]] = []
    log.addObserver(logged.append)
    yield logged
    log.removeObserver(logged.append)


async def turns() -> None:
    """Wait for some turns of the event loop, and collect garbage."""
    for _ in range(3):
        await Runtime().sleep(0)
        gc.collect()


@ensureDeferred
async def test_a_cancelled_task_logs_nothing(
    events: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """A task that is cancelled logs nothing."""

    async def waits() -> None:
        never: Deferred[None] = Deferred()
        await maybe_deferred_to_future(never)

    task = Runtime().spawn(waits())
    await deferred_from_coro(turns())
    task.cancel()
    del task
    await deferred_from_coro(turns())
    assert "Cancelled" not in caplog.text + str(events)


@ensureDeferred
async def test_a_task_is_kept_alive() -> None:
    """A task continues although nothing refers to it or to what it waits for."""
    ended: list[bool] = []

    async def waits() -> None:
        never: Deferred[None] = Deferred()
        try:
            await maybe_deferred_to_future(never)
        finally:
            ended.append(True)

    spawned = [Runtime().spawn(waits())]
    spawned_task = weakref.ref(spawned.pop())
    await deferred_from_coro(turns())
    assert ended == []
    task = spawned_task()
    assert task is not None
    task.cancel()
    await deferred_from_coro(turns())
    assert ended == [True]
