"""The turns that workers take at a site, worker by worker.

What the site sees, and what the store is asked.
"""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from scrapy_robots_rfc.scheduling.shared import BEAT, HOLD
from tests.support.fleet import SITE, Worker, World

# What is lost where an end of a floating-point number is missing.
NEARLY = 1e-9


@pytest.fixture
def world() -> World:
    """A site without any request yet."""
    return World()


@pytest.mark.parametrize("latency", [0.0, 0.01, 0.3, 2.0])
@pytest.mark.parametrize("way", [0.001, 0.4, 7.0])
def test_interval_over_all(world: World, latency: float, way: float) -> None:
    """The site sees no two requests closer than the interval, however far away it is, or the
    store; and all get on.
    """
    workers = [Worker(world, str(number), way=way, latency=latency) for number in range(4)]
    for worker in workers:
        worker.go()
    world.run(400)
    assert min(world.gaps()) >= 1 - NEARLY
    seen = Counter(name for _, name in world.arrivals)
    assert len(seen) == 4
    assert max(seen.values()) - min(seen.values()) <= 1 + max(seen.values()) // 4


def test_far_from_the_store(world: World) -> None:
    """A worker that is far from the store, and always asks a little later than the others, has
    as many turns.
    """
    workers = [Worker(world, str(latency), latency=latency) for latency in (0.0, 0.001, 0.15)]
    for worker in workers:
        worker.go()
    world.run(200)
    seen = Counter(name for _, name in world.arrivals)
    assert min(seen.values()) >= max(seen.values()) - 2
    assert min(world.gaps()) >= 1 - NEARLY


def test_one_worker_is_not_slower(world: World) -> None:
    """A worker that has the site to itself waits for the interval and the ways, and for nothing
    else.
    """
    worker = Worker(world, "alone", way=0.1, latency=0.005)
    worker.go()
    world.run(60)
    assert len(world.arrivals) >= 60 / (1 + 2 * 0.1 + 5 * 0.005)


def test_unanswered_for_long(world: World) -> None:
    """A turn goes on as long as its request is unanswered, far beyond the time after which it
    would end by itself.
    """
    slow, other = Worker(world, "slow", way=4 * HOLD), Worker(world, "other")
    slow.go()
    other.go()
    world.run(8 * HOLD + 0.9)
    assert world.arrivals == [(4 * HOLD, "slow")]
    world.run(8 * HOLD + 3)
    assert world.arrivals[1][1] == "other"


@pytest.mark.parametrize("died", [0.01, BEAT - 0.01, 3 * BEAT + 0.01])
@pytest.mark.parametrize("interval", [1.0, 50.0])
def test_worker_that_dies(world: World, died: float, interval: float) -> None:
    """The turn of a worker that dies ends by itself.

    What it sent to the last is followed by the interval.
    """
    worker, other = Worker(world, "one", interval, way=died), Worker(world, "other", interval)
    worker.go()
    other.go()
    world.run(died)
    worker.die()
    world.run(died + HOLD + interval + 2)
    assert [name for _, name in world.arrivals][:2] == ["one", "other"]
    assert min(world.gaps()) >= interval


def test_store_fails(world: World) -> None:
    """While the store fails, each worker has an interval of its own; later all have one."""
    workers = [Worker(world, name, latency=0.001) for name in "ab"]
    for worker in workers:
        worker.works = False
        worker.go()
    world.run(20)
    for name in "ab":
        times = [when for when, whose in world.arrivals if whose == name]
        assert len(times) > 10
        assert min(after - before for before, after in pairwise(times)) >= 1
    for worker in workers:
        worker.works = True
    world.run(22)
    world.arrivals.clear()
    world.run(60)
    assert len(world.arrivals) > 20
    assert min(world.gaps()) >= 1 - NEARLY


def test_store_fails_while_a_turn_goes_on(world: World) -> None:
    """A turn that cannot be taken again ends in the store.

    The worker that has it goes on at its own pace.
    """
    worker = Worker(world, "one", way=2 * HOLD, latency=0.001)
    worker.go()
    world.run(1)
    worker.works = False
    world.run(100)
    assert len(world.arrivals) == 2


def test_turn_that_no_request_uses(world: World) -> None:
    """A turn that comes when there is no request left ends soon, and others go on."""
    idle, other = Worker(world, "idle", latency=0.01), Worker(world, "other")
    idle.go()
    idle.left = 0
    world.run(0.015)
    other.go()
    world.run(BEAT + 3)
    assert [name for _, name in world.arrivals][:1] == ["other"]
    assert idle.calls == ["take", "end"]
    world.run(100)
    assert idle.calls == ["take", "end"]


