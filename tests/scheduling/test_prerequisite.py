"""robots.txt is a prerequisite: a page waits for it, and keeps its priority. See
scenarios_prerequisite.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.runtimes import Results


def test_priority(results: Results) -> None:
    """A request with a higher priority that is queued during a fetch is sent first, and one that is
    queued during a Crawl-delay is sent next.
    """
    # Before it come robots.txt, and at the paced site the page that requests it.
    assert results["urgent"] == {"slow": [1, 1], "paced": [2, 2]}


def test_file_that_is_stale_at_once(results: Results) -> None:
    """A file that is stale at once is fetched about once a second, and all pages are fetched."""
    assert results["stale_at_once"] == {"found": [[True, True, False], [True, True, True]]}


def test_media_pipeline(results: Results) -> None:
    """The requests of a media pipeline wait for robots.txt and obey it."""
    assert results["media"] == {"targets": ["/robots.txt", "/a"]}


def test_inline_request_at_the_end(results: Results) -> None:
    """An inline request that waits for robots.txt when the spider closes ends with an exception."""
    assert results["closing_inline"] == {
        "outcomes": ["RobotsUndecided"],
        "undecided": 1,
        "pages": [],
    }


def test_without_our_queue(results: Results) -> None:
    """With a queue of Scrapy, pages wait in the middleware for one fetch, and obey it."""
    assert results["without_our_queue"] == {"leaked": 0, "fetches": 1, "disallowed": 10}


def test_only_a_failing_route(results: Results) -> None:
    """One request by a failing route finds out that it fails, and all its pages are dropped."""
    found = results["failed_routes"]
    if not found:
        pytest.skip("without a reactor, this version of Scrapy sends nothing through a proxy")
    assert found == {"outcomes": ["unreachable"], "count": 20, "requests": 1}
