"""The processes of the demo: a Redis server of its own, and the workers. None of them outlives the
demo.

This file starts and ends them. What the workers do is in `spider.py` and `settings.py`.
"""

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
HOW_TO_INSTALL = (
    "this demo needs redis-server, which is not installed: `apt install redis-server`, `dnf install"
    " redis`, `brew install redis`, or as your system does it"
)
_ATTEMPTS = 5  # another program may take the free port first
_STARTING = 10.0  # seconds


class NotInstalledError(Exception):
    """There is no redis-server on this machine."""


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """Start a Redis server on a free port of this machine, which stores nothing on disk, and give
    its address.

    :raises NotInstalledError: there is none to start.
    """
    program = shutil.which("redis-server")
    if program is None:
        raise NotInstalledError(HOW_TO_INSTALL)
    for _ in range(_ATTEMPTS):
        port = _free_port()
        command = [
            program,
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        with (folder / "redis.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            if _answers(process, port):
                yield f"redis://127.0.0.1:{port}/0"
                return
        finally:
            process.terminate()
            process.wait()
    raise RuntimeError(f"redis-server does not start: {(folder / 'redis.log').read_text()[-500:]}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    """Whether a server that was started answers; false when it has ended."""
    client = redis.Redis(port=port)
    until = time.monotonic() + _STARTING
    while process.poll() is None and time.monotonic() < until:
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

    :param log: what it says.
    """

    name: str
    log: Path
    process: subprocess.Popen[bytes]

    @classmethod
    def start(cls, name: str, folder: Path, *, address: str, web: str) -> Worker:
        """Start ``scrapy crawl fleet``.

        :param address: of the Redis server.
        :param web: of the server that answers for all sites.
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
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self.process.poll() is None

    @property
    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-2000:]

    def kill(self) -> None:
        """End it as a power failure would: it cleans nothing up."""
        self.process.kill()
        self.process.wait()
