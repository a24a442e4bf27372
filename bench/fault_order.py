"""Whether the requests of a crawl of `bench.faults` left in the order in which Scrapy sends them.

Looked at where Scrapy's own order is exact: one request at a time, Scrapy's own scheduler, and the
first process of a crawl. Requests of one site are compared, without proxies: another route may have
to wait for a robots.txt of its own.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.fault_plan import Plan
    from bench.fault_servers import Seen


# What begins the middle of a setting's name -> the kind of queue that Scrapy has by default.
_USUAL = (("", "Lifo"), ("START_", "Fifo"))


@dataclass(frozen=True, slots=True)
class Queued:
    """A request in Scrapy's queue.

    :param at: how many requests were pushed before.
    :param start: whether it is in the queue of start requests.
    """

    number: int
    at: int
    priority: int
    start: bool


def is_exact(plan: Plan) -> bool:
    """Whether Scrapy's own order is exact in a crawl."""
    proxies = any(ask.proxy for ask in plan.starts) or any(
        ask.proxy for site in plan.sites for page in site.pages for ask in page.asks
    )
    alone = plan.settings["CONCURRENT_REQUESTS"] == 1
    return alone and plan.scheduler == "own" and not proxies


def overtaken(
    plan: Plan, reported: Iterable[dict[str, Any]], seen: Iterable[Seen]
) -> Iterator[str]:
    """Say which requests left the scheduler, or reached their site, before one that comes first."""
    if not is_exact(plan):
        return
    events = [one for one in reported if one["process"] == 0]
    judged = {
        one["number"]: one["site"]
        for one in events
        if one["event"] == "yielded" and not one["exempt"]
    }
    popped = _popped(events, judged)
    arrived = _arrived(seen, judged)
    for site, numbers in popped.items():
        yield from _by_queue(plan, site, events, numbers)
        # A request that cannot connect at first, and is sent again, comes later.
        if not plan.sites[site].down:
            yield from _by_arrival(site, numbers, arrived[site])


def _popped(events: list[dict[str, Any]], judged: dict[int, int]) -> dict[int, list[int]]:
    """The requests of each site in the order in which they left the scheduler first."""
    found: dict[int, list[int]] = defaultdict(list)
    for one in events:
        number = one["number"] if one["event"] == "popped" else None
        if number in judged and number not in found[judged[number]]:
            found[judged[number]].append(number)
    return found


def _arrived(seen: Iterable[Seen], judged: dict[int, int]) -> dict[int, list[int]]:
    """The requests of each site in the order in which they reached it, redirects to it left out."""
    found: dict[int, list[int]] = defaultdict(list)
    known: set[int] = set()
    for one in seen:
        if one.page is not None and one.number in judged and one.number not in known:
            known.add(one.number)
            if judged[one.number] == one.site:
                found[one.site].append(one.number)
    return found


def _by_arrival(site: int, popped: list[int], arrived: list[int]) -> Iterator[str]:
    places = {number: place for place, number in enumerate(popped)}
    latest = -1
    for number in arrived:
        place = places.get(number, latest)
        if place < latest:
            yield f"site {site}: request {popped[latest]} reached it before request {number}"
        latest = max(latest, place)


def _by_queue(
    plan: Plan, site: int, events: list[dict[str, Any]], popped: list[int]
) -> Iterator[str]:
    """Compare each request that leaves with those of its site that are queued then.

    When nothing may leave, the one that Scrapy would have sent then may be lined up, so that none
    that is pushed later overtakes it.
    """
    queue: dict[int, Queued] = {}
    lined_up: set[int] = set()
    to_come = set(popped)

    def first() -> Queued | None:
        return min(queue.values(), key=lambda each: _rank(plan, each), default=None)

    for at, one in enumerate(events):
        number, event = one.get("number"), one["event"]
        if event == "nothing popped" and (best := first()) is not None:
            lined_up.add(best.number)
        if number not in to_come:
            continue
        if event == "pushed" and number not in queue:
            queue[number] = Queued(number, at, one["priority"], one["start"])
        elif event == "popped":
            to_come.discard(number)
            best, mine = first(), queue.pop(number)
            if best is not None and best is not mine and number not in lined_up:
                yield f"site {site}: request {number} left the scheduler before {best.number}"


def _rank(plan: Plan, queued: Queued) -> tuple[int, bool, int]:
    """Where Scrapy's queue has a request: by priority, start requests last, by its kind."""
    kind = "DISK" if plan.settings["JOBDIR"] else "MEMORY"
    queues = [plan.settings.get(f"SCHEDULER_{start}{kind}_QUEUE", usual) for start, usual in _USUAL]
    start = queued.start and queues[1] is not None
    lifo = "Lifo" in queues[start]
    return -queued.priority, start, -queued.at if lifo else queued.at
