"""`scrapy robots` in a process of its own: with streams that are files, with pipes, and on a terminal.

`run` and `on_terminal` have it forked from a process that has imported Scrapy (`forks.py`); `launch` and `start` have
Python begin anew, as a user's shell does: every topic is begun so at least once.
"""

from __future__ import annotations

import atexit
import os
import pty
import subprocess
import sys
from functools import cache
from tempfile import TemporaryFile
from typing import TYPE_CHECKING

from tests.commands.copies import Done
from tests.commands.forks import Forks
from tests.example.running import ROOT

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT = 90  # seconds until a command that hangs fails its test
COMMAND = (sys.executable, "-m", "scrapy", "robots")


def environment(**more: str) -> dict[str, str]:
    """What the command finds in its environment: no proxy, since the sites are on this machine, nor our own looks."""
    own = ("NO_COLOR", "COLUMNS", "TERM", "PYTHONUNBUFFERED")
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy") and key not in own}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


@cache
def forks() -> Forks:
    """The process that forks, for all tests."""
    made = Forks()
    atexit.register(made.close)
    return made


def run(
    *arguments: str,
    folder: Path,
    stdin: str = "",
    together: bool = False,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Done:
    """Run a command.

    :param together: its errors go where its output goes.
    :param stdout: where its output goes instead.
    :param stderr: the same for its errors.
    """
    with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
        given.write(stdin.encode())
        given.seek(0)
        streams = (given.fileno(), stdout or out.fileno(), stderr or (out if together else err).fileno())
        forks().begin(("robots", *arguments), folder=folder, environment=environment(), streams=streams)
        code = forks().wait()
        out.seek(0)
        err.seek(0)
        return Done(code, out.read().decode(), err.read().decode())


def launch(*arguments: str, folder: Path, stdin: str | bytes = "", **more: str) -> Done:
    """Run a command, begun by Python, with pipes.

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
    """Start a command with pipes, without waiting for its end."""
    return subprocess.Popen(
        [*COMMAND, *arguments],
        cwd=folder,
        env=environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def read_one_line(process: subprocess.Popen[str]) -> tuple[str, int, str]:
    """Read a line of a command's output, and no more of it; return that, its exit code and its errors."""
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        return line, process.wait(TIMEOUT), process.stderr.read()


def on_terminal(*arguments: str, folder: Path, stdin: str = "", anew: bool = False, **more: str) -> Done:
    """Run a command whose output and errors go to one terminal.

    :param anew: begun by Python.
    :param more: what stands in its environment beside.
    """
    ours, its = pty.openpty()
    there = environment(**{"TERM": "xterm", **more})
    with TemporaryFile() as given:
        given.write(stdin.encode())
        given.seek(0)
        if anew:
            process = subprocess.Popen(
                [*COMMAND, *arguments], cwd=folder, env=there, stdin=given, stdout=its, stderr=its
            )
        else:
            streams = (given.fileno(), its, its)
            forks().begin(("robots", *arguments), folder=folder, environment=there, streams=streams)
    os.close(its)
    read = b""
    try:
        while True:
            read += os.read(ours, 65_536)
    except OSError:  # the last one who had it open is gone
        os.close(ours)
    code = process.wait(TIMEOUT) if anew else forks().wait()
    return Done(code, read.decode().replace("\r\n", "\n"), "")
