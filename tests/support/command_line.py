"""`scrapy robots` as Scrapy's command line runs it: in the process of the tests, or in one of its
own.

`run` and `on_terminal` run it here, with streams that are files or a terminal, and its crawls in
the reactor of the tests. `launch` and `start` have Python begin anew, as a user's shell does: for
Ctrl-C, other reactors, locales.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import pty
import signal
import subprocess
import sys
import threading
from dataclasses import replace
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

from scrapy_robots_rfc.commands import common
from tests.support.command_copies import Done
from tests.support.example_project import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from _typeshed import ReadableBuffer, WriteableBuffer
    from scrapy.settings import Settings

TIMEOUT = 90  # seconds until a command that hangs fails its test
COMMAND = (sys.executable, "-m", "scrapy", "robots")

#: What is installed does not change here: each command would read the files of all packages again.
_entry_points = cache(entry_points)


class HereProcess(AsyncCrawlerRunner):
    """Crawls in the reactor of the tests, in place of `AsyncCrawlerProcess`, which starts one of
    its own.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        log.configure_logging(settings)

    def start(self) -> None:
        """Wait for the crawl."""
        blockon(deferred_from_coro(self.join()))


def environment(**more: str) -> dict[str, str]:
    """What the command finds in its environment.

    No proxy, since the sites are on this machine, nor our own looks.
    """
    own = ("NO_COLOR", "COLUMNS", "TERM", "PYTHONUNBUFFERED")
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.lower().endswith("_proxy") and key not in own
    }
    return {**inherited, "PYTHONPATH": str(ROOT), **more}


def run(
    *arguments: str,
    folder: Path | None = None,
    stdin: str | bytes | int = "",
    together: bool = False,
    stdout: int | None = None,
    stderr: int | None = None,
    environ: Mapping[str, str] | None = None,
    interrupted: str = "",
) -> Done:
    """Run ``scrapy robots``.

    :param folder: in which; ``None``: in the present one.
    :param stdin: a text, or an open file.
    :param together: its errors go where its output goes.
    :param stdout: where its output goes instead.
    :param stderr: the same for its errors.
    :param environ: what stands in its environment beside.
    :param interrupted: the name of the stream at whose use Ctrl-C is pressed, if any: see
        `_Interrupting`.
    """
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        if not isinstance(stdin, int):
            given.write(stdin.encode() if isinstance(stdin, str) else stdin)
            given.seek(0)
            stdin = given.fileno()
        streams = (stdin, stdout or out.fileno(), stderr or (out if together else err).fileno())
        code = _execute(("robots", *arguments), folder, streams, environ or {}, interrupted)
        return Done(code, _written(out), _written(err))


