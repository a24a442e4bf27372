"""`python -m bench.growth`: every table has its row, with ours and Protego's times."""

from __future__ import annotations

from functools import partial

import pytest

from bench import growth


@pytest.mark.parametrize(("what", "sizes", "make"), growth.TABLES, ids=[what for what, _, _ in growth.TABLES])
def test_row_of_the_smallest_size(what: str, sizes: list[int], make: growth.Make) -> None:
    """The smallest size of each table is measured for both parsers, and has the ratio of the two."""
    ((name, ours, theirs, ratio, *_),) = growth.rows([(what, partial(make, sizes[0]))])
    assert name == what
    assert float(ours) > 0
    assert float(theirs) > 0
    assert ratio.endswith("x")


def test_cases_have_their_size() -> None:
    """A case has as many rules, groups, agents or files as its size says."""
    cases = {what: make(50) for what, _, make in growth.TABLES}
    assert cases["plain rules"].bodies[0].count(b"/shop/") == 50
    assert cases["wildcard rules"].bodies[0].count(b"*") == 50 + 1
    assert cases["groups"].bodies[0].count(b"User-agent") == 50
    assert {len(url) for url in cases["characters of a path"].urls} == {len("https://site.example") + 50}
    assert len(cases["agents that ask"].agents) == 50
    assert len(set(cases["origins (a file each)"].bodies)) == 50
