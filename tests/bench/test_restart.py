"""A crawl, and another one of the same origins after a restart.

`python -m bench.restart` has 10,000 of them.
"""

from __future__ import annotations

from collections import Counter

import pytest

from bench.restart import Run, Seen, measure, wrong

pytestmark = pytest.mark.once

ORIGINS = 40  # more than a crawl asks at once


def test_restart_fetches_nothing_that_is_fresh() -> None:
    """Both crawls get all pages that they may have.

    Each robots.txt is asked for once, counted by the server.
    """
    runs, seen = measure(ORIGINS)
    assert list(wrong(runs, seen, ORIGINS)) == []
    assert [(run.fetched, run.stored) for run in runs] == [(ORIGINS, 0), (0, ORIGINS)]


def test_what_is_wrong_is_said() -> None:
    """A file that was asked for twice or never, a page too many and one too few are found."""
    runs = [Run(2, 2, 0, 0, 1.0), Run(1, 1, 1, 0, 1.0)]
    seen = Seen(Counter(a=2, b=1), Counter(a=2, b=1), Counter(a=1))
    assert [line.partition(" ")[0] for line in wrong(runs, seen, 3)] == [
        "robots.txt",
        "robots.txt",
        "1",
        "not",
    ]
    assert (
        list(
            wrong([Run(1, 1, 0, 0, 1.0), Run(0, 1, 0, 1, 1.0)], Seen(Counter(a=1), Counter(a=2)), 1)
        )
        == []
    )
