"""Gemini in Scrapy: a download handler, and a capsule, which is what a Gemini site is called, on
this machine.

The handler is what a crawl of Gemini needs beside scrapy_robots_rfc; see DOWNLOAD_HANDLERS in
`settings.py`.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from contextlib import suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import TYPE_CHECKING, Self, cast
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.exceptions import StopDownload
from scrapy.http import Response, TextResponse
from scrapy.utils.httpobj import urlparse_cached

from demo.certificate import tls_context

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request
    from scrapy.crawler import Crawler

PORT = 1965
_PIECE = 16_384
_HEADER = re.compile(r"([1-6][0-9])(?: (.*))?\r\n")


class GeminiHandler:
    """Scrapy download handler for gemini URLs. A crawl on asyncio can use it, with a Twisted
    reactor or without one.

    The status of a response is that of Gemini: 20 is a page, 51 is none. What follows it stands in
    the header Meta, and for a redirect in Location, where scrapy_robots_rfc looks for it.
    """

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._certificates: dict[tuple[str, int], bytes] = {}
        # Capsules sign their own certificates. So a client takes the first one that it sees of a
        # host, and no other.
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Make the handler of a crawl."""
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        """Return the answer to a request; raises what the network raises."""
        async with asyncio.timeout(request.meta.get("download_timeout")):
            return await self._exchange(request)

    async def close(self) -> None:
        """Do nothing: no connection stays open."""

    async def _exchange(self, request: Request) -> Response:
        parts = urlparse_cached(request)
        host, port = parts.hostname or "", parts.port or PORT
        reader, writer = await asyncio.open_connection(
            host, port, ssl=self._context, server_hostname=host
        )
        try:
            certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            if self._certificates.setdefault((host, port), certificate) != certificate:
                raise ssl.SSLError("the certificate is another one than before")
            writer.write(f"{request.url}\r\n".encode())
            status, meta = _header(await reader.readuntil(b"\r\n"))
            body, flags = bytearray(), []
            while data := await reader.read(_PIECE):
                body += data
                if self._stops(
                    request, data
                ):  # as Scrapy's own handlers do: a robots.txt ends at its limit by this
                    flags.append("download_stopped")
                    break
            if not flags and not _ended(writer.get_extra_info("ssl_object")):
                raise ConnectionError("the transfer broke off")
        finally:
            writer.close()
        headers = {"Meta": meta, **({"Location": meta} if status.startswith("3") else {})}
        kind = TextResponse if meta.startswith("text/") else Response
        return kind(request.url, status=int(status), headers=headers, body=bytes(body), flags=flags)

    def _stops(self, request: Request, data: bytes) -> bool:
        """Signal octets that came, and return whether a handler has enough of them."""
        answers = self._crawler.signals.send_catch_log(
            signals.bytes_received, data=data, request=request, spider=self._crawler.spider
        )
        return any(
            isinstance(getattr(answer, "value", None), StopDownload) for _, answer in answers
        )


def _header(line: bytes) -> tuple[str, str]:
    """Return status and meta of an answer.

    Raises an error of the network where it is none of Gemini.
    """
    try:
        found = _HEADER.fullmatch(line.decode())
    except UnicodeDecodeError:
        found = None
    if found is None:
        raise ConnectionError("no valid Gemini answer")
    return found[1], found[2] or ""


def _ended(tls: ssl.SSLObject) -> bool:
    """Whether TLS was closed in order (close_notify); else somebody may have cut the answer off."""
    try:
        return not tls.read(1)
    except ssl.SSLError as error:
        return isinstance(error, ssl.SSLZeroReturnError)


class Capsule:
    """A capsule on this machine, from its construction until `stop`.

    :param pages: path -> what it answers: a line with status and meta, and a body.
    """

    def __init__(self, pages: Mapping[str, tuple[str, str]]) -> None:
        self.pages = pages
        #: The paths that were asked for.
        self.log: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _Answering)
        self._server.capsule, self._server.context = self, tls_context()
        self._thread = Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self._thread.start()

    def url(self, path: str) -> str:
        """Return the URL of a page."""
        return f"gemini://127.0.0.1:{self._server.server_address[1]}{path}"

    def stop(self) -> None:
        """Answer no request any more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingTCPServer):
    daemon_threads, block_on_close = True, False
    capsule: Capsule
    context: ssl.SSLContext


class _Answering(StreamRequestHandler):
    server: _Server

    def setup(self) -> None:
        self.request = self.server.context.wrap_socket(
            cast("ssl.SSLSocket", self.request), server_side=True
        )
        super().setup()

    def handle(self) -> None:
        path = urlsplit(self.rfile.readline(1026).decode().strip()).path or "/"
        self.server.capsule.log.append(path)
        line, body = self.server.capsule.pages.get(path, ("51 no such page", ""))
        self.wfile.write(f"{line}\r\n{body}".encode())

    def finish(self) -> None:
        super().finish()
        with suppress(OSError):  # the client may have left
            cast("ssl.SSLSocket", self.request).unwrap()
        self.request.close()
