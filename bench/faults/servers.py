"""The origins and proxies of a crawl, which record requests and answers."""

import asyncio
import contextlib
import re
import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import starmap
from typing import Any
from urllib.parse import urlsplit

from bench.faults.answers import ANSWERS, CLOSED, Answer, whole
from bench.faults.log import BEAT, LAG, Event
from bench.faults.plan import PROXIES, Page, Plan, Site

# Seconds that a slow answer takes.
_SLOW = 0.7


def robots_txt(site: Site) -> bytes:
    """Return the file of a site."""
    lines = ["User-agent: otherbot", "Disallow: /", "", "User-agent: examplebot", *site.rules]
    if site.pace:
        lines.append(f"Crawl-delay: {site.pace:g}")
    return "\n".join((*lines, "", "User-agent: *", "Disallow: /shut/", "")).encode()


class Servers:
    """Serves a plan, and records what arrives."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.events: list[Event] = []
        self._requests: Counter[tuple[int, str]] = Counter()
        self._sockets: list[socket.socket] = []
        for host in (*(site.host for site in plan.sites), *("127.0.0.1" for _ in PROXIES)):
            self._sockets.append(socket.socket())
            self._sockets[-1].bind((host, 0))
        #: Host and port of the origins, then of the proxies.
        self.addresses = ["{}:{}".format(*one.getsockname()) for one in self._sockets]

    def note(self, kind: str, **fields: Any) -> None:  # noqa: ANN401 - fields of Event
        """Record an event."""
        self.events.append(Event(time.monotonic(), kind, **fields))

    async def serve(self) -> None:
        """Serve until it is cancelled, and measure the delay of the event loop."""
        # Broken connections are intended.
        asyncio.get_running_loop().set_exception_handler(lambda _loop, _context: None)
        downs = [site.down for site in self._plan.sites]
        downs += [600 if proxy == "dead" else 0 for proxy in PROXIES]
        await asyncio.gather(self._measure_lag(), *starmap(self._listen, enumerate(downs)))

    async def _measure_lag(self) -> None:
        while True:
            expected = time.monotonic() + BEAT
            await asyncio.sleep(BEAT)
            late = time.monotonic() - expected
            if late > LAG:
                self.note("lag", seconds=late)

    async def _listen(self, number: int, down: float) -> None:
        await asyncio.sleep(down)  # until then, the system refuses connections
        handler = partial(self._serve, number)
        async with await asyncio.start_server(handler, sock=self._sockets[number]) as server:
            await server.serve_forever()

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
            number = self.addresses.index(parts.netloc)
            target = parts._replace(scheme="", netloc="").geturl()
        self._requests[number, target] += 1
        count = self._requests[number, target]
        site = self._plan.sites[number]
        if target == "/robots.txt" or target.startswith("/moved/"):
            name = target.removeprefix("/moved/")
            if target == "/robots.txt":
                name = site.script[min(count, len(site.script)) - 1]
                self.note("asked", site=number, detail=name)
            known = partial(self.note, "known", site=number, detail=name)
            await _send(writer, ANSWERS[name], robots_txt(site), known)
            return
        page = next(page for page in site.pages if page.path == target)
        sent = re.search("(?i)x-number: ([0-9]+)", request)
        request_number = -1 if sent is None else int(sent[1])
        self.note("page", site=number, path=target, number=request_number, detail=page.kind)
        await self._page(page, writer, is_first=count == 1)

    async def _page(self, page: Page, writer: asyncio.StreamWriter, *, is_first: bool) -> None:
        data = whole("200 OK", b"<html><body>page</body></html>", Content_Type="text/html")
        if page.kind == "reset":
            await _reset(writer)
            return
        if page.kind == "busy" or (page.kind == "busy-once" and is_first):
            data = whole("503 Service Unavailable", b"busy")
        elif page.kind == "redirect":
            site, other = page.asks[0][:2]
            url = f"http://{self.addresses[site]}{self._plan.sites[site].pages[other].path}"
            data = whole("302 Found", b"", Location=url)
        await asyncio.sleep(0.3 if page.kind == "slow" else 0)
        await _write(writer, data)


async def _send(
    writer: asyncio.StreamWriter,
    answer: Answer,
    text: bytes,
    known: Callable[[], None] = lambda: None,
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
    while answer.end in ("hang", "drip-on"):
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
