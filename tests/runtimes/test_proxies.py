"""Routes: a proxy that fails is not the site's answer, and other routes are used."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Request
from scrapy.downloadermiddlewares.httpproxy import HttpProxyMiddleware

from scrapy_robots_rfc import Reason
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.fetching.reader import MIN_FRESH
from tests.support.crawling import SETTINGS, Serial, crawl, records
from tests.support.proxies import Proxy, dead
from tests.support.running import HANDLERS, PROXY_HANDLERS, in_every_runtime
from tests.support.site import HANG, Reply, Site, failing, robots
from tests.support.timed_site import urls

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

RULES = "User-agent: *\nDisallow: /x\n"
NEVER = {"ROBOTS_UNREACHABLE_BACKOFF": [3600]}
SECRET = "http://user:secret@"
REFUSES = "407 Proxy Authentication Required"

every_handler = pytest.mark.parametrize("handler", PROXY_HANDLERS)


@pytest.fixture
def site() -> Iterator[Site]:
    """A site with rules."""
    with Site({"/robots.txt": robots(RULES)}) as running:
        yield running


@pytest.fixture
def live() -> Iterator[Proxy]:
    """A proxy that forwards requests."""
    with Proxy() as proxy:
        yield proxy


def by(url: str, proxy: str | None) -> Request:
    """Return a request through a proxy."""
    return Request(url, meta={"proxy": proxy})


@pytest.mark.parametrize(
    ("tls", "refuses"),
    # By http, a client cannot tell a 502 of the proxy from an answer of the site.
    [(False, ""), (False, REFUSES), (True, ""), (True, REFUSES), (True, "502 Bad Gateway")],
)
@every_handler
@in_every_runtime
async def test_each_route_has_its_own_fetch(
    live: Proxy, handler: dict[str, Any], tls: bool, refuses: str
) -> None:
    """If a proxy fails, the file is fetched for requests with another proxy."""
    with Site({"/robots.txt": robots(RULES)}, tls=tls) as site, Proxy(refuses) as bad:
        first, second = f"{SECRET}{bad.netloc if refuses else dead()}", f"http://{live.netloc}"
        requests = [
            by(site.url("/1"), first),
            by(site.url("/a"), second),
            by(site.url("/x"), second),
            by(site.url("/x2"), first),
        ]
        result = await crawl(requests, {**NEVER, **handler})
    _, *outcomes, last = result.verdicts(*requests)
    assert outcomes == [200, "rule"]
    # A request by the proxy that fails may find the file that came by the other one.
    assert last in {"unreachable", "rule"}
    assert site.fetches == 1


@pytest.mark.parametrize(
    ("tls", "refuses", "cause"),
    [
        (False, "", "connection refused"),
        (False, REFUSES, REFUSES),
        (True, "", "connection refused"),
        (True, REFUSES, "407 to CONNECT"),
    ],
)
@every_handler
@in_every_runtime
async def test_failing_proxy_is_named_without_its_password(
    handler: dict[str, Any],
    tls: bool,
    refuses: str,
    cause: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The log and the reason name a failing proxy, without its password."""
    with Site({"/robots.txt": robots(RULES)}, tls=tls) as site, Proxy(refuses) as bad:
        netloc = bad.netloc if refuses else dead()
        by_proxy = [by(url, f"{SECRET}{netloc}") for url in urls(site, 2)]
        requests = [*by_proxy, Request(site.url("/a")), Request(site.url("/x"))]
        result = await crawl(requests, handler, spider=Serial)
    cause = f"{cause}, through proxy http://{netloc}"
    whys = {result.dropped(request.url).why for request in by_proxy}
    assert whys == {f"robots.txt unreachable: {cause}"}
    assert result.verdicts()[2:] == [200, "rule"]
    assert len(bad.asked) == bool(refuses)
    [line] = records(caplog)
    assert line.startswith(
        f"{site.url('/robots.txt')} is unreachable ({cause}), so nothing is allowed"
    )
    assert line.endswith(" through this proxy or account; the next attempt is in 300 s")
    assert SECRET not in caplog.text


@every_handler
@in_every_runtime
async def test_route_of_a_request_in_the_middleware(
    site: Site, live: Proxy, handler: dict[str, Any]
) -> None:
    """A request that waits in the middleware for a fetch by another proxy starts its own fetch if
    that proxy fails.
    """
    queue = {"SCHEDULER_PRIORITY_QUEUE": "scrapy.pqueues.DownloaderAwarePriorityQueue"}
    first = by(site.url("/1"), f"http://{dead()}")
    others = [by(site.url(target), f"http://{live.netloc}") for target in ("/a", "/x")]
    result = await crawl([first, *others], {**NEVER, **handler, **queue})
    assert result.verdicts(*others) == [200, "rule"]
    assert result.verdicts(first) == ["unreachable"]


