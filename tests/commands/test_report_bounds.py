"""Reports as input: whatever is in them, nothing raises, and memory does not grow with them."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import tracemalloc
from itertools import repeat
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.report_files import ReportFile
from scrapy_robots_rfc.commands.report_formats import LONGEST, records
from scrapy_robots_rfc.commands.report_page import page
from scrapy_robots_rfc.commands.report_records import Reading
from scrapy_robots_rfc.commands.report_sums import Sums, record_of
from scrapy_robots_rfc.commands.report_text import lines_of
from scrapy_robots_rfc.commands.report_times import MOST, Timeline
from scrapy_robots_rfc.commands.terminal import Style
from tests.commands.reports import EXPORTERS, PLUGINS, exempt, exported, record, unreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.once

MEBIBYTE = 2**20


def summed(file: Any) -> tuple[Sums, ReportFile]:
    """What a stream adds up to."""
    console: Any = SimpleNamespace(stdin=SimpleNamespace(buffer=file))
    sums, report = Sums(), ReportFile("-")
    for found in report.records(console):
        sums.add(found)
    return sums, report


class Endless(io.RawIOBase):
    """A stream that repeats itself until so many octets are read."""

    def __init__(self, octets: bytes, size: int, first: bytes = b"") -> None:
        self._first = first
        self._octets = octets * (65_536 // len(octets) + 1)
        self._left = size

    def read(self, size: int = -1) -> bytes:
        """Return the next ones."""
        if self._first:
            first, self._first = self._first, b""
            return first
        taken = self._octets[: min(size, self._left)]
        self._left -= len(taken)
        return taken


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
        (b"[", b"[1,"),
        (b"", b"x"),
        (b"", b'{"a": 1, '),
        (exported([record()], "csv") + b'"', b"a"),
        (exported([record()], "csv"), b'"a'),
        (exported([record()], "csv") + b'"', b"a" * 200 + b"\n"),
    ],
)
def test_endless_line(first: bytes, again: bytes) -> None:
    """A record without an end is given up at a million characters."""
    most, _ = peak(Endless(again, 24 * MEBIBYTE, first))
    assert most < 12 * MEBIBYTE


def test_long_record() -> None:
    """One that is too long is told so, and the next one counts."""
    for name in ("jsonlines", "csv"):
        octets = exported([record(), record(spider="x" * (LONGEST + 200_000)), record()], name)
        sums, report = summed(io.BytesIO(octets))
        assert (sums.requests, report.reading.broken) == (2, 1)
        assert report.reading.because == "longer than 1,000,000 characters"


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
@pytest.mark.parametrize("octets", [b"\0", b" ", b"["])
def test_bomb(pack: Any, octets: bytes) -> None:
    """What unpacks to a thousand times its size is unpacked a piece at a time."""
    packed = pack(octets * (48 * MEBIBYTE))
    most, _ = peak(io.BytesIO(packed))
    assert most < 12 * MEBIBYTE


def test_xz_asks_for_much() -> None:
    """A header of xz that asks for gigabytes is not followed."""
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 2**20}]
    octets = lzma.compress(exported([record()]), filters=filters, check=lzma.CHECK_NONE)
    header = bytearray(octets[12:24])
    header[4 - 4 + 4] = 40  # the size of the dictionary: 4 GiB - 1
    import zlib  # noqa: PLC0415 - for this alone

    header[8:12] = zlib.crc32(bytes(header[:8])).to_bytes(4, "little")
    with pytest.raises(Failed, match="holds no records"):
        summed(io.BytesIO(octets[:12] + bytes(header) + octets[24:]))


def test_many_records() -> None:
    """Memory grows with origins and rules, not with requests."""
    one = exported([record(), unreachable()])
    few, _ = peak(Endless(one, len(one) * 500))
    many, sums = peak(Endless(one, len(one) * 10_000))
    assert sums is not None
    assert sums.requests >= 19_000
    assert many < few + 300_000


def test_many_reasons() -> None:
    """No more than a few reasons are counted by name."""
    sums, _ = summed(io.BytesIO(exported(record(reason=f"r{number}") for number in range(100))))
    assert len(sums.reasons) == 21
    assert sums.reasons["other"] == 80


def lasting(format: str) -> tuple[bytes, bytes]:  # noqa: A002 - its name in FEEDS
    """A report of two records: all before the second one, and that without its end of line."""
    octets = exported([record(), record(url='https://a.example/{b},c/"d', spider="shops")], format)
    start = octets.rindex(b"2026-11-21") if format == "csv" else octets.rindex(b'{"time"')
    return octets[:start], octets[start:].rstrip(b"\r\n]")


@pytest.mark.parametrize("format", EXPORTERS)
def test_breaks_off(format: str) -> None:  # noqa: A002
    """Wherever the last record breaks off, the one before it is summed up."""
    before, last = lasting(format)
    for length in range(1, len(last)):
        sums, report = summed(io.BytesIO(before + last[:length]))
        if format == "csv" and last[length:].isdigit():  # nothing but the last cell is shorter, which nobody can know
            continue
        assert (sums.requests, report.reading.breaks_off) == (1, True), last[:length]


@pytest.mark.parametrize("format", EXPORTERS)
def test_resumed(format: str) -> None:  # noqa: A002
    """A crawl that was killed within a record, and resumed, writes on right behind it: all whole records count."""
    before, last = lasting(format)
    for length in range(1, len(last)):
        octets = before + last[:length] + exported([record(), unreachable()] * 2, format)
        sums, report = summed(io.BytesIO(octets))
        assert sums.requests == 5, last[:length]
        assert (report.reading.broken, report.reading.breaks_off) == (1, False), last[:length]


ODD = [None, "", 0, -1, 1.5, True, [], {}, [1], {"a": 1}, "x" * 5000, "\ud800", "\0", 10**30, "1" * 5000, float("nan")]


@pytest.mark.parametrize("name", record())
@pytest.mark.parametrize("value", ODD, ids=range(len(ODD)))
def test_odd_values(name: str, value: object) -> None:
    """A field with a value of any other kind leaves the record counted."""
    octets = exported([record(**{name: value}), unreachable(), exempt("a.example", 1)])
    sums, report = summed(io.BytesIO(octets))
    assert sums.requests == 2
    shown(sums, report)


def shown(sums: Sums, report: ReportFile) -> None:
    """Show sums in all ways."""
    assert "<h1>" in page(sums, [report], 10)
    assert list(lines_of(sums, [report], 10, Style(width=40)))
    assert json.dumps(record_of(sums, [report], 10))


WHOLE = [exported([record(), unreachable(), exempt("a.example", 1)], name) for name in EXPORTERS]
PACKED = [exported([record(), unreachable()], packing=packing) for packing in PLUGINS]


@given(st.sampled_from(WHOLE + PACKED), st.data())
def test_damaged(octets: bytes, data: st.DataObject) -> None:
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
def test_timeline(added: list[tuple[int, str, int]]) -> None:
    """However times lie, buckets are few, without a gap, and hold each request where it belongs."""
    timeline = Timeline()
    for time, reason, count in added:
        timeline.add(time, reason, count)
    buckets = timeline.buckets()
    assert len(buckets) <= MOST
    starts = [bucket.start for bucket in buckets]
    assert starts == list(range(starts[0], starts[-1] + 1, timeline.width))
    for bucket in buckets:
        inside = [entry for entry in added if bucket.start <= entry[0] < bucket.start + timeline.width]
        assert bucket.counts.total() == sum(count for _, _, count in inside)


@pytest.mark.parametrize("name", EXPORTERS)
@pytest.mark.parametrize("size", [1, 2, 7, 100, 1000])
def test_pieces(name: str, size: int) -> None:
    """Where the text is cut into pieces makes no difference."""
    text = exported([record(), unreachable(), record(spider="a\nb", count=3)], name).decode()

    def pieces() -> Iterator[str]:
        for start in range(0, len(text), size):
            yield from (text[start : start + size], "")

    reading = Reading()
    assert list(records(pieces(), reading)) == list(records(iter([text]), Reading()))
    assert (reading.records, reading.broken, reading.breaks_off) == (3, 0, False)
    assert list(records(repeat("", 3), Reading())) == []


class Parts(io.RawIOBase):
    """A stream that is read a part at a time."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = [*parts]

    def read(self, size: int = -1) -> bytes:
        """Return the next one."""
        return self._parts.pop(0) if self._parts else b""


@pytest.mark.parametrize("packing", PLUGINS)
def test_packed_parts(packing: str) -> None:
    """Packed parts follow each other, also where the first is read before the second; padding between them is none."""
    octets = exported([record()], packing=packing)
    padding = b"\0" * 8 if packing in ("gzip", "xz") else b""
    sums, report = summed(Parts([octets, padding + octets, octets + padding]))
    assert (sums.requests, report.reading.broken, report.reading.breaks_off) == (3, 0, False)
