"""What ROBOTSTXT_EARLY drops stands in the report, and in the summary at the end, as if it had been queued."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from pytest_twisted import ensureDeferred

from tests.support.crawling import records
from tests.support.early_crawls import EARLY, FORBID, run
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


@ensureDeferred
async def test_report(site: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The same records, with referrer, rule and digest, and the same lines at the end of the crawl."""
    site.replies["/robots.txt"] = robots(FORBID)
    requests = [site.url(target) for target in ("/", "/private/1", "/private/2", "/private/1")]
    reports, summaries = [], []
    for settings in ({}, EARLY):
        caplog.clear()
        file = tmp_path / "report.jsonl"
        report = {"ROBOTSTXT_REPORT": {str(file): {"format": "jsonlines", "overwrite": True}}}
        result, _ = await run(requests, {**settings, **report})
        found = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
        reports.append(
            sorted(
                ({**record, "time": None, "fresh_until": None} for record in found), key=lambda record: record["url"]
            )
        )
        summaries.append(records(caplog, logging.INFO))
    assert result.stat("early") == 2
    assert reports[0] == reports[1]
    assert [record["referrer"] for record in reports[0]] == [site.url("/")] * 2
    assert all(record["digest"] for record in reports[0])
    assert summaries[0] == summaries[1]
    assert any("2 rule" in line for line in summaries[0])
