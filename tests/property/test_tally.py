"""A tally within a bound: every count is right up to its error, and the error is small."""

from __future__ import annotations

from collections import Counter

from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_robots_rfc.core.tally import TopK

BOUND = 3
added = st.lists(st.tuples(st.integers(0, 15), st.integers(1, 9)), max_size=60)


def tallied(adds: list[tuple[int, int]], bound: int = BOUND) -> tuple[TopK[int], Counter[int], int]:
    """A tally, the truth, and the most keys that it had."""
    tally: TopK[int] = TopK(bound)
    truth: Counter[int] = Counter()
    most = 0
    for key, amount in adds:
        tally.add(key, amount)
        truth[key] += amount
        most = max(most, len(tally.most(len(adds))))
    return tally, truth, most


@given(added)
def test_counts_are_right_up_to_the_error(adds: list[tuple[int, int]]) -> None:
    """No count is too high, none is too low by more than the error, and none that is forgotten
    counts more.
    """
    tally, truth, _ = tallied(adds)
    counts = dict(tally.most(len(truth)))
    assert all(
        counts.get(key, 0) <= count <= counts.get(key, 0) + tally.error
        for key, count in truth.items()
    )


@given(added)
@example([(0, 9), (1, 9), (2, 9), (3, 1), (4, 1), (5, 1), (6, 1)])
def test_error_is_a_small_part_of_all(adds: list[tuple[int, int]]) -> None:
    """The error is at most the sum of all, divided by one more than the bound.

    What counts more than that is known.
    """
    tally, truth, _ = tallied(adds)
    total = sum(truth.values())
    assert tally.error * (BOUND + 1) <= total
    known = {key for key, _ in tally.most(len(truth))}
    assert {key for key, count in truth.items() if count > total / (BOUND + 1)} <= known


@given(added)
def test_keys_are_bounded(adds: list[tuple[int, int]]) -> None:
    """Never are more than twice the bound remembered.

    As long as there are no more, all counts are exact.
    """
    tally, truth, most = tallied(adds)
    assert most <= 2 * BOUND + 1  # one more while it makes room
    assert len(tally.most(len(adds))) <= 2 * BOUND
    if len(truth) <= 2 * BOUND:
        assert tally.error == 0
        assert dict(tally.most(len(truth))) == truth


@given(added)
def test_most_is_in_order(adds: list[tuple[int, int]]) -> None:
    """Those that count most come first, and what counts the same stands in the order of its
    text.
    """
    tally, truth, _ = tallied(adds, 100)
    expected = sorted(truth.items(), key=lambda item: (-item[1], str(item[0])))
    assert [tally.most(number) for number in (0, 2, 99)] == [expected[:0], expected[:2], expected]
