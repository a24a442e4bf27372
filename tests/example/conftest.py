"""How tests of several files run the example project."""

from __future__ import annotations

import pytest

from tests.support.example_project import Here


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Here:
    """Crawls of the example project in the test's own process."""
    return Here(capsys, caplog)
