"""Crawls among drawn faults of servers, and who judges them; `python -m bench.faults` runs more."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from bench.fault_answers import ANSWERS
from bench.fault_judge import Judge, Judged, Logs, matches
from bench.fault_order import overtaken
from bench.fault_plan import RUNTIMES, Interruption, Plan, draw
from bench.fault_servers import PROXIES, Known, Seen, Servers
from bench.faults import crawl, report

pytestmark = pytest.mark.once

SEED = 9309
# What lasts long; what the parts of a user's own do to a robots.txt is tried by `python -m
# bench.faults`.
CALM = (
    "hang",
    "drip",
    "drip-on",
    "length-hangs",
    "big",
    "bomb",
    "close",
    "proxy",
    "stop-download",
    "reset-unframed",
    "407",
)


@pytest.fixture(scope="module")
def crawls() -> dict[str, Judged]:
    """One crawl a runtime with the middleware, and one with Scrapy's own."""
    runs = {name: (SEED + number, name, CALM, "ours") for number, name in enumerate(RUNTIMES)}
    runs["stock"] = (SEED + 1, "asyncio", CALM, "stock")
    with ThreadPoolExecutor(3) as pool:  # most of their time they wait
        return dict(zip(runs, pool.map(lambda run: crawl(*run), runs.values()), strict=True))


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_nothing_is_wrong(crawls: dict[str, Judged], runtime: str) -> None:
    """Whatever the servers answer, no page is fetched that may not be, none that may be is
    refused, none is lost.
    """
    found = crawls[runtime]
    assert found.findings == []
    assert found.pages.total() > 0
    assert found.refused.total() > 0


def test_a_crawl_that_does_not_obey_is_found_out(crawls: dict[str, Judged]) -> None:
    """Scrapy's own middleware fetches pages of which nothing is known.

    The run fails and says so.
    """
    found = crawls["stock"]
    assert {finding.kind for finding in found.findings} & {"undecided", "violation"}
    assert report([found]) == 1


def test_the_same_seed_is_the_same_crawl() -> None:
    """A plan depends on nothing but the seed and what is left out."""
    assert draw(SEED) == draw(SEED)
    assert draw(SEED) != draw(SEED + 1)
    assert all(
        site.script[0] == "rules"
        for site in draw(SEED, without=sorted(set(ANSWERS) - {"rules"})).sites
    )


def test_the_rules_of_the_judge() -> None:
    """The longest pattern decides, Allow where two are as long.

    `*` and `$` are as RFC 9309 has them.
    """
    site = replace(
        draw(SEED).sites[0],
        rules=("Disallow: /a", "Allow: /a/*.html", "Disallow: /*?s=1$", "Disallow:"),
    )
    allowed = [
        path
        for path in ("/a", "/a/b", "/a/b.html", "/b?s=1", "/b?s=12", "/b")
        if matches(site, path)
    ]
    assert allowed == ["/a/b.html", "/b?s=12", "/b"]


PLAN = replace(
    draw(SEED),
    interruptions=(),
    sites=tuple(
        replace(site, rules=("Disallow: /",), pace=0, down=0, script=("rules",))
        for site in draw(SEED).sites
    ),
)
OPEN = replace(
    PLAN, sites=tuple(replace(site, rules=("Disallow:",), pace=1) for site in PLAN.sites)
)


def _seen(time: float, page: int | None) -> Seen:
    return Seen(
        time,
        0,
        page,
        exempt=False,
        number=0,
        answer="rules" if page is None else "page",
        proxy=False,
    )


def _reported(time: float, event: str, **more: object) -> dict[str, Any]:
    path = PLAN.sites[0].pages[0].path
    return {
        "time": time,
        "event": event,
        "number": 0,
        "site": 0,
        "path": path,
        "proxy": "",
        "errback": True,
        "exempt": False,
        "process": 0,
        **more,
    }


ASKED, ANSWERED, PAGE = _seen(1, None), Known(2, 0, "rules"), _seen(4, 0)
TRACEBACK = "2026-01-01 [scrapy_robots_rfc.service] ERROR: no\nTraceback (most recent call last):"
KILLED = replace(OPEN, interruptions=(Interruption(1, "SIGKILL"),))
SHUT, RESUMED = _reported(5, "closed", reason="shutdown"), {"process": 1}
YIELDED, FETCHED, CLOSED = (
    _reported(0, "yielded"),
    _reported(5, "fetched"),
    _reported(5.5, "closed", reason="finished"),
)