def _written(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


def on_terminal(*arguments: str, folder: Path, stdin: str = "", **more: str) -> Done:
    """Run a command whose output and errors go to one terminal."""
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
    """Read until the last one who had it open is gone."""
    with contextlib.suppress(OSError):
        while True:
            read.append(os.read(terminal, 65_536))


def scrapy(*arguments: str, folder: Path, **more: str) -> Done:
    """Run a command of Scrapy's own."""
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        code = _execute(arguments, folder, (given.fileno(), out.fileno(), err.fileno()), more)
        return Done(code, _written(out), _written(err))


def _execute(
    arguments: tuple[str, ...],
    folder: Path | None,
    streams: tuple[int, int, int],
    more: Mapping[str, str],
    interrupted: str = "",
) -> int:
    """Run a command line with these standard streams; return the exit code."""
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        stack.enter_context(_left_as_it_was(folder))
        if folder is not None:
            patch.chdir(folder)
            patch.syspath_prepend(str(folder))
        there = environment(**more)
        os.environ.clear()
        os.environ.update(there)
        for module in (common, cmdline):
            patch.setattr(module, "AsyncCrawlerProcess", HereProcess)
        patch.setattr(cmdline, "entry_points", _entry_points)
        patch.setattr(log, "_scrapy_root_handler", None)
        patch.setattr(PythonLoggingObserver, "start", lambda _: None)  # nothing would stop it
        for name, number in zip(("stdin", "stdout", "stderr"), streams, strict=True):
            raw = (_Interrupting if name == interrupted else io.FileIO)(
                os.dup(number), "r" if name == "stdin" else "w"
            )
            buffer: Any = io.BufferedReader(raw) if name == "stdin" else io.BufferedWriter(raw)
            how: Any = (
                {"errors": "backslashreplace", "line_buffering": True} if name == "stderr" else {}
            )
            patch.setattr(sys, name, stack.enter_context(io.TextIOWrapper(buffer, **how)))
        try:
            cmdline.execute(["scrapy", *arguments])
        except SystemExit as end:
            return int(end.code or 0)
        raise AssertionError("a command ends the process")


@contextlib.contextmanager
def _left_as_it_was(folder: Path | None) -> Iterator[None]:
    """Take out again what a command leaves in a process.

    Environment, handlers of logs, the modules of a project.
    """
    there = dict(os.environ)
    handlers, level, modules, path = (
        logging.root.handlers[:],
        logging.root.level,
        set(sys.modules),
        sys.path[:],
    )
    try:
        yield
    finally:
        logging.root.handlers[:] = handlers
        logging.root.setLevel(level)
        logging.captureWarnings(False)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(there)
        for name in sys.modules.keys() - modules:
            if folder is not None and str(getattr(sys.modules[name], "__file__", "")).startswith(
                str(folder)
            ):
                del sys.modules[name]


def launch(*arguments: str, folder: Path, stdin: str | bytes = "", **more: str) -> Done:
    """Run a command in a process of its own, with pipes.

    :param more: what stands in its environment beside.
    """
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(**more),
        input=stdin if isinstance(stdin, bytes) else stdin.encode(),
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Done(done.returncode, done.stdout.decode(), done.stderr.decode())


def start(*arguments: str, folder: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start a command in a process of its own with pipes, without waiting for its end."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_one_line(*arguments: str, folder: Path, stdin: str = "") -> tuple[str, int, str]:
    """Run a command here, of whose output a line is read and no more.

    Return that, the exit code, and the errors.
    """
    ours, its = os.pipe()
    lines: list[str] = []

    def read() -> None:
        with os.fdopen(ours) as output:
            lines.append(output.readline())

    with _beside(read):
        done = run(*arguments, folder=folder, stdin=stdin, stdout=its)
        os.close(its)
    return lines[0], done.code, done.err


def stopped_while_printing(*arguments: str, folder: Path) -> Done:
    """Run a command here, and send it the signal of Ctrl-C when it begins to write its output."""
    with _interruptible():
        return run(*arguments, folder=folder, interrupted="stdout")


def stopped_while_reading(*arguments: str, folder: Path) -> Done:
    """Run a command here, and send it the signal of Ctrl-C when it has read a part of its
    standard input.
    """
    with _interruptible():
        return run(*arguments, folder=folder, stdin=_BLANK, interrupted="stdin")


#: Blank lines, which every topic passes over; more than is read at a time.
_BLANK = b"\n" * 200_000


class _Interrupting(io.FileIO):
    """A file that sends this process the signal of Ctrl-C: at the first write, or at the second
    read.

    The handler of the signal runs before the call ends, so the signal meets the command, and
    nothing that comes later.
    """

    _calls = 0

    def write(self, octets: ReadableBuffer, /) -> int:
        """Send the signal."""
        self._count(1)
        return super().write(octets)

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Read; send the signal if that was done before."""
        self._count(2)
        return super().readinto(buffer)

    def _count(self, last: int) -> None:
        self._calls += 1
        if self._calls == last:
            signal.raise_signal(signal.SIGINT)


@contextlib.contextmanager
def _beside(function: Callable[[], None]) -> Iterator[None]:
    """Run a function on a thread, which has to end, too."""
    thread = threading.Thread(target=function)
    thread.start()
    yield
    thread.join(TIMEOUT)
    assert not thread.is_alive()


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Have the signal of Ctrl-C raise KeyboardInterrupt, as where Python has just begun.

    If it is left over, fail.
    """
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        raise AssertionError(
            "the command did not end by Ctrl-C itself"
        ) from None  # else the run of tests would end
    finally:
        signal.signal(signal.SIGINT, handler)
