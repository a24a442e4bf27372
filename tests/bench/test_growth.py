"""`python -m bench.growth`: every table has its row, with ours and Protego's times."""

from __future__ import annotations

from functools import partial

import pytest

from bench import bounds, generate, growth


@pytest.mark.parametrize(
    ("what", "sizes", "make"), growth.TABLES, ids=[what for what, _, _ in growth.TABLES]
)
def test_row_of_the_smallest_size(what: str, sizes: list[int], make: growth.Make) -> None:
    """The smallest size of each table is measured for both parsers, and has the ratio of the
    two.
    """
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
    assert {len(url) for url in cases["characters of a path"].urls} == {
        len("https://site.example") + 50
    }
    assert len(cases["agents that ask"].agents) == 50


def test_origins_in_memory() -> None:
    """A memory of some origins is filled and asked, and its process has grown by what they take."""
    found = bounds.origins(generate.files(20), 20_000)
    assert min(found.put, found.in_turn) > 0
    assert found.at_random > 0
    assert found.pause > 0
    assert 0 < found.kib < 20


@pytest.mark.parametrize(
    ("costs", "name"),
    [
        ((5, 5), "constant"),
        ((9, 5, 6), "constant"),
        ((5, 9), "log"),
        ((5, 50), "linear"),
        ((5, 500), "above linear"),
    ],
)
def test_law(costs: tuple[float, ...], name: str) -> None:
    """The law of a column is that of its last step, of ten times the size."""
    assert growth.law([10.0**at for at in range(len(costs))], costs) == name


def test_row_of_laws() -> None:
    """It names the law of each column of numbers, of what was measured of it."""
    found = [
        ["1,000", "1.0", "5.0", "5x"],
        ["10,000", "1.0", "50.0", "50x"],
        ["100,000", "10.0", "-", ""],
    ]
    assert growth.with_laws(found, (1, 2))[-1] == ["law", "linear", "linear", ""]
