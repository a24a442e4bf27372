"""Ctrl-C in `scrapy robots`: while it reads, prints, or crawls.

Commands that crawl run in their own process, because a crawl sets signal handlers.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support.command_line import (
    OPEN,
    TIMEOUT,
    fill,
    start,
    stopped_while_printing,
    stopped_while_reading,
)
from tests.support.site import Site, robots as file

if TYPE_CHECKING:
    from pathlib import Path

#: As output, more than fits into a pipe and the buffers before it.
MANY = 1000
#: A copy of a long file.
LONG = OPEN._replace(body=b"#" * 5000)
STORE = "sqlite:///robots.sqlite"
OVERRIDES = 'ROBOTS_OVERRIDES={"https://a.example": "other.txt"}'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files that give long outputs."""
    (tmp_path / "robots.txt").write_text("User-agent: *\n" + "Disallow: z\n" * MANY)
    (tmp_path / "other.txt").write_text(
        "User-agent: *\n" + "".join(f"Disallow: /{n}\n" for n in range(MANY))
    )
    (tmp_path / "urls").write_text("https://a.example/x\n" * MANY)
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("check",),  # like all that read URLs or a robots.txt
        ("report", "-"),
    ],
    ids=" ".join,
)
def test_stopped_while_it_reads(arguments: tuple[str, ...], folder: Path) -> None:
    """Ctrl-C while a command reads ends it with one line, and exit code 2."""
    done = stopped_while_reading(*arguments, folder=folder)
    assert (done.code, done.err) == (2, f"scrapy robots {arguments[0]}: stopped\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", "robots.txt"),
        ("cache", "ls", "--store", STORE),
    ],
    ids=lambda arguments: arguments[0],
)
def test_stopped_while_it_prints(arguments: tuple[str, ...], folder: Path) -> None:
    """Ctrl-C while a command prints ends it with one line and exit code 2."""
    if arguments[0] == "cache":
        store = SqliteStore(folder / "robots.sqlite")
        store.open()
        fill(store, **{f"a{number}": LONG for number in range(40)})
        store.close()
    done = stopped_while_printing(*arguments, folder=folder)
    assert (done.code, done.err) == (2, f"scrapy robots {arguments[0]}: stopped\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", "{site}"),  # it prints after its crawl
        ("check", "-s", OVERRIDES),  # within its crawl
        ("check", "-s", OVERRIDES, "-s", "TWISTED_REACTOR_ENABLED=0"),
        (
            "check",
            "-s",
            OVERRIDES,
            "-s",
            "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor",
        ),
    ],
    ids=["lint", "check", "no reactor", "another reactor"],
)
def test_stopped_during_or_after_a_crawl(arguments: tuple[str, ...], folder: Path) -> None:
    """Ctrl-C during or after the crawl ends a command in the same way, with every reactor."""
    with Site({"/robots.txt": file((folder / "robots.txt").read_text())}) as site:
        filled = [argument.replace("{site}", site.url("/")) for argument in arguments]
        with (folder / "urls").open() as urls:
            process = start(*filled, folder=folder, stdin=urls.fileno())
        assert process.stdout is not None
        os.read(process.stdout.fileno(), 1)
        process.send_signal(signal.SIGINT)
        try:
            _, err = process.communicate(timeout=TIMEOUT)
        finally:
            process.kill()
            process.wait()
    assert (process.returncode, err) == (2, f"scrapy robots {arguments[0]}: stopped\n")
