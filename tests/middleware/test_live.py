"""`robots()` in Scrapy's telnet console, as a user of a real crawl reads it."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import signals
from scrapy.extensions.telnet import TelnetConsole
from scrapy.utils.defer import deferred_from_coro, maybe_deferred_to_future
from twisted.internet.task import LoopingCall
from twisted.internet.threads import deferToThread

from scrapy_robots_rfc import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.fetching.origin_log import Failing
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.crawling import crawl
from tests.support.documents import block
from tests.support.site import HANG, Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy.crawler import Crawler

pytestmark = pytest.mark.reactor

PASSWORD = "the password of this crawl"
CONSOLE = {
    "TELNETCONSOLE_ENABLED": True,
    "TELNETCONSOLE_PORT": [0],
    "TELNETCONSOLE_USERNAME": "scrapy",
    "TELNETCONSOLE_PASSWORD": PASSWORD,
    "ROBOTSTXT_UNREACHABLE_BACKOFF": [600],
}
TIME = r"\d\d:\d\d:\d\d"


#: What a telnet client agrees with, and what it says then (RFC 854): WILL - DO, WONT - DONT, DO - WILL.
AGREED = {b"\xfb": b"\xfd", b"\xfc": b"\xfe", b"\xfd": b"\xfb"}


def typed(port: int, command: str) -> str:
    """What the console prints for a command."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:

        def until(prompt: str) -> str:
            text, answered = b"", 0
            while prompt.encode() not in text:
                text += client.recv(65536)
                for option in re.findall(rb"\xff([\xfb-\xfd])(.)", text, re.DOTALL)[answered:]:
                    client.sendall(b"\xff" + AGREED[option[0]] + option[1])
                    answered += 1
            return text.decode("latin-1")

        until("Username: ")
        client.sendall(b"scrapy\r\n")
        until("Password: ")
        client.sendall(f"{PASSWORD}\r\n".encode())
        until(">>> ")
        client.sendall(f"{command}\r\n".encode())
        text = until(">>> ")
    return re.sub(r"\x1b\[\d*[A-Za-z]|\x1b.", "", text).replace("\r", "")


def reading(ready: Callable[[Any], bool], found: list[str]) -> Callable[[Crawler], None]:
    """Read what `robots()` prints as soon as the crawl is ready for it, and close the spider."""

    def prepare(crawler: Crawler) -> None:
        look = LoopingCall(lambda: look_at(crawler, look))

        def begin() -> None:
            look.start(0.05)

        crawler.signals.connect(begin, signals.spider_opened, weak=False)

    def look_at(crawler: Crawler, look: LoopingCall) -> None:
        port: Any = getattr(crawler.get_extension(TelnetConsole), "port", None)  # older versions of Scrapy set it later
        if port is not None and ready(crawler.get_downloader_middleware(RfcRobotsTxtMiddleware)):
            look.stop()
            deferred_from_coro(read(crawler, port.getHost().port))

    async def read(crawler: Crawler, port: int) -> None:
        try:
            found.append(await maybe_deferred_to_future(deferToThread(typed, port, "robots()")))
        finally:
            assert crawler.engine is not None
            await crawler.engine.close_spider_async(reason="test")

    return prepare


@ensureDeferred
async def test_waiting_paced_and_failing() -> None:
    """It names each site that is waited for, paced or failing, with requests and times, and what that has cost."""
    found: list[str] = []
    slow, paced = Site({"/robots.txt": HANG}), Site({"/robots.txt": robots("User-agent: *\nCrawl-delay: 50\n")})
    broken = Site({"/robots.txt": Reply(503)})
    with slow, paced, broken:

        def ready(middleware: Any) -> bool:
            held = middleware._throttle.held()
            waiting, failing = middleware._deferred.waiting(), middleware.service.origin_log.failing
            return len(waiting) == 2 and len(failing) == 1 and sum(site.requests for site in held) == 3

        urls = [slow.url("/1"), slow.url("/2"), broken.url("/1"), *(paced.url(f"/{number}") for number in range(3))]
        await crawl(urls, CONSOLE, prepare=reading(ready, found))
        lines = found[0].split("\n")[1:]
        first, second, third = (site.url("").rstrip("/") for site in (slow, broken, paced))
    patterns = [
        "waiting for a robots.txt: 2 sites, 3 requests",
        f"  {first}: 2 requests since {TIME}, until .*{TIME} at the latest",
        f"  {second}: 1 request since {TIME}, until .*{TIME} at the latest",
        "paced: 1 site, 3 requests held back for 1 site",
        f"  {third}: 3 requests, one every 50 s, the next at .*{TIME}, the last at .*{TIME}",
        "failing: 1 site",
        f"  {second}: 503, since {TIME}, asked again at .*{TIME}",
        r"cost: 3 requests for robots.txt, [\d,]+ octets received",
        r"  in memory: 1 site, about [\d,]+ octets",
        r"  added by Crawl-delay and Request-rate: 0.0 s",
    ]
    assert [bool(re.fullmatch(*pair)) for pair in zip(patterns, lines, strict=False)] == [True] * 10, lines


@ensureDeferred
async def test_many_hostile_sites() -> None:
    """Ten sites of a list are shown, those that fail longest first; what they send does not act on the terminal."""
    found: list[str] = []

    def ready(middleware: Any) -> bool:
        failing = middleware.service.origin_log.failing
        for number in range(12):
            origin = Origin.of(f"http://host{number}.example/")
            assert origin is not None
            failing[origin] = Failing("\x07" * 10_000, middleware.service._runtime.clock() - number, 0.0)
        return True

    with Site({"/robots.txt": HANG}) as site:
        await crawl([site.url("/1")], CONSOLE, prepare=reading(ready, found))
    assert found[0].count(".example: ") == 10
    assert found[0].index("host11.") < found[0].index("host10.")
    assert "  and 2 sites more" in found[0]
    assert "asked again with the next request" in found[0]
    assert "\x07" not in found[0]
    assert len(found[0]) < 10_000


@ensureDeferred
async def test_no_pace_is_kept() -> None:
    """A crawl that keeps no intervals has no list of paced sites."""
    found: list[str] = []
    with Site({"/robots.txt": HANG}) as site:
        ready: Callable[[Any], bool] = lambda middleware: bool(middleware._deferred.waiting())  # noqa: E731 - short
        await crawl([site.url("/1")], {**CONSOLE, "ROBOTSTXT_CRAWL_DELAY": False}, prepare=reading(ready, found))
    assert "waiting for a robots.txt: 1 site, 1 request\n" in found[0]
    assert "paced" not in found[0]


def test_nothing_is_loaded_without_a_console() -> None:
    """The middleware does not load Scrapy's console by itself."""
    code = """
import sys
import scrapy_robots_rfc.middleware.downloader
print([name for name in sys.modules if name == "scrapy.extensions.telnet"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_as_documented() -> None:
    """The page that answers why a crawl waits shows the lines that the console prints."""
    shown = block("docs/troubleshooting.md", "text", ">>> robots()")
    for words in ("waiting for a robots.txt: ", "at the latest", "paced: ", "failing: ", "asked again", "cost: "):
        assert words in shown
