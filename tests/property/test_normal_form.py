"""The normal form of a URL (RFC 9309, 2.2.2) is idempotent, and the same for equal spellings."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.core.percent import normal_form, request_target, to_octets
from tests.support.strategies import any_urls, patterns, targets

_UNRESERVED = "abcXYZ019-._~"
_texts = st.one_of(
    patterns,
    targets,
    st.text(st.characters(max_codepoint=255), max_size=20),
    st.lists(st.sampled_from(["%25", "%", "41", "2F", "3f", "/", "?", "&"]), max_size=6).map(
        "".join
    ),
)


@given(text=_texts, in_query=st.booleans())
def test_normal_form_is_idempotent(text: str, in_query: bool) -> None:
    """The normal form of a normal form is the same, in the path and in the query."""
    normal = normal_form(to_octets(text), in_query=in_query)
    assert normal_form(normal, in_query=in_query) == normal


@given(url=any_urls)
def test_request_target_is_a_normal_path(url: str | bytes) -> None:
    """A normal form begins with a slash and is printable ASCII without spaces."""
    target = request_target(url)
    assert target.startswith("/")
    assert target.isascii()
    assert target.isprintable()
    assert " " not in target
    assert normal_form(target) == target


@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(_UNRESERVED), st.sampled_from(["raw", "%{:02X}", "%{:02x}"]))
    )
)
def test_spelling_of_unreserved_characters_does_not_matter(pieces: list[tuple[str, str]]) -> None:
    """Unreserved characters have one normal form, raw or escaped in either case."""
    raw = "/" + "".join(character for character, _ in pieces)
    spelt = "/" + "".join(c if how == "raw" else how.format(ord(c)) for c, how in pieces)
    assert normal_form(spelt) == normal_form(raw) == raw


@given(text=st.text(max_size=20).filter(lambda text: "#" not in text))
def test_text_compares_as_its_utf8(text: str) -> None:
    """A URL in Unicode equals its UTF-8 bytes, escaped or not."""
    escaped = "".join(
        f"%{octet:02X}" if octet > 127 else chr(octet) for octet in text.encode("utf-8")
    )
    url = "https://e.example/"
    assert (
        request_target(url + text)
        == request_target(url + escaped)
        == request_target((url + text).encode("utf-8"))
    )


@pytest.mark.parametrize("text", ["/%2F%41%zz", "/%c3%A4", "/ä%", "/%%41%4%2b", "/%25%2541"])
@pytest.mark.parametrize("in_query", [False, True])
def test_many_escapes_are_read_as_few_are(text: str, *, in_query: bool) -> None:
    """A long text with many percent signs has the normal form of its parts."""
    assert normal_form(text * 50, in_query=in_query) == normal_form(text, in_query=in_query) * 50
