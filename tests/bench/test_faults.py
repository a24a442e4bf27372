"""Crawls among drawn faults, and their judge; `python -m bench.faults` runs more of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from bench.fault_judge import Judge, Judged, matches
from bench.fault_log import Event, Known, Lag, Log, Seen
from bench.fault_plan import RUNTIMES, Plan, draw
from bench.faults import crawl, report
from bench.interrupted import SIGNS, killed_plan, plan_of

pytestmark = pytest.mark.once

SEED = 9309
# Left out here: what takes long, and what a user's middlewares do to a robots.txt.
SLOW = ("hang", "drip", "drip-on", "length-hangs", "big", "bomb", "reset-unframed", "407")
CALM = (*SLOW, "close", "proxy", "stop-download")


@pytest.fixture(scope="module")
def crawls() -> dict[str, Judged]:
    """One crawl in each runtime with our middleware, and one with Scrapy's own."""
    runs = {name: (draw(SEED + n, name, CALM), "ours") for n, name in enumerate(RUNTIMES)}
    runs["stock"] = (draw(SEED + 1, "asyncio", CALM), "stock")
    with ThreadPoolExecutor(3) as pool:  # they mostly wait
        return dict(zip(runs, pool.map(lambda run: crawl(*run), runs.values()), strict=True))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_nothing_is_wrong(crawls: dict[str, Judged], runtime: str) -> None:
    """Whatever servers answer, the crawl obeys, drops no allowed page, and loses no request."""
    judged = crawls[runtime]
    assert judged.findings == []
    assert judged.pages.total() > 0
    assert judged.dropped.total() > 0


def test_a_crawl_that_does_not_obey_is_found(crawls: dict[str, Judged]) -> None:
    """Scrapy's own middleware fetches pages before robots.txt is known; the judge sees it."""
    judged = crawls["stock"]
    assert {finding.kind for finding in judged.findings} & {"undecided", "violation"}
    assert report([judged]) == 1


@pytest.mark.parametrize("signs", SIGNS)
def test_nothing_is_lost_by_a_signal(signs: tuple[str, ...]) -> None:
    """A crawl that is interrupted and resumed has one outcome for each request.

    SIGKILL takes only requests in flight, or queued after the queue was last saved.
    """
    judged = crawl(plan_of(SEED, signs, "asyncio"))
    assert judged.findings == []
    assert judged.interrupted


def test_kills_take_only_what_they_may() -> None:
    """A crawl of several sites that is killed three times loses no request that was saved."""
    judged = crawl(killed_plan(SEED, "LifoDisk", "asyncio", sites=8, pages=6))
    assert judged.findings == []


def test_the_longest_rule_decides() -> None:
    """The judge takes the longest matching pattern, and knows `*` and `$`."""
    rules = ("Disallow: /a", "Allow: /a/*.html", "Disallow: /*?s=1$", "Disallow:")
    site = replace(draw(SEED).sites[0], rules=rules)
    paths = ("/a", "/a/b", "/a/b.html", "/b?s=1", "/b?s=12", "/b")
    assert [path for path in paths if matches(site, path)] == ["/a/b.html", "/b?s=12", "/b"]


def _plan(rule: str, pace: float = 0) -> Plan:
    drawn = draw(SEED)
    sites = tuple(
        replace(site, rules=(rule,), pace=pace, down=0, script=("rules",)) for site in drawn.sites
    )
    queues = {
        "JOBDIR": True,
        "SCHEDULER_DISK_QUEUE": "LifoDiskQueue",
        "SCHEDULER_START_DISK_QUEUE": "FifoDiskQueue",
    }
    settings = {**drawn.settings, **queues}
    return replace(drawn, interruptions=(), sites=sites, settings=settings, scheduler="own")


CLOSED, OPEN = _plan("Disallow: /"), _plan("Disallow:", pace=1)
PATH = OPEN.sites[0].pages[0].path


def _event(time: float, kind: str, reason: str = "", number: int = 0, **more: int) -> Event:
    return Event(
        time,
        kind,
        number=number,
        site=0,
        path=PATH,
        reason=reason,
        process=more.get("process", 0),
        priority=more.get("priority", 0),
        seconds=more.get("seconds", 0),
    )


