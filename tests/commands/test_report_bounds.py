"""Reports as input: whatever is in them, nothing raises, and memory does not grow with them."""

from __future__ import annotations

import io
import json
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.commands import report_views
from scrapy_robots_rfc.commands.common import Console, Failed
from scrapy_robots_rfc.commands.report_sums import MAX_URLS, MAX_URLS_OF_GROUP, Sums
from scrapy_robots_rfc.commands.report_views import as_json, page, show
from tests.support.reports import exempt, exported, record, unreachable

pytestmark = pytest.mark.once

MEBIBYTE = 2**20


def summed(octets: bytes) -> Sums:
    """Sum up a stream."""
    console: Any = SimpleNamespace(stdin=SimpleNamespace(buffer=io.BytesIO(octets)))
    return report_views.summed("-", console, Sums())


def peak(octets: bytes) -> tuple[int, Sums | None]:
    """Return the peak memory of summing up, and the sums, if there are any."""
    sums = None
    tracemalloc.start()
    try:
        sums = summed(octets)
    except Failed as error:
        assert "is not a report" in str(error)  # noqa: PT017 - that, or nothing
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most, sums


@pytest.mark.parametrize(
    ("first", "again"),
    [(b'{"url": "', b"a"), (b'{"url": "', b'{"a'), (b"[", b"[1," + b" " * 97), (b"", b'{"a": 1, ')],
)
def test_memory_does_not_grow_with_an_endless_line(first: bytes, again: bytes) -> None:
    """Memory does not grow with a line that never ends."""
    most, _ = peak(first + again * (32 * MEBIBYTE // len(again)))
    assert most < 16 * MEBIBYTE


def test_a_record_that_is_too_long_is_left_out() -> None:
    """Each piece of a record that is too long counts as broken, and the next record counts."""
    sums = summed(exported([record(), record(spider="x" * 1_000_000), record()]))
    assert (sums.total.requests, sums.broken) == (2, 2)


def test_memory_does_not_grow_with_requests() -> None:
    """Memory grows with sites and rules, and with URLs up to a limit, but not with requests."""
    one = exported([record(), unreachable()])
    few, _ = peak(one * 300)
    many, sums = peak(one * 1500)
    assert sums is not None
    assert sums.total.requests == 3000
    assert many < few + 150_000


def test_urls_are_kept_up_to_a_limit() -> None:
    """The number of kept URLs is limited for each group and in total."""
    groups = MAX_URLS // MAX_URLS_OF_GROUP + 1
    lines = (
        b'{"why": "line %d", "url": "https://a.example/%d"}\n' % (line, number)
        for line in range(groups)
        for number in range(MAX_URLS_OF_GROUP + 1)
    )
    sums = summed(b"".join(lines))
    dropped = as_json(sums, "-")["dropped"]
    assert {len(group["urls"]) for group in dropped} == {MAX_URLS_OF_GROUP, 0}
    assert [group["more"] for group in dropped] == [1] * (groups - 1) + [MAX_URLS_OF_GROUP + 1]
    assert page(sums, "-").count('"url": ') == MAX_URLS


ODD = [
    *(None, "", 0, -1, 1.5, True, [], {}, [1], {"a": 1}),
    *("x" * 5000, "\ud800", "\0", 10**30, "1" * 5000, float("nan")),
]


@pytest.mark.parametrize("name", record())
def test_odd_values_leave_the_record_counted(name: str) -> None:
    """A record is counted even if a field has a value of a wrong type."""
    for value in ODD:
        octets = exported([record(**{name: value}), unreachable(), exempt("a.example", 1)])
        sums = summed(octets)
        is_allowed = name == "allowed" and value is True
        assert sums.total.requests == 2 - is_allowed, value
        show_in_all_ways(sums)


def show_in_all_ways(sums: Sums) -> None:
    """Show sums as text, page and JSON."""
    assert "<h1>" in page(sums, "-")
    out = io.StringIO()
    show(sums, "-", Console(out, out, out, ""))
    assert out.getvalue().count("\n") > 1
    assert json.dumps(as_json(sums, "-"))


@given(st.data())
def test_damage_of_any_kind_raises_nothing(data: st.DataObject) -> None:
    """A damaged file is summed up as far as possible, or refused."""
    octets = exported([record(), unreachable(), exempt("a.example", 1)])
    for _ in range(data.draw(st.integers(1, 3))):
        places = st.integers(0, len(octets))
        start, end = sorted((data.draw(places), data.draw(places)))
        inserted = [b"", b'"', b"{", b"\n", b"[", b",", b"\0", octets[start:end] * 2]
        octets = octets[:start] + data.draw(st.sampled_from(inserted)) + octets[end:]
    try:
        sums = summed(octets)
    except Failed:
        return
    show_in_all_ways(sums)
