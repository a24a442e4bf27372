"""Reports as input: whatever is in them, nothing raises, and memory does not grow with them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_robots_rfc.commands import report_sums
from scrapy_robots_rfc.commands.common import Console, Failed
from scrapy_robots_rfc.commands.report import page, show
from scrapy_robots_rfc.commands.report_sums import MOST_BUCKETS, Report, Sums, Timeline
from tests.support.reports import EXPORTERS, PLUGINS, exempt, exported, record, unreachable

pytestmark = pytest.mark.once

MEBIBYTE = 2**20


def summed(file: Any) -> tuple[Sums, Report]:
    """What a stream adds up to."""
    console: Any = SimpleNamespace(stdin=SimpleNamespace(buffer=io.BufferedReader(file)))
    sums, report = Sums(), Report("-")
    for fields in report.read(console):
        sums.add(fields)
    return sums, report


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


def peak(stream: Any) -> tuple[int, Sums | None]:
    """The most memory that summing up takes, and the sums, where there are any."""
    sums = None
    tracemalloc.start()
    try:
        sums, _ = summed(stream)
    except Failed as error:
        assert "holds no records" in str(error)  # noqa: PT017 - that, or nothing
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
        (exported([record()], "csv") + b'"', b"a"),
        (exported([record()], "csv"), b'"a'),
        (exported([record()], "csv") + b'"', b"a" * 200 + b"\n"),
    ],
)
def test_memory_does_not_grow_with_an_endless_line(first: bytes, again: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without an end is given up at the limit, so memory does not grow with it."""
    monkeypatch.setattr(report_sums, "LONGEST", 20_000)
    most, _ = peak(Endless(again, 2 * MEBIBYTE, first))
    assert most < MEBIBYTE


