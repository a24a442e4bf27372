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
    return run_alone(*line, folder=folder).stderr


def run_alone(*line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of Scrapy in its own process."""
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *line],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


@pytest.mark.parametrize(
    ("command", "reactor"),
    [
        *((command, "asyncio") for command in COMMANDS),
        ("shell", "none"),
    ],
)
def test_one_request(failing: Site, tmp_path: Path, command: str, reactor: str) -> None:
    """A Scrapy command for one page requests its robots.txt once, and logs why it has no page."""
    with failing as site:
        log = log_of(command, site.url("/page"), tmp_path, *REACTORS[reactor])
        assert site.targets == ["/robots.txt"], log
        assert f"{site.url('/robots.txt')} is unreachable (503), so nothing is allowed" in log
        if command in ("fetch", "parse"):
            assert "ERROR: Error downloading" in log
            assert f"robots.txt unreachable: 503; <GET {site.url('/page')}> was not sent" in log


@pytest.mark.parametrize("reactor", REACTORS)
def test_shell_without_a_page(tmp_path: Path, reactor: str) -> None:
    """`scrapy shell` for an unknown host raises, names the cause, and exits with 1."""
    addon = 'ADDONS={"scrapy_robots_rfc.Addon": 500}'
    options = ("-s", addon, "-s", "RETRY_ENABLED=False", *REACTORS[reactor])
    url = "http://unknown.invalid/page"
    done = run_alone("shell", *options, "-c", "response", url, folder=tmp_path)
    assert done.returncode == 1
    last = done.stderr.rstrip().splitlines()[-1]
    assert last.endswith(
        "UnreachableError: robots.txt unreachable: unknown host; <GET http://unknown.invalid/page>"
        " was not sent"
    )


def test_own_backoff(failing: Site, tmp_path: Path) -> None:
    """A backoff that the user sets applies to commands, too."""
    with failing as site:
        log_of("fetch", site.url("/page"), tmp_path, "-s", "ROBOTS_UNREACHABLE_BACKOFF=0.1,0.1")
        assert site.targets == ["/robots.txt"] * 3
