"""Run the example project, in a separate process or in this one, and read the tables it prints."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.settings import Settings

from tests.support.crawling import ASYNCIO_REACTOR
from tests.support.documents import ROOT
from tests.support.processes import environment

if TYPE_CHECKING:
    import pytest
    from scrapy import Spider

PROJECT = ROOT / "example_project"
TIMEOUT = 60  # seconds; a crawl of the demo takes two


@dataclass(frozen=True)
class Output:
    """The output of a process that succeeded."""

    stdout: str
    stderr: str

    def rows(self, site: str) -> dict[str, tuple[str, ...]]:
        """Return the other cells of each row of a site's table, by its first cell.

        :param site: how the title of the table begins.
        """
        [block] = [text for text in self.stdout.split("\n\n") if text.startswith(site)]
        cells = re.findall(r"^    +(.*)$", block, re.MULTILINE)[1:]
        return {row[0]: tuple(row[1:]) for row in (re.split(r" {2,}", cell) for cell in cells)}

    @property
    def last_line(self) -> str:
        return self.stdout.splitlines()[-1]


def start(*arguments: str, folder: Path = PROJECT) -> subprocess.Popen[str]:
    """Start Python in the folder of the project, or in another one."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait(process: subprocess.Popen[str], timeout: float = TIMEOUT) -> Output:
    """Wait for a process, which must succeed."""
    try:
        stdout, stderr = process.communicate(timeout=timeout)
    finally:
        process.kill()
    assert process.returncode == 0, stdout + stderr
    assert "] ERROR: " not in stderr, stderr
    # Without a network, Scrapy's cookies log a traceback about the list of public suffixes.
    records = re.split(r"^(?=\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \[)", stderr, flags=re.MULTILINE)
    assert not [
        record for record in records if "Traceback" in record and "publicsuffix" not in record
    ], stderr
    return Output(stdout, stderr)


def crawl(spider: str, *arguments: str) -> Output:
    """Run ``scrapy crawl``."""
    return wait(start("-m", "scrapy", "crawl", spider, *arguments))


class Here:
    """Crawls with the settings of the project in the process of the test, which is faster."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
    ) -> None:
        self._capsys, self._caplog = capsys, caplog

    async def crawl(
        self, spider: type[Spider], settings: dict[str, Any] | None = None, **arguments: str
    ) -> Output:
        """Crawl; the crawl must finish.

        :param settings: as if given on the command line.
        :param arguments: for the spider.
        """
        merged = Settings()
        merged.setmodule("demo.settings", priority="project")
        merged.setdict({"TWISTED_REACTOR": ASYNCIO_REACTOR, **(settings or {})}, priority="cmdline")
        crawler = Crawler(spider, merged)
        await crawler.crawl(**arguments)
        assert crawler.stats is not None
        assert crawler.stats.get_value("finish_reason") == "finished"
        # Filter by level, because another test may have set a lower one.
        records = [record for record in self._caplog.records if record.levelno >= logging.WARNING]
        logged = "\n".join(f"{record.levelname}: {record.getMessage()}" for record in records)
        return Output(self._capsys.readouterr().out, logged)