ROBOTS, ANSWER = Seen(1, 0, None, answer="rules"), Known(2, 0, "rules")
PAGE, SECOND = Seen(4, 0, 0), Seen(4.9, 0, 0, number=1)
YIELDED, PUSHED, POPPED = (_event(n / 10, k) for n, k in enumerate(("yielded", "pushed", "popped")))
FETCHED, FINISHED = _event(5, "fetched"), _event(5.5, "closed", "finished")
DROPPED = _event(5, "disallowed", "rule")
UNREACHABLE = _event(5, "disallowed", "unreachable")
SHUTDOWN, RESUMED = _event(3, "closed", "shutdown"), _event(5.5, "closed", "finished", process=1)


def _log(*events: Event, seen: tuple[Seen, ...] = (), code: int | None = 0) -> Log:
    known = [ANSWER] if ROBOTS in seen else []
    return Log(list(seen), known, list(events), code=code)


@pytest.mark.parametrize(
    ("plan", "log", "kinds"),
    [
        (OPEN, _log(YIELDED, FETCHED, FINISHED, seen=(ROBOTS, PAGE)), []),
        (CLOSED, _log(YIELDED, FETCHED, FINISHED, seen=(ROBOTS, PAGE)), ["violation"]),
        (OPEN, _log(YIELDED, FETCHED, FINISHED, seen=(PAGE,)), ["undecided"]),
        (OPEN, _log(YIELDED, FETCHED, FINISHED, seen=(ROBOTS, PAGE, SECOND)), ["pace"]),
        (OPEN, _log(YIELDED, DROPPED, FINISHED, seen=(ROBOTS,)), ["over-blocked"]),
        (CLOSED, _log(YIELDED, DROPPED, FINISHED, seen=(ROBOTS,)), []),
        (OPEN, _log(YIELDED, UNREACHABLE, FINISHED, seen=(ROBOTS,)), ["over-blocked"]),
        (OPEN, _log(YIELDED, UNREACHABLE, FINISHED), ["over-blocked"]),
        (OPEN, _log(YIELDED, FINISHED), ["lost"]),
        (OPEN, _log(YIELDED, _event(5, "closed", "closespider_pagecount")), []),
        (OPEN, _log(YIELDED, code=None), ["hung"]),
        (OPEN, _log(YIELDED), ["hung"]),
        (OPEN, _log(YIELDED, FETCHED, FETCHED, FINISHED), ["doubled"]),
        (OPEN, _log(_event(4.4, "asked to end"), FINISHED), ["late"]),
        (OPEN, _log(_event(4, "asked to end"), _event(4.6, "left"), FINISHED), []),
        (OPEN, _log(YIELDED, SHUTDOWN, RESUMED), ["lost"]),
        # SIGKILL may take a request in flight, or one that was not saved yet.
        (OPEN, _log(YIELDED, PUSHED, _event(3, "killed", seconds=2), RESUMED), ["lost"]),
        (OPEN, _log(YIELDED, PUSHED, POPPED, _event(3, "killed", seconds=2), RESUMED), []),
        (OPEN, _log(YIELDED, PUSHED, _event(3, "killed"), RESUMED), []),
    ],
)
def test_each_kind_of_fault_is_found(plan: Plan, log: Log, kinds: list[str]) -> None:
    """The judge finds each kind of fault in a log that has it, and nothing in one without."""
    assert [finding.kind for finding in Judge(plan, log).judge().findings] == kinds


def test_a_busy_machine_is_no_fault() -> None:
    """A short interval is not a fault if the event loop was late by that much."""
    log = _log(YIELDED, FETCHED, FINISHED, seen=(ROBOTS, PAGE, SECOND))
    log.lags.append(Lag(4.5, 0.3))
    assert Judge(OPEN, log).judge().findings == []


@pytest.mark.parametrize(
    ("queue", "pushes", "pops"),
    [
        ("Lifo", {1: 0, 2: 0}, (2, 1)),
        ("Fifo", {1: 0, 2: 0}, (1, 2)),
        ("Lifo", {1: 0, 2: 5, 3: 0}, (2, 3, 1)),
    ],
)
def test_the_order_of_a_queue_is_judged(
    queue: str, pushes: dict[int, int], pops: tuple[int, ...]
) -> None:
    """The judge knows LIFO, FIFO and priorities, and finds every other order."""
    plan = replace(OPEN, settings={**OPEN.settings, "SCHEDULER_DISK_QUEUE": f"{queue}DiskQueue"})
    events = [_event(1, "pushed", number=n, priority=p) for n, p in pushes.items()]
    for order, kinds in ((pops, set()), (pops[::-1], {"order"})):
        popped = [_event(2, "popped", number=number) for number in order]
        judged = Judge(plan, _log(*events, *popped, FINISHED)).judge()
        assert {finding.kind for finding in judged.findings} == kinds
