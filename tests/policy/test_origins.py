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
    sitemap_urls,
    without_userinfo,
)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.com", "http://example.com"),
        ("http://example.com/a?b#c", "http://example.com"),
        ("https://example.com/", "https://example.com"),
        ("HTTP://EXAMPLE.com/", "http://example.com"),
        ("http://example.com:80/", "http://example.com"),
        ("http://example.com:/", "http://example.com"),
        ("http://example.com:443/", "http://example.com:443"),
        ("https://example.com:443/", "https://example.com"),
        ("https://example.com:80/", "https://example.com:80"),
        ("http://example.com./", "http://example.com"),
        ("http://example.com.:8080/", "http://example.com:8080"),
        ("http://user:pass@example.com/", "http://example.com"),
        ("http://user:p@ss@example.com/", "http://example.com"),
        ("http://@example.com/", "http://example.com"),
        ("http://bücher.example/", "http://xn--bcher-kva.example"),
        ("http://BÜCHER.example./", "http://xn--bcher-kva.example"),
        ("http://[::1]/", "http://[::1]"),
        ("http://[0:0:0:0:0:0:0:1]:80/", "http://[::1]"),
        ("http://[2001:DB8::1]:8080/", "http://[2001:db8::1]:8080"),
        ("http://127.0.0.1:8000/x", "http://127.0.0.1:8000"),
        ("http://under_score.example/", "http://under_score.example"),
    ],
)
def test_origin_has_scheme_host_and_port(url: str, expected: str) -> None:
    """2.3: an origin is the scheme, the lower-case IDNA host without a trailing dot, and the port,
    without userinfo.
    """
    origin = Origin.of(url)
    assert str(origin) == expected
    assert origin is not None
    assert origin.robots_url == f"{expected}/robots.txt"
    assert Origin.of(origin.robots_url) == origin


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/path",
        "example.com/x",
        "sftp://example.com/",
        "data:text/plain,x",
        "file:///etc/hosts",
        "s3://bucket/key",
        "http://",
        "http:///x",
        "http://./",
        "http://:80/",
        "http://user@/",
        "http://[::1",
        "http://[::1%25eth0]/",
        "http://[v1.x]/",
        "http://example.com:0/",
        "http://example.com:65536/",
        "http://example.com:x/",
        "http://exa mple.com/",
        "http://exa%6dple.com/",
        "http://a\\b/",
        "http://\u2100.example/",
        "http://" + "ü" * 80 + "/",
    ],
)
def test_invalid_authority_has_no_origin(url: str) -> None:
    """2.3: a URL with another scheme or an invalid authority has no origin."""
    assert Origin.of(url) is None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://user:pass@a.example/x", "http://a.example/x"),
        ("http://u:p@ss@a.example:80/x@y", "http://a.example:80/x@y"),
        ("http://a.example/x@y?z=@", "http://a.example/x@y?z=@"),
        ("http://user@a.example?x", "http://a.example?x"),
        ("no url", "no url"),
    ],
)
def test_userinfo_is_removed(url: str, expected: str) -> None:
    """Section 3: text for log lines has no credentials."""
    assert without_userinfo(url) == expected


@pytest.mark.parametrize(
    ("url", "resolved"),
    [
        ("https://e.example/a/../private/x", "https://e.example/private/x"),
        ("https://e.example/a/%2e%2E/private?x=/../y#/..", "https://e.example/private?x=/../y#/.."),
        ("https://e.example/./private/.", "https://e.example/private/"),
        ("https://e.example/a/b/..", "https://e.example/a/"),
        ("https://e.example/../../a", "https://e.example/a"),
        ("https://e.example/..", "https://e.example/"),
        ("https://e.example/a//../b", "https://e.example/a/b"),
        ("https://e.example/.well-known/..a/b..", None),
        ("https://e.example/a?/../b", None),
        ("https://e.example/%2f/a", None),
        ("https://e.example", None),
    ],
)
def test_dot_segments_are_removed(url: str, resolved: str | None) -> None:
    """RFC 3986, 5.2.4: dot segments of a path are removed, in any spelling."""
    assert other_reading(url) == resolved


