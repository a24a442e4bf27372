"""The processes of the demo: a Redis server and the workers."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from collections.abc import Iterator

PROJECT = Path(__file__).resolve().parents[1]
REDIS_MISSING = (
    "the demo needs redis-server, which is not installed: apt install redis-server, dnf install"
    " redis, or brew install redis"
)
_ATTEMPTS = 5  # another program may take the free port first
_START_TIMEOUT = 30.0  # seconds


class NotInstalledError(Exception):
    """redis-server is not installed."""


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Run a Redis server that stores nothing on disk, and give its address.

    :raises NotInstalledError: redis-server is not installed.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise NotInstalledError(REDIS_MISSING)
    log = folder / "redis.log"
    for _ in range(_ATTEMPTS):
        port = _free_port()
        options = f"--port {port} --bind 127.0.0.1 --appendonly no --save".split()
        with log.open("ab") as file:
            process = subprocess.Popen(
                [program, *options, ""],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        try:
            if _has_started(process, port):
                yield f"redis://127.0.0.1:{port}/0"
                return
        finally:
            process.terminate()
            process.wait()
    raise RuntimeError(f"redis-server does not start: {log.read_text()[-500:]}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _has_started(process: subprocess.Popen[bytes], port: int) -> bool:
    """Wait until this process, and not another program at the port, answers."""
    client = redis.Redis(port=port)
    deadline = time.monotonic() + _START_TIMEOUT
    while process.poll() is None and time.monotonic() < deadline:
        try:
            client.ping()
        except redis.ConnectionError:
            time.sleep(0.05)
        else:
            return int(client.info("server")["process_id"]) == process.pid
        finally:
            client.close()
    return False


@dataclass(slots=True)
class Worker:
    """A Scrapy process.

    :param log: the file of its log.
    """

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, name: str, folder: Path, *, address: str, web: str) -> Worker:
        """Run ``scrapy crawl fleet``.

        :param address: the address of the Redis server.
        :param web: the address of the server that answers for all sites.
        """
        log = folder / f"worker-{name}.log"
        environment = {
            key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")
        }
        environment |= {
            "SCRAPY_PROJECT": "fleet",
            "FLEET_REDIS": address,
            "FLEET_WORKER": name,
            "http_proxy": web,
        }
        with log.open("wb") as file:
            process = subprocess.Popen(
                [sys.executable, "-m", "scrapy", "crawl", "fleet"],
                cwd=PROJECT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
            )
        return cls(name, log, process)

    @property
    def is_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    @property
    def end_of_log(self) -> str:
        """The last lines of the log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def kill(self) -> None:
        """End the process with SIGKILL, as a power failure would."""
        self.process.kill()
        self.process.wait()
