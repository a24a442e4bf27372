"""`scrapy crawl agent`, `scrapy crawl gemini` and `scrapy crawl site`."""

from __future__ import annotations

import pytest
from pytest_twisted import ensureDeferred
from scrapy.utils.reactor import is_asyncio_reactor_installed

from demo.spiders.agent import AgentSpider
from demo.spiders.gemini import GeminiSpider
from demo.spiders.site import SiteSpider
from tests.support.documents import block
from tests.support.example_project import Here, crawl
from tests.support.site import Reply, Site, robots


def html(*links: str) -> Reply:
    """Return a page with links."""
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    return Reply(body=f"<html>{anchors}</html>".encode(), headers=(("Content-Type", "text/html"),))


@ensureDeferred
async def test_spider_with_its_own_agent(here: Here) -> None:
    """A spider with its own product token gets the verdicts of the group for that token."""
    output = await here.crawl(AgentSpider)
    assert output.rows("One") == {
        "/news.html": ("disallowed", "allowed", "robots.txt line 8: Disallow: /"),
        "/drafts/idea.html": ("disallowed", "disallowed", "robots.txt line 8: Disallow: /"),
        "/drafts/press/release.html": (
            "allowed",
            "disallowed",
            "robots.txt line 9: Allow: /drafts/press/",
        ),
    }
    assert output.last_line.endswith("1 for pages, 0 of them for disallowed pages")
    assert "WARNING" not in output.stderr


@pytest.mark.skipif(not is_asyncio_reactor_installed(), reason="the handler needs asyncio")
@ensureDeferred
async def test_gemini(here: Here) -> None:
    """The verdicts for each purpose, and the pages fetched, are those in docs/schemes.md."""
    output = await here.crawl(GeminiSpider)
    assert (
        output.stdout.strip("\n").splitlines()
        == block("docs/schemes.md", "text", "capsule").splitlines()
    )
    assert "WARNING" not in output.stderr


def test_gemini_without_a_reactor() -> None:
    """The handler also works without a reactor."""
    output = crawl("gemini", "-s", "TWISTED_REACTOR_ENABLED=False")
    assert output.last_line.endswith("log: robots.txt 1 time, pages /, /essays/trust.gmi")


@ensureDeferred
async def test_site(here: Here) -> None:
    """The spider follows the links of one origin up to the maximum number of pages."""
    with Site() as site, Site() as other:
        site.replies["/robots.txt"] = robots("User-agent: demobot\nDisallow: /closed\n")
        site.replies["/"] = html(
            "/a#part", "/a", "/closed/x", other.url("/"), "mailto:a@example.com", "http://[", "/b"
        )
        output = await here.crawl(SiteSpider, {"DOWNLOAD_DELAY": 0}, url=site.url("/"), pages="3")
        assert site.pages == ["/", "/a"]
        assert other.asked == []
    assert "ERROR" not in output.stderr
    assert output.rows(site.url("")) == {
        "/": ("allowed", "robots.txt: no rule of the group `demobot` matches"),
        "/a": ("allowed", "robots.txt: no rule of the group `demobot` matches"),
        "/closed/x": ("disallowed", "robots.txt line 2: Disallow: /closed"),
    }


@ensureDeferred
async def test_site_that_redirects_and_fails(here: Here) -> None:
    """A redirect of the first page leads to the site that is crawled; a missing page is a row."""
    with Site() as site, Site() as other:
        site.replies["/"] = Reply(302, headers=(("Location", other.url("/")),))
        other.replies["/"] = html("/gone")
        other.replies["/gone"] = Reply(404)
        output = await here.crawl(SiteSpider, {"DOWNLOAD_DELAY": 0}, url=site.url("/"))
    assert output.rows(other.url("")) == {
        "/": ("allowed", "robots.txt unavailable (404), so everything is allowed"),
        "/gone": ("allowed", "the page answered 404"),
    }
