"""A real FTP server, and a scripted one, on free ports."""

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
    :param commands: the commands of clients, such as ``RETR /robots.txt``.
    :param left: set when a client has disconnected before the end of a file.
    """

    address: str
    commands: list[str]
    left: threading.Event

    def url(self, target: str) -> str:
        return f"{self.address}{target}"

    @property
    def retrieved(self) -> list[str]:
        """The paths of the files that clients requested."""
        return [
            command.partition(" ")[2] for command in self.commands if command.startswith("RETR ")
        ]


@contextlib.contextmanager
def served_ftp(
    folder: Path, perm: str, kind: type[FTPHandler] = FTPHandler, *, anonymous: bool = False
) -> Iterator[str]:
    """Serve a folder to `USER`, with permissions of pyftpdlib; yield host and port.

    :param kind: the handler of connections.
    :param anonymous: whether anonymous users may read the folder, too.
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
    """Serve a folder, and record commands; parameters as for `served_ftp`."""
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
    """Talk to one client after another, until the socket is closed."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection, contextlib.suppress(OSError):
            talk(connection)


@contextlib.contextmanager
def _talking(talk: Callable[[socket.socket], None], others: list[socket.socket]) -> Iterator[str]:
    """Talk to clients, and yield the address.

    :param others: sockets that are closed at the end, too.
    """
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=_serve, args=(listening, talk), daemon=True)
    thread.start()
    try:
        yield f"ftp://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        for each in (listening, *others):  # accept() and recv() end
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        thread.join(5)


def talker(first: bytes, again: bytes = b"") -> contextlib.AbstractContextManager[str]:
    """Serve bytes that are not FTP: `first` once, `again` repeatedly."""
    # The client cannot close its end, because the reactor waits for the end of the context.
    accepted: list[socket.socket] = []

    def talk(connection: socket.socket) -> None:
        accepted.append(connection)
        connection.sendall(first)
        while again:
            connection.sendall(again)
        while connection.recv(1000):
            pass

    return _talking(talk, accepted)


def scripted(
    replies: Mapping[str, bytes], sent: bytes = b"", *, reset: bool = False
) -> contextlib.AbstractContextManager[str]:
    """Serve one file by FTP in passive mode, to one client at a time.

    :param replies: unusual replies by command; to ``RETR`` after the data connection has ended.
    :param sent: the bytes that are sent through the data connection.
    :param reset: whether the data connection ends with a reset.
    """
    passive = socket.create_server(("127.0.0.1", 0))
    # With a small buffer, little of a file is sent before the client reads.
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

    return _talking(talk, [passive])
