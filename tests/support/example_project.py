"""Run the example project, in a separate process or in this one, and read the tables it prints."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.settings import Settings

from tests.support.crawling import ASYNCIO_REACTOR

if TYPE_CHECKING:
    import pytest
    from scrapy import Spider

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ROOT / "example_project"
TIMEOUT = 60  # seconds; a crawl of the demo takes two


@dataclass(frozen=True)
class Output:
    """The output of a process that succeeded."""

    stdout: str
    stderr: str

    @property
    def sections(self) -> dict[str, Section]:
        """The sections of the table, by the first word of their titles."""
        blocks = [block.splitlines() for block in self.stdout.split("\n\n")]
        sections = [
            _section(block) for block in blocks if any("robots.txt: " in line for line in block[1:])
        ]
        return {section.title.split()[0].strip(":"): section for section in sections}

    @property
    def last_line(self) -> str:
        """The last line of the output."""
        return self.stdout.splitlines()[-1]


@dataclass(frozen=True)
class Section:
    """One origin of the table.

    :param rows: the other cells of each row, by its first cell.
    """

    title: str
    robots_txt: str
    rows: dict[str, tuple[str, ...]] = field(default_factory=dict)


def _section(lines: list[str]) -> Section:
    access = next(line for line in lines if line.startswith("  robots.txt: "))
    cells = [re.split(r" {2,}", line.strip()) for line in lines if line.startswith("    ")]
    return Section(
        lines[0],
        access.strip().removeprefix("robots.txt: "),
        {row[0]: tuple(row[1:]) for row in cells[1:]},
    )


def start(*arguments: str, folder: Path = PROJECT) -> subprocess.Popen[str]:
    """Start Python in the folder of the project, or in another one."""
    # A proxy from the environment would not find the sites.
    environment = {
        key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")
    }
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT)},
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
