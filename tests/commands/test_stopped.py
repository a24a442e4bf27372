"""Ctrl-C in `scrapy robots`, wherever it is: while it reads, while it prints, in its crawl and behind it.

A process that is sent more than a pipe holds goes on reading; one whose output is not read yet goes on printing.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import IO, TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.commands.copies import OPEN, fill
from tests.commands.running import TIMEOUT, start
from tests.support.site import Site
from tests.support.site import robots as file

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

#: Blank lines, which every topic passes over.
BLANK = b"\n" * 200_000
#: As output, more than a pipe and the buffers before it hold.
MANY = 5000
STORE = "sqlite:///robots.sqlite"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with files that there is much to say about."""
    (tmp_path / "robots.txt").write_text("User-agent: *\n" + "Disallow: z\n" * MANY)
    (tmp_path / "other.txt").write_text("User-agent: *\n" + "".join(f"Disallow: /{n}\n" for n in range(MANY)))
    (tmp_path / "urls").write_text("https://a.example/x\n" * MANY)
    store = SqliteStore(tmp_path / "robots.sqlite")
    store.open()
    fill(store, **{f"a{number}": OPEN for number in range(MANY)})
    store.close()
    return tmp_path


def stopped(process: subprocess.Popen[str], given: IO[bytes] | None = None) -> tuple[int, str]:
    """Send the signal of Ctrl-C to a process; return its exit code and its errors.

    A signal that comes right before a call that waits does not end that call, so what it waits for follows.

    :param given: what it reads.
    """
    process.send_signal(signal.SIGINT)
    if given is not None:
        with contextlib.suppress(BrokenPipeError):
            given.write(BLANK)
    try:
        _, err = process.communicate(timeout=TIMEOUT)
        return process.returncode, err
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),  # as all that read URLs or a robots.txt
        ("report", "-"),
        ("cache", "import", "--store", STORE),
    ],
    ids=" ".join,
)
def test_reading(arguments: tuple[str, ...], folder: Path) -> None:
    """While a command reads, Ctrl-C ends it with one line and the exit code 2."""
    ours, its = os.pipe()
    process = start(*arguments, folder=folder, stdin=ours)
    os.close(ours)
    with os.fdopen(its, "wb", 0) as given:
        given.write(BLANK)  # which ends when most of it was read
        assert stopped(process, given) == (2, f"scrapy robots {arguments[0]}: stopped\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "-", "--robots", "{site}"),  # it prints within its crawl
        ("check", "-", "-s", 'ROBOTSTXT_OVERRIDES={{"https://a.example": "other.txt"}}'),
        ("lint", "{site}"),  # behind its crawl
        ("diff", "robots.txt", "other.txt"),  # without a crawl
        ("cache", "export", "--store", STORE),
    ],
    ids=" ".join,
)
def test_printing(arguments: tuple[str, ...], folder: Path) -> None:
    """While a command prints, Ctrl-C ends it all the same."""
    with Site({"/other.txt": file((folder / "robots.txt").read_text())}) as site:
        filled = [argument.format(site=site.url("/other.txt")) for argument in arguments]
        with (folder / "urls").open() as urls:
            process = start(*filled, folder=folder, stdin=urls.fileno())
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)
        assert stopped(process) == (2, f"scrapy robots {arguments[0]}: stopped\n")


def test_without_a_reactor(folder: Path) -> None:
    """A crawl without Twisted's reactor, or with another one, is stopped the same way while it prints."""
    for setting in ("TWISTED_REACTOR_ENABLED=0", "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"):
        with (folder / "urls").open() as urls:
            overrides = 'ROBOTSTXT_OVERRIDES={"https://a.example": "other.txt"}'
            process = start("check", "-s", overrides, "-s", setting, folder=folder, stdin=urls.fileno())
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)
        assert stopped(process) == (2, "scrapy robots check: stopped\n")
