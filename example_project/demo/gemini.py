"""A Gemini download handler for Scrapy, and a capsule (a Gemini site) that runs on this machine.

To crawl Gemini, a project needs such a handler in DOWNLOAD_HANDLERS; see `settings.py`.
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
    """A download handler for gemini URLs. It needs asyncio, with or without a Twisted reactor.

    A response has Gemini's status: 20 is a page, 51 is "not found". The text after the status is
    in the header Meta, and for a redirect also in Location, where scrapy_robots_rfc expects it.
    """

    lazy = True

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._certificates: dict[tuple[str, int], bytes] = {}
        # Capsules have self-signed certificates. So a client trusts the first certificate that a
        # host sends, and rejects any other.
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        """Create the handler of a crawl."""
        return cls(crawler)

    async def download_request(self, request: Request) -> Response:
        """Return the response to a request, or raise the error of the network."""
        async with asyncio.timeout(request.meta.get("download_timeout")):
            return await self._exchange(request)

    async def close(self) -> None:
        """Do nothing, because no connection stays open."""

    async def _exchange(self, request: Request) -> Response:
        parts = urlparse_cached(request)
        host, port = parts.hostname or "", parts.port or PORT
        reader, writer = await asyncio.open_connection(
            host, port, ssl=self._context, server_hostname=host
        )
        try:
            certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
            if self._certificates.setdefault((host, port), certificate) != certificate:
                raise ssl.SSLError("the certificate of the host has changed")
            writer.write(f"{request.url}\r\n".encode())
            status, meta = _header(await reader.readuntil(b"\r\n"))
            body, flags = bytearray(), []
            while data := await reader.read(_PIECE):
                body += data
                # As in Scrapy's own handlers. It ends a robots.txt that is too large.
                if self._is_stopped(request, data):
                    flags.append("download_stopped")
                    break
            if not flags and not _is_closed(writer.get_extra_info("ssl_object")):
                raise ConnectionError("the transfer is incomplete")
        finally:
            writer.close()
        headers = {"Meta": meta, **({"Location": meta} if status.startswith("3") else {})}
        kind = TextResponse if meta.startswith("text/") else Response
        return kind(request.url, status=int(status), headers=headers, body=bytes(body), flags=flags)

    def _is_stopped(self, request: Request, data: bytes) -> bool:
        """Signal that bytes were received, and return whether a receiver stops the download."""
        answers = self._crawler.signals.send_catch_log(
            signals.bytes_received, data=data, request=request, spider=self._crawler.spider
        )
        return any(
            isinstance(getattr(answer, "value", None), StopDownload) for _, answer in answers
        )


def _header(line: bytes) -> tuple[str, str]:
    """Return the status and meta of a Gemini response.

    :raises ConnectionError: if the line is not a Gemini header.
    """
    try:
        match = _HEADER.fullmatch(line.decode())
    except UnicodeDecodeError:
        match = None
    if match is None:
        raise ConnectionError("not a valid Gemini response")
    return match[1], match[2] or ""


def _is_closed(tls: ssl.SSLObject) -> bool:
    """Return whether TLS was closed properly (close_notify). Otherwise the response may be cut."""
    try:
        return not tls.read(1)
    except ssl.SSLError as error:
        return isinstance(error, ssl.SSLZeroReturnError)


class Capsule:
    """A capsule that runs on this machine until `stop`.

    :param pages: the answers by path: a line with status and meta, and a body.
    """

    def __init__(self, pages: Mapping[str, tuple[str, str]]) -> None:
        self.pages = pages
        #: The requested paths.
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
        """Stop the server."""
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
        with suppress(OSError):  # the client may be gone
            cast("ssl.SSLSocket", self.request).unwrap()
        self.request.close()
