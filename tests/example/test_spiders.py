"""`scrapy crawl agent`, `scrapy crawl gemini` and `scrapy crawl site`."""

from __future__ import annotations

import pytest
from pytest_twisted import ensureDeferred
from scrapy.utils.reactor import is_asyncio_reactor_installed

from demo.spiders.agent import AgentSpider
from demo.spiders.demo import DemoSpider
from demo.spiders.gemini import GeminiSpider
from demo.spiders.site import SiteSpider
from tests.support.documents import block
from tests.support.example_project import Here, crawl
from tests.support.site import Reply, Site, robots


def html(*links: str) -> Reply:
    """A page with links."""
    anchors = "".join(f'<a href="{link}">x</a>' for link in links)
    return Reply(body=f"<html>{anchors}</html>".encode(), headers=(("Content-Type", "text/html"),))


@ensureDeferred
async def test_agent_of_its_own(here: Here) -> None:
    """A spider with a name of its own gets the verdicts of its own group, and no warning about
    that name.
    """
    output = await here.crawl(AgentSpider)
    assert output.sections["One"].rows == {
        "/news.html": ("disallowed", "allowed", "robots.txt line 8: Disallow: /"),
        "/drafts/idea.html": ("disallowed", "disallowed", "robots.txt line 8: Disallow: /"),
        "/drafts/press/release.html": (
            "allowed",
            "disallowed",
            "robots.txt line 9: Allow: /drafts/press/",
        ),
    }
    assert output.last_line.endswith("pages requested: 1, pages of disallowed paths requested: 0")
    assert "WARNING" not in output.stderr


@ensureDeferred
async def test_name_that_is_not_in_the_header(here: Here) -> None:
    """A name that the User-Agent header does not contain is obeyed, and warned about."""
    output = await here.crawl(DemoSpider, {"ROBOTSTXT_USER_AGENT": "presswatch"})
    assert "'presswatch' is not in the User-Agent header" in output.stderr
    assert output.sections["Groups"].rows["/news.html"] == (
        "disallowed",
        "robots.txt line 8: Disallow: /",
    )


@pytest.mark.skipif(not is_asyncio_reactor_installed(), reason="the handler needs asyncio")
@ensureDeferred
async def test_gemini(here: Here) -> None:
    """The capsule's pages are judged for each purpose, and fetched as docs/schemes.md shows."""
    output = await here.crawl(GeminiSpider)
    assert (
        output.stdout.strip("\n").splitlines()
        == block("docs/schemes.md", "text", "capsule").splitlines()
    )
    assert "WARNING" not in output.stderr


def test_gemini_without_a_reactor() -> None:
    """The same handler works where Scrapy has no reactor."""
    output = crawl("gemini", "-s", "TWISTED_REACTOR_ENABLED=False")
    assert output.last_line.endswith("log: robots.txt 1 time, pages /, /essays/trust.gmi")


@ensureDeferred
async def test_site(here: Here) -> None:
    """The spider follows the links of one origin, asks for no more pages than it may, and says
    why of each.
    """
    with Site() as site, Site() as other:
        site.replies["/robots.txt"] = robots("User-agent: demobot\nDisallow: /closed\n")
        site.replies["/"] = html(
            "/a#part", "/a", "/closed/x", other.url("/"), "mailto:a@example.com", "http://[", "/b"
        )
        output = await here.crawl(SiteSpider, {"DOWNLOAD_DELAY": 0}, url=site.url("/"), pages="3")
        assert site.pages == ["/", "/a"]
        assert other.asked == []
    assert "ERROR" not in output.stderr
    assert output.sections[site.url("")].rows == {
        "/": ("allowed", "robots.txt: no rule of the group `demobot` matches"),
        "/a": ("allowed", "robots.txt: no rule of the group `demobot` matches"),
        "/closed/x": ("disallowed", "robots.txt line 2: Disallow: /closed"),
    }


@ensureDeferred
async def test_site_that_redirects_and_fails(here: Here) -> None:
    """A first page on another port of the host leads there.

    Missing pages are allowed, and the table says so.
    """
    with Site() as site, Site() as other:
        site.replies["/"] = Reply(302, headers=(("Location", other.url("/")),))
        other.replies["/"] = html("/gone")
        other.replies["/gone"] = Reply(404)
        output = await here.crawl(SiteSpider, {"DOWNLOAD_DELAY": 0}, url=site.url("/"))
    assert output.sections[other.url("")].rows == {
        "/": ("allowed", "robots.txt unavailable (404): everything is allowed"),
        "/gone": ("allowed", "the page answered 404"),
    }


@ensureDeferred
async def test_site_without_url(here: Here) -> None:
    """Without a site to crawl the spider says how to name one."""
    output = await here.crawl(SiteSpider)
    assert "scrapy crawl site -a url=https://example.com/" in output.stderr
