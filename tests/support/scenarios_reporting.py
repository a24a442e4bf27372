"""Crawls that are reported: see scenarios_obeying.py; what must come of them: test_runtimes.py."""

from __future__ import annotations

import csv
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from warcio.archiveiterator import ArchiveIterator

from tests.support.crawling import Pages, with_use
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.scenarios_obeying import Run


class Looking(Pages):
    """Looks at the report when a page is refused."""

    def failed(self, failure: Any) -> Any:
        """Count its rows."""
        self.outcomes[failure.request.url] = len(
            Path(self.settings["LOOK_AT"]).read_text("utf-8").splitlines()
        )


async def reported(run: Run) -> dict[str, Any]:
    """Report forbidden pages to a file, and to a storage that works in threads, which fails."""
    with tempfile.TemporaryDirectory() as folder, Site() as site, Site() as exempt:
        site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
        path = Path(folder, "all.csv")
        pages = [
            site.url("/private/1"),
            site.url("/private/2"),
            site.url("/private/3"),
            exempt.url("/x"),
        ]
        settings = {"ROBOTS_EXEMPT": [exempt.url("")], "LOOK_AT": str(path)}
        counted, outcomes = [], []
        for spider, uri in ((Looking, str(path)), (Pages, "ftp://127.0.0.1:1/r.jsonl")):
            result = await run(spider, {**settings, "ROBOTS_REPORT": {uri: {}}}, pages)
            counted.append(
                [result.stat(key) for key in ("report/records", "report/errors", "forbidden")]
            )
            outcomes.append([result.outcomes[page] for page in pages[:3]])
        with path.open(encoding="utf-8", newline="") as file:  # noqa: ASYNC230 - short
            reasons = [record["reason"] for record in csv.DictReader(file)]
        return {
            "reasons": reasons,
            "at_once": all(isinstance(rows, int) and rows > 1 for rows in outcomes[0]),
            "counted": counted,
        }


async def declared(run: Run) -> dict[str, Any]:
    """Declare a use that robots.txt refuses for one page and a header for another, and write an
    archive.
    """
    refused = Reply(headers=(("Content-Usage", "train-ai=n"),))
    file = robots("User-agent: *\nContent-Usage: /closed train-ai=n\nAllow: /\n")
    with (
        tempfile.TemporaryDirectory() as folder,
        Site({"/robots.txt": file, "/header": refused}) as site,
    ):
        path = Path(folder, "robots.warc.gz")
        settings = {**with_use(["train-ai"]), "ROBOTS_ARCHIVE": str(path)}
        result = await run(
            Pages, settings, [site.url(target) for target in ("/open", "/closed", "/header")]
        )
        with path.open("rb") as archive:  # noqa: ASYNC230 - short
            kinds = [record.rec_type for record in ArchiveIterator(archive)]
        counted = [result.stat(key) for key in ("use/robots.txt", "use/header", "forbidden/use")]
        return {"counted": counted, "kinds": kinds, "pages": site.pages}


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {
    "reported": reported,
    "declared": declared,
}
