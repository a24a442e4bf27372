"""Run Python in another process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

TIMEOUT = 110  # seconds


def environment(**more: str) -> dict[str, str]:
    """Return the environment of a process, without proxies and terminal settings."""
    terminal = ("NO_COLOR", "COLUMNS", "TERM", "PYTHONUNBUFFERED")
    inherited = {
        key: value
        for key, value in os.environ.items()
        if not key.lower().endswith("_proxy") and key not in terminal
    }
    return {**inherited, "PYTHONPATH": str(ROOT), **more}


def python(
    *arguments: str,
    folder: Path = ROOT,
    before: Sequence[str] = (),
    given: str = "",
    **variables: str,
) -> subprocess.CompletedProcess[str]:
    """Run Python to its end.

    :param before: a command that starts it.
    :param given: its standard input.
    :param variables: more environment variables.
    """
    return subprocess.run(
        [*before, sys.executable, *arguments],
        cwd=folder,
        env=environment(**variables),
        input=given,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )
