"""Reports as input: whatever is in them, nothing raises, and memory does not grow with them."""

from __future__ import annotations

import io
import json
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.commands import report
from scrapy_robots_rfc.commands.common import Console, Failed
from scrapy_robots_rfc.commands.report import page, show
from tests.support.reports import exempt, exported, record, unreachable

pytestmark = pytest.mark.once

MEBIBYTE = 2**20


def summed(file: Any) -> dict[str, Any]:
    """What a stream adds up to."""
    console: Any = SimpleNamespace(stdin=SimpleNamespace(buffer=io.BufferedReader(file)))
    return report.summed("-", console)


class Endless(io.RawIOBase):
    """A stream that repeats itself until so many octets are read."""

    def __init__(self, octets: bytes, size: int, first: bytes = b"") -> None:
        self._first = first
        self._octets = octets
        self._many = octets * (65_536 // len(octets) + 2)
        self._at = 0
        self._left = size

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, room: Any) -> int:
        """Put the next ones into a room for them."""
        if self._first:
            taken, self._first = self._first, b""
        else:
            taken = self._many[self._at : self._at + min(len(room), self._left, 65_536)]
            self._at = (self._at + len(taken)) % len(self._octets)
            self._left -= len(taken)
        room[: len(taken)] = taken
        return len(taken)


def peak(stream: Any) -> tuple[int, dict[str, Any] | None]:
    """The most memory that summing up takes, and the sums, where there are any."""
    sums = None
    tracemalloc.start()
    try:
        sums = summed(stream)
    except Failed as error:
        assert "is no report" in str(error)  # noqa: PT017 - that, or nothing
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, sums


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (b'{"url": "', b"a"),
        (b'{"url": "', b"{"),
        (b'{"url": "', b'{"a'),
        (b"[", b"[1," + b" " * 97),
        (b"", b"x"),
        (b"", b'{"a": 1, '),
        (exported([record()]), b"a" * 200 + b"\n"),
    ],
)
def test_memory_does_not_grow_with_an_endless_line(first: bytes, again: bytes) -> None:
    """A record without an end is given up at the limit, so memory does not grow with it."""
    most, _ = peak(Endless(again, 32 * MEBIBYTE, first))
    assert most < 16 * MEBIBYTE


def test_a_record_that_is_too_long_is_left_out() -> None:
    """One that is too long is broken, in each piece that is read, and the next one counts."""
    octets = exported([record(), record(spider="x" * 1_000_000), record()])
    sums = summed(io.BytesIO(octets))
    assert (sums["requests"], sums["broken"]) == (2, 2)


def test_memory_does_not_grow_with_requests() -> None:
    """Memory grows with origins and rules, not with requests."""
    one = exported([record(), unreachable()])
    few, _ = peak(Endless(one, len(one) * 300))
    many, sums = peak(Endless(one, len(one) * 1500))
    assert sums is not None
    assert sums["requests"] == 3000
    assert many < few + 150_000


#: All of a report before its second record, and that without its end of line.
BEFORE = exported([record()])
LAST = exported([record(url='https://a.example/{b},c/"d', spider="shops")]).rstrip(b"\n")


def test_a_record_that_breaks_off_anywhere_leaves_the_others() -> None:
    """Wherever the last record breaks off, the one before it is summed up."""
    for length in range(1, len(LAST)):
        sums = summed(io.BytesIO(BEFORE + LAST[:length]))
        assert (sums["requests"], sums["broken"]) == (1, 1), LAST[:length]


def test_a_crawl_that_went_on_behind_a_break_loses_one_line() -> None:
    """A crawl that was killed within a record, and resumed, writes on right behind it.

    That line alone is lost.
    """
    behind = exported([record(), unreachable()] * 5)
    for length in range(1, len(LAST)):
        sums = summed(io.BytesIO(BEFORE + LAST[:length] + behind))
        assert sums["requests"] == 1 + 10 - 1, LAST[:length]
        assert sums["broken"] == 1, LAST[:length]


ODD = [
    None,
    "",
    0,
    -1,
    1.5,
    True,
    [],
    {},
    [1],
    {"a": 1},
    "x" * 5000,
    "\ud800",
    "\0",
    10**30,
    "1" * 5000,
    float("nan"),
]


@pytest.mark.parametrize("name", record())
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values_leave_the_record_counted(name: str, value: object) -> None:
    """A field with a value of any other kind leaves the record counted."""
    octets = exported([record(**{name: value}), unreachable(), exempt("a.example", 1)])
    sums = summed(io.BytesIO(octets))
    assert sums["requests"] == 2 - (name == "allowed" and value is True)  # those are not counted
    shown(sums)


def shown(sums: dict[str, Any]) -> None:
    """Show sums in all ways."""
    assert "<h1>" in page(sums)
    out = io.StringIO()
    show(sums, Console(out, out, out, ""))
    assert out.getvalue().count("\n") > 1
    assert json.dumps(sums)


@given(st.data())
def test_damage_of_any_kind_raises_nothing(data: st.DataObject) -> None:
    """Whatever is taken away, put in or doubled: it is summed up as far as it goes, or refused."""
    octets = exported([record(), unreachable(), exempt("a.example", 1)])
    for _ in range(data.draw(st.integers(1, 3))):
        start, end = sorted(
            (data.draw(st.integers(0, len(octets))), data.draw(st.integers(0, len(octets))))
        )
        put = data.draw(
            st.sampled_from([b"", b'"', b"{", b"\n", b"[", b",", b"\0", octets[start:end] * 2])
        )
        octets = octets[:start] + put + octets[end:]
    try:
        sums = summed(io.BytesIO(octets))
    except Failed:
        return
    shown(sums)


@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_pieces_make_no_difference(size: int) -> None:
    """In which pieces a stream comes makes no difference."""
    octets = exported([record(), unreachable(), record(spider="a,b", count=3)])
    sums = summed(Parts([octets[start : start + size] for start in range(0, len(octets), size)]))
    assert (sums["records"], sums["broken"]) == (3, 0)
    assert sums == summed(io.BytesIO(octets))


class Parts(io.RawIOBase):
    """A stream that is read a part at a time."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = [*parts]

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, room: Any) -> int:
        """Put the next one into a room for it."""
        part = self._parts.pop(0) if self._parts else b""
        taken, rest = part[: len(room)], part[len(room) :]
        if rest:
            self._parts.insert(0, rest)
        room[: len(taken)] = taken
        return len(taken)
