"""Scrapy's own commands for one page, such as `scrapy fetch`, do not retry a failing robots.txt."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import TIMEOUT, scrapy
from tests.support.processes import environment
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

SPIDER = """
import scrapy


class Shop(scrapy.Spider):
    name = "shop"
    start_urls = ["{url}"]

    def parse(self, response):
        '''
        @url {url}
        @returns items 0
        '''
"""

REACTORS = {
    "asyncio": (),
    "none": ("-s", "TWISTED_REACTOR_ENABLED=False"),
}
ARGUMENTS = {
    "fetch": ("{url}",),
    "view": ("{url}",),
    "parse": ("--spider", "shop", "{url}"),
    "check": ("shop",),
    "shell": ("-c", "1", "{url}"),
}


@pytest.fixture
def failing() -> Site:
    """Return a site whose robots.txt fails."""
    return Site({"/robots.txt": Reply(503)})


def log_of(command: str, url: str, folder: Path, *options: str) -> str:
    """Run a command in a project with one spider, and return its log."""
    line = command_line(command, url, folder, *options)
    return scrapy(*line, folder=folder, BROWSER="true").err


def command_line(command: str, url: str, folder: Path, *options: str) -> tuple[str, ...]:
    """Make a project with one spider, and return a command line for it."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
    (folder / "project.py").write_text(
        "ADDONS = {'scrapy_robots_rfc.Addon': 500}\nRETRY_ENABLED = False\nSPIDER_MODULES ="
        " ['spiders']\n"
    )
    (folder / "spiders.py").write_text(SPIDER.format(url=url))
    arguments = [argument.format(url=url) for argument in ARGUMENTS[command]]
    return (command, *options, "-s", "LOG_ENABLED=True", *arguments)


@pytest.mark.parametrize("command", ["fetch", "view", "parse", "check"])
def test_one_request(failing: Site, tmp_path: Path, command: str) -> None:
    """A Scrapy command for one page requests its robots.txt once, and logs why it has no page."""
    with failing as site:
        log = log_of(command, site.url("/page"), tmp_path)
        assert site.targets == ["/robots.txt"], log
        assert f"{site.url('/robots.txt')} is unreachable (503), so nothing is allowed" in log
        if command in ("fetch", "parse"):
            assert "ERROR: Error downloading" in log
            assert f"robots.txt unreachable: 503; <GET {site.url('/page')}> was not sent" in log


@pytest.mark.parametrize("reactor", REACTORS)
def test_shell_without_a_page(failing: Site, tmp_path: Path, reactor: str) -> None:
    """`scrapy shell` requests robots.txt once, raises, names the cause, and exits with 1."""
    with failing as site:
        line = command_line("shell", site.url("/page"), tmp_path, *REACTORS[reactor])
        done = subprocess.run(
            [sys.executable, "-m", "scrapy", *line],
            cwd=tmp_path,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert site.targets == ["/robots.txt"], done.stderr
        missing = f"{site.url('/robots.txt')} is unreachable (503), so nothing is allowed"
    assert missing in done.stderr
    assert done.returncode == 1
    cause = f"robots.txt unreachable: 503; <GET {site.url('/page')}> was not sent"
    assert done.stderr.rstrip().splitlines()[-1].endswith(f"UnreachableError: {cause}")


def test_own_backoff(failing: Site, tmp_path: Path) -> None:
    """A backoff that the user sets applies to commands, too."""
    with failing as site:
        log_of("fetch", site.url("/page"), tmp_path, "-s", "ROBOTS_UNREACHABLE_BACKOFF=0.1,0.1")
        assert site.targets == ["/robots.txt"] * 3
