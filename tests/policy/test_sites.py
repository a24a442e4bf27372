"""Names of sites in settings: what they cover, which are invalid, and which one counts."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.policy.origins import Origin, Site, parse_origin


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
