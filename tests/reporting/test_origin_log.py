"""What the log says of a crawl that itself fails to request a robots.txt."""

from __future__ import annotations

import errno
import logging
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred
from scrapy.exceptions import IgnoreRequest

from tests.support.crawling import Pages, crawl, plugged, records
from tests.support.service_crawls import run

if TYPE_CHECKING:
    from scrapy import Request

    from scrapy_robots_rfc import RobotsService
    from tests.support.site import Site


class BlockFiles:
    """A downloader middleware that drops requests for robots.txt only."""

    def process_request(self, request: Request) -> None:
        """Raise for robots.txt."""
        if request.url.endswith("/robots.txt"):
            raise IgnoreRequest(f"blocked {request.url}")


@ensureDeferred
async def test_failure_is_logged_once_if_pages_are_dropped(
    proxy: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """If exceptions of one class cause pages of several sites to be dropped, there is one ERROR."""
    pages = ["http://a.example/1", "http://a.example/2", "http://b.example/"]
    result = await crawl(pages, plugged(BlockFiles, 200))
    assert result.stat("forbidden/local") == len(pages)
    [line] = records(caplog, logging.ERROR)
    assert "could not be requested because the crawl itself failed" in line
    assert "(IgnoreRequest: blocked http://a.example/robots.txt), so nothing is allowed" in line
    assert proxy.asked == []


@ensureDeferred
async def test_failure_without_a_dropped_page_is_not_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A spider that asks about a robots.txt gets the cause, and the log has no ERROR."""
    causes = []

    async def script(service: RobotsService) -> None:
        robots = await service.robots("http://a.example/")
        causes.append(robots.cause)

    await run(script, plugged(BlockFiles, 200))
    assert causes == ["IgnoreRequest: blocked http://a.example/robots.txt"]
    assert records(caplog, logging.ERROR) == []


class Short:
    """A downloader middleware that finds no file descriptor for the first requests."""

    left = 2

    def process_request(self, request: Request) -> None:
        """Raise for robots.txt."""
        if request.url.endswith("/robots.txt") and Short.left:
            Short.left -= 1
            raise OSError(errno.EMFILE, "Too many open files")


@pytest.mark.usefixtures("hurried")
@ensureDeferred
async def test_shortage_is_waited_for(
    site: Site, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """If file descriptors run out, no page is dropped, and one ERROR says which limit to raise."""
    monkeypatch.setattr(Short, "left", 2)
    result = await crawl([site.url("/")], plugged(Short, 200), spider=Pages)
    assert result.outcomes == {site.url("/"): 200}
    [line] = records(caplog)
    assert line == (
        f"{site.url('/robots.txt')} could not be requested because the crawl itself failed (no file"
        " descriptor is left), so its pages are waiting; raise the limit of open files (ulimit -n),"
        " or lower CONCURRENT_REQUESTS"
    )
