"""Scrapy's own commands for one page, such as `scrapy fetch`, do not retry a failing robots.txt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import run
from tests.support.processes import python
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
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

PROJECT = """
ADDONS = {"scrapy_robots_rfc.Addon": 500}
RETRY_ENABLED = False
SPIDER_MODULES = ["spiders"]
"""
ARGUMENTS = {
    "fetch": "{url}",
    "view": "{url}",
    "parse": "--spider shop {url}",
    "check": "shop",
    "shell": "-c 1 {url}",
}


@pytest.fixture
def failing() -> Iterator[Site]:
    """A site whose robots.txt fails."""
    with Site({"/robots.txt": Reply(503)}) as site:
        yield site


def command_line(command: str, url: str, folder: Path, *options: str) -> list[str]:
    """Make a project with one spider, and return the arguments of a command for it."""
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
    (folder / "project.py").write_text(PROJECT)
    (folder / "spiders.py").write_text(SPIDER.format(url=url))
    return [*options, "-s", "LOG_ENABLED=True", *ARGUMENTS[command].format(url=url).split()]


@pytest.mark.parametrize("command", ["fetch", "view", "parse", "check"])
def test_one_request(failing: Site, tmp_path: Path, command: str) -> None:
    """A Scrapy command for one page requests its robots.txt once, and logs why it has no page."""
    line = command_line(command, failing.url("/page"), tmp_path)
    browser = {"BROWSER": "true"}
    log = run(*line, command=command, folder=tmp_path, environ=browser).err
    assert failing.targets == ["/robots.txt"], log
    assert f"{failing.url('/robots.txt')} is unreachable (503), so nothing is allowed" in log
    if command in ("fetch", "parse"):
        assert "ERROR: Error downloading" in log
        assert f"robots.txt unreachable: 503; <GET {failing.url('/page')}> was not sent" in log


@pytest.mark.parametrize("options", [(), ("-s", "TWISTED_REACTOR_ENABLED=False")])
def test_shell_without_a_page(failing: Site, tmp_path: Path, options: tuple[str, ...]) -> None:
    """`scrapy shell` requests robots.txt once, raises, names the cause, and exits with 1."""
    line = command_line("shell", failing.url("/page"), tmp_path, *options)
    done = python("-m", "scrapy", "shell", *line, folder=tmp_path)
    assert failing.targets == ["/robots.txt"], done.stderr
    missing = f"{failing.url('/robots.txt')} is unreachable (503), so nothing is allowed"
    assert missing in done.stderr
    assert done.returncode == 1
    cause = f"robots.txt unreachable: 503; <GET {failing.url('/page')}> was not sent"
    assert done.stderr.rstrip().splitlines()[-1].endswith(f"UnreachableError: {cause}")


def test_own_backoff(failing: Site, tmp_path: Path) -> None:
    """A backoff that the user sets applies to commands, too."""
    backoff = ("-s", "ROBOTS_UNREACHABLE_BACKOFF=0.1,0.1")
    line = command_line("fetch", failing.url("/page"), tmp_path, *backoff)
    run(*line, command="fetch", folder=tmp_path)
    assert failing.targets == ["/robots.txt"] * 3
