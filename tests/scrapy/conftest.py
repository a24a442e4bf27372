"""Sites for the crawls."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from tests.scrapy.site import Site

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def site() -> Iterator[Site]:
    """A site without robots.txt."""
    with Site() as running:
        yield running


@pytest.fixture
def other() -> Iterator[Site]:
    """A second site, another origin."""
    with Site() as running:
        yield running


@pytest.fixture(autouse=True)
def _log_everything(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