def test_turn_that_was_taken_too_long_ago(world: World) -> None:
    """A worker that stood still while it had a turn that it had not used asks again.

    It may be another one's.
    """
    worker = Worker(world, "one", latency=0.01)
    assert worker.turns.wait(1.0, world.now) is None
    worker.left = 0
    world.run(1)
    assert worker.turns.wait(1.0, world.now) == 0
    world.now += HOLD + 1  # no timer of its own was called meanwhile
    assert worker.turns.wait(1.0, world.now) is None
    assert worker.calls == ["take", "take"]


def test_turn_that_was_lost(world: World) -> None:
    """A worker cannot prolong a turn that is another one's by now, as after it stood still.

    Then it has no turn without asking, also if its request is given up.
    """
    one, other = Worker(world, "one"), Worker(world, "other")
    assert one.turns.wait(1.0, world.now) == 0
    one.turns.start("request")
    world.store.forget_turns()
    assert other.turns.wait(1.0, world.now) == 0
    other.turns.start("another")
    world.run(BEAT)
    one.turns.unused("request")
    assert one.turns.wait(1.0, world.now) != 0


def test_request_for_robots_txt(world: World) -> None:
    """A request that was sent before the interval was known is followed by it, whoever sends the
    next one.
    """
    one, other = Worker(world, "one"), Worker(world, "other")
    one.turns.sent(world.now + 10)
    other.go()
    world.run(30)
    assert world.arrivals[0][0] >= 10


def test_said_once(world: World) -> None:
    """The store hears of such a request once, and not at all when its interval has passed."""
    worker = Worker(world, "one")
    world.now = 100.0
    worker.turns.sent(99.0)
    assert worker.calls == []
    for until in (110.0, 110.0, 105.0):
        worker.turns.sent(until)
    assert worker.calls == ["end"]


def test_sent_during_a_turn(world: World) -> None:
    """Such a request does not end a turn that goes on.

    Its interval passes after a turn that no request uses.
    """
    worker, other = Worker(world, "one"), Worker(world, "other")
    assert worker.turns.wait(1.0, world.now) == 0
    worker.turns.sent(30.0)
    assert worker.calls == ["take"]
    other.go()
    world.run(60)
    assert world.arrivals[0][0] >= 30


@pytest.mark.parametrize("before", [9.0, 11.0])
def test_sent_while_the_store_is_asked(world: World, before: float) -> None:
    """Such a request is followed by the interval also if it is sent while the store is asked for
    a turn, which another worker has or has not.
    """
    worker, other = Worker(world, "one", latency=0.01), Worker(world, "other")
    world.store.end_turn(str(SITE), "other", 10)
    world.now = before
    assert worker.turns.wait(1.0, world.now) is None
    worker.turns.sent(30.0)
    worker.left = 0
    world.later(1, other.go)
    world.run(60)
    assert world.arrivals[0][0] >= 30


def test_answer_to_a_request_without_a_turn(world: World) -> None:
    """The end of a request that had no turn does not end that of another one, and is followed by
    the interval.
    """
    worker, other = Worker(world, "one", way=5), Worker(world, "other")
    worker.go()
    other.go()
    worker.turns.answered("another", 1.0, world.now)
    world.run(4)
    assert worker.calls == ["take"]
    fresh = Worker(World(), "fresh")
    fresh.turns.answered("another", 1.0, 0.0)
    assert fresh.world.store.take_turn(str(SITE), "somebody", HOLD) > 0.9


def test_no_interval(world: World) -> None:
    """Without an interval the store is not asked."""
    worker = Worker(world, "one")
    assert worker.turns.wait(0.0, world.now) == 0
    worker.turns.start("request")
    worker.turns.answered("request", 0.0, world.now)
    assert worker.calls == []


def test_end_of_the_crawl(world: World) -> None:
    """At the end of a crawl a turn that it still has is another one's at once, and the store is
    asked nothing more.
    """
    worker, other = Worker(world, "one"), Worker(world, "other", latency=0.001)
    assert worker.turns.wait(1.0, world.now) == 0
    worker.turns.close()
    worker.turns.close()
    other.go()
    world.run(0.2)
    assert [name for _, name in world.arrivals] == ["other"]
    world.run(3 * BEAT)
    assert worker.calls == ["take", "end"]
