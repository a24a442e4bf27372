"""`scrapy robots` in a process of its own: with pipes, and on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.commands.copies import Done
from tests.example.running import ROOT

if TYPE_CHECKING:
    from pathlib import Path

TIMEOUT = 90  # seconds until a command that hangs fails its test


def environment(**more: str) -> dict[str, str]:
    """What the command finds in its environment: no proxy, since the sites are on this machine, nor a look of ours."""
    own = ("NO_COLOR", "COLUMNS", "TERM")
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy") and key not in own}
    return {**kept, "PYTHONPATH": str(ROOT), **more}


def run(*arguments: str, folder: Path, stdin: str = "") -> Done:
    """Run a command with pipes."""
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", "robots", *arguments],
        cwd=folder,
        env=environment(),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


def start(*arguments: str, folder: Path, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """Start a command with pipes, without waiting for its end."""
    return subprocess.Popen(
        [sys.executable, "-m", "scrapy", "robots", *arguments],
        cwd=folder,
        env=environment(),
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def on_terminal(*arguments: str, folder: Path, stdin: str = "", **more: str) -> Done:
    """Run a command whose output and errors go to one terminal."""
    ours, its = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "scrapy", "robots", *arguments],
        cwd=folder,
        env=environment(TERM="xterm", **more),
        stdin=subprocess.PIPE,
        stdout=its,
        stderr=its,
    )
    os.close(its)
    assert process.stdin is not None
    process.stdin.write(stdin.encode())
    process.stdin.close()
    read = b""
    try:
        while True:
            read += os.read(ours, 65_536)
    except OSError:  # the last one who had it open is gone
        os.close(ours)
    return Done(process.wait(TIMEOUT), read.decode().replace("\r\n", "\n"), "")
