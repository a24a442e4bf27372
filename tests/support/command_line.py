"""Run `scrapy robots` by Scrapy's command line.

`run` and `on_terminal` use this process and its reactor, which is fast. `launch` and `start` use a
new process, which Ctrl-C, other reactors and locales need.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import entry_points
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

import pytest
from pytest_twisted import blockon
from scrapy import cmdline
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.utils import log
from scrapy.utils.defer import deferred_from_coro
from twisted.python.log import PythonLoggingObserver

from scrapy_robots_rfc.cache.entry import CacheEntry, Validators, encode
from scrapy_robots_rfc.commands import common
from scrapy_robots_rfc.policy.access import Outcome
from tests.support.entries import made
from tests.support.processes import environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from _typeshed import ReadableBuffer, WriteableBuffer
    from scrapy.settings import Settings

    from scrapy_robots_rfc.cache.stores.base import Store


TIMEOUT = 90  # seconds
COMMAND = (sys.executable, "-m", "scrapy", "robots")

#: Cached, because each command would read the metadata of all packages again.
_entry_points = cache(entry_points)


class HereProcess(AsyncCrawlerRunner):
    """Replaces `AsyncCrawlerProcess`, and crawls in the running reactor."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        log.configure_logging(settings)

    def start(self) -> None:
        blockon(deferred_from_coro(self.join()))


def run(
    *arguments: str,
    command: str = "robots",
    folder: Path | None = None,
    stdin: str | bytes | int = "",
    together: bool = False,
    stdout: int | None = None,
    stderr: int | None = None,
    environ: Mapping[str, str] | None = None,
    interrupted: str = "",
) -> Done:
    """Run ``scrapy robots``, or another command of Scrapy.

    :param folder: the working directory, or ``None`` for the current one.
    :param stdin: a text, or the number of an open file.
    :param together: whether stderr goes to stdout.
    :param stdout: the number of an open file.
    :param stderr: the number of an open file.
    :param environ: more environment variables.
    :param interrupted: the name of the stream whose use sends SIGINT, see `_Interrupting`.
    """
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        if not isinstance(stdin, int):
            given.write(stdin.encode() if isinstance(stdin, str) else stdin)
            given.seek(0)
            stdin = given.fileno()
        streams = (stdin, stdout or out.fileno(), stderr or (out if together else err).fileno())
        code = _execute((command, *arguments), folder, streams, environ or {}, interrupted)
        return Done(code, _written(out), _written(err))


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def on_terminal(*arguments: str, folder: Path, stdin: str = "", **more: str) -> Done:
    """Run a command with stdout and stderr on a terminal."""
    ours, its = pty.openpty()
    read: list[bytes] = []
    reader = threading.Thread(target=_read_all, args=(ours, read))
    reader.start()
    try:
        looks = {"TERM": "xterm", **more}
        done = run(*arguments, folder=folder, stdin=stdin, stdout=its, stderr=its, environ=looks)
    finally:
        os.close(its)
        reader.join()
        os.close(ours)
    return replace(done, out=b"".join(read).decode().replace("\r\n", "\n"))


def _read_all(terminal: int, read: list[bytes]) -> None:
    """Read until the other end is closed."""
    with contextlib.suppress(OSError):
        while True:
            read.append(os.read(terminal, 65_536))


def _execute(
    arguments: tuple[str, ...],
    folder: Path | None,
    streams: tuple[int, int, int],
    more: Mapping[str, str],
    interrupted: str,
) -> int:
    """Run a command line with these standard streams, and return the exit code."""
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        stack.enter_context(_restored(folder))
        if folder is not None:
            patch.chdir(folder)
            patch.syspath_prepend(str(folder))
        variables = environment(**more)
        os.environ.clear()
        os.environ.update(variables)
        for module in (common, cmdline):
            patch.setattr(module, "AsyncCrawlerProcess", HereProcess)
        patch.setattr(cmdline, "entry_points", _entry_points)
        patch.setattr(log, "_scrapy_root_handler", None)
        patch.setattr(PythonLoggingObserver, "start", lambda _: None)  # it would never stop
        of_stderr: Any = {"errors": "backslashreplace", "line_buffering": True}
        for name, number in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            raw = (_Interrupting if name == interrupted else io.FileIO)(
                os.dup(number), "r" if name == "stdin" else "w"
            )
            buffer: Any = io.BufferedReader(raw) if name == "stdin" else io.BufferedWriter(raw)
            options = of_stderr if name == "stderr" else {}
            patch.setattr(sys, name, stack.enter_context(io.TextIOWrapper(buffer, **options)))
        try:
            cmdline.execute(["scrapy", *arguments])
        except SystemExit as end:
            return int(end.code or 0)
        raise AssertionError("the command did not exit")


