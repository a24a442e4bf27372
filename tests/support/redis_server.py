"""A real Redis server on a free port, which tests can stop and start again."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

    from redis import Redis

#: The path of the server, or ``None`` if it is not installed.
COMMAND = shutil.which("redis-server")


class RedisServer:
    """The server. It stores nothing on disk, so it is empty after a restart.

    :param options: options of redis.conf, with _ for -: ``requirepass="x"``. With a certificate,
        the server accepts only TLS.
    """

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory()
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stop()
        self._folder.cleanup()

    @property
    def url(self) -> str:
        """The address without credentials."""
        scheme = "rediss" if "tls_cert_file" in self.options else "redis"
        return f"{scheme}://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server on its previous port, or on a free one."""
        for _ in range(1 if self.port else 10):  # another process may take a free port
            port = self.port or _free_port()
            if self._started(port):
                self.port = port
                return
        raise RuntimeError("no Redis server could be started")

    def stop(self) -> None:
        """Kill the server, if it runs, and wait for its end."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            self._reader.join()
            assert process.stdout is not None
            process.stdout.close()

    def freeze(self) -> None:
        self._send(signal.SIGSTOP)

    def thaw(self) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def _started(self, port: int) -> bool:
        assert COMMAND is not None
        ports = {"port": 0, "tls_port": port} if "tls_cert_file" in self.options else {"port": port}
        options = {
            **ports,
            "bind": "127.0.0.1",
            "save": "",
            "dir": self._folder.name,
            **self.options,
        }
        words = [
            word
            for key, value in options.items()
            for word in (f"--{key.replace('_', '-')}", str(value))
        ]
        self._process = subprocess.Popen(
            [COMMAND, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        ready = threading.Event()
        self._reader = threading.Thread(target=self._read, args=(self._process, ready), daemon=True)
        self._reader.start()
        ready.wait()
        if self._process.poll() is None:
            return True
        self.stop()
        return False

    def _read(self, process: subprocess.Popen[str], ready: threading.Event) -> None:
        """Read all output, so that the server is never blocked."""
        assert process.stdout is not None
        for line in process.stdout:
            if "Ready to accept connections" in line:
                ready.set()
        process.wait()
        ready.set()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def pass_by(client: Redis, seconds: float) -> None:
    """Wait for some time by the clock of a Redis server, for an item of an empty list."""
    assert client.blpop(["nothing"], timeout=max(seconds, 0.001)) is None