@pytest.mark.parametrize(
    ("path", "other"),
    [
        ("/private%2Fx.txt", "/private/x.txt"),
        ("//private///x.txt", "/private/x.txt"),
        ("/open.txt?a", "/open.txt"),
        ("/open.txt;type=i", "/open.txt"),
        ("/open.txt;type=i?a#b", "/open.txt"),
        ("/a;b/c", "/a%3Bb/c"),
        ("/a%2F%2E%2E/private/", "/private/"),
        ("/a//../private/.", "/private/"),
        ("/100%2525", None),
        ("/what%3F%23%2A", None),
        ("/caf%C3%A9", "/caf%E9"),
        ("/open.txt", None),
        ("", None),
    ],
)
def test_the_path_that_an_ftp_server_gets(path: str, other: str | None) -> None:
    """RFC 1738, 3.2: an FTP server gets the decoded path without parameters and query; slashes may
    repeat.
    """
    assert other_reading(f"ftp://e.example{path}") == (
        None if other is None else f"ftp://e.example{other}"
    )
    assert other_reading("FTP://e.example//x") == "FTP://e.example/x"
    assert other_reading("http://e.example//x;y?z") is None


def origin(url: str) -> Origin:
    """Return the origin of a URL."""
    found = Origin.of(url)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "covered", "others"),
    [
        (
            "intranet.example",
            [
                "http://intranet.example/",
                "https://intranet.example:8443/x",
                "https://INTRANET.example./",
            ],
            ["http://www.intranet.example/", "http://myintranet.example/", "http://example/"],
        ),
        (
            "*.staging.example",
            ["http://a.staging.example/", "https://b.a.staging.example:81/"],
            [
                "http://staging.example/",
                "http://astaging.example/",
                "http://a.staging.example.org/",
            ],
        ),
        (
            "https://api.example:8443",
            ["https://api.example:8443/x"],
            ["http://api.example:8443/", "https://api.example/", "https://a.api.example:8443/"],
        ),
        (
            "HTTPS://api.example/",
            ["https://api.example/", "https://api.example:443/"],
            ["http://api.example/", "https://api.example:8443/"],
        ),
        (
            "api.example:80",
            ["http://api.example/", "https://api.example:80/"],
            ["https://api.example/"],
        ),
        (
            "http://*.a.example:81",
            ["http://b.a.example:81/"],
            ["http://b.a.example/", "https://b.a.example:81/"],
        ),
        (" Bücher.example ", ["http://xn--bcher-kva.example/"], ["http://bucher.example/"]),
        ("[::1]:81", ["http://[0:0::1]:81/"], ["http://[::1]/", "http://[::2]:81/"]),
        ("127.0.0.1", ["http://127.0.0.1:5000/"], ["http://127.0.0.2/"]),
    ],
)
def test_what_a_name_covers(name: str, covered: list[str], others: list[str]) -> None:
    """A host is meant on every port, `*.` means its subdomains, and an origin is one scheme and
    port.
    """
    site = Site.of(name)
    assert site.text == name.strip()
    assert [site.covers(origin(url)) for url in covered] == [True] * len(covered)
    assert [site.covers(origin(url)) for url in others] == [False] * len(others)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "*",
        "*.",
        "a.*.example",
        "*a.example",
        "*.*.example",
        "sftp://a.example",
        "//a.example",
        "https://",
        "https://a.example/path",
        "https://a.example/?q",
        "https://user@a.example",
        "a.example:0",
        "a.example:65536",
        "a.example:http",
        "a b.example",
        "a.example\nb.example",
        "*.[::1]",
        "[::1",
        "::1",
        ".a.example",
        "https://.a.example",
        "a..example",
        "*.127.0.0.1",
    ],
)
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
