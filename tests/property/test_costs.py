"""Costs within a bound: every count is right up to its error, and the error is small."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given, strategies as st

from scrapy_robots_rfc.reporting.summary import TopK

BOUND = 3
added = st.lists(st.tuples(st.integers(0, 15).map(str), st.integers(1, 9)), max_size=60)


def counted(adds: list[tuple[str, int]]) -> tuple[TopK, Counter[str], int]:
    """Costs, the truth, and the most keys that there were."""
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
    """No count is too high, none is too low by more than the error, and none that is forgotten
    counts more.
    """
    costs, truth, _ = counted(adds)
    assert all(
        costs.counts[key] <= count <= costs.counts[key] + costs.error
        for key, count in truth.items()
    )


@given(added)
@example([("0", 9), ("1", 9), ("2", 9), ("3", 1), ("4", 1), ("5", 1), ("6", 1)])
def test_error_is_a_small_part_of_all(adds: list[tuple[str, int]]) -> None:
    """The error is at most the sum of all, divided by one more than the bound.

    What counts more than that is known.
    """
    costs, truth, _ = counted(adds)
    total = sum(truth.values())
    assert costs.error * (BOUND + 1) <= total
    assert {key for key, count in truth.items() if count > total / (BOUND + 1)} <= set(costs.counts)


@given(added)
def test_keys_are_bounded(adds: list[tuple[str, int]]) -> None:
    """Never are more than twice the bound remembered.

    As long as there are no more, all counts are exact.
    """
    costs, truth, most = counted(adds)
    assert most <= 2 * BOUND
    if len(truth) <= 2 * BOUND:
        assert costs.error == 0
        assert costs.counts == truth
