"""Crawls that get SIGKILL; `python -m bench.killed` runs more of them."""

from __future__ import annotations

import random

import pytest

from bench.killed import run

pytestmark = pytest.mark.once


def test_only_requests_in_flight_or_unsaved_are_lost() -> None:
    """A killed crawl loses no request that was saved and not sent."""
    result = run("LIFO", 2, random.Random(9309), origins=8, pages=12)
    assert result.kills == 2
    assert (result.lost, result.disallowed) == (set(), set())
