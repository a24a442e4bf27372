"""Crawls with a JOBDIR in processes of their own, which can be killed.

`scrapy runspider tests/support/job.py` runs one. `python -m tests.support.job FOLDER URL PAGES`
runs one for each line on stdin, in a child process, because importing Scrapy takes long. It writes
the process ID of the child, and its exit status when it has ended.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

#: Created in JOBDIR when the spider has yielded all of its start requests.
STARTED = "started"


class Job(Spider):
    """Requests pages in its first run. Later runs only get what is in JOBDIR.

    The pages have two priorities. Every tenth one is a large form.
    """

    name = "job"
    custom_settings = {  # noqa: RUF012 - Scrapy's
        "ADDONS": {"scrapy_robots_rfc.Addon": 500},
        "CONCURRENT_REQUESTS": 4,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 4,
        "DOWNLOAD_DELAY": 0,
        "TELNETCONSOLE_ENABLED": False,
        "REMOTE_CONTROL_ENABLED": False,
        "LOG_LEVEL": "INFO",
    }
    url = ""
    pages = 0

    async def start(self) -> AsyncIterator[Any]:
        for request in self.first_run():
            yield request

    def first_run(self) -> Any:
        """Yield all requests, unless an earlier run has done so."""
        marker = Path(self.settings["JOBDIR"], STARTED)
        if marker.exists():
            return
        for number in range(self.pages):
            form = "x" * (3_000_000 if number % 10 == 9 else 10)
            yield Request(f"{self.url}/{number}", priority=number % 2, cb_kwargs={"form": form})
        marker.touch()

    def parse(self, response: Any, **_: Any) -> None:
        """Do nothing with the page."""


def main(folder: str, url: str, pages: str) -> None:
    """Run crawls."""
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            crawls = CrawlerProcess({"JOBDIR": folder})
            crawls.crawl(Job, url=url, pages=int(pages))
            crawls.start()
            os._exit(0)
        write(child)
        write(os.waitpid(child, 0)[1])


def write(line: object) -> None:
    """Write a line at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
