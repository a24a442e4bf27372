"""An FTP server, and enough of an S3 server for uploads of reports, on free ports."""

from __future__ import annotations

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING

from tests.support.ftp_site import PASSWORD, USER, served_ftp
from tests.support.serving import Served

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def ftp_server(folder: Path) -> Iterator[str]:
    """Serve a folder, and yield the start of its FTP URLs."""
    with served_ftp(folder, "elradfmwMT") as netloc:
        yield f"ftp://{USER}:{PASSWORD}@{netloc}"


class _S3Handler(BaseHTTPRequestHandler):
    stored: dict[str, bytes]
    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Store an object, whose body may be chunked."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "aws-chunked" in self.headers.get("Content-Encoding", ""):
            body = _dechunked(body)
        self.stored[self.path] = body
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name that http.server calls
        """Log nothing."""


def _dechunked(body: bytes) -> bytes:
    content = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size.partition(b";")[0], 16)
        if not length:
            break
        content += rest[:length]
        body = rest[length + 2 :]
    return content


@contextmanager
def s3_server() -> Iterator[tuple[str, dict[str, bytes]]]:
    """Serve S3 uploads; yield the address, and the stored objects by path."""

    class Handler(_S3Handler):
        stored: dict[str, bytes] = {}  # noqa: RUF012 - one for each server

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.block_on_close = False
    running = Served()
    running.begin(server)
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", Handler.stored
    finally:
        running.end()
