"""Approximate counts are exact up to their error, and the error is small."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, strategies as st

from scrapy_robots_rfc.reporting.summary import TopK

BOUND = 3
added = st.lists(st.tuples(st.integers(0, 15).map(str), st.integers(1, 9)), max_size=60)


def counted(adds: list[tuple[str, int]]) -> tuple[TopK, Counter[str], int]:
    """Return the counts, the exact numbers, and the maximum number of keys."""
    costs = TopK(BOUND)
    truth: Counter[str] = Counter()
    most = 0
    for key, amount in adds:
        for _ in range(amount):
            costs.add(key)
            most = max(most, len(costs.counts))
        truth[key] += amount
    return costs, truth, most


@given(added)
def test_counts_are_right_up_to_the_error(adds: list[tuple[str, int]]) -> None:
    """No count is too high, and none, not even of a forgotten key, is too low by more than the
    error.
    """
    costs, truth, _ = counted(adds)
    assert all(
        costs.counts[key] <= count <= costs.counts[key] + costs.error
        for key, count in truth.items()
    )


@given(added)
@example([("0", 9), ("1", 9), ("2", 9), ("3", 1), ("4", 1), ("5", 1), ("6", 1)])
def test_error_is_a_small_part_of_all(adds: list[tuple[str, int]]) -> None:
    """The error is at most the sum divided by the bound plus one, so larger counts are known."""
    costs, truth, _ = counted(adds)
    total = sum(truth.values())
    assert costs.error * (BOUND + 1) <= total
    assert {key for key, count in truth.items() if count > total / (BOUND + 1)} <= set(costs.counts)


@given(added)
def test_keys_are_bounded(adds: list[tuple[str, int]]) -> None:
    """At most twice the bound of keys are kept. With fewer keys, all counts are exact."""
    costs, truth, most = counted(adds)
    assert most <= 2 * BOUND
    if len(truth) <= 2 * BOUND:
        assert costs.error == 0
        assert costs.counts == truth
