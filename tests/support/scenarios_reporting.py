"""Crawls that are reported: see scenarios_obeying.py; what must come of them: test_runtimes.py."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scrapy import Request
from warcio.archiveiterator import ArchiveIterator

from tests.support.crawling import Pages
from tests.support.site import Reply, Site, robots

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.scenarios_obeying import Run


class Afterwards(Pages):
    """Asks for one page more when three are refused."""

    def failed(self, failure: Any) -> Any:
        """Count."""
        self.outcomes[failure.request.url] = failure.value
        if len([outcome for outcome in self.outcomes.values() if outcome != 200]) == 3:
            return Request(failure.request.url.replace("/private", "/last").rpartition("/")[0], callback=self.parse)
        return None


async def reported(run: Run) -> dict[str, Any]:
    """Report forbidden pages to a file, in batches, and to a storage that works in threads, which fails."""
    with tempfile.TemporaryDirectory() as folder, Site() as site, Site() as exempt:
        at_last: list[list[str]] = []

        def last(_: object) -> Reply:
            at_last.append(sorted(path.name for path in Path(folder).iterdir()))
            return Reply(body=b"late")

        site.replies.update({"/robots.txt": robots("User-agent: *\nDisallow: /private\n"), "/last": last})
        report = {
            f"{folder}/all.csv": {},
            f"{folder}/%(batch_id)d.jsonl": {"batch_item_count": 2},
            "ftp://127.0.0.1:1/r.jsonl": {},
        }
        settings = {"ROBOTSTXT_REPORT": report, "ROBOTSTXT_EXEMPT": [exempt.url("")]}
        pages = [site.url("/private/1"), site.url("/private/2"), site.url("/private/3"), exempt.url("/x")]
        result = await run(Afterwards, settings, pages)
        batches = [Path(folder, f"{number}.jsonl").read_text("utf-8") for number in (1, 2)]  # noqa: ASYNC240 - short
        return {
            "reasons": [[json.loads(line)["reason"] for line in batch.splitlines()] for batch in batches],
            "rows": len(Path(folder, "all.csv").read_text("utf-8").splitlines()),  # noqa: ASYNC240 - short
            "at_last": at_last,
            "counted": [result.stat(key) for key in ("report/records", "report/errors", "forbidden")],
        }


async def declared(run: Run) -> dict[str, Any]:
    """Declare a use that robots.txt refuses for one page and a header for another, and keep an archive."""
    refused = Reply(headers=(("Content-Usage", "train-ai=n"),))
    file = robots("User-agent: *\nContent-Usage: /closed train-ai=n\nAllow: /\n")
    with tempfile.TemporaryDirectory() as folder, Site({"/robots.txt": file, "/header": refused}) as site:
        path = Path(folder, "robots.warc.gz")
        settings = {"ROBOTSTXT_USE": ["train-ai"], "ROBOTSTXT_ARCHIVE": str(path)}
        result = await run(Pages, settings, [site.url(target) for target in ("/open", "/closed", "/header")])
        with path.open("rb") as archive:  # noqa: ASYNC230 - short
            kinds = [record.rec_type for record in ArchiveIterator(archive)]
        counted = [result.stat(key) for key in ("use/robots.txt", "use/header", "forbidden/use")]
        return {"counted": counted, "kinds": kinds, "pages": site.pages}


SCENARIOS: dict[str, Callable[[Run], Awaitable[dict[str, Any]]]] = {"reported": reported, "declared": declared}
