"""Workers that share a site keep its interval, whenever one dies or ends."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tests.support.fleet import Worker, World

#: Start, time to the site, time to the store, number of requests, and time of death; in seconds.
WORKERS = st.lists(
    st.tuples(
        st.floats(0, 5),
        st.floats(0.001, 10),
        st.floats(0, 1),
        st.integers(1, 20),
        st.one_of(st.none(), st.floats(0, 60)),
    ),
    min_size=2,
    max_size=5,
)


@given(WORKERS, st.sampled_from([0.01, 1.0, 5.0, 50.0]))
def test_interval(
    workers: list[tuple[float, float, float, int, float | None]], interval: float
) -> None:
    """Requests to the site, even of dead workers, are never closer than the interval."""
    world = World()
    for number, (begin, way, latency, requests, dies) in enumerate(workers):
        worker = Worker(world, str(number), interval, way, latency)
        worker.left = requests
        world.later(begin, worker.go)
        if dies is not None:
            world.later(dies, worker.die)
    world.run(1000)
    assert world.arrivals or all(dies is not None for *_, dies in workers)
    assert min(world.gaps(), default=interval) >= interval - 1e-9
