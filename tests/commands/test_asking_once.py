"""Scrapy's own commands that ask for one page.

Somebody waits for them, so no robots.txt is asked for again.
"""

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
    """A site whose robots.txt fails."""
    return Site({"/robots.txt": Reply(503)})


def log_of(command: str, url: str, folder: Path, *options: str) -> str:
    """Run a command in a project of one spider; return its log.

    What needs a reactor of its own runs in a process of its own.
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
def test_a_command_asks_once(failing: Site, tmp_path: Path, command: str, reactor: str) -> None:
    """A command that asks for a page has its robots.txt asked for once, and says at once that it
    is unreachable.
    """
    with failing as site:
        log = log_of(command, site.url("/page"), tmp_path, *REACTORS[reactor])
        assert site.targets == ["/robots.txt"], log
        assert f"{site.url('/robots.txt')} is unreachable (503): nothing is allowed" in log


@pytest.mark.parametrize("reactor", REACTORS)
def test_a_shell_says_why_it_has_no_page(tmp_path: Path, reactor: str) -> None:
    """A shell for a page of a host that does not exist raises, names the cause, and exits with
    1.
    """
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
def test_a_command_says_why_it_has_no_page(failing: Site, tmp_path: Path, command: str) -> None:
    """A command for a page whose robots.txt is unreachable says at ERROR what made it
    impossible.
    """
    with failing as site:
        log = log_of(command, site.url("/page"), tmp_path)
    assert f"robots.txt unreachable: 503; <GET {site.url('/page')}> was not sent" in log
    assert "ERROR: Error downloading" in log


def test_a_backoff_of_the_users_own_applies(failing: Site, tmp_path: Path) -> None:
    """A backoff that the user sets applies to commands, too."""
    with failing as site:
        log_of("fetch", site.url("/page"), tmp_path, "-s", "ROBOTS_UNREACHABLE_BACKOFF=0.1,0.1")
        assert site.targets == ["/robots.txt"] * 3


def test_crawls_ask_again_by_default(failing: Site, tmp_path: Path) -> None:
    """A crawl of the same spider asks again after 5 s: nothing in it looks like a command."""
    with failing as site:
        log = log_of("crawl", site.url("/page"), tmp_path, "-s", "CLOSESPIDER_TIMEOUT=1")
        assert site.targets == ["/robots.txt"], log
        assert "retried after 5, 15 and 45 s" in log
