"""Transfers of robots.txt: signals, headers and content codings. See also runtimes/."""

from __future__ import annotations

import gzip
import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import signals
from scrapy.exceptions import StopDownload

from tests.support.crawling import crawl, listening, records
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from scrapy.crawler import Crawler

RULES = b"User-agent: *\nDisallow: /x\n"
CODED = (("Content-Encoding", "gzip"),)


@pytest.mark.parametrize("stops", [signals.headers_received, signals.bytes_received])
@pytest.mark.reactor
@ensureDeferred
async def test_an_error_in_our_handling_of_a_signal(
    site: Site, stops: object, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An error in our signal handling is logged, and a spider cannot stop robots.txt."""

    def fail(*_: object) -> None:
        raise ValueError

    def stop() -> None:
        raise StopDownload(fail=True)

    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n")
    monkeypatch.setattr("scrapy_robots_rfc.middleware.user_agent.UserAgents.check_header", fail)
    result = await crawl([site.url("/x")], prepare=listening(stop, stops))
    assert result.verdicts() == ["rule"]
    assert records(caplog, logging.ERROR) == [
        f"Cannot handle a signal for <GET {site.url('/robots.txt')}>; the crawl continues"
    ]


@pytest.mark.reactor
@ensureDeferred
async def test_another_component_that_wraps_the_signals(site: Site, other: Site) -> None:
    """A component that wraps the sending of signals during a fetch is called to the end."""
    site.replies["/robots.txt"] = other.replies["/robots.txt"] = robots(
        "User-agent: *\nDisallow: /x\n"
    )
    seen: list[object] = []

    def wrap(crawler: Crawler) -> None:
        def once() -> None:
            if seen:
                return
            seen.append("wrapped")
            wrapped = crawler.signals.send_catch_log

            def send(signal: object = None, **named: Any) -> Any:
                seen.append(signal)
                return wrapped(signal, **named)

            crawler.signals.send_catch_log = send  # type: ignore[method-assign]

        crawler.signals.connect(once, signals.request_reached_downloader, weak=False)

    pages = [site.url("/a"), other.url("/a"), site.url("/x"), other.url("/x")]
    result = await crawl(pages, {"CONCURRENT_REQUESTS": 1}, prepare=wrap)
    assert result.verdicts(*pages) == [200, 200, "rule", "rule"]
    assert seen.count(signals.response_received) == 4


def with_comment(data: bytes, length: int) -> bytes:
    """Return gzip data whose header has a long comment (RFC 1952, 2.3)."""
    plain = gzip.compress(data)
    return plain[:3] + b"\x10" + plain[4:10] + b"c" * length + b"\0" + plain[10:]


@pytest.mark.parametrize(
    ("body", "page", "expected"),
    [
        (with_comment(RULES, 700_000), "/x", "rule"),
        (with_comment(RULES, 3_000_000), "/a", "unreachable"),
        (gzip.compress(RULES + b"#\n" * 300_000)[:-20], "/x", "rule"),
        (gzip.compress(RULES + b"#\n" * 200_000)[:-20], "/a", "unreachable"),
    ],
    ids=["comment", "endless comment", "enough", "half"],
)
@ensureDeferred
async def test_limit_by_decoded_bytes(site: Site, body: bytes, page: str, expected: Any) -> None:
    """The limit counts decoded bytes (2.5); a coding that ends before it is unreachable."""
    site.replies["/robots.txt"] = Reply(body=body, headers=CODED)
    result = await crawl([site.url(page)])
    assert result.verdicts() == [expected]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"COMPRESSION_ENABLED": False},
        {"DEFAULT_REQUEST_HEADERS": {"Accept-Encoding": "br;q=1"}},
    ],
    ids=["scrapy's", "none", "the user's"],
)
@ensureDeferred
async def test_accept_encoding_is_that_of_a_page(site: Site, settings: dict[str, Any]) -> None:
    """The headers of robots.txt requests are the same as those of pages."""
    await crawl([site.url("/a")], settings)
    file, page = (dict(asked.headers) for asked in site.asked)
    assert file == page
    assert ("Accept-Encoding" in page) is not (settings.get("COMPRESSION_ENABLED") is False)
