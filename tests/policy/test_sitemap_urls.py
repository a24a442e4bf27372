"""Which sitemaps of a file may be requested."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from scrapy import Request

from scrapy_robots_rfc import RobotsTxt
from scrapy_robots_rfc.policy.origins import SCHEMES, Scheme, sitemap_urls


def test_a_capsule_may_name_sitemaps_of_its_scheme() -> None:
    """A file may name sitemaps on the web and in its own scheme."""
    values = (
        "/s.xml",
        "gemini://b.example/s.xml",
        "https://b.example/s.xml",
        "ftp://b.example/s.xml",
    )
    found = sitemap_urls(values, "gemini://a.example/robots.txt")
    assert found == [
        "gemini://a.example/s.xml",
        "gemini://b.example/s.xml",
        "https://b.example/s.xml",
    ]


def test_scheme_that_a_user_added() -> None:
    """A file with a scheme from ROBOTS_SCHEMES may name sitemaps in it, too."""
    schemes = {**SCHEMES, "web": Scheme(8080)}
    found = sitemap_urls(["/s.xml", "other://b.example/s.xml"], "web://a.example/r", schemes)
    assert found == ["web://a.example/s.xml"]


@pytest.mark.parametrize(
    ("value", "url"),
    [
        ("https://b.example/s.xml", "https://b.example/s.xml"),
        ("/s.xml", "http://a.example/s.xml"),
        ("s.xml?a=b", "http://a.example/s.xml?a=b"),
        ("//b.example/s.xml", "http://b.example/s.xml"),
        ("file:///etc/passwd", None),
        ("FILE:/etc/passwd", None),
        ("data:text/xml,x", None),
        ("s3://bucket/s.xml", None),
        ("ftp://b.example/s.xml", None),
        ("javascript:alert(1)", None),
        (
            "http://",
            "http://a.example/robots.txt",
        ),  # as Scrapy reads it; the filter of duplicates has it
        ("http:///etc/passwd", "http://a.example/etc/passwd"),
        ("http://[::1", None),
        ("http://b.example:99999/", None),
        ("http://b<c.example/", None),
    ],
)
def test_relative_sitemaps_are_read_against_the_file(value: str, url: str | None) -> None:
    """Relative URLs are resolved with the URL of the file. Only http and https are requested."""
    values = RobotsTxt.parse(f"Sitemap: {value}\n".encode()).sitemaps
    assert values == (value,)
    found = sitemap_urls(values, "http://a.example/robots.txt")
    assert found == ([] if url is None else [url])
    assert all(Request(url).url for url in found)


_PIECES = st.one_of(
    st.sampled_from([b"http://", b"//", b"[", b"]", b":", b"@", b"\xff", b"%", b"\xc3\xa9."]),
    st.binary(),
)


@given(st.lists(st.lists(_PIECES, max_size=6).map(b"".join), max_size=4))
def test_hostile_values_give_requestable_urls(values: list[bytes]) -> None:
    """Any value gives a list of URLs that can be requested."""
    body = b"".join(b"Sitemap: " + value + b"\n" for value in values)
    for url in sitemap_urls(RobotsTxt.parse(body).sitemaps, "http://a.example/robots.txt"):
        assert Request(url).url.startswith(("http://", "https://"))
