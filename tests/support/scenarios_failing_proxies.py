"""Crawls whose proxies or sites fail, for `test_local_faults_and_proxies.py`."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from itertools import product
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from scrapy import Request
from scrapy.utils.asyncio import call_later

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc._runtime import Runtime, Waiter
from scrapy_robots_rfc.scheduling.throttle import MIN_KNOWN_FOR
from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import Pages, short
from tests.support.proxies import Proxy, dead
from tests.support.site import HANG, Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.crawling import Run
    from tests.support.site import Asked

from tests.support.scenarios_local_faults import (
    NEVER,
    RULES,
    SECRET,
    Fading,
    Serial,
    beside,
    handlers,
    logged,
)


def by(url: str, proxy: str | None) -> Request:
    """Return a request through a proxy."""
    return Request(url, meta={"proxy": proxy})


async def routes(run: Run) -> dict[str, Any]:
    """Crawl with two proxies, of which one fails; its requests come first."""
    results = []
    for handler in handlers(run, proxies=True):
        for tls in (False, True):
            for refuses in ("", "407 Proxy Authentication Required", "502 Bad Gateway"):
                if refuses.startswith("502") and not tls:
                    continue  # a client cannot tell it from an answer of the site
                with (
                    Site({"/robots.txt": robots(RULES)}, tls=tls) as site,
                    Proxy() as live,
                    Proxy(refuses) as bad,
                ):
                    first = f"{SECRET}{bad.netloc if refuses else dead()}"
                    second = f"http://{live.netloc}"
                    requests = [
                        by(site.url("/1"), first),
                        by(site.url("/a"), second),
                        by(site.url("/x"), second),
                        by(site.url("/x2"), first),
                    ]
                    result = await run(Pages, {**NEVER, **handler}, requests)
                    found = [
                        short(result.outcomes[site.url(target)]) for target in ("/a", "/x", "/x2")
                    ]
                    results.append([tls, refuses[:3], *found, site.fetches])
    return {"found": results}


async def one_route(run: Run) -> dict[str, Any]:
    """Crawl with a proxy that fails, and then without a proxy."""
    results = []
    for handler in handlers(run, proxies=True):
        for tls in (False, True):
            for refuses in ("", "407 Proxy Authentication Required"):
                with (
                    Site({"/robots.txt": robots(RULES)}, tls=tls) as site,
                    Proxy(refuses) as bad,
                    logged() as lines,
                ):
                    netloc = bad.netloc if refuses else dead()
                    proxy = f"{SECRET}{netloc}"
                    requests = [
                        by(site.url("/1"), proxy),
                        by(site.url("/2"), proxy),
                        Request(site.url("/a")),
                    ]
                    result = await run(Serial, {**handler}, [*requests, Request(site.url("/x"))])
                    whys = {
                        outcome.why
                        for outcome in result.outcomes.values()
                        if isinstance(outcome, RobotsDisallowed)
                    }
                    results.append(
                        {
                            "outcomes": [short(outcome) for outcome in result.outcomes.values()],
                            "asked": len(bad.asked),
                            "why": sorted(why.replace(netloc, "PROXY") for why in whys),
                            "log": [
                                line.replace(netloc, "PROXY").replace(site.netloc, "SITE")
                                for line in lines
                            ],
                        }
                    )
    return {"found": results}


class Later(Pages):
    """Requests the first page, and the others after its robots.txt has failed once."""

    async def start(self) -> AsyncIterator[Any]:
        failed: Waiter[None] = Waiter()
        # The signal is sent before the backoff begins.
        self.crawler.signals.connect(
            lambda: call_later(0, failed.resolve, None), robots_fetched, weak=False
        )
        first, *others = [request async for request in super().start()]
        yield first
        await failed
        for request in others:
            yield request


async def later_route(run: Run) -> dict[str, Any]:
    """Crawl with a proxy that fails, and with another one after that."""
    results = []
    for handler in handlers(run, proxies=True):
        with Site({"/robots.txt": robots(RULES)}) as site, Proxy() as live:
            requests = [by(site.url("/1"), f"http://{dead()}")]
            requests += [by(site.url(target), f"http://{live.netloc}") for target in ("/a", "/x")]
            result = await run(Later, {**NEVER, **handler}, requests)
            results.append([short(result.outcomes[request.url]) for request in requests])
    return {"found": results}


async def second_attempt(run: Run) -> dict[str, Any]:
    """Crawl with a proxy that fails, and with another one that first gets a 503."""
    results = []
    for handler in handlers(run, proxies=True):
        replies = [Reply(503), robots(RULES)]

        def next_reply(_: Asked, replies: list[Reply] = replies) -> Reply:
            return replies.pop(0)

        with Site({"/robots.txt": next_reply}) as site, Proxy() as live:
            requests = [
                by(site.url("/1"), f"http://{dead()}"),
                by(site.url("/x"), f"http://{live.netloc}"),
            ]
            result = await run(Pages, {**handler, "ROBOTS_UNREACHABLE_BACKOFF": [0.1]}, requests)
            by_dead, by_live = (short(result.outcomes[request.url]) for request in requests)
            results.append([by_dead, by_live, site.fetches])
    return {"found": results}


async def hanging_proxy(run: Run) -> dict[str, Any]:
    """Crawl with a proxy that accepts connections but never answers, and with another one."""
    results = []
    for handler in handlers(run, proxies=True):
        with (
            Site({"/robots.txt": robots(RULES)}) as site,
            Proxy() as live,
            socket.create_server(("", 0)) as silent,
        ):
            netloc = f"127.0.0.1:{silent.getsockname()[1]}"
            requests = [
                by(site.url("/1"), f"{SECRET}{netloc}"),
                by(site.url("/a"), f"http://{live.netloc}"),
            ]
            settings = {**NEVER, **handler, "ROBOTS_TIMEOUT": 0.5, "DOWNLOAD_TIMEOUT": 1}
            with logged() as lines:
                result = await run(Pages, settings, requests)
            log = [line.replace(netloc, "PROXY").replace(site.netloc, "SITE") for line in lines]
            results.append([short(result.outcomes[site.url("/a")]), log])
    return {"found": results}


class AfterASecond(Serial):
    """Requests the next page when a file that is stale at once does not count as known any more."""

    async def parse(self, response: Any, **_: Any) -> AsyncIterator[Request]:
        await Runtime().sleep(1.1 * MIN_KNOWN_FOR)
        for request in super().parse(response):
            yield request


async def stale(run: Run) -> dict[str, Any]:
    """Crawl with a file that expires, after which a proxy or a middleware fails."""
    results = []
    Fading.asked = 0
    by_proxy = [(handler, True) for handler in handlers(run, proxies=True)]
    for settings, proxied in [(beside(Fading), False), *by_proxy]:
        with Site({"/robots.txt": robots(RULES)}) as site:
            proxy = f"http://{dead()}" if proxied else None
            urls = [Request(site.url("/a")), by(site.url("/x"), proxy)]
            stale_soon = {**NEVER, "ROBOTS_CACHE_MAX_AGE": 0.1, **settings}
            result = await run(AfterASecond, stale_soon, urls)
            error = result.outcomes[site.url("/x")]
            assert isinstance(error, RobotsDisallowed)
            results.append(
                [result.outcomes[site.url("/a")], short(error), error.decision.stale, site.fetches]
            )
    return {"found": results}


async def direct_fails(run: Run) -> dict[str, Any]:
    """Crawl a host that can be reached only through a proxy, with and without the proxy."""
    results = []
    for turned, handler in product((False, True), handlers(run, proxies=True)):
        with Site({"/robots.txt": robots(RULES)}) as site, Proxy() as live:
            host = "http://unknown.invalid"
            live.names = {"unknown.invalid": site.port}
            last, *requests = (
                by(f"{host}{target}", f"http://{live.netloc}") for target in ("/x", "/a")
            )
            requests.insert(turned, Request(f"{host}/1"))
            result = await run(Serial, {**NEVER, **handler}, [*requests, last])
            results.append(
                [short(result.outcomes[f"{host}{target}"]) for target in ("/1", "/a", "/x")]
            )
    return {"found": results}


async def environment(run: Run) -> dict[str, Any]:
    """Crawl with a refusing proxy from the environment, and a request with its own proxy."""
    results = []
    for handler in handlers(run, proxies=True):
        with (
            Site({"/robots.txt": robots(RULES)}) as site,
            Proxy("407 No") as bad,
            Proxy() as live,
            logged() as lines,
        ):
            with patch.dict(os.environ, {"http_proxy": f"{SECRET}{bad.netloc}", "no_proxy": ""}):
                own = by(site.url("/a"), f"http://{live.netloc}")
                result = await run(Serial, handler, [site.url("/1"), site.url("/2"), own])
            outcomes = [short(outcome) for outcome in result.outcomes.values()]
            named = [
                f"through proxy http://{bad.netloc}" in line and "secret" not in line
                for line in lines
            ]
            results.append([outcomes, len(bad.asked), named])
    return {"found": results}


async def not_shared(run: Run) -> dict[str, Any]:
    """Crawl twice with one store, first with a proxy that fails, then without."""
    results = []
    for handler, refuses in product(
        handlers(run, proxies=True), ("407 Proxy Authentication Required", "")
    ):
        with (
            TemporaryDirectory() as folder,
            Site({"/robots.txt": robots(RULES)}) as site,
            Proxy(refuses) as bad,
        ):
            settings = {"ROBOTS_CACHE": f"sqlite:///{folder}/copies.db", **handler}
            proxy = f"http://{bad.netloc if refuses else dead()}"
            first = await run(Pages, settings, [by(site.url("/a"), proxy)])
            second = await run(Pages, settings, [site.url("/a"), site.url("/x")])
            outcomes = [
                *first.outcomes.values(),
                *(second.outcomes[site.url(target)] for target in ("/a", "/x")),
            ]
            results.append([short(outcome) for outcome in outcomes])
    return {"found": results}


def _answering(answer: bytes | None) -> socket.socket:
    """Return a server that sends the same bytes to every client, and disconnects."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = server.accept()
                with contextlib.suppress(OSError), client:
                    client.recv(65536)
                    client.sendall(answer or b"")

    threading.Thread(target=serve, daemon=True).start()
    return server


