"""Run a server of the standard library in a thread."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer


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
