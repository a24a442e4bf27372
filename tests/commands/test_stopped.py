"""Ctrl-C in `scrapy robots`: while it reads, prints, or crawls.

Commands that crawl run in their own process, because a crawl sets signal handlers.
"""

from __future__ import annotations

import os
import signal
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support.command_line import OPEN, TIMEOUT, fill, start, stopped
from tests.support.site import Site, robots as file

if TYPE_CHECKING:
    from pathlib import Path

#: As output, more than fits into a pipe and the buffers before it.
MANY = 1000
#: A copy of a long file.
LONG = OPEN._replace(body=b"#" * 5000)
OVERRIDES = 'ROBOTS_OVERRIDES={"https://a.example": "other.txt"}'
SELECT = "twisted.internet.selectreactor.SelectReactor"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with files and a store that give long outputs."""
    (tmp_path / "robots.txt").write_text("User-agent: *\n" + "Disallow: z\n" * MANY)
    rules = "".join(f"Disallow: /{number}\n" for number in range(MANY))
    (tmp_path / "other.txt").write_text(f"User-agent: *\n{rules}")
    (tmp_path / "urls").write_text("https://a.example/x\n" * MANY)
    with closing(SqliteStore(tmp_path / "robots.sqlite")) as store:
        store.open()
        fill(store, **{f"a{number}": LONG for number in range(40)})
    return tmp_path


@pytest.mark.parametrize(
    ("stream", "command"),
    [
        ("stdin", "check"),  # like all that read URLs or a robots.txt
        ("stdin", "report -"),
        ("stdout", "lint robots.txt"),
        ("stdout", "cache ls --store sqlite:///robots.sqlite"),
    ],
)
def test_stopped_while_it_reads_or_prints(stream: str, command: str, folder: Path) -> None:
    """Ctrl-C while a command reads or prints ends it with one line and exit code 2."""
    topic, *arguments = command.split()
    done = stopped(topic, *arguments, folder=folder, stream=stream)
    assert (done.code, done.err) == (2, f"scrapy robots {topic}: stopped\n")


@pytest.mark.parametrize(
    "arguments",
    [
        ("lint", "{site}"),  # it prints after its crawl
        ("check", "-s", OVERRIDES),  # within its crawl
        ("check", "-s", OVERRIDES, "-s", "TWISTED_REACTOR_ENABLED=0"),
        ("check", "-s", OVERRIDES, "-s", f"TWISTED_REACTOR={SELECT}"),
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