@every_handler
@in_every_runtime
async def test_attempts_of_each_route(site: Site, live: Proxy, handler: dict[str, Any]) -> None:
    """A site that answers 503 through one proxy is retried, although another proxy failed."""
    site.replies["/robots.txt"] = failing(1, Reply(503))
    second = by(site.url("/x"), f"http://{live.netloc}")
    settings = {**handler, "ROBOTS_UNREACHABLE_BACKOFF": [0.1]}
    result = await crawl([by(site.url("/1"), f"http://{dead()}"), second], settings)
    assert (result.verdicts(second), site.fetches) == (["rule"], 2)


@every_handler
@in_every_runtime
async def test_hanging_proxy_delays_no_other_for_long(
    site: Site, live: Proxy, handler: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """The requests of a proxy that hangs are dropped after ROBOTS_TIMEOUT; others do not wait."""
    with socket.create_server(("", 0)) as silent:
        requests = [
            by(site.url("/1"), f"{SECRET}127.0.0.1:{silent.getsockname()[1]}"),
            by(site.url("/a"), f"http://{live.netloc}"),
        ]
        settings = {**NEVER, **handler, "ROBOTS_TIMEOUT": 0.5, "DOWNLOAD_TIMEOUT": 1}
        result = await crawl(requests, settings)
    assert result.outcomes[site.url("/a")] == 200
    assert all("through proxy" in line for line in records(caplog))


@pytest.mark.parametrize(
    ("position", "outcome"), [(0, "unreachable"), (1, "CannotResolveHostError")]
)
@every_handler
@in_every_runtime
async def test_only_a_proxy_leads_there(
    site: Site, live: Proxy, handler: dict[str, Any], position: int, outcome: str
) -> None:
    """A site that needs a proxy is fetched through one, whichever request comes first."""
    host = "http://unknown.invalid"
    live.names = {"unknown.invalid": site.port}
    requests = [by(f"{host}{target}", f"http://{live.netloc}") for target in ("/a", "/x")]
    requests.insert(position, Request(f"{host}/1"))
    result = await crawl(requests, {**NEVER, **handler}, spider=Serial)
    pages = [f"{host}{target}" for target in ("/1", "/a", "/x")]
    assert result.verdicts(*pages) == [outcome, 200, "rule"]


class ByProxy:
    """A downloader middleware that sends requests without a proxy through one."""

    url = ""

    def process_request(self, request: Request) -> None:
        request.meta.setdefault("proxy", self.url)


@every_handler
@in_every_runtime
async def test_failing_proxy_of_a_later_middleware(
    site: Site, live: Proxy, handler: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the proxy of a later middleware fails, only requests without their own are dropped."""
    requests = [Request(site.url("/1"))]
    requests += [by(site.url(target), f"http://{live.netloc}") for target in ("/a", "/x")]
    with Proxy(REFUSES) as bad:
        monkeypatch.setattr(ByProxy, "url", f"http://{bad.netloc}")
        middlewares = {**SETTINGS["DOWNLOADER_MIDDLEWARES"], ByProxy: 200}
        settings = {**handler, "DOWNLOADER_MIDDLEWARES": middlewares}
        result = await crawl(requests, settings, spider=Serial)
    assert result.verdicts(*requests) == ["unreachable", 200, "rule"]


@every_handler
@in_every_runtime
async def test_proxy_of_the_environment(
    site: Site,
    live: Proxy,
    handler: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A proxy from the environment is a route like any other."""
    with Proxy(REFUSES) as bad:
        netloc = bad.netloc
        monkeypatch.setenv("http_proxy", f"{SECRET}{netloc}")
        monkeypatch.setenv("no_proxy", "")
        own = by(site.url("/a"), f"http://{live.netloc}")
        result = await crawl([*urls(site, 2), own], handler, spider=Serial)
    outcomes = result.verdicts()
    assert outcomes == ["unreachable", "unreachable", 200]
    assert len(bad.asked) == 1
    [line] = records(caplog)
    assert f"through proxy http://{netloc}" in line
    assert "secret" not in line


class BrokenProxies(HttpProxyMiddleware):
    """Raises for each request that would get a proxy from the environment."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        proxies: Any = dict.fromkeys(self.proxies)  # Scrapy cannot unpack None
        self.proxies = proxies


@in_every_runtime
async def test_proxy_middleware_that_raises(proxy: Site) -> None:
    """If the proxy of the environment cannot be found, nothing is requested, and the crawl ends."""
    stock = "scrapy.downloadermiddlewares.httpproxy.HttpProxyMiddleware"
    replaced = {stock: None, BrokenProxies: 750}
    middlewares = {**SETTINGS["DOWNLOADER_MIDDLEWARES"], **replaced}
    pages = [f"http://{host}.example/" for host in "ab"]
    result = await crawl(pages, {"DOWNLOADER_MIDDLEWARES": middlewares})
    assert result.verdicts(*pages) == ["local", "local"]
    assert proxy.targets == []


@every_handler
@in_every_runtime
async def test_only_a_failing_route(site: Site, handler: dict[str, Any]) -> None:
    """One request by a failing route finds out that it fails, and all its pages are dropped."""
    proxy = f"http://{dead()}"
    result = await crawl([by(url, proxy) for url in urls(site, 20)], handler)
    assert result.verdicts() == ["unreachable"] * 20
    assert (result.stat("request_count"), site.targets) == (1, [])


@pytest.mark.parametrize("refuses", [REFUSES, ""])
@every_handler
@in_every_runtime
async def test_failure_of_a_proxy_is_not_shared(
    site: Site, tmp_path: Path, handler: dict[str, Any], refuses: str
) -> None:
    """The failure of a proxy is not stored for other crawls."""
    settings = {"ROBOTS_CACHE": f"sqlite:///{tmp_path}/copies.db", **handler}
    with Proxy(refuses) as bad:
        request = by(site.url("/a"), f"http://{bad.netloc if refuses else dead()}")
        failed = await crawl([request], settings)
        direct = await crawl([site.url("/a"), site.url("/x")], settings)
    assert failed.verdicts() == ["unreachable"]
    assert direct.verdicts(site.url("/a"), site.url("/x")) == [200, "rule"]


class AfterASecond(Serial):
    """Requests the next page when a file that is stale at once does not count as known any more."""

    async def parse(self, response: Any, **_: Any) -> AsyncIterator[Request]:
        await Runtime().sleep(1.1 * MIN_FRESH)
        for request in super().parse(response):
            yield request


@every_handler
@in_every_runtime
async def test_earlier_file_is_obeyed(site: Site, handler: dict[str, Any]) -> None:
    """If a proxy fails, an earlier file is obeyed as stale."""
    requests = [Request(site.url("/a")), by(site.url("/x"), f"http://{dead()}")]
    settings = {**NEVER, "ROBOTS_CACHE_MAX_AGE": 0.1, **handler}
    result = await crawl(requests, settings, spider=AfterASecond)
    decision = result.dropped(site.url("/x")).decision
    assert (decision.reason, decision.stale, site.fetches) == (Reason.RULE, True, 1)


@contextlib.contextmanager
def answering(answer: bytes) -> Iterator[str]:
    """Serve the same bytes to every client, and disconnect; yield the URL of a page."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                with contextlib.suppress(OSError), client:
                    client.recv(65536)
                    client.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    yield f"http://127.0.0.1:{server.getsockname()[1]}/"
    server.shutdown(socket.SHUT_RDWR)
    server.close()


@pytest.mark.parametrize("handler", HANDLERS)
@in_every_runtime
async def test_causes_are_the_same_with_every_handler(handler: dict[str, Any]) -> None:
    """The causes in the log are the same with every download handler."""
    with contextlib.ExitStack() as stack:
        sites = {
            "connection reset": Site({"/robots.txt": Reply(reset=True)}),
            "the transfer was interrupted": Site({"/robots.txt": robots(RULES, cut=5)}),
            "no answer in 2 s": Site({"/robots.txt": HANG}),
            "TLS: wrong version number": Site(),
        }
        answers = {
            "connection closed without a response": b"",
            "invalid HTTP response: ": b"hello you\r\n\r\n",
            # aiohttp's handler fails on what is not UTF-8.
            "503|its response cannot be read: ": b"HTTP/1.1 503 Busy\r\nRetry-After: \xff\r\n\r\n",
        }
        pages = {
            "connection refused": f"http://{dead()}/",
            "unknown host": "http://no-such-host.invalid/",
            **{cause: stack.enter_context(site).url("/") for cause, site in sites.items()},
            **{cause: stack.enter_context(answering(data)) for cause, data in answers.items()},
        }
        tls = "TLS: wrong version number"
        pages[tls] = pages[tls].replace("http:", "https:")
        result = await crawl(pages.values(), {"ROBOTS_TIMEOUT": 2, **handler})
    for cause, page in pages.items():
        assert re.match(f"robots.txt unreachable: (?:{cause})", result.dropped(page).why)
