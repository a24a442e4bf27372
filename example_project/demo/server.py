"""A web site that runs in its own thread, answers from a table, and logs its requests.

It shares no event loop with the crawl, so it works with every reactor and without one. The content
of the demo's sites is in `origins.py`.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from email.message import Message

#: The first byte of a TLS connection (RFC 8446, 5.1). No HTTP method begins with it.
_TLS_HANDSHAKE = b"\x16"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of a site.

    :param delay: seconds before the answer is sent.
    :param drop: close the connection without an answer.
    :param failures: how many requests get a 503 before one gets this answer.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    location: str | None = None
    delay: float = 0
    drop: bool = False
    failures: int = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that a site received.

    :param target: the path and query, or a URL if the client uses the site as a proxy.
    :param time: when it arrived, on the monotonic clock.
    :param headers: the request headers, by case-insensitive name.
    """

    target: str
    time: float
    headers: Message


def page(text: str) -> Reply:
    """Return an HTML page."""
    return Reply(
        body=f"<!doctype html><title>{text}</title><p>{text}</p>".encode(), content_type="text/html"
    )


@dataclass(slots=True)
class Site:
    """A site on a free port. It answers with a page if it has no reply for a path.

    :param replies: the answers, by path and query.
    :param tls: the context for https on the same port, or ``None`` for http only.
    :param secure_replies: the answers over https that differ from `replies`.
    """

    replies: Mapping[str, Reply] = field(default_factory=dict)
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    secure_replies: Mapping[str, Reply] = field(default_factory=dict)
    #: The requests, in order.
    asked: list[Asked] = field(default_factory=list)
    _server: _Server | None = None

    def start(self) -> None:
        """Bind a free port and serve."""
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        if self._server is not None:
            self._server.ending.set()
            self._server.shutdown()
            self._server.server_close()

    def url(self, target: str = "", scheme: str = "http") -> str:
        """Return the absolute URL of a path. The site must have started."""
        assert self._server is not None, "start the site first"
        return f"{scheme}://{self.host}:{self._server.server_address[1]}{target}"

    @property
    def log(self) -> list[str]:
        """The targets of all requests, in order."""
        return [asked.target for asked in self.asked]

    @property
    def pages(self) -> list[str]:
        """The targets of the requests for pages, not for robots.txt or its redirects."""
        return [target for target in self.log if not target.endswith(".txt")]


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # more than a crawl of the demo opens at once

    def __init__(self, site: Site) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.site = site
        self.ending = threading.Event()

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's types
        """Use TLS if the client does. Runs in the thread of the connection."""
        site = self.site
        secure = site.tls is not None and request.recv(1, socket.MSG_PEEK) == _TLS_HANDSHAKE
        if secure and site.tls is not None:
            request = site.tls.wrap_socket(request, server_side=True)
        try:
            _Handler(request, client_address, self, secure=secure)
        finally:
            if secure:
                request.close()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - as above
        """Ignore clients that disconnect, because the crawl may end at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Send header and body in one packet, so that no client waits for a delayed acknowledgement.
    wbufsize = 64 * 1024

    def __init__(
        self,
        request: Any,  # noqa: ANN401 - as above
        client_address: Any,  # noqa: ANN401 - as above
        server: _Server,
        *,
        secure: bool = False,
    ) -> None:
        self.site, self.ending, self.secure = server.site, server.ending, secure
        super().__init__(request, client_address, server)

    def do_GET(self) -> None:
        """Answer from the table."""
        self.site.asked.append(Asked(self.path, time.monotonic(), self.headers))
        secured = self.site.secure_replies.get(self.path) if self.secure else None
        reply = secured or self.site.replies.get(self.path) or page(self.path)
        if reply.drop or (reply.delay and self.ending.wait(reply.delay)):
            self.close_connection = True
            return
        if reply.failures and self.site.log.count(self.path) <= reply.failures:
            reply = Reply(503, b"try again later")
        self.send_response_only(reply.status)
        if reply.location is not None:
            self.send_header("Location", reply.location)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server calls
        """Do nothing, because `Site.log` is the log."""
