"""Fixtures that run the example project."""

from __future__ import annotations

import pytest

from tests.support.example_project import Here


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Here:
    """Return a runner that crawls in the process of the test."""
    return Here(capsys, caplog)
