"""A web site on a free port that runs in a thread, answers from a table, and records its requests.

Its answers can be broken in the ways of real servers.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Self


@dataclass(frozen=True)
class Asked:
    """A request that the site received."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """An answer.

    :param chunks: the body, sent with Transfer-Encoding: chunked, instead of `body`.
    :param gate: wait for this event before the answer.
    :param cut: how many bytes the body is shorter than its Content-Length.
    :param endless: whether the body continues until the client disconnects.
    :param reset: whether to reset the connection (RST) instead of an answer.
    :param closes: whether only the end of the connection ends the body.
    """

    status: int = 200
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()
    chunks: tuple[bytes, ...] = ()
    gate: threading.Event | None = None
    cut: int = 0
    endless: bool = False
    reset: bool = False
    closes: bool = False


def robots(text: str, **other: Any) -> Reply:
    """Return a robots.txt."""
    return Reply(body=text.encode(), headers=(("Content-Type", "text/plain"),), **other)


def redirect(location: str, status: int = 302) -> Reply:
    """Return a redirect."""
    return Reply(status, headers=(("Location", location),))


def failing(times: float, reply: Reply) -> Callable[[Asked], Reply]:
    """Return a robots.txt that fails a number of times with a reply."""
    failures = count()
    rules = robots("User-agent: *\nDisallow: /x\n")
    return lambda _: reply if next(failures) < times else rules


PAGE = Reply(body=b"<p>page", headers=(("Content-Type", "text/html"),))
MISSING = Reply(404, b"missing")
#: Never answers.
HANG = Reply(gate=threading.Event())


class Served:
    """A server that runs from `begin` to `end`, or to the end of a `with` block."""

    server: ThreadingHTTPServer
    thread: threading.Thread

    def begin(self, server: ThreadingHTTPServer) -> None:
        self.server = server
        self.thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()

    def end(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __exit__(self, *exc_info: object) -> None:
        self.end()


@dataclass
class Site(Served):
    """The site. Without a reply for a target, it answers with a page, or 404 for robots.txt."""

    replies: dict[str, Reply | Callable[[Asked], Reply]] = field(default_factory=dict)
    tls: bool = False
    #: Seconds that a request takes to arrive, by target.
    late: dict[str, float] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    #: When each request arrived, and its target.
    arrivals: list[tuple[float, str]] = field(default_factory=list)

    def __enter__(self) -> Self:
        site = self
        self.closed = threading.Event()

        class Handler(_Handler):
            pass

        Handler.site = site
        server = _Server(("127.0.0.1", 0), Handler)
        if self.tls:
            from demo.certificate import tls_context  # noqa: PLC0415 - few tests need it

            server.socket = tls_context().wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.begin(server)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.closed.set()
        super().__exit__(*exc_info)

    @property
    def port(self) -> int:
        port: int = self.server.server_address[1]
        return port

    @property
    def netloc(self) -> str:
        return f"127.0.0.1:{self.port}"

    def url(self, target: str = "/", host: str = "127.0.0.1") -> str:
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{target}"

    @property
    def targets(self) -> list[str]:
        """The targets of all requests, in order."""
        return [asked.target for asked in self.asked]

    @property
    def pages(self) -> list[str]:
        """The targets of all requests but those for robots.txt, sorted."""
        return sorted(target for target in self.targets if target != "/robots.txt")

    @property
    def fetches(self) -> int:
        """The number of requests for robots.txt."""
        return self.targets.count("/robots.txt")

    def reply(self, asked: Asked) -> Reply:
        self.closed.wait(self.late.get(asked.target, 0))
        self.arrivals.append((time.monotonic(), asked.target))
        self.asked.append(asked)
        default = MISSING if asked.target == "/robots.txt" else PAGE
        reply = self.replies.get(asked.target, default)
        return reply if isinstance(reply, Reply) else reply(asked)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class _Handler(BaseHTTPRequestHandler):
    site: Site
    protocol_version = "HTTP/1.1"
    wbufsize = 64 * 1024  # an answer in one packet, so that no client waits for a delayed ACK

    def do_GET(self) -> None:
        reply = self.site.reply(Asked(self.command, self.path, dict(self.headers.items())))
        while reply.gate is not None and not reply.gate.wait(0.01):
            if self.site.closed.is_set():
                self.close_connection = True
                return
        if reply.reset and not reply.closes:
            self._reset()
            return
        self.send_response_only(reply.status)
        if self.close_connection:  # as the client asked
            self.send_header("Connection", "close")
        for name, value in reply.headers:
            self.send_header(name, value)
        self._send_body(reply)

    def _send_body(self, reply: Reply) -> None:
        if reply.chunks:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for chunk in (*reply.chunks, b""):
                self.wfile.write(f"{len(chunk):x}\r\n".encode() + chunk + b"\r\n")
            return
        if reply.closes:
            self.end_headers()
            self.wfile.write(reply.body)
            self.wfile.flush()
            self.close_connection = True
            return
        length = len(reply.body) if not reply.endless else 10**12
        self.send_header("Content-Length", str(length))
        self.end_headers()
        self.wfile.write(reply.body[: length - reply.cut])
        self.wfile.flush()
        while reply.endless and not self.site.closed.wait(0.002):
            self.wfile.write(b"# more\n" * 4000)
        self.close_connection = self.close_connection or reply.cut > 0

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server calls
        """Log nothing."""