def test_a_record_that_is_too_long_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is too long is broken, and the next one counts."""
    monkeypatch.setattr(report_sums, "LONGEST", 20_000)
    for name in ("jsonlines", "csv"):
        octets = exported([record(), record(spider="x" * 50_000), record()], name)
        sums, report = summed(io.BytesIO(octets))
        assert (sums.requests, report.broken, report.breaks_off) == (2, 1, False)


@pytest.mark.parametrize(
    "pack", [gzip.compress, partial(bz2.compress, compresslevel=1), partial(lzma.compress, preset=0)]
)
@pytest.mark.parametrize("octets", [b"\0", b" ", b"["])
def test_a_packed_bomb_is_unpacked_in_pieces(pack: Any, octets: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """What unpacks to a thousand times its size is unpacked a piece at a time."""
    monkeypatch.setattr(report_sums, "LONGEST", 20_000)
    packed = pack(octets * (4 * MEBIBYTE))
    most, _ = peak(io.BytesIO(packed))
    assert most < 2 * MEBIBYTE


def test_memory_does_not_grow_with_requests() -> None:
    """Memory grows with origins and rules, not with requests."""
    one = exported([record(), unreachable()])
    few, _ = peak(Endless(one, len(one) * 300))
    many, sums = peak(Endless(one, len(one) * 1500))
    assert sums is not None
    assert sums.requests == 3000
    assert many < few + 150_000


def test_few_reasons_are_counted_by_name() -> None:
    """No more than a few reasons are counted by name."""
    sums, _ = summed(io.BytesIO(exported(record(reason=f"r{number}") for number in range(100))))
    assert len(sums.totals) == 21 + 1  # exempt sites have a total of their own
    assert sums.totals["other"] == 80


def lasting(format: str) -> tuple[bytes, bytes]:  # noqa: A002 - its name in FEEDS
    """A report of two records: all before the second one, and that without its end of line."""
    octets = exported([record(), record(url='https://a.example/{b},c/"d', spider="shops")], format)
    start = octets.rindex(b"2026-11-21") if format == "csv" else octets.rindex(b'{"time"')
    return octets[:start], octets[start:].rstrip(b"\r\n]")


@pytest.mark.parametrize("format", EXPORTERS)
def test_a_record_that_breaks_off_anywhere_leaves_the_others(format: str) -> None:  # noqa: A002
    """Wherever the last record breaks off, the one before it is summed up."""
    before, last = lasting(format)
    for length in range(1, len(last)):
        sums, report = summed(io.BytesIO(before + last[:length]))
        if format == "csv" and last[length:].isdigit():  # nothing but the last cell is shorter, which nobody can know
            continue
        assert (sums.requests, report.breaks_off) == (1, True), last[:length]


@pytest.mark.parametrize("format", EXPORTERS)
def test_a_crawl_that_went_on_behind_a_break_loses_one_line(format: str) -> None:  # noqa: A002
    """A crawl that was killed within a record, and resumed, writes on right behind it: that line alone is lost.

    Of JSON lines it has the next record, too; of CSV the names of the fields, of a JSON array nothing.
    """
    before, last = lasting(format)
    behind = exported([record(), unreachable()] * 5, format)
    for length in range(1, len(last)):
        sums, report = summed(io.BytesIO(before + last[:length] + behind))
        assert sums.requests == 1 + 10 - (format == "jsonlines"), last[:length]
        assert (report.broken, report.breaks_off) == (1, False), last[:length]


def test_quote_that_is_not_closed_spoils_its_line() -> None:
    """In CSV a quote that is not closed spoils its line and no other."""
    lines = exported([record()] * 20, "csv").splitlines(keepends=True)
    lines[2] = lines[2].replace(b"news", b'"news')
    sums, report = summed(io.BytesIO(b"".join(lines)))
    assert (sums.requests, report.broken, report.first, report.breaks_off) == (19, 1, 3, False)


@pytest.mark.parametrize(("indent", "line"), [(0, 3), (4, 43)])
def test_broken_record_of_an_array_is_left_out(indent: int, line: int) -> None:
    """Of a JSON array that has a line, or several, for each record, one broken record is left out."""
    octets = exported([record(), record(), record()], "json", indent=indent).replace(b'"spider"', b"spider", 2)
    octets = octets.replace(b"spider", b'"spider"', 1)
    sums, report = summed(io.BytesIO(octets))
    assert (sums.requests, report.broken, report.first, report.breaks_off) == (2, 1, line, False)


def test_object_without_an_end_spoils_no_other() -> None:
    """An object over several lines that breaks off is left out, and the one behind it counts."""
    whole = exported([record(), record()], "json", indent=4)
    sums, report = summed(io.BytesIO(whole[:-100] + b"\n" + whole))
    assert (sums.requests, report.broken, report.breaks_off) == (3, 1, False)
    sums, report = summed(io.BytesIO(whole[:-100]))
    assert (sums.requests, report.broken, report.breaks_off) == (1, 1, True)


ODD = [None, "", 0, -1, 1.5, True, [], {}, [1], {"a": 1}, "x" * 5000, "\ud800", "\0", 10**30, "1" * 5000, float("nan")]


@pytest.mark.parametrize("name", record())
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values_leave_the_record_counted(name: str, value: object) -> None:
    """A field with a value of any other kind leaves the record counted."""
    octets = exported([record(**{name: value}), unreachable(), exempt("a.example", 1)])
    sums, report = summed(io.BytesIO(octets))
    assert sums.requests == 2 - (name == "allowed" and value is True)  # those are counted apart
    shown(sums, report)


def shown(sums: Sums, report: Report) -> None:
    """Show sums in all ways."""
    assert "<h1>" in page(sums, report, 10)
    out = io.StringIO()
    show(sums, report, 10, Console(out, out, out, ""))
    assert out.getvalue().count("\n") > 1
    assert json.dumps(sums.record(report, 10))


WHOLE = [exported([record(), unreachable(), exempt("a.example", 1)], name) for name in EXPORTERS]
PACKED = [exported([record(), unreachable()], packing=packing) for packing in PLUGINS]


@given(st.sampled_from(WHOLE + PACKED), st.data())
def test_damage_of_any_kind_raises_nothing(octets: bytes, data: st.DataObject) -> None:
    """Whatever is taken away, put in or doubled: it is summed up as far as it goes, or refused."""
    for _ in range(data.draw(st.integers(1, 3))):
        start, end = sorted((data.draw(st.integers(0, len(octets))), data.draw(st.integers(0, len(octets)))))
        put = data.draw(st.sampled_from([b"", b'"', b"{", b"\n", b"[", b",", b"\0", octets[start:end] * 2]))
        octets = octets[:start] + put + octets[end:]
    try:
        sums, report = summed(io.BytesIO(octets))
    except Failed as error:
        assert error.code == 2  # noqa: PT017 - that, or nothing
        return
    shown(sums, report)


@given(st.lists(st.tuples(st.integers(0, 2**38), st.sampled_from("ab"), st.integers(1, 9)), min_size=1))
def test_buckets_of_time_hold_each_request(added: list[tuple[int, str, int]]) -> None:
    """However times lie, buckets are few, without a gap, and hold each request where it belongs."""
    timeline = Timeline()
    for time, reason, count in added:
        timeline.add(time, reason, count)
    buckets = list(timeline.buckets())
    assert len(buckets) <= MOST_BUCKETS
    starts = [start for start, _ in buckets]
    assert starts == list(range(starts[0], starts[-1] + 1, timeline.width))
    for start, counts in buckets:
        inside = [entry for entry in added if start <= entry[0] < start + timeline.width]
        assert counts.total() == sum(count for _, _, count in inside)


@pytest.mark.parametrize("format", EXPORTERS)
@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_pieces_make_no_difference(format: str, size: int) -> None:  # noqa: A002
    """In which pieces a stream comes makes no difference."""
    octets = exported([record(), unreachable(), record(spider="a,b", count=3)], format)
    sums, report = summed(Parts([octets[start : start + size] for start in range(0, len(octets), size)]))
    assert (report.records, report.broken, report.breaks_off) == (3, 0, False)
    assert sums.record(report, 10) == summed(io.BytesIO(octets))[0].record(report, 10)


def test_array_in_one_line_is_read() -> None:
    """A JSON array without line ends is read."""
    records = [record(spider="\u00e9" * 100)] * 2000
    sums, report = summed(io.BytesIO(json.dumps(records, ensure_ascii=False).encode()))
    assert (sums.requests, report.broken, report.breaks_off) == (2000, 0, False)
    assert len(sums.record(report, 10)["by_spider"]) == 1


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


@pytest.mark.parametrize("packing", PLUGINS)
def test_packed_parts_are_read_one_after_the_other(packing: str) -> None:
    """Packed parts follow each other, also where the first is read before the second; padding of gzip is none."""
    octets = exported([record()], packing=packing)
    padding = b"\0" * 8 if packing == "gzip" else b""
    sums, report = summed(Parts([octets, padding + octets, octets + padding]))
    assert (sums.requests, report.broken, report.breaks_off) == (3, 0, False)
