"""An FTP server whose pages a crawl gets, and one that says whatever a test wants. On 127.0.0.1,
port 0.

See `uploads.py` for the server that reports are uploaded to.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # asyncore, on CPython 3.11
    from pyftpdlib.authorizers import DummyAuthorizer
    from pyftpdlib.handlers import FTPHandler
    from pyftpdlib.ioloop import IOLoop
    from pyftpdlib.servers import FTPServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

USER, PASSWORD = "me", "secret"


@dataclass
class FtpSite:
    """A running server.

    :param address: ``ftp://HOST:PORT``.
    :param commands: what clients asked for: ``RETR``, and the path.
    :param left: set when a client has left before it had the whole of a file.
    """

    address: str
    commands: list[str]
    left: threading.Event

    def url(self, target: str) -> str:
        """Return the URL of a file."""
        return f"{self.address}{target}"

    @property
    def retrieved(self) -> list[str]:
        """The paths of files that clients asked for."""
        return [
            command.partition(" ")[2] for command in self.commands if command.startswith("RETR ")
        ]


@contextlib.contextmanager
def served_ftp(
    folder: Path, perm: str, kind: type[FTPHandler] = FTPHandler, *, anonymous: bool = False
) -> Iterator[str]:
    """Serve a folder to `USER`, with some rights of pyftpdlib; give host and port.

    :param kind: handles a connection.
    :param anonymous: whether everybody else may read it, too.
    """
    authorizer = DummyAuthorizer()
    authorizer.add_user(USER, PASSWORD, str(folder), perm=perm)
    if anonymous:
        authorizer.add_anonymous(str(folder))
    handler = type("Handler", (kind,), {"authorizer": authorizer, "auth_failed_timeout": 0})
    loop = IOLoop()
    server = FTPServer(("127.0.0.1", 0), handler, ioloop=loop)
    stop = threading.Event()

    def serve() -> None:
        while not stop.is_set():
            loop.loop(timeout=0.01, blocking=False)
        server.close_all()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.address[1]}"
    finally:
        stop.set()
        thread.join()


@contextlib.contextmanager
def ftp_site(folder: Path, *, anonymous: bool = True) -> Iterator[FtpSite]:
    """Serve a folder, and note what is asked for; parameters as for `served_ftp`."""
    commands, left = list[str](), threading.Event()

    class Handler(FTPHandler):  # type: ignore[misc]  # has no types
        def pre_process_command(self, line: str, cmd: str, arg: str) -> None:
            commands.append(f"{cmd} {arg}")
            super().pre_process_command(line, cmd, arg)

        def on_incomplete_file_sent(self, _file: str) -> None:
            left.set()

    with served_ftp(folder, "elr", Handler, anonymous=anonymous) as netloc:
        yield FtpSite(f"ftp://{netloc}", commands, left)


def _serve(listening: socket.socket, talk: Callable[[socket.socket], None]) -> None:
    """Talk to one client after the other, until the socket is closed.

    One that breaks off is done with.
    """
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            talk(connection)


@contextlib.contextmanager
def talker(first: bytes, again: bytes = b"") -> Iterator[str]:
    """Serve octets in place of FTP: some at once, and others for as long as the client reads.

    Give the address.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    accepted: list[socket.socket] = []

    def talk(connection: socket.socket) -> None:
        accepted.append(connection)
        connection.sendall(first)
        while again:
            connection.sendall(again)
        while connection.recv(1000):
            pass

    thread = threading.Thread(target=_serve, args=(listening, talk), daemon=True)
    thread.start()
    try:
        yield f"ftp://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        for each in (
            listening,
            *accepted,
        ):  # the client may close its end when the reactor goes on, which waits for us
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()


@contextlib.contextmanager
def scripted(
    replies: Mapping[str, bytes], sent: bytes = b"", *, reset: bool = False
) -> Iterator[str]:
    """Serve one file by FTP, in passive mode, to one client at a time; give the address.

    :param replies: command -> what the server says to it, where that is not the usual thing; to
        ``RETR``, when the data connection has ended.
    :param sent: the octets that go through the data connection.
    :param reset: whether that ends with a reset.
    """
    listening, passive = (
        socket.create_server(("127.0.0.1", 0)),
        socket.create_server(("127.0.0.1", 0)),
    )
    # The sender knows by this that the client reads: with buffers so small, not much of a file fits
    # in between.
    passive.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    high, low = divmod(passive.getsockname()[1], 256)
    usual = {"USER": b"331 who", "PASS": b"230 in", "TYPE": b"200 yes", "RETR": b"226 all sent"}
    replies = {**usual, "PASV": f"227 here (127,0,0,1,{high},{low})".encode(), **replies}

    def send() -> None:
        data, _ = passive.accept()
        with data:
            data.sendall(sent)
            if reset:
                data.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def talk(connection: socket.socket) -> None:
        with connection.makefile("rb") as lines:
            connection.sendall(b"220 welcome\r\n")
            for line in lines:
                command = line.split()[0].decode()
                if command == "RETR":
                    send()
                connection.sendall(replies[command] + b"\r\n")

    thread = threading.Thread(target=_serve, args=(listening, talk), daemon=True)
    thread.start()
    try:
        yield f"ftp://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        for each in (listening, passive):  # what waits in accept() ends
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        thread.join(5)
