"""Origins of URLs (RFC 9309, 2.3), names of sites in settings, and URLs of sitemaps."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from scrapy import Request

from scrapy_robots_rfc import RobotsTxt
from scrapy_robots_rfc.policy.origins import (
    SCHEMES,
    Origin,
    Scheme,
    Site,
    other_reading,
    parse_origin,
    scheme_of,
    sitemap_urls,
    without_userinfo,
)
from tests.support.case_files import tables

CASES = tables("origins")


@pytest.mark.parametrize(("url", "expected"), CASES["origins"])
def test_origin_has_scheme_host_and_port(url: str, expected: str) -> None:
    """2.3: an origin is the scheme, the lower-case IDNA host without a trailing dot, and the port,
    without userinfo.
    """
    origin = Origin.of(url)
    assert str(origin) == expected
    assert origin is not None
    assert origin.robots_url == f"{expected}/robots.txt"
    assert Origin.of(origin.robots_url) == origin


@pytest.mark.parametrize("url", CASES["no_origins"])
def test_invalid_authority_has_no_origin(url: str) -> None:
    """2.3: a URL with another scheme or an invalid authority has no origin."""
    assert Origin.of(url) is None


@pytest.mark.parametrize(("url", "expected"), CASES["userinfo"])
def test_userinfo_is_removed(url: str, expected: str) -> None:
    """Section 3: text for log lines has no credentials."""
    assert without_userinfo(url) == expected


@pytest.mark.parametrize(("url", "resolved"), CASES["dot_segments"])
def test_dot_segments_are_removed(url: str, resolved: str) -> None:
    """RFC 3986, 5.2.4: dot segments of a path are removed, in any spelling."""
    assert other_reading(url) == resolved


@pytest.mark.parametrize(("path", "other"), CASES["ftp_paths"])
def test_the_path_that_an_ftp_server_gets(path: str, other: str) -> None:
    """RFC 1738, 3.2: an FTP server gets the decoded path without parameters and query; slashes may
    repeat.
    """
    assert other_reading(f"ftp://e.example{path}") == f"ftp://e.example{other}"
    assert other_reading("FTP://e.example//x") == "FTP://e.example/x"
    assert other_reading("http://e.example//x;y?z") is None


@pytest.mark.parametrize(
    "url",
    [*CASES["no_dot_segments"], *(f"ftp://e.example{path}" for path in CASES["same_ftp_paths"])],
)
def test_path_without_another_reading(url: str) -> None:
    """Any other path is read in one way."""
    assert other_reading(url) is None


def origin(url: str) -> Origin:
    """Return the origin of a URL."""
    found = Origin.of(url)
    assert found is not None
    return found


@pytest.mark.parametrize(("name", "covered", "others"), CASES["sites"])
def test_what_a_name_covers(name: str, covered: list[str], others: list[str]) -> None:
    """A host is meant on every port, `*.` means its subdomains, and an origin is one scheme and
    port.
    """
    site = Site.of(name)
    assert site.text == name.strip()
    assert [site.covers(origin(url)) for url in covered] == [True] * len(covered)
    assert [site.covers(origin(url)) for url in others] == [False] * len(others)


@pytest.mark.parametrize("name", CASES["no_sites"])
def test_what_is_no_name(name: str) -> None:
    """Ambiguous names, and names that cover every site, are not accepted."""
    with pytest.raises(ValueError, match=r"^"):
        Site.of(name)


def test_named_origin_has_a_scheme_and_one_host() -> None:
    """An origin has a scheme and one host; the port is optional."""
    assert (
        parse_origin("https://A.example")
        == parse_origin("https://a.example:443/")
        == Origin("https", "a.example", 443)
    )
    for name in ("a.example", "a.example:443", "https://*.a.example"):
        with pytest.raises(ValueError, match=r"^"):
            parse_origin(name)


def test_a_capsule_may_name_sitemaps_of_its_scheme() -> None:
    """A file may name sitemaps on the web and in its own scheme."""
    values = ["/s.xml", *(f"{scheme}://b.example/s.xml" for scheme in ("gemini", "https", "ftp"))]
    found = sitemap_urls(values, "gemini://a.example/robots.txt")
    assert found == ["gemini://a.example/s.xml", *values[1:3]]


def test_scheme_that_a_user_added() -> None:
    """A file with a scheme from ROBOTS_SCHEMES may name sitemaps in it, too."""
    schemes = {**SCHEMES, "web": Scheme(8080)}
    found = sitemap_urls(["/s.xml", "other://b.example/s.xml"], "web://a.example/r", schemes)
    assert found == ["web://a.example/s.xml"]


@pytest.mark.parametrize(
    ("value", "urls"),
    [
        *((value, [url]) for value, url in CASES["sitemaps"]),
        *((value, []) for value in CASES["refused_sitemaps"]),
    ],
)
def test_relative_sitemaps_are_read_against_the_file(value: str, urls: list[str]) -> None:
    """Relative URLs are resolved with the URL of the file. Only http and https are requested."""
    values = RobotsTxt.parse(f"Sitemap: {value}\n".encode()).sitemaps
    assert values == (value,)
    assert sitemap_urls(values, "http://a.example/robots.txt") == urls
    assert all(Request(url).url for url in urls)


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


SFTP = scheme_of("sftp", {"port": 22, "answers": "ftp"})


def test_origins_of_schemes() -> None:
    """Each scheme has its default port, which is always written for a scheme of the user."""
    assert (
        Origin.of("ftp://A.example:21/x")
        == Origin.of("ftp://a.example")
        == Origin("ftp", "a.example", 21)
    )
    assert str(Origin.of("gemini://a.example:1965/")) == "gemini://a.example"
    assert Origin.of("sftp://a.example/x") is None
    assert SFTP is not None
    own = Origin.of("sftp://a.example/x", {**SCHEMES, "sftp": SFTP})
    assert str(own) == "sftp://a.example:22"
    assert parse_origin("gemini://a.example") == Origin("gemini", "a.example", 1965)
    assert Site.of("a.example").covers(Origin("ftp", "a.example", 21))
    assert not Site.of("ftp://a.example").covers(Origin("http", "a.example", 80))


def test_schemes_that_are_taken_away() -> None:
    """Only a scheme of the table can be removed."""
    assert scheme_of("ftp", None) is None
    with pytest.raises(ValueError, match="sftp"):
        scheme_of("sftp", None)
