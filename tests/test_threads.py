"""Threads for blocking calls: their results, and no caller waits forever."""

from __future__ import annotations

import threading

import pytest

from scrapy_robots_rfc._runtime import CANCELLED, Runtime, Threads
from tests.support.processes import python
from tests.support.running import under_the_reactor

HANGS = """
import asyncio, threading
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc._runtime import Threads

async def main():
    try:
        await Threads(1, Runtime(), "test").call(threading.Event().wait, limit=0.01)
    except TimeoutError as error:
        print(error)

asyncio.run(main())
"""


def test_the_process_ends() -> None:
    """A call that hangs does not prevent the end of a process without a reactor."""
    found = python("-c", HANGS)
    assert (found.returncode, found.stdout, found.stderr) == (0, "no answer in 0.01 s\n", "")


@pytest.mark.reactor
@under_the_reactor
@pytest.mark.parametrize("kind", CANCELLED)
async def test_a_call_that_was_cancelled_by_itself(kind: type[BaseException]) -> None:
    """A cancellation inside a call is an error for its caller, and the thread continues."""
    threads = Threads(1, Runtime(), "test")

    def cancel() -> None:
        raise kind

    with pytest.raises(RuntimeError, match="cancelled"):
        await threads.call(cancel, limit=60)
    assert await threads.call(lambda: 5, limit=60) == 5
    await threads.close(lambda: None, limit=60)


@pytest.mark.reactor
@under_the_reactor
async def test_calls_without_a_caller_are_not_made() -> None:
    """A call whose time limit ended in the queue is not made."""
    threads, go_on, made = Threads(1, Runtime(), "test"), threading.Event(), []
    with pytest.raises(TimeoutError):
        await threads.call(go_on.wait, limit=0.01)
    with pytest.raises(TimeoutError):
        await threads.call(lambda: made.append("late"), limit=0.01)
    go_on.set()
    await threads.call(lambda: made.append("last"), limit=60)
    assert made == ["last"]
    await threads.close(lambda: None, limit=60)


@pytest.mark.reactor
@under_the_reactor
async def test_as_many_at_once_as_there_are_threads() -> None:
    """Two threads make two calls at once, which wait for each other."""
    threads, both = Threads(2, Runtime(), "test"), threading.Barrier(2, timeout=60)
    runtime, done = Runtime(), []

    async def one() -> None:
        done.append(await threads.call(both.wait, limit=60))

    runtime.spawn(one())
    await threads.call(both.wait, limit=60)
    while not done:
        await threads.call(lambda: None, limit=60)
    await threads.close(lambda: None, limit=60)


@pytest.mark.reactor
@under_the_reactor
async def test_the_last_call_is_made_without_any_other() -> None:
    """The last function is called even without other calls."""
    made: list[str] = []
    await Threads(2, Runtime(), "test").close(lambda: made.append("last"), limit=60)
    assert made == ["last"]


class Shortage:
    """Lets no thread start while it is on, as if the process had reached its limit."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on = True
        start = threading.Thread.start

        def start_if_possible(thread: threading.Thread) -> None:
            if self.is_on:
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_if_possible)


@pytest.mark.reactor
@under_the_reactor
async def test_a_thread_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """If no thread can be started, the call fails at once and is not made later."""
    threads, made = Threads(1, Runtime(), "test"), list[str]()
    shortage = Shortage(monkeypatch)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        await threads.call(lambda: made.append("first"), limit=60)
    shortage.is_on = False
    await threads.call(lambda: made.append("second"), limit=60)
    assert made == ["second"]
    await threads.close(lambda: None, limit=60)


@pytest.mark.reactor
@under_the_reactor
async def test_a_second_thread_that_cannot_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """If only a further thread can't be started, the running ones make the call."""
    threads = Threads(2, Runtime(), "test")
    assert await threads.call(lambda: 1, limit=60) == 1
    Shortage(monkeypatch)
    assert await threads.call(lambda: 2, limit=60) == 2
    await threads.close(lambda: None, limit=60)
