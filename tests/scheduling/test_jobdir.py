"""Crawls with JOBDIR, whose requests wait on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, squeues

from tests.support.crawling import Pages, crawl
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.reactor

PAGES = 150
#: A file that has to be fetched again every second.
SHORT_LIVED = Reply(
    body=b"User-agent: *\nDisallow: /x\n", headers=(("Cache-Control", "max-age=1"),)
)


class Tree(Pages):
    """Requests two further pages for each page, with two priorities."""

    def parse(self, response: Any, **_: Any) -> Any:
        super().parse(response)
        number = int(response.url.rpartition("/")[2])
        for child in (2 * number + 1, 2 * number + 2):
            if child < PAGES:
                yield Request(
                    response.urljoin(f"/{child}"),
                    callback=self.parse,
                    errback=self.failed,
                    priority=child % 2,
                )


@pytest.mark.parametrize(
    "disk_queue",
    [
        squeues.PickleLifoDiskQueue,
        squeues.PickleFifoDiskQueue,
        getattr(squeues, "PickleLifoSQLiteQueue", squeues.PickleLifoDiskQueue),
    ],
)
@ensureDeferred
async def test_file_that_expires_while_requests_wait(
    disk_queue: type[Any], site: Site, tmp_path: Path
) -> None:
    """All pages come from disk, each once, while the robots.txt is fetched again and again."""
    site.replies["/robots.txt"] = SHORT_LIVED
    settings = {
        "JOBDIR": str(tmp_path),
        "SCHEDULER_DISK_QUEUE": disk_queue,
        "ROBOTS_CACHE_MIN_AGE": 0,
        "DOWNLOAD_DELAY": 0.02,
    }
    result = await crawl([site.url("/0")], settings, spider=Tree)
    assert result.outcomes == {site.url(f"/{number}"): 200 for number in range(PAGES)}
    assert sorted(site.pages) == sorted(f"/{number}" for number in range(PAGES))
    assert site.fetches > 2
    assert result.stats["scheduler/dequeued/disk"] == PAGES
