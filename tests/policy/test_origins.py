"""Which URLs share a robots.txt (RFC 9309, 2.3)."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.policy.origins import Origin, other_reading, without_userinfo


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
