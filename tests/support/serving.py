"""A server of the standard library on a thread of its own, for the sites and services of tests."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from http.server import ThreadingHTTPServer


class Served:
    """Who serves, from `begin` to `end`."""

    server: ThreadingHTTPServer
    thread: threading.Thread

    def begin(self, server: ThreadingHTTPServer) -> None:
        """Serve on a thread."""
        self.server = server
        self.thread = threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )
        self.thread.start()

    def end(self) -> None:
        """Serve no longer; the port is free afterwards."""
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
