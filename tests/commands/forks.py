"""A process that has imported Scrapy, and makes a process of its own for each command line that it is sent.

Most of what a short command costs is importing Scrapy and Twisted. A fork of a process that has done so is a process
like any other: with streams, a folder, an environment, settings, an exit code and an end of its own. In here: the
process that forks, and how it is asked. That it makes no difference is `test_forks.py`.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from tests.example.running import ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_AT_ONCE = 65_536  # octets that are read at once
_TIMEOUT = 90  # seconds until a command that hangs is ended

#: What Scrapy loads for every crawl, by the settings that name it, and what its command line loads for every command.
_TABLES = ("DOWNLOAD_HANDLERS_BASE", "DOWNLOADER_MIDDLEWARES_BASE", "EXTENSIONS_BASE", "SPIDER_MIDDLEWARES_BASE")
_MODULES = ("scrapy.cmdline", "scrapy.shell", "scrapy.pqueues", "scrapy.squeues", "scrapy_robots_rfc.commands.robots")
_REACTORS = ("twisted.internet.asyncioreactor", "twisted.internet.selectreactor")


class Forks:
    """The process that forks; it ends when this is closed."""

    def __init__(self) -> None:
        self._ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.commands.forks", str(its.fileno())], cwd=ROOT, pass_fds=[its.fileno()]
            )

    def begin(
        self, arguments: Sequence[str], *, folder: Path, environment: Mapping[str, str], streams: Sequence[int]
    ) -> None:
        """Begin a command of Scrapy's; one at a time.

        :param streams: its standard input, output and error.
        """
        request = {"arguments": arguments, "folder": str(folder), "environment": dict(environment)}
        line = json.dumps(request).encode() + b"\n"
        self._ours.sendall(line[socket.send_fds(self._ours, [line], streams) :])

    def wait(self) -> int:
        """Return the exit code of the command, when it has ended; what hangs is ended by a signal."""
        return int(self._ours.recv(_AT_ONCE) or b"-1")

    def close(self) -> None:
        """End the process."""
        self._ours.close()
        self._process.wait()


# In the process that forks.


def _import() -> None:
    for name in _MODULES + _REACTORS:
        import_module(name)
    from scrapy.settings import Settings  # noqa: PLC0415 - only here, where it may take its time

    for table in _TABLES:
        for path in Settings().getdict(table).values() if "HANDLERS" in table else Settings().getdict(table):
            with suppress(ImportError):  # what is not installed, a crawl does without
                import_module(path.rpartition(".")[0])
    assert "twisted.internet.reactor" not in sys.modules  # each command chooses its own
    gc.freeze()  # what all of them share is never looked through


def serve(asked: socket.socket) -> None:
    """Fork for each command line; answer with its exit code."""
    _import()
    while True:
        request, streams = _request(asked)
        if not request:
            return
        child = os.fork()
        if child == 0:
            asked.close()
            _become(json.loads(request), streams)
        for stream in streams:
            os.close(stream)
        _, status = os.waitpid(child, 0)
        asked.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _request(asked: socket.socket) -> tuple[bytes, Sequence[int]]:
    request, streams, _, _ = socket.recv_fds(asked, _AT_ONCE, 3)
    while request and not request.endswith(b"\n"):
        request += asked.recv(_AT_ONCE)
    return request, streams


def _become(request: dict[str, Any], streams: Sequence[int]) -> NoReturn:
    """Run `scrapy` as `python -m scrapy` does, and end as that does."""
    signal.alarm(_TIMEOUT)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[0] = request["folder"]
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - they stay open to the end
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115 - as above
    sys.stderr = open(2, "w", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115 - as above
    sys.argv = ["scrapy", *request["arguments"]]
    try:
        import_module("scrapy.cmdline").execute()
    except SystemExit as error:
        _end(error.code)
        raise
    raise SystemExit


def _end(code: object) -> None:
    """End the process where all is said and done: taking its modules down, unseen, costs more than most commands."""
    if not (code is None or isinstance(code, int)) or threading.active_count() > 1:
        return
    with suppress(OSError):  # what could not be written, Python says in its own way
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code or 0)


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as end:
        serve(end)
