"""Hostile pages: reading their rules does not block the crawl."""

from __future__ import annotations

import time
from html import escape
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st
from scrapy.http import HtmlResponse
from w3lib.url import canonicalize_url, safe_url_string

from scrapy_robots_rfc.usage.page_rules import (
    all_metas_of,
    count_cut,
    page_of,
    rules_of,
    unendorsed,
)

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "attributes", ["".join(f" a{number}=1" for number in range(30_000)), " a" * 100_000]
)
@pytest.mark.parametrize("tag", ["meta", "a"])
def test_tags_with_very_many_attributes_are_ignored(tag: str, attributes: str) -> None:
    """A tag that lxml would take minutes for is ignored; other tags of the page count."""
    crowded = f"<{tag}{attributes} name=robots content=noindex rel=ugc href=/x>"
    body = f"<meta name=robots content=nofollow>{crowded}<a rel=ugc href=/y>y</a>"
    response = HtmlResponse("https://e.example/", body=body.encode(), encoding="utf-8")
    assert page_of(response).metas == all_metas_of(response) == [("robots", "nofollow")]
    assert unendorsed(response) == {"https://e.example/y"}


HIDDEN = "<!-- <meta name=robots content=noarchive> --><META name=robots content=nofollow>"


@pytest.mark.parametrize("tag", ["div", "foo", "DIV class='a > b'"])
@pytest.mark.parametrize("end", ["", "</div>"])
@pytest.mark.parametrize(("body", "found"), [("", []), ("<body>", [("robots", "nofollow")])])
def test_metas_after_very_many_elements(
    tag: str, end: str, body: str, found: list[tuple[str, str]]
) -> None:
    """Nesting cannot hide a meta before a `<body>` tag; without that tag, elements end the head."""
    document = f"<head>{f'<{tag}>{end}' * 19_000}{HIDDEN}</head>{body}"
    response = HtmlResponse("https://e.example/", body=document.encode(), encoding="utf-8")
    assert page_of(response).metas == found


