"""Threads for calls that block: what they return comes back to the event loop, and none keeps the process alive.

In here: nothing about what is called. `concurrent.futures` will not do: the interpreter waits for its threads at exit,
also for one that hangs for ever.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TypeVar

from scrapy_robots_rfc._runtime import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc._runtime import Runtime

_T = TypeVar("_T")


@dataclass(eq=False, slots=True)
class _Job:
    """One call: what to call, whom to tell; nobody waits any more for one that is dropped."""

    function: Callable[[], object]
    tell: Callable[[object, Exception | None], None]
    dropped: bool = False


class Threads:
    """So many daemon threads, each of which is started when there is work for it.

    :param count: how many calls are under way at once; the others stand in line.
    :param name: of the threads, for people.
    """

    def __init__(self, count: int, runtime: Runtime, name: str) -> None:
        self._count, self._runtime, self._name = count, runtime, name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._running: set[_Job] = set()
        self._started = 0

    @property
    def busy(self) -> int:
        """How many calls are under way, those that nobody waits for any more among them."""
        return len(self._running)

    async def call(self, function: Callable[[], _T], *, limit: float) -> _T:
        """Call a function on a thread and return what it returns, or raise what it raises.

        :param limit: seconds to wait, standing in line included.
        :raises TimeoutError: it took longer. A call that has begun goes on, for nobody.
        """
        waiter: Waiter[tuple[Any, Exception | None]] = Waiter()
        on_this_thread = self._runtime.caller()

        def tell(value: object, error: Exception | None) -> None:
            on_this_thread(lambda: waiter.resolve((value, error)))

        job = _Job(function, tell)
        late = TimeoutError(f"no answer in {limit:g} s")
        timer = self._runtime.call_later(limit, lambda: waiter.resolve((None, late)))
        self._submit(job)
        try:
            value, error = await waiter
        finally:
            job.dropped = True
            timer.cancel()
        if error is not None:
            raise error
        result: _T = value
        return result

    def stop(self) -> None:
        """Let the threads end when the line is empty; nothing is to be called any more."""
        for _ in range(self._started):
            self._jobs.put(None)

    def _submit(self, job: _Job) -> None:
        self._jobs.put(job)
        if self._started < self._count:
            self._started += 1
            threading.Thread(target=_work, args=(self._jobs, self._running), name=self._name, daemon=True).start()


def _work(jobs: SimpleQueue[_Job | None], running: set[_Job]) -> None:
    while (job := jobs.get()) is not None:
        if job.dropped:
            continue
        running.add(job)
        try:
            value, failure = job.function(), None
        except Exception as error:  # noqa: BLE001 - raised again where it is waited for
            value, failure = None, error
        running.discard(job)
        job.tell(value, failure)
