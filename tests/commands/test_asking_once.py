"""Scrapy's own commands for one page, such as `scrapy fetch`, do not retry a failing robots.txt."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import TIMEOUT, environment, scrapy
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
COMMANDS = {
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
    """Run a command in a project with one spider, and return its log.

    If it needs its own reactor, it runs in its own process.
    """
    (folder / "scrapy.cfg").write_text("[settings]\ndefault = project\n")
    (folder / "project.py").write_text(
        "ADDONS = {'scrapy_robots_rfc.Addon': 500}\nRETRY_ENABLED = False\nSPIDER_MODULES ="
        " ['spiders']\n"
    )
    (folder / "spiders.py").write_text(SPIDER.format(url=url))
    arguments = [argument.format(url=url) for argument in COMMANDS.get(command, ["shop"])]
    line = (command, *options, "-s", "LOG_ENABLED=True", *arguments)
    if command != "shell" and not any("TWISTED_REACTOR" in option for option in options):
        return scrapy(*line, folder=folder, BROWSER="true").err
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", *line],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT,
        check=False,
    )
    return done.stderr.decode()


@pytest.mark.parametrize(
    ("command", "reactor"),
    [
        *((command, "asyncio") for command in COMMANDS),
        ("shell", "none"),
    ],
)
def test_one_request(failing: Site, tmp_path: Path, command: str, reactor: str) -> None:
    """A Scrapy command for one page requests its robots.txt once, and says at once that it is
    unreachable.
    """
    with failing as site:
        log = log_of(command, site.url("/page"), tmp_path, *REACTORS[reactor])
        assert site.targets == ["/robots.txt"], log
        assert f"{site.url('/robots.txt')} is unreachable (503), so nothing is allowed" in log


@pytest.mark.parametrize("reactor", REACTORS)
def test_shell_without_a_page(tmp_path: Path, reactor: str) -> None:
    """`scrapy shell` for an unknown host raises, names the cause, and exits with 1."""
    options = (
        "-s",
        'ADDONS={"scrapy_robots_rfc.Addon": 500}',
        "-s",
        "RETRY_ENABLED=False",
        *REACTORS[reactor],
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "scrapy",
            "shell",
            *options,
            "-c",
            "response",
            "http://unknown.invalid/page",
        ],
        cwd=tmp_path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
    assert done.returncode == 1
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.endswith(
        "UnreachableError: robots.txt unreachable: unknown host; <GET http://unknown.invalid/page>"
        " was not sent"
    )


@pytest.mark.parametrize("command", ["fetch", "parse"])
def test_command_without_a_page(failing: Site, tmp_path: Path, command: str) -> None:
    """A Scrapy command for one page logs at ERROR why it has no page."""
    with failing as site:
        log = log_of(command, site.url("/page"), tmp_path)
    assert f"robots.txt unreachable: 503; <GET {site.url('/page')}> was not sent" in log
    assert "ERROR: Error downloading" in log


def test_own_backoff(failing: Site, tmp_path: Path) -> None:
    """A backoff that the user sets applies to commands, too."""
    with failing as site:
        log_of("fetch", site.url("/page"), tmp_path, "-s", "ROBOTS_UNREACHABLE_BACKOFF=0.1,0.1")
        assert site.targets == ["/robots.txt"] * 3


def test_crawls_retry(failing: Site, tmp_path: Path) -> None:
    """A crawl of the same spider retries."""
    with failing as site:
        log = log_of("crawl", site.url("/page"), tmp_path, "-s", "CLOSESPIDER_TIMEOUT=1")
        assert site.targets == ["/robots.txt"], log
        assert "retried after 5, 15 and 45 s" in log
