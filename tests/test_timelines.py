"""The timelines in docs/assets show the default settings."""

from __future__ import annotations

import re
from itertools import accumulate

from scrapy.settings import Settings

from scrapy_robots_rfc.settings import read_settings
from tests.support.documents import ROOT

DEFAULTS = read_settings(Settings())
DAY = 86_400


def drawn(name: str) -> str:
    """Return the text of a picture without markup."""
    svg = (ROOT / f"docs/assets/{name}.svg").read_text(encoding="utf-8")
    return re.sub(r"\s+", " ", re.sub(r"<style>.*?</style>|<[^>]*>", " ", svg, flags=re.DOTALL))


def test_failing() -> None:
    """The picture on docs/failing.md has the time of each attempt, at two kinds of sites."""
    text = drawn("failing")
    for attempt in (0, DEFAULTS.timeout):
        steps = [0.0, *(attempt + pause for pause in DEFAULTS.unreachable_backoff)]
        starts = [*accumulate(steps)]
        for number, start in enumerate(starts, start=1):
            assert f" {start:g} s attempt {number} " in text
        dropped = starts[-1] + attempt
        assert f" {dropped + DEFAULTS.unreachable_ttl:g} s attempt 1 again" in text
    assert f" {dropped:g} s pages are dropped" in text
    assert [int(pause) for pause in re.findall(r"wait (\d+) s", text)] == [
        *map(int, DEFAULTS.unreachable_backoff)
    ] * 2


def test_freshness() -> None:
    """The picture on docs/caching.md has the limits of each state."""
    text = drawn("freshness")
    shortest, longest = DEFAULTS.cache_min_age / 60, DEFAULTS.cache_max_age / 3600
    assert f"for {shortest:g} minutes to {longest:g} hours" in text
    assert f"an attempt every {DEFAULTS.unreachable_ttl:g} s" in text
    assert f"{DEFAULTS.stale_max_age / DAY:g} days after the last success nothing" in text
    assert DEFAULTS.unreachable_max_age is not None
    days = DEFAULTS.unreachable_max_age / DAY
    assert f"{days:g} days after the first failure everything" in text