@contextlib.contextmanager
def _restored(folder: Path | None) -> Iterator[None]:
    """Restore the environment, logging, and the modules of a project."""
    variables, modules, path = dict(os.environ), set(sys.modules), sys.path[:]
    handlers, level = logging.root.handlers[:], logging.root.level
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        logging.captureWarnings(False)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(variables)
        for name in sys.modules.keys() - modules:
            file = str(getattr(sys.modules[name], "__file__", ""))
            if folder is not None and file.startswith(str(folder)):
                del sys.modules[name]


def launch(*arguments: str, folder: Path, stdin: str = "", **more: str) -> Done:
    """Run a command in a new process to its end."""
    with start(*arguments, folder=folder, stdin=subprocess.PIPE, **more) as process:
        out, err = process.communicate(stdin, timeout=TIMEOUT)
    return Done(process.returncode, out, err)


def start(
    *arguments: str, folder: Path, stdin: int = subprocess.DEVNULL, **more: str
) -> subprocess.Popen[str]:
    """Start a command in a new process, with pipes.

    :param more: more environment variables.
    """
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(**more),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="surrogateescape",
    )


def unread(*arguments: str, folder: Path, stdin: str = "") -> Done:
    """Run a command whose reader has closed the output."""
    ours, its = os.pipe()
    os.close(ours)
    try:
        return run(*arguments, folder=folder, stdin=stdin, stdout=its)
    finally:
        os.close(its)


def stopped(*arguments: str, folder: Path, stream: str) -> Done:
    """Run a command, and send SIGINT when it has read a part of stdin, or starts to print.

    Stdin has blank lines, which every command ignores; more than one read returns.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return run(*arguments, folder=folder, stdin=b"\n" * 200_000, interrupted=stream)
    except KeyboardInterrupt:
        # Another exception, because KeyboardInterrupt would stop pytest.
        raise AssertionError("the command did not handle Ctrl-C") from None
    finally:
        signal.signal(signal.SIGINT, handler)


class _Interrupting(io.FileIO):
    """A file that raises SIGINT in this process at the first write, or at the second read.

    The handler runs before the call returns, so the signal interrupts the command.
    """

    _reads = 0

    def write(self, data: ReadableBuffer, /) -> int:
        signal.raise_signal(signal.SIGINT)
        return super().write(data)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Raise the signal the second time, and read."""
        self._reads += 1
        if self._reads == 2:
            signal.raise_signal(signal.SIGINT)
        return super().readinto(buffer)


HOUR, DAY = 3600.0, 86_400.0


@dataclass(frozen=True)
class Done:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def records(self) -> list[Any]:
        """The objects that --json prints, one per line."""
        return [json.loads(line) for line in self.lines]


NOW = time.time()
THEN = NOW - 2 * HOUR
OPEN = made(Outcome.SUCCESSFUL, 200, "200", THEN, NOW + 22 * HOUR, THEN)._replace(
    validators=Validators("http://a.example/robots.txt", b'"v1"', b"Tue, 14 Nov 2023 22:13:20 GMT"),
    body=b"User-agent: *\nDisallow: /x\n",
)
MISSING = made(Outcome.UNAVAILABLE, 404, "404", NOW - 2 * DAY, NOW - DAY)
CLOSED = made(
    Outcome.UNREACHABLE, None, "DownloadTimeoutError", NOW - 60, NOW + 240, None, NOW - DAY
)


def fill(store: Store, **copies: CacheEntry) -> None:
    """Put entries of hosts into a store."""
    for host, copy in copies.items():
        store.put(f"http://{host}.example", encode(copy), DAY)
