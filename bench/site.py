"""The local site that crawls are measured on: `python -m bench.site ADDRESS` prints its port, and
ends with its input.

It answers as fast as Python can, so that the crawler is what is measured.
"""

from __future__ import annotations

import asyncio
import sys

_ROBOTS_TXT = b"""User-agent: *
Disallow: /admin/
Disallow: /cart
Disallow: /checkout
Disallow: /search
Disallow: /*?sort=
Disallow: /*/print/
Allow: /search/about
Disallow: /tmp/
Disallow: /user/login
Disallow: /user/register
Disallow: /*.pdf$
Disallow: /cgi-bin/
"""
_PAGE = (
    b"<!DOCTYPE html><html><head><title>A page</title></head><body><p>Some text.</p></body></html>"
    * 8
)


def _answer(body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (
        kind,
        len(body),
        body,
    )


_ANSWERS = {True: _answer(_ROBOTS_TXT, b"text/plain"), False: _answer(_PAGE, b"text/html")}


class _Site(asyncio.Protocol):
    """One connection: an answer for every request head."""

    def __init__(self) -> None:
        self._pending = b""
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._pending += data
        *heads, self._pending = self._pending.split(b"\r\n\r\n")
        for head in heads:
            assert self._transport is not None
            self._transport.write(_ANSWERS[head.startswith(b"GET /robots.txt ")])


async def _serve(address: str) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Site, address, 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # The process that started it closes its input, or dies.
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1]))
