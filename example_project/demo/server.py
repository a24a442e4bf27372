"""A web site on this machine, in a thread of its own: answers from a table, and remembers what it
was asked.

It shares no event loop with the crawl, so it serves under every reactor and under none. What the
demo's sites say is in `origins.py`.
"""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping
    from email.message import Message

_TLS_HANDSHAKE = (
    b"\x16"  # the first octet of a TLS connection; no HTTP method begins with it (RFC 8446, 5.1)
)


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer.

    :param delay: seconds until it is sent.
    :param drop: the connection is closed instead of an answer.
    :param failures: how often the answer is a 503 before it is this one.
    :param robots_tag: the value of an X-Robots-Tag line.
    """

    status: int = 200
    body: bytes = b""
    content_type: str = "text/plain"
    location: str | None = None
    delay: float = 0
    drop: bool = False
    failures: int = 0
    robots_tag: str | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """One request.

    :param target: what was asked for: a path with its query, or from a client that takes the site
        for a proxy, a URL.
    :param time: when it arrived, in seconds on a clock that never goes back.
    :param headers: by name, whatever its case.
    """

    target: str
    time: float
    headers: Message


def page(text: str) -> Reply:
    """An HTML page."""
    return Reply(
        body=f"<!doctype html><title>{text}</title><p>{text}</p>".encode(), content_type="text/html"
    )


@dataclass(slots=True)
class Site:
    """A site on a free port of 127.0.0.1. A path without a reply of its own is a page.

    :param replies: the answers, by path and query.
    :param tls: speaks https too, on the same port, with this context.
    :param secure_replies: the answers over https; where it says nothing, `replies` does.
    """

    replies: Mapping[str, Reply] = field(default_factory=dict)
    host: str = "127.0.0.1"
    tls: ssl.SSLContext | None = None
    secure_replies: Mapping[str, Reply] = field(default_factory=dict)
    #: What was asked for, in order.
    asked: list[Asked] = field(default_factory=list)
    _server: _Server | None = None

    def start(self) -> None:
        """Take a free port and serve."""
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Serve no more."""
        if self._server is not None:
            self._server.ending.set()
            self._server.shutdown()
            self._server.server_close()

    def url(self, target: str = "", scheme: str = "http") -> str:
        """Return the absolute URL of a path; the port is known once the site has started."""
        assert self._server is not None, "start the site first"
        return f"{scheme}://{self.host}:{self._server.server_address[1]}{target}"

    @property
    def log(self) -> list[str]:
        """The targets of all requests, in order."""
        return [asked.target for asked in self.asked]

    @property
    def pages(self) -> list[str]:
        """What was asked for, less rules: robots.txt, and what one redirects to."""
        return [target for target in self.log if not target.endswith(".txt")]

    @property
    def shortest_gap(self) -> float | None:
        """The shortest time between two requests, that for robots.txt among them.

        ``None`` before the second one.
        """
        return min(
            (after.time - before.time for before, after in pairwise(self.asked)), default=None
        )


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128  # more connections at once than any crawl of the demo opens

    def __init__(self, site: Site) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.site = site
        self.ending = threading.Event()

    def finish_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401 - socketserver's types
        """Speak TLS with a client that begins with it. Runs in the connection's own thread."""
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
        """Say nothing of clients that go away: the crawl may end at any time."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body in one packet: no client waits for a delayed acknowledgement.
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
        if reply.robots_tag is not None:
            self.send_header("X-Robots-Tag", reply.robots_tag)
        self.send_header("Content-Type", reply.content_type)
        self.send_header("Content-Length", str(len(reply.body)))
        self.end_headers()
        self.wfile.write(reply.body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server calls
        """Say nothing: `Site.log` is the log."""
