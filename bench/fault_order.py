"""Check that requests of `bench.faults` are handed out in the order of Scrapy's own queue.

When a request is handed out, no other queued request of its origin and slot may come before it. The
log has each push and each pop, so the check does not depend on concurrency or on the load of the
machine. (A redirected request keeps its slot.)
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bench.fault_log import Event
from bench.fault_plan import Plan


@dataclass(frozen=True, slots=True)
class Queued:
    """A request in the queue.

    :param part: its site and slot.
    :param rank: a request with a smaller rank comes first.
    """

    number: int
    part: tuple[int | None, str]
    rank: tuple[int, bool, int]


def is_promised(plan: Plan) -> bool:
    """Return whether the crawl uses Scrapy's own scheduler with our queue."""
    return plan.scheduler == "own"


def overtaken(plan: Plan, events: Iterable[Event]) -> Iterator[str]:
    """Describe each request that was handed out before one that comes first."""
    if not is_promised(plan):
        return
    queued: dict[int, Queued] = {}
    for position, event in enumerate(events):
        if event.kind == "killed":
            queued.clear()  # a kill may lose or repeat requests
        if event.number is None or event.exempt:
            continue
        if event.kind == "pushed":
            rank = _rank(plan, event, position)
            queued[event.number] = Queued(event.number, (event.site, event.slot), rank)
        elif event.kind == "popped" and event.number in queued:
            request = queued.pop(event.number)
            others = (other for other in queued.values() if other.part == request.part)
            best = min(others, key=lambda other: other.rank, default=request)
            if best.rank < request.rank:
                yield f"{request} was handed out before {best}"


def _rank(plan: Plan, event: Event, position: int) -> tuple[int, bool, int]:
    """Return the rank of a request in Scrapy's queue.

    The highest priority comes first. Start requests come last in their priority if they have a
    queue of their own.
    """
    storage = "DISK" if plan.settings["JOBDIR"] else "MEMORY"
    start_queue = plan.settings.get(f"SCHEDULER_START_{storage}_QUEUE", "Fifo")
    is_start = event.start and start_queue is not None
    queue = start_queue if is_start else plan.settings.get(f"SCHEDULER_{storage}_QUEUE", "Lifo")
    return -event.priority, is_start, -position if "Lifo" in queue else position
