"""An FTP server whose pages a crawl gets, and one that says whatever a test tells it. On 127.0.0.1, port 0.

See `uploads.py` for the server that reports are uploaded to.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import warnings
from typing import TYPE_CHECKING

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # asyncore, on CPython 3.11
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

USER, PASSWORD = "me", "secret"


class FtpSite:
    """A running server.

    :param address: ``ftp://HOST:PORT``.
    :param commands: what clients asked for: ``RETR``, and the path.
    :param left: set when a client has left before it had the whole of a file.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.commands: list[str] = []
        self.left = threading.Event()

    def url(self, target: str) -> str:
        """Return the URL of a file."""
        return f"{self.address}{target}"

    @property
    def retrieved(self) -> list[str]:
        """The paths of files that clients asked for."""
        return [command.partition(" ")[2] for command in self.commands if command.startswith("RETR ")]


@contextlib.contextmanager
def ftp_site(folder: Path, *, anonymous: bool = True) -> Iterator[FtpSite]:
    """Serve a folder to `USER`.

    :param anonymous: whether everybody else may read it, too.
    """
    authorizer = DummyAuthorizer()
    authorizer.add_user(USER, PASSWORD, str(folder), perm="elr")
    if anonymous:
        authorizer.add_anonymous(str(folder))

    class Handler(FTPHandler):  # type: ignore[misc]  # has no types
        def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
            running.commands.append(f"{cmd} {arg}")
            super().pre_process_command(line, cmd, arg)

        def on_incomplete_file_sent(self, _file: str) -> None:
            running.left.set()

    Handler.authorizer = authorizer
    Handler.auth_failed_timeout = 0
    loop = IOLoop()
    server = FTPServer(("127.0.0.1", 0), Handler, ioloop=loop)
    running = FtpSite(f"ftp://127.0.0.1:{server.address[1]}")
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            loop.loop(timeout=0.01, blocking=False)
        server.close_all()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield running
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def talker(first: bytes, again: bytes = b"") -> Iterator[str]:
    """Serve octets in place of FTP: some at once, and others for as long as the client reads; give the address."""
    listening = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            accepted.append(connection)
            with connection:
                try:
                    connection.sendall(first)
                    while again:
                        connection.sendall(again)
                    while connection.recv(1000):
                        pass
                except OSError:
                    continue

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"ftp://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        for each in (listening, *accepted):  # the client may close its end when the reactor goes on, which waits for us
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