@pytest.mark.parametrize(
    ("plan", "logs", "kinds"),
    [
        (OPEN, Logs([ASKED, PAGE], [ANSWERED], [YIELDED, FETCHED, CLOSED]), []),
        (PLAN, Logs([ASKED, PAGE], [ANSWERED], [YIELDED, FETCHED, CLOSED]), ["violation"]),
        (OPEN, Logs([PAGE], [], [YIELDED, FETCHED, CLOSED]), ["undecided"]),
        (
            OPEN,
            Logs([ASKED, PAGE], [replace(ANSWERED, time=6)], [YIELDED, FETCHED, CLOSED]),
            ["undecided"],
        ),
        (
            OPEN,
            Logs([ASKED, PAGE, _seen(4.9, 0)], [ANSWERED], [YIELDED, FETCHED, CLOSED]),
            ["pace"],
        ),
        (
            OPEN,
            Logs([ASKED], [ANSWERED], [YIELDED, _reported(5, "disallowed", reason="rule"), CLOSED]),
            ["over-blocked"],
        ),
        (
            PLAN,
            Logs([ASKED], [ANSWERED], [YIELDED, _reported(5, "disallowed", reason="rule"), CLOSED]),
            [],
        ),
        (
            OPEN,
            Logs([], [], [YIELDED, _reported(5, "disallowed", reason="unreachable"), CLOSED]),
            ["over-blocked"],
        ),
        (OPEN, Logs([ASKED], [ANSWERED], [YIELDED, CLOSED]), ["lost"]),
        (
            OPEN,
            Logs(
                [ASKED],
                [ANSWERED],
                [YIELDED, _reported(5, "closed", reason="closespider_pagecount")],
            ),
            [],
        ),
        (OPEN, Logs([ASKED], [ANSWERED], [YIELDED], code=None), ["hung", "hung"]),
        (OPEN, Logs([], [], [CLOSED], errors=TRACEBACK), ["error"]),
        (OPEN, Logs([ASKED, PAGE], [ANSWERED], [YIELDED, FETCHED, FETCHED, CLOSED]), ["doubled"]),
        (OPEN, Logs([], [], [_reported(4.4, "asked to end"), CLOSED]), ["late"]),
        (OPEN, Logs([], [], [_reported(4, "asked to end"), _reported(4.6, "left"), CLOSED]), []),
        (
            OPEN,
            Logs([ASKED], [ANSWERED], [YIELDED, SHUT, {**CLOSED, **RESUMED}]),
            ["lost"],
        ),
        (
            OPEN,
            Logs(
                [ASKED, PAGE],
                [ANSWERED],
                [YIELDED, SHUT, {**FETCHED, **RESUMED}, {**CLOSED, **RESUMED}],
            ),
            [],
        ),
        (KILLED, Logs([ASKED], [ANSWERED], [YIELDED, {**CLOSED, **RESUMED}]), []),
    ],
)
def test_what_the_judge_finds(plan: Plan, logs: Logs, kinds: list[str]) -> None:
    """Each kind of fault is found in logs that have it, and none in those that have none."""
    assert [finding.kind for finding in Judge(plan, logs).judge().findings] == kinds


ORDERED = replace(
    OPEN, settings={**OPEN.settings, "CONCURRENT_REQUESTS": 1, "JOBDIR": False}, starts=()
)
ORDERED = replace(ORDERED, sites=tuple(replace(site, pages=(), down=0) for site in ORDERED.sites))


def _queued(*events: tuple[str, int]) -> list[dict[str, Any]]:
    """Requests of one site that are yielded, pushed and popped, in this order of events."""
    numbers = sorted({number for _, number in events if number >= 0})
    yielded = [_reported(0, "yielded", number=number) for number in numbers]
    return yielded + [
        _reported(1, event, number=number, priority=number // 10, start=False)
        for event, number in events
    ]


@pytest.mark.parametrize(
    ("kind", "events", "right"),
    [
        ("Fifo", [("pushed", 1), ("pushed", 2), ("popped", 1), ("popped", 2)], True),
        ("Fifo", [("pushed", 1), ("pushed", 2), ("popped", 2), ("popped", 1)], False),
        ("Lifo", [("pushed", 1), ("pushed", 2), ("popped", 2), ("popped", 1)], True),
        ("Lifo", [("pushed", 1), ("pushed", 2), ("popped", 1), ("popped", 2)], False),
        ("Lifo", [("pushed", 1), ("popped", 1), ("pushed", 2), ("popped", 1)], True),
        ("Fifo", [("pushed", 1), ("pushed", 11), ("popped", 1), ("popped", 11)], False),
        # Nothing could leave, and Scrapy would have sent the first one.
        (
            "Lifo",
            [("pushed", 1), ("nothing popped", -1), ("pushed", 2), ("popped", 1), ("popped", 2)],
            True,
        ),
    ],
)
def test_the_order_of_the_judge(kind: str, events: list[tuple[str, int]], right: bool) -> None:
    """What leaves the scheduler first comes first: by priority, and by the kind of the queue."""
    queue = {"SCHEDULER_MEMORY_QUEUE": f"scrapy.squeues.{kind}MemoryQueue"}
    plan = replace(ORDERED, settings={**ORDERED.settings, **queue}, scheduler="own")
    assert (not list(overtaken(plan, _queued(*events), []))) is right


def test_the_order_in_which_pages_are_reached() -> None:
    """A request that left the scheduler first has to reach its site first."""
    events = _queued(("pushed", 1), ("popped", 1), ("pushed", 2), ("popped", 2))
    seen = [replace(_seen(4, 0), number=2), replace(_seen(5, 0), number=1)]
    assert len(list(overtaken(replace(ORDERED, scheduler="own"), events, seen))) == 1
    assert not list(overtaken(replace(ORDERED, scheduler="own"), events, seen[::-1]))


def test_servers_have_ports_of_their_own() -> None:
    """Each origin and each proxy has a port, also where it refuses connections."""
    with Servers(PLAN) as servers:
        assert len(set(servers.ports)) == len(PLAN.sites) + len(PROXIES)
