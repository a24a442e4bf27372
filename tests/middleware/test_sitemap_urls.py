"""Which sitemaps of a file are asked for at all, and how many, and that the spider of docs/sitemaps.md works."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import RobotsTxt
from scrapy_robots_rfc.middleware.sitemaps import sitemap_urls
from tests.middleware.test_sitemaps import ROBOTS, Maps, run, xml
from tests.support.crawling import make_crawler, records
from tests.support.documents import block, imported, plain
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path


def test_a_capsule_may_name_sitemaps_of_its_scheme() -> None:
    """A file names sitemaps of the web, and of its own scheme, also without the scheme."""
    values = ("/s.xml", "gemini://b.example/s.xml", "https://b.example/s.xml", "ftp://b.example/s.xml")
    found = list(sitemap_urls(values, "gemini://a.example/robots.txt"))
    assert found == ["gemini://a.example/s.xml", "gemini://b.example/s.xml", "https://b.example/s.xml"]


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
        ("http://", "http://a.example/robots.txt"),  # as Scrapy reads it; the filter of duplicates has it
        ("http:///etc/passwd", "http://a.example/etc/passwd"),
        ("http://[::1", None),
        ("http://b.example:99999/", None),
        ("http://b<c.example/", None),
    ],
)
def test_relative_sitemaps_are_read_against_the_file(value: str, url: str | None) -> None:
    """Relative ones are read against the file's own URL; what is not http or https is never asked for."""
    values = RobotsTxt.parse(f"Sitemap: {value}\n".encode()).sitemaps
    assert values == (value,)
    found = list(sitemap_urls(values, "http://a.example/robots.txt"))
    assert found == ([] if url is None else [url])
    assert all(Request(url).url for url in found)


_PIECES = st.one_of(
    st.sampled_from([b"http://", b"//", b"[", b"]", b":", b"@", b"\xff", b"%", b"\xc3\xa9."]), st.binary()
)


@given(st.lists(st.lists(_PIECES, max_size=6).map(b"".join), max_size=4))
def test_hostile_values_give_requestable_urls(values: list[bytes]) -> None:
    """Whatever stands there, what comes of it is a list of URLs that a request can be made of."""
    body = b"".join(b"Sitemap: " + value + b"\n" for value in values)
    for url in sitemap_urls(RobotsTxt.parse(body).sitemaps, "http://a.example/robots.txt"):
        assert Request(url).url.startswith(("http://", "https://"))


@ensureDeferred
async def test_spider_of_the_page(proxy: Site, tmp_path: Path) -> None:
    """The spider of docs/sitemaps.md works, through a proxy that has no certificates."""
    page = imported(plain(block("docs/sitemaps.md", "python", "class ShopSpider")), tmp_path)
    shop = "http://shop.example"
    proxy.replies[f"{shop}/robots.txt"] = robots(ROBOTS)
    proxy.replies[f"{shop}/a.xml"] = xml("urlset", f"{shop}/page", f"{shop}/private/page")
    crawler = make_crawler(page.ShopSpider)
    await crawler.crawl()
    assert proxy.targets == [f"{shop}{target}" for target in ("/robots.txt", "/a.xml", "/page")]
    assert crawler.stats.get_value("item_scraped_count") == 1


@ensureDeferred
async def test_long_file_is_answered_up_to_its_last_line_that_counts(site: Site) -> None:
    """Of a file that is longer than ROBOTSTXT_MAX_SIZE the lines that count are answered, and none that is cut."""
    head = b"Sitemap: /a.xml\n"
    filler = b"#" * (512_000 - len(head) - 12) + b"\n"
    site.replies["/robots.txt"] = Reply(body=head + filler + b"Sitemap: /cut.xml\nSitemap: /b.xml\n")
    await run(site)
    assert site.targets == ["/robots.txt", "/a.xml"]


@ensureDeferred
async def test_number_of_sitemaps_is_bounded(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """Of tens of thousands of sitemaps no more are asked for than the bound says, and the log says so."""
    site.replies["/robots.txt"] = robots("".join(f"Sitemap: /{n}\n" for n in range(20_000)))

    class Few(Maps):
        robots_sitemaps_max = 3

    await run(site, spider=Few)
    assert sorted(site.targets) == ["/0", "/1", "/2", "/robots.txt"]
    expected = f"{site.url('/robots.txt')} names 20000 sitemaps: only the first 3 count (robots_sitemaps_max)"
    assert expected in records(caplog, logging.WARNING)
    assert Maps.robots_sitemaps_max == 1_000
