"""A web site on 127.0.0.1, port 0, that answers as a test says, and notes what it was asked. In a
thread of its own.

It gives the replies that a real server may give, decent or not; the tests say what is crawled.
"""

from __future__ import annotations

import datetime
import functools
import ipaddress
import socket
import ssl
import struct
import tempfile
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.serving import Served

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType
    from typing import Self


@dataclass(frozen=True)
class Asked:
    """One request as it came in."""

    method: str
    target: str
    headers: Mapping[str, str]


@dataclass(frozen=True)
class Reply:
    """One answer.

    :param chunks: the body, sent with Transfer-Encoding: chunked, instead of `body`.
    :param gate: waited for before anything is sent.
    :param cut: the body ends this many octets before what Content-Length says.
    :param endless: the body goes on until the client has had enough.
    :param reset: the connection is reset (RST) at once.
    :param closes: the body has neither a length nor chunks: the end of the connection ends it.
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
    """A robots.txt."""
    return Reply(body=text.encode(), headers=(("Content-Type", "text/plain"),), **other)


def redirect(location: str, status: int = 302) -> Reply:
    """A redirect."""
    return Reply(status, headers=(("Location", location),))


PAGE = Reply(body=b"<p>page", headers=(("Content-Type", "text/html"),))
MISSING = Reply(404, b"missing")
#: Ends when the site does.
HANG = Reply(gate=threading.Event())


@dataclass
class Site(Served):
    """The site. A target that is not in `replies` is a page, and a robots.txt that is not there
    is missing.
    """

    replies: dict[str, Reply | Callable[[Asked], Reply]] = field(default_factory=dict)
    tls: bool = False
    asked: list[Asked] = field(default_factory=list)

    def __enter__(self) -> Self:
        site = self
        self.closed = threading.Event()

        class Handler(_Handler):
            pass

        Handler.site = site
        server = _Server(("127.0.0.1", 0), Handler)
        if self.tls:
            server.socket = _tls_context().wrap_socket(
                server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.begin(server)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.closed.set()
        self.end()

    @property
    def port(self) -> int:
        """The port that the system chose."""
        port: int = self.server.server_address[1]
        return port

    @property
    def netloc(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def url(self, target: str = "/", host: str = "127.0.0.1") -> str:
        """An absolute URL of this site."""
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}{target}"

    @property
    def targets(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.target for asked in self.asked]

    @property
    def pages(self) -> list[str]:
        """What was asked for, less robots.txt, sorted."""
        return sorted(target for target in self.targets if target != "/robots.txt")

    @property
    def fetches(self) -> int:
        """How often robots.txt was asked for."""
        return self.targets.count("/robots.txt")

    def reply(self, asked: Asked) -> Reply:
        """Find the answer to a request."""
        self.asked.append(asked)
        found = self.replies.get(asked.target, MISSING if asked.target == "/robots.txt" else PAGE)
        return found if isinstance(found, Reply) else found(asked)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 1024

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: clients that go away are what the tests are about."""


class _Handler(BaseHTTPRequestHandler):
    site: Site
    protocol_version = "HTTP/1.1"
    wbufsize = 64 * 1024  # one packet an answer: no client waits for a delayed acknowledgement

    def do_GET(self) -> None:
        """Answer as the test says."""
        reply = self.site.reply(Asked(self.command, self.path, dict(self.headers.items())))
        while reply.gate is not None and not reply.gate.wait(0.01):
            if self.site.closed.is_set():
                self.close_connection = True
                return
        if reply.reset and not reply.closes:
            self._reset()
            return
        self.send_response_only(reply.status)
        if self.close_connection:  # as the client wants it: it must not send another request on it
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
        while reply.endless and not self.site.closed.is_set():
            self.wfile.write(b"# more\n" * 1000)
        self.close_connection = self.close_connection or reply.cut > 0

    def _reset(self) -> None:
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that http.server calls
        """Say nothing."""


@functools.cache
def self_signed() -> bytes:
    """A private key and its certificate for 127.0.0.1, as PEM."""
    from cryptography import x509  # noqa: PLC0415 - slow to import, and few tests need it
    from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415 - as above
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 - as above

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "127.0.0.1")])
    today = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(today - datetime.timedelta(days=1))
        .not_valid_after(today + datetime.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem + certificate.public_bytes(serialization.Encoding.PEM)


def _tls_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "site.pem"
        file.write_bytes(self_signed())
        context.load_cert_chain(file)
    return context
