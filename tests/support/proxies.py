"""A proxy on a free port that forwards http and opens tunnels, or refuses. It runs in threads."""

from __future__ import annotations

import contextlib
import socket
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from typing import Self


@dataclass
class Proxy:
    """The proxy.

    :param refuses: the status line of every answer, or an empty string to forward requests.
    """

    refuses: str = ""
    #: The first line of each request.
    asked: list[str] = field(default_factory=list)
    #: Local ports of sites, by host names that do not resolve.
    names: dict[str, int] = field(default_factory=dict)

    def __enter__(self) -> Self:
        self._server = socket.create_server(("127.0.0.1", 0), backlog=100)
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()

    @property
    def netloc(self) -> str:
        return f"127.0.0.1:{self._server.getsockname()[1]}"

    def _serve(self) -> None:
        with contextlib.suppress(OSError):  # until closed
            while True:
                client, _ = self._server.accept()
                threading.Thread(target=self._one, args=(client,), daemon=True).start()

    def _one(self, client: socket.socket) -> None:
        with contextlib.suppress(OSError), client:
            head = b""
            while b"\r\n\r\n" not in head:
                data = client.recv(65536)
                if not data:
                    return
                head += data
            first, _, rest = head.partition(b"\r\n")
            self.asked.append(first.decode())
            if self.refuses:
                answer = (
                    f"HTTP/1.1 {self.refuses}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                )
                client.sendall(answer.encode())
                return
            method, target, version = first.decode().split()
            tunnel = method == "CONNECT"
            parts = urlsplit(f"//{target}" if tunnel else target)
            assert parts.hostname is not None
            address = (parts.hostname, parts.port or 80)
            if parts.hostname in self.names:
                address = ("127.0.0.1", self.names[parts.hostname])
            with socket.create_connection(address) as server:
                if tunnel:
                    client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                else:
                    path = f"{parts.path or '/'}{'?' if parts.query else ''}{parts.query}"
                    fields = [
                        line
                        for line in rest.split(b"\r\n")
                        if not line.lower().startswith(b"connection:")
                    ]
                    close = b"\r\nConnection: close\r\n"
                    server.sendall(
                        f"{method} {path} {version}".encode() + close + b"\r\n".join(fields)
                    )
                threading.Thread(target=_pump, args=(client, server), daemon=True).start()
                _pump(server, client)


def _pump(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


_UNUSED: list[socket.socket] = []


def dead() -> str:
    """Return the host and port of a proxy that does not exist, so connections are refused."""
    # It stays bound, so that no server gets its port, but it doesn't listen.
    unused = socket.socket()
    unused.bind(("127.0.0.1", 0))
    _UNUSED.append(unused)
    return f"127.0.0.1:{unused.getsockname()[1]}"
