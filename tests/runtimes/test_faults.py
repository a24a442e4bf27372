"""Failures of the crawl itself during the fetch of robots.txt."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request, signals
from scrapy.exceptions import IgnoreRequest, NotConfigured, StopDownload
from scrapy.http import Response, TextResponse

from scrapy_robots_rfc import Reason
from tests.runtimes.test_proxies import AfterASecond
from tests.support.crawling import Serial, crawl, listening, plugged, records
from tests.support.running import HANDLERS, in_every_runtime
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

RULES = "User-agent: *\nDisallow: /x\n"
#: A retry would come so late that the crawl would not end.
NEVER = {"ROBOTS_UNREACHABLE_BACKOFF": [3600]}
FIX = "the traceback shows which component to fix, or to remove from the settings"


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("signal", [signals.headers_received, signals.bytes_received])
@pytest.mark.parametrize("handler", HANDLERS)
@in_every_runtime
async def test_spider_that_stops_its_transfers(
    site: Site, handler: dict[str, Any], signal: object, fail: bool
) -> None:
    """A spider that stops every transfer does not stop robots.txt."""

    def stop() -> None:
        raise StopDownload(fail=fail)

    site.replies["/robots.txt"] = robots("#\n" * 50_000 + RULES)
    pages = [site.url("/a"), site.url("/x")]
    result = await crawl(pages, {**NEVER, **handler}, prepare=listening(stop, signal))
    assert result.verdicts(*pages) == [200, "rule"]
    assert site.pages == ["/a"]


class Raising:
    """A middleware that raises for every robots.txt."""

    error: Exception = KeyError("token")

    def process_request(self, request: Request) -> None:
        if request.url.endswith("/robots.txt"):
            # A new error, because an error that is raised again keeps its traceback.
            raise type(self.error)(*self.error.args)


class Dropping(Raising):
    """A middleware that drops the request."""

    error = IgnoreRequest("not in the list")


class Offline(Raising):
    """A middleware that uses another server, which refuses connections."""

    error = ConnectionRefusedError(111, "Connection refused")


class Unloadable:
    """A download handler whose library is missing."""

    lazy = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> None:
        raise NotConfigured("needs the `nowhere` library")


class Crashing:
    """A download handler that raises."""

    lazy = True

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Crashing:
        return cls()

    async def download_request(self, request: Request) -> None:
        raise AttributeError("no attribute `session`")

    async def close(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(
    ("part", "cause", "advice"),
    [
        (Raising, "KeyError: 'token'", FIX),
        (Offline, "ConnectionRefusedError: [Errno 111] Connection refused", FIX),
        (Crashing, "AttributeError: no attribute `session`", FIX),
        (
            Dropping,
            "IgnoreRequest: not in the list",
            (
                "make the middleware that raised it ignore requests for robots.txt, or add the site"
                " to ROBOTS_EXEMPT"
            ),
        ),
        (
            Unloadable,
            "DOWNLOAD_HANDLERS['http'] = <class 'Unloadable'> cannot be used",
            "install or enable what it needs (needs the `nowhere` library)",
        ),
    ],
)
@in_every_runtime
async def test_local_fault_disallows_everything_and_is_logged_once(
    site: Site, part: type, cause: str, advice: str, caplog: pytest.LogCaptureFixture
) -> None:
    """If a part of the crawl fails, nothing is allowed, one log line advises the user, and nothing
    is cached.
    """
    site.replies["/robots.txt"] = robots(RULES)
    settings: dict[str, Any] = (
        plugged(part, 200) if issubclass(part, Raising) else {"DOWNLOAD_HANDLERS": {"http": part}}
    )
    pages = [site.url("/a"), site.url("/b")]
    result = await crawl(pages, {**NEVER, **settings}, spider=Serial)
    assert result.verdicts() == ["local"] * 2
    assert site.targets == []
    for error in map(result.dropped, pages if part is not Unloadable else ()):
        assert f"{type(error.__cause__).__name__}: {error.__cause__}" == cause
    # A failure decides for the requests of the next second, so both pages may share one.
    assert result.stat("request_count") == result.stat("result/local") in (1, 2)
    assert result.stat("forbidden/local") == 2
    [record] = [record for record in caplog.records if "robots.txt could not" in record.message]
    assert record.message.removeprefix(site.url("/robots.txt")).replace(f"{__name__}.", "") == (
        f" could not be requested because the crawl itself failed ({cause}), so nothing is allowed"
        f" until this is fixed; {advice}"
    )
    assert record.levelno == logging.ERROR
    # The traceback names the component, unless the line itself does.
    assert (__file__ in logging.Formatter().format(record)) is (part is not Unloadable)


class Fading(Raising):
    """A middleware that fails for every robots.txt but the first."""

    is_first = True

    def process_request(self, request: Request) -> None:
        if self.is_first:
            self.is_first = not request.url.endswith("/robots.txt")
        else:
            super().process_request(request)


@in_every_runtime
async def test_earlier_file_is_obeyed(site: Site) -> None:
    """If a part of the crawl fails, an earlier file is obeyed as stale."""
    site.replies["/robots.txt"] = robots(RULES)
    settings = plugged(Fading, 200, **NEVER, ROBOTS_CACHE_MAX_AGE=0.1)
    result = await crawl([site.url("/a"), site.url("/x")], settings, spider=AfterASecond)
    decision = result.dropped(site.url("/x")).decision
    assert (decision.reason, decision.stale, site.fetches) == (Reason.RULE, True, 1)


class Fallback:
    """A middleware that answers for every failed download."""

    def process_exception(self, request: Request, exception: Exception) -> Response | None:
        if isinstance(exception, IgnoreRequest):
            return None
        return TextResponse(request.url, body=b"", request=request)


@in_every_runtime
async def test_answer_of_a_middleware_in_place_of_a_download_that_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An answer that a middleware makes up for a failed robots.txt allows nothing."""
    page = "http://127.0.0.1:1/a"  # no server listens there
    result = await crawl([page], plugged(Fallback, 560, **NEVER))
    assert result.verdicts(page) == ["local"]
    [line] = records(caplog, logging.ERROR)
    assert "a middleware answered 200 in place of a download that failed" in line
