"""Approximate counts are exact up to their error, and the error is small."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, strategies as st

from scrapy_robots_rfc.reporting.summary import TopK

BOUND = 3
added = st.lists(st.tuples(st.integers(0, 15).map(str), st.integers(1, 9)), max_size=60)


@given(added)
@example([("0", 9), ("1", 9), ("2", 9), ("3", 1), ("4", 1), ("5", 1), ("6", 1)])
def test_counts_are_right_up_to_a_small_error(adds: list[tuple[str, int]]) -> None:
    """At most twice the bound of keys are kept; with fewer keys, all counts are exact. No count is
    too high, and none, not even of a forgotten key, is too low by more than the error, which is at
    most the sum divided by the bound plus one, so larger counts are known.
    """
    costs = TopK(BOUND)
    truth: Counter[str] = Counter()
    for key, amount in adds:
        for _ in range(amount):
            costs.add(key)
            assert len(costs.counts) <= 2 * BOUND
        truth[key] += amount
    if len(truth) <= 2 * BOUND:
        assert (costs.error, costs.counts) == (0, truth)
    assert all(
        costs.counts[key] <= count <= costs.counts[key] + costs.error
        for key, count in truth.items()
    )
    total = sum(truth.values())
    assert costs.error * (BOUND + 1) <= total
    assert {key for key, count in truth.items() if count > total / (BOUND + 1)} <= set(costs.counts)