async def causes(run: Run) -> dict[str, Any]:
    """Crawl sites that fail in different ways."""
    results = []
    for handler in handlers(run):
        replies = {"reset": Reply(reset=True), "cut": robots(RULES, cut=5), "hang": HANG}
        with contextlib.ExitStack() as stack:
            sites = {
                name: stack.enter_context(Site({"/robots.txt": reply}))
                for name, reply in replies.items()
            }
            plain = stack.enter_context(Site())
            answers = (
                None,
                b"hello you\r\n\r\n",
                b"HTTP/1.1 503 Busy\r\nRetry-After: \xff soon\r\n\r\n",
            )
            closing, talking, garbled = (
                stack.enter_context(_answering(answer)) for answer in answers
            )
            urls = {
                "refused": f"http://{dead()}/",
                "unknown": "http://no-such-host.invalid/",
                "tls": f"https://{plain.netloc}/",
                "closed": f"http://127.0.0.1:{closing.getsockname()[1]}/",
                "no http": f"http://127.0.0.1:{talking.getsockname()[1]}/",
                "garbled header": f"http://127.0.0.1:{garbled.getsockname()[1]}/",
                **{name: site.url("/") for name, site in sites.items()},
            }
            hanging = urls.pop("hang")
            result = await run(Pages, {"ROBOTS_TIMEOUT": 60, **handler}, list(urls.values()))
            hung = await run(Pages, {"ROBOTS_TIMEOUT": 1, **handler}, [hanging])
            outcomes = {name: result.outcomes[url] for name, url in urls.items()} | {
                "hang": hung.outcomes[hanging]
            }
            whys = {name: str(getattr(outcome, "why", None)) for name, outcome in outcomes.items()}
            results.append(
                {name: why.removeprefix("robots.txt unreachable: ") for name, why in whys.items()}
            )
            for server in (closing, talking, garbled):
                server.shutdown(socket.SHUT_RDWR)
    return {"found": results}