MEBI = 1_048_576
HEAD = "<html><head>"
#: Pages of up to 1 MiB. Without limits each took between 0.3 and 7 seconds.
HOSTILE = {
    "members": f"{HEAD}<meta name=robots content='{'a,' * 500_000}'>",
    "values": f"{HEAD}<meta name=robots content='{'a:' * 500_000}'>",
    "dates": f"{HEAD}<meta name=robots content='{'unavailable_after:' * 50_000}'>",
    "words": f"{HEAD}<meta name=robots content='{'unavailable_after: Wed, 03 Dec ' * 30_000}'>",
    "metas": HEAD + "<meta name=robots content=noindex>" * 30_000,
    "attributes": f"{HEAD}<a{'/b' * 500_000}>",
    "many attributes": HEAD + f"<a{'/b' * 450}>" * 1100,
    "tags": "<" * MEBI,
    "comments": "<!---->" * (MEBI // 7),
    "paragraphs": "<p>" * (MEBI // 3),
    "titles": "<title>x</title>" * (MEBI // 16),
    "equals": "<a =" + "=" * MEBI,
    "open titles": "<title " * (MEBI // 7),
    "open scripts": "<script x=" * (MEBI // 10),
    "closed titles": "<title " * (MEBI // 7 - 1) + "/>",
    "half ends": "<script>" + "</script " * (MEBI // 9),
    "crowded scripts": f"{HEAD}<script{' a=1' * 250_000}>",
    "links": "".join(f"<a rel=nofollow href=/x/{number}>" for number in range(32_000)),
    "unusual links": "".join(
        f"<a rel=nofollow href='/x?b={number}&a=%7e'>" for number in range(25_000)
    ),
    "rels": f"<a href=/x rel='{'ugc ' * 250_000}'>",
    "hosts": "".join(f"<a rel=ugc href='http://{number}{'é.x' * 300}/'>" for number in range(200)),
    "quotes": HEAD + "<p " + "=''" * (MEBI // 3),
    "tags and links": "".join(
        f"{'<p a=1 b=2>' * 15}<a rel=ugc href='/x?b={number}&a=%7e'>" for number in range(5000)
    ),
    "bases": f"<base href='http://{'é.x' * 1300}/'>"
    + "".join(f"<a rel=ugc href='{number}'>" for number in range(5000)),
}


def hostile(body: str, **headers: list[bytes]) -> HtmlResponse:
    """A hostile page."""
    return HtmlResponse(
        "https://e.example/", body=body.encode()[:MEBI], encoding="utf-8", headers=headers
    )


def seconds(body: str, ask: Callable[[HtmlResponse], object]) -> float:
    """Return the minimum time for a page."""
    spent = []
    for _ in range(3):
        response = hostile(body, **{"X-Robots-Tag": [b"a," * 32_000]})
        assert response.text
        began = time.process_time()
        ask(response)
        spent.append(time.process_time() - began)
    return min(spent)


@pytest.fixture(scope="module")
def parsing() -> float:
    """The time for parsing a usual page."""
    usual = "<p class=x>Some words of a page. <a href=/x>A link</a></p>" * (MEBI // 57)
    return seconds(usual, lambda response: response.selector)


@pytest.mark.parametrize("kind", HOSTILE)
def test_time_for_a_page(kind: str, parsing: float) -> None:
    """Reading the rules of a page takes at most as long as parsing five usual pages of its size."""
    reading = seconds(
        HOSTILE[kind], lambda response: (rules_of(response, ["foobot"]), unendorsed(response))
    )
    assert reading < 5 * parsing


BASE = f"<base href='http://b.example/{'../' * 1300}'>"


@pytest.mark.parametrize(
    ("body", "cut"),
    [
        (HEAD + "<meta name=x content=y>" * 2999 + "<body>", False),
        (HEAD + "<meta name=x content=y>" * 3000 + "<body>", True),
        (f"{HEAD}<meta name=robots content='{'a,' * 499}'><body>", False),
        (f"{HEAD}<meta name=robots content='{'a,' * 500}'><body>", True),
        (f"{HEAD}<meta name=x content='{'x' * 196_000}'><body>", False),
        (f"{HEAD}<meta name=x content='{'x' * 197_000}'><body>", True),
        (f"{HEAD}<meta name=robots content='{'x' * 65_000}'><body>", False),
        (f"{HEAD}<meta name=robots content='{'x' * 66_000}'><body>", True),
        ("<body>" + "<a href=/x>" * 2999, False),
        ("<body>" + "<a href=/x>" * 3000, True),
        ("<p>" * 40_001, True),
        ("<p ==>" * 20_001, True),
        ("<body>" + "x" * (MEBI - 6), False),
        ("<body>" + "x" * MEBI, True),
        ("".join(f"<a rel=ugc href=/~{number}>" for number in range(150)), False),
        ("".join(f"<a rel=ugc href=/~{number}>" for number in range(250)), True),
        (BASE + "<a rel=ugc href=x>", False),
        (BASE + "".join(f"<a rel=ugc href=~{number}>" for number in range(100)), True),
        ("".join(f"<a rel=ugc href=http://[{number}>" for number in range(500)), True),
        ("".join(f"<a rel=ugc href={'./' * 450}~{number}>" for number in range(150)), True),
    ],
)
def test_what_is_beyond_a_bound(body: str, cut: bool) -> None:
    """A page with more than is read is counted once."""
    response = HtmlResponse("https://e.example/", body=body.encode(), encoding="utf-8")
    rules_of(response, ["foobot"])
    unendorsed(response)
    counted: list[str] = []
    count_cut(response, counted.append)
    count_cut(response, counted.append)
    assert counted == (["robotstxt/page/cut"] if cut else [])


def test_what_is_within_the_bounds_counts() -> None:
    """The part of a page that is within the limits counts.

    Links to other sites have the same limit as others: forums have many with ugc.
    """
    metas = "".join(f"<meta name=robots content=x{number}>" for number in range(4000))
    assert len(page_of(hostile(HEAD + metas)).metas) == 3000
    links = "".join(f"<a rel=ugc href=/{number}>" for number in range(6000))
    assert len(unendorsed(hostile(links))) == 3000
    others = [f"https://{number}.example/a?b=1" for number in range(900)]
    assert unendorsed(hostile("".join(f"<a rel=ugc href={link}>" for link in others))) == {*others}


@pytest.mark.parametrize("base", ["http://[", "http://[x]/", "http://\u2100.example/"])
def test_a_base_that_is_not_a_url(base: str) -> None:
    """If the base is not a URL, links are relative to the page."""
    body = f"<base href='{base}'><a rel=ugc href=/x>x</a><a rel=ugc href=y>y</a>"
    assert unendorsed(hostile(body)) >= {"https://e.example/x", "https://e.example/y"}


@given(
    href=st.text("aB1._-/?=&%~#", max_size=12),
    start=st.sampled_from(["", "http:/", "https://e", "http://a-b.c"]),
)
def test_urls_of_links_are_canonical(href: str, start: str) -> None:
    """The URL of a link is the one that Scrapy's duplicate filter compares."""
    response = hostile(f"<a rel=ugc href='{escape(start + '/' + href)}'>")
    try:
        expected = {canonicalize_url(safe_url_string(response.urljoin(f"{start}/{href}"), "utf-8"))}
    except ValueError:
        expected = set()
    assert unendorsed(response) == expected
