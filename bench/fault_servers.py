"""The origins and proxies of a crawl of `bench.faults`, which run in a thread.

They record requests and answers.
"""

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter
from functools import partial
from typing import Self
from urllib.parse import urlsplit

from bench.fault_answers import ANSWERS, OPEN, Line
from bench.fault_log import BEAT, LAG, Event, Known, Seen
from bench.fault_plan import TOKEN, Plan, Site

#: Proxies. "dead" refuses connections, and "hang" never answers.
PROXIES = ("live", "dead", "407", "hang")
# Maximum redirects of robots.txt (RFC 9309, 2.3.1.2).
_MAX_REDIRECTS = 5


def robots_txt(site: Site) -> bytes:
    """Return the file of a site."""
    lines = ["User-agent: otherbot", "Disallow: /", "", f"User-agent: {TOKEN}", *site.rules]
    if site.pace:
        lines.append(f"Crawl-delay: {site.pace:g}")
    return "\n".join((*lines, "", "User-agent: *", "Disallow: /shut/", "")).encode()


class Servers:
    """Serves a plan while the `with` block runs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.seen: list[Seen] = []
        self.known: list[Known] = []
        self.lags: list[Event] = []
        self._requests: Counter[tuple[int, int | None]] = Counter()
        self._sockets: list[socket.socket] = []
        #: Of the origins, then of the proxies.
        self.ports: list[int] = []
        for host in (*(site.host for site in plan.sites), *("127.0.0.1" for _ in PROXIES)):
            self._sockets.append(_bound(host, self.ports))
            self.ports.append(self._sockets[-1].getsockname()[1])
        pairs = zip(plan.sites, self.ports, strict=False)
        self._sites = {(site.host, port): n for n, (site, port) in enumerate(pairs)}
        self._is_ready, self._is_done = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_done.set()
        self._thread.join()
        for one in self._sockets:
            one.close()

    async def _run(self) -> None:
        """Serve until the block ends, and measure the delay of the event loop."""
        # Broken connections are intended.
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        await self._open()
        self._is_ready.set()
        while not self._is_done.is_set():
            expected = time.monotonic() + BEAT
            await asyncio.sleep(BEAT)
            now = time.monotonic()
            if now - expected > LAG:
                self.lags.append(Event(now, "lag", seconds=now - expected))

    async def _open(self) -> None:
        for number, one in enumerate(self._sockets):
            down = self._refuses_for(number)
            if down is None:
                continue
            handler = partial(self._serve, number)
            server = await asyncio.start_server(handler, sock=one, start_serving=False)
            if down:
                loop = asyncio.get_running_loop()
                loop.call_later(down, loop.create_task, server.start_serving())
            else:
                await server.start_serving()

    def _refuses_for(self, number: int) -> float | None:
        """Return the seconds in which a server refuses connections, or `None` for always."""
        if number >= len(self._plan.sites):
            return None if PROXIES[number - len(self._plan.sites)] == "dead" else 0
        down = self._plan.sites[number].down
        return down if down < 60 else None

    async def _serve(
        self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        errors = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError)
        with contextlib.suppress(*errors):
            while not writer.is_closing():
                request = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
                await self._answer(number, request, writer)
        writer.close()

    async def _answer(self, number: int, request: str, writer: asyncio.StreamWriter) -> None:
        line, *others = request.split("\r\n")
        target = line.split(" ")[1]
        pairs = (other.partition(":") for other in others)
        headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
        if number >= len(self._plan.sites):
            proxy = PROXIES[number - len(self._plan.sites)]
            if proxy in {"407", "hang"}:
                await ANSWERS[proxy].send(Line(writer, b"", lambda: None, lambda _hops, _away: ""))
                return
            parts = urlsplit(target)
            number = self._sites[parts.hostname or "", parts.port or 80]
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if target == "/robots.txt" or target.startswith("/hop"):
            await self._robots(number, target, writer)
        else:
            await self._page(number, target, headers, writer)

    async def _robots(self, number: int, target: str, writer: asyncio.StreamWriter) -> None:
        if target.startswith("/hop-"):
            name = target.removeprefix("/hop-")
        elif target.startswith("/hop/"):
            _, _, site, name, hops = target.split("/")
            await self._hop(int(site), name, int(hops), writer)
            return
        else:
            script = self._plan.sites[number].script
            name = script[min(self._requests[number, None], len(script) - 1)]
            self._requests[number, None] += 1
            self.seen.append(Seen(time.monotonic(), number, None, answer=name))
        await ANSWERS[name].send(self._line(number, name, writer))

    async def _hop(self, site: int, name: str, hops: int, writer: asyncio.StreamWriter) -> None:
        line = self._line(site, name, writer)
        if hops == 0:
            await line.answer("200 OK", line.text)
            return
        followed = int(name.rpartition("-")[2]) - hops
        if ANSWERS[name].meaning == OPEN and followed >= _MAX_REDIRECTS:
            line.known()
        await line.redirect(line.hop(hops - 1, "away" in name))

    def _line(self, number: int, name: str, writer: asyncio.StreamWriter) -> Line:
        def hop(hops: int, is_away: bool) -> str:
            site = (number + hops + 1) % len(self._plan.sites) if is_away else number
            return self._url(site, f"/hop/{number}/{name}/{hops}")

        def known() -> None:
            self.known.append(Known(time.monotonic(), number, name))

        return Line(writer, robots_txt(self._plan.sites[number]), known, hop)

    async def _page(
        self, number: int, target: str, headers: dict[str, str], writer: asyncio.StreamWriter
    ) -> None:
        pages = self._plan.sites[number].pages
        place = next(n for n, page in enumerate(pages) if page.path == target)
        kind = pages[place].kind
        is_exempt, request = headers.get("x-exempt") == "1", int(headers.get("x-number", "-1"))
        self.seen.append(Seen(time.monotonic(), number, place, is_exempt, request, kind))
        self._requests[number, place] += 1
        line = self._line(number, "404", writer)
        line.known = lambda: None
        if kind == "reset":
            await line.reset()
        elif kind == "busy" or (kind == "busy-once" and self._requests[number, place] == 1):
            await line.answer("503 Service Unavailable", b"busy")
        elif kind == "redirect":
            site, other = pages[place].target
            await line.redirect(self._url(site, self._plan.sites[site].pages[other].path))
        else:
            await asyncio.sleep(0.3 if kind == "slow" else 0)
            await line.answer("200 OK", b"<html><body>page</body></html>", Content_Type="text/html")

    def _url(self, site: int, path: str) -> str:
        return f"http://{self._plan.sites[site].host}:{self.ports[site]}{path}"


def _bound(host: str, taken: list[int]) -> socket.socket:
    """Return a socket that refuses connections until a server listens.

    :param taken: ports of other sockets, which the system may reuse for another address.
    """
    while True:
        one = socket.socket()
        one.bind((host, 0))
        if one.getsockname()[1] not in taken:
            return one
        one.close()
