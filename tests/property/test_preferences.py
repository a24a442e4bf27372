"""Dictionaries are read like the reference implementation reads them, and nothing raises."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import http_sf
from hypothesis import example, given, strategies as st

from scrapy_robots_rfc.core.preferences import parse_signal, parse_usage
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.usage.rules import find_reservation, parse_tdmrep

TEXTS = """y n N ?0 ?1 ?2 1 1.5 1. -7 1234567890123456 "n" " (y (y;a=1)n :aGk=: :a @12 @1.5
 %"x%c3%a4" %"%C3" *a:b/c é () (y,n) (y\tn)"""
items = st.sampled_from([*TEXTS.split(), "(y n)", "( y;a=1  n )", "( )"])
parameters = st.sampled_from(["", "", ";a", ";a=1", "; b=?0", ";", ";A", ";a;b=:aGk=:", " ;a"])
members = st.tuples(
    st.sampled_from(["a", "b", "train-ai", "*", "A", "a.b_c-d*", "1a", "", "search"]),
    st.one_of(st.just(""), items.map("={}".format)),
    parameters,
).map("".join)
# Display strings with any bytes, and byte sequences with any padding.
escapes = st.lists(
    st.sampled_from(["%c3", "%a4", "%e0", "%9f", "%ed", "%f4", "%80", "%bf", "%7f", "x"]),
    max_size=5,
)
octets = st.one_of(
    escapes.map(lambda parts: f'%"{"".join(parts)}"'),
    st.text("aZ9+/=", max_size=9).map(":{}:".format),
)
dictionaries = st.lists(
    st.tuples(members, st.sampled_from([", ", ",", " , ", "\t,\t", " ", ",,", ",\u00a0"])).map(
        "".join
    ),
    max_size=4,
).map("".join)


def reference(text: str) -> dict[str, bool | None]:
    """Return the permissions that the reference implementation reads."""
    parsed: Any
    try:
        parsed = http_sf.parse(text.encode("latin-1"), tltype="dictionary")
    except ValueError:
        return {}
    words = {
        key: str(value) if isinstance(value, http_sf.Token) else ""
        for key, (value, _) in parsed.items()
    }
    return {key: {"y": True, "n": False}.get(word) for key, word in words.items()}


@given(
    text=st.one_of(
        dictionaries,
        octets.map("a=n, x={}".format),
        dictionaries.map(lambda text: text.rstrip(", \t")),
        st.text('a=y,;(n"? :1.', max_size=12),
    )
)
@example(text="a=1.0000")
@example(text="a=y\t")
@example(text="\ta=y")
@example(text="a=--1")
@example(text='train-ai=n, x=%"%ff"')
@example(text="a=n, y=:=:")
@example(text="a=n, y=:aGkA=:")
def test_dictionaries_as_the_reference_reads_them(text: str) -> None:
    """A dictionary is valid or not as in the reference implementation of RFC 9651."""
    assert parse_usage(text.encode("latin-1")) == reference(text)


@given(value=st.binary(max_size=60), url=st.text(max_size=20))
def test_nothing_raises(value: bytes, url: str) -> None:
    """Any bytes can be read as a value and in a file, for any URL."""
    parse_usage(value)
    parse_signal(value)
    with suppress(ValueError):
        find_reservation(parse_tdmrep(value), url)
    robots = RobotsTxt.parse(
        b"User-agent: *\nContent-Usage: /" + value + b"\nContent-Signal: " + value + b"\n"
    )
    robots.preferences(url, ["x"])
