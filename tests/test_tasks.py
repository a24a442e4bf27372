"""Tasks of their own, whichever runtime they run in."""

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
from tests.support.service_crawls import next_turn

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.reactor, pytest.mark.usefixtures("few_to_collect")]


@pytest.fixture
def events() -> Iterator[list[dict[str, Any]]]:
    """What Twisted logs."""
    found: list[dict[str, Any]] = []
    log.addObserver(found.append)
    yield found
    log.removeObserver(found.append)


async def turns() -> None:
    """Let everything else run, and free all that has no reference."""
    for _ in range(3):
        await next_turn()
        gc.collect()


@ensureDeferred
async def test_an_error_is_logged(
    events: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected error of a task is logged."""

    async def fails() -> None:
        await next_turn()
        raise KeyError("unexpected")

    Runtime().spawn(fails())
    await deferred_from_coro(turns())
    assert "unexpected" in caplog.text + str(events)


@ensureDeferred
async def test_the_end_of_a_task_is_not(
    events: list[dict[str, Any]], caplog: pytest.LogCaptureFixture
) -> None:
    """A task that is cancelled ends without a word."""

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
async def test_a_task_is_held() -> None:
    """A task goes on although nothing refers to it, nor to what it waits for."""
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
