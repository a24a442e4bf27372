"""Cookies that a site sets on the way to its robots.txt."""

from __future__ import annotations

from http.cookies import SimpleCookie
from time import process_time

import pytest
from pytest_twisted import ensureDeferred
from scrapy.http import Response

from scrapy_robots_rfc.fetching.cookies import FetchCookies
from tests.fetching.test_access import RULES
from tests.support.crawling import crawl
from tests.support.site import Asked, Reply, Site, redirect, robots

ROBOTS = "http://a.example/robots.txt"


def cookies_of(asked: Asked) -> dict[str, str]:
    """The cookies of a request."""
    return {name: one.value for name, one in SimpleCookie(asked.headers.get("Cookie", "")).items()}


def setting(location: str, *cookies: str) -> Reply:
    """A redirect that sets cookies."""
    return Reply(302, headers=(("Location", location), *(("Set-Cookie", one) for one in cookies)))


@pytest.mark.parametrize("way", ["/robots.txt", "/set"])
@ensureDeferred
async def test_a_file_behind_a_cookie_wall_is_obeyed(site: Site, other: Site, way: str) -> None:
    """The rules of a site that requires a cookie are obeyed; only robots.txt requests have it."""

    def wall(asked: Asked) -> Reply:
        if cookies_of(asked) == {"c": "1"}:
            return robots(RULES)
        return setting("/robots.txt", "c=1; Path=/") if way == "/robots.txt" else redirect(way)

    site.replies["/robots.txt"] = wall
    site.replies["/set"] = setting("/robots.txt", "c=1; Path=/")
    pages = [site.url("/private/x"), site.url("/open"), other.url("/open")]
    result = await crawl(pages, {"CONCURRENT_REQUESTS": 1})
    assert result.verdicts(*pages) == ["rule", 200, 200]
    with_cookie = [one.target for one in (*site.asked, *other.asked) if "Cookie" in one.headers]
    assert with_cookie == ["/robots.txt"]


@pytest.mark.parametrize(
    ("cookies", "requests"),
    [((), 1), (("c=1; Path=/elsewhere",), 1), (("c=1",), 2)],
    ids=["no cookie", "cookie for another path", "the same cookie again"],
)
@ensureDeferred
async def test_a_redirect_to_itself_without_a_new_cookie_is_a_loop(
    site: Site, cookies: tuple[str, ...], requests: int
) -> None:
    """A site that redirects to the same URL without a new cookie has no robots.txt."""
    site.replies["/robots.txt"] = setting("/robots.txt", *cookies)
    result = await crawl([site.url("/private/x")])
    assert result.verdicts() == [200]
    assert site.fetches == requests


@ensureDeferred
async def test_five_redirects_are_the_limit_with_new_cookies_too(site: Site) -> None:
    """A site that sets another cookie with each redirect gets six requests."""
    site.replies["/robots.txt"] = lambda _: setting("/robots.txt", f"c={site.fetches}")
    result = await crawl([site.url("/private/x")])
    assert result.verdicts() == [200]
    assert site.fetches == 6


@pytest.mark.parametrize(
    ("line", "url", "expected"),
    [
        ("c=1", "http://a.example/x", b"c=1"),
        ("c=1", "http://b.example/robots.txt", b""),
        ("c=1; Domain=b.example", "http://b.example/robots.txt", b""),
        ("c=1; Domain=a.example", "http://www.a.example/robots.txt", b"c=1"),
        ("c=1; Secure", "http://a.example/robots.txt", b""),
        ("c=1; Max-Age=0", "http://a.example/robots.txt", b""),
        ("c=\x00", "http://a.example/robots.txt", b""),
        (f"c={'x' * 5000}", "http://a.example/robots.txt", b""),
    ],
)
def test_a_cookie_is_sent_where_rfc_6265_says(line: str, url: str, expected: bytes) -> None:
    """A cookie goes to the hosts, paths and schemes that it is for, unless it is malformed."""
    cookies = FetchCookies()
    headers = {"Location": "/robots.txt", "Set-Cookie": line}
    cookies.keep(Response(ROBOTS, 302, headers=headers))
    assert cookies.header_for(url) == expected


@pytest.mark.parametrize(
    "line",
    [
        "c" * 4096,
        "=" * 4096,
        "a=b;" * 1024,
        'a="' + "\\" * 4000,
        "c=1; expires=" + "1 " * 2000,
        "a=b",
    ],
)
def test_hostile_cookies_cost_little(line: str) -> None:
    """A thousand malformed cookies neither raise nor block the event loop."""
    cookies = FetchCookies()
    response = Response(ROBOTS, 302, headers={"Location": "/", "Set-Cookie": [line] * 1000})
    start = process_time()
    cookies.keep(response)
    header = cookies.header_for(ROBOTS)
    assert process_time() - start < 0.05
    assert len(header) <= 8192
