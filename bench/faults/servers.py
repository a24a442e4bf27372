"""The origins and proxies of a crawl, which run in a thread and record requests and answers."""

import asyncio
import contextlib
import re
import socket
import struct
import threading
import time
from collections import Counter
from functools import partial
from typing import Any, Self
from urllib.parse import urlsplit

from bench.faults.answers import ANSWERS, CLOSED, Answer, whole
from bench.faults.log import BEAT, LAG, Event
from bench.faults.plan import PROXIES, Page, Plan, Site

# Seconds of a slow answer, and of one that never ends.
_SLOW, _ENDLESS = 0.7, 30.0


def robots_txt(site: Site) -> bytes:
    """Return the file of a site."""
    lines = ["User-agent: otherbot", "Disallow: /", "", "User-agent: examplebot", *site.rules]
    if site.pace:
        lines.append(f"Crawl-delay: {site.pace:g}")
    return "\n".join((*lines, "", "User-agent: *", "Disallow: /shut/", "")).encode()


class Servers:
    """Serves a plan while the `with` block runs."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.events: list[Event] = []
        self._requests: Counter[tuple[int, str]] = Counter()
        self._sockets: list[socket.socket] = []
        #: Of the origins, then of the proxies.
        self.ports: list[int] = []
        for host in (*(site.host for site in plan.sites), *("127.0.0.1" for _ in PROXIES)):
            self._sockets.append(_bound(host, self.ports))
            self.ports.append(self._sockets[-1].getsockname()[1])
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

    def _note(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - fields of Event
        self.events.append(Event(time.monotonic(), kind, **fields))

    async def _run(self) -> None:
        """Serve until the block ends, and measure the delay of the event loop."""
        # Broken connections are intended.
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _loop, _context: None)
        downs = [*(one.down for one in self._plan.sites), *(600 * (p == "dead") for p in PROXIES)]
        for number, (one, down) in enumerate(zip(self._sockets, downs, strict=True)):
            if down < 60:  # otherwise it refuses connections for the whole crawl
                handler = partial(self._serve, number)
                server = await asyncio.start_server(handler, sock=one, start_serving=False)
                loop.call_later(down, loop.create_task, server.start_serving())
        self._is_ready.set()
        while not self._is_done.is_set():
            expected = time.monotonic() + BEAT
            await asyncio.sleep(BEAT)
            late = time.monotonic() - expected
            if late > LAG:
                self._note("lag", seconds=late)

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
        target = request.split(" ")[1]
        if number >= len(self._plan.sites):
            proxy = PROXIES[number - len(self._plan.sites)]
            if proxy != "live":
                await _send(writer, ANSWERS[proxy], b"")
                return
            parts = urlsplit(target)
            number = self.ports.index(parts.port or 80)
            target = f"{parts.path}?{parts.query}" if parts.query else parts.path
        if target == "/robots.txt" or target.startswith("/moved/"):
            await self._robots(number, target, writer)
            return
        page = next(page for page in self._plan.sites[number].pages if page.path == target)
        sent = re.search("(?i)x-number: ([0-9]+)", request)
        request_number = -1 if sent is None else int(sent[1])
        self._note("page", site=number, path=target, number=request_number, detail=page.kind)
        self._requests[number, target] += 1
        await self._page(page, writer, is_first=self._requests[number, target] == 1)

    async def _robots(self, number: int, target: str, writer: asyncio.StreamWriter) -> None:
        """Answer a request for robots.txt, or for the target of its redirect."""
        script = self._plan.sites[number].script
        name = target.removeprefix("/moved/")
        if target == "/robots.txt":
            name = script[min(self._requests[number, target], len(script) - 1)]
            self._requests[number, target] += 1
            self._note("asked", site=number, detail=name)
        known = partial(self._note, "known", site=number, detail=name)
        await _send(writer, ANSWERS[name], robots_txt(self._plan.sites[number]), known)

    async def _page(self, page: Page, writer: asyncio.StreamWriter, *, is_first: bool) -> None:
        data = whole("200 OK", b"<html><body>page</body></html>", Content_Type="text/html")
        if page.kind == "reset":
            await _reset(writer)
            return
        if page.kind == "busy" or (page.kind == "busy-once" and is_first):
            data = whole("503 Service Unavailable", b"busy")
        elif page.kind == "redirect":
            site, other = page.target
            url = self._url(site, self._plan.sites[site].pages[other].path)
            data = whole("302 Found", b"", Location=url)
        await asyncio.sleep(0.3 if page.kind == "slow" else 0)
        await _write(writer, data)

    def _url(self, site: int, path: str) -> str:
        return f"http://{self._plan.sites[site].host}:{self.ports[site]}{path}"


async def _send(
    writer: asyncio.StreamWriter,
    answer: Answer,
    text: bytes,
    known: Any = lambda: None,  # noqa: ANN401
) -> None:
    """Send an answer.

    :param known: called before the client gets the bytes that complete it.
    """
    data = await asyncio.to_thread(answer.make, text)
    if answer.end == "drip":
        for at in range(len(data) - 1):
            await _write(writer, data[at : at + 1])
            await asyncio.sleep(_SLOW / len(data))
        data = data[-1:]
    if answer.meaning != CLOSED and answer.end != "more":
        known()
    await _write(writer, data)
    if answer.end == "reset":
        await _reset(writer)
    elif answer.end == "close":
        writer.close()
    for _ in range(int(_ENDLESS / 0.1) if answer.end in ("hang", "drip-on") else 0):
        await asyncio.sleep(0.1)
        await _write(writer, b"#\n" if answer.end == "drip-on" else b"")


async def _write(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()


async def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection, after time for the client to read what was sent."""
    await asyncio.sleep(0.05)
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


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
