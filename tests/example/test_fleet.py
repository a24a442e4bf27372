"""`make fleet-demo`: worker processes share a queue, robots.txt files and intervals."""

from __future__ import annotations

import re

import pytest

from tests.support.documents import block
from tests.support.example_project import start, wait

pytestmark = pytest.mark.once

TIMEOUT = 250  # seconds; less than the time after which pytest ends a test that hangs


def kinds(text: str) -> set[str]:
    """Return the lines of the results without titles, numbers, and what is not always printed."""
    lines = [
        re.sub(r"; never .*|workers?$", "", line[16:])
        for line in text.splitlines()
        if line[15:16] == " " and "held the other" not in line and "as expected" not in line
    ]
    return {" ".join(re.sub(r"[\d,.]+", "N", line).split()) for line in lines}


@pytest.mark.usefixtures("redis_installed")
def test_the_demo() -> None:
    """The demo has the results that docs/scaling.md shows, and all are as expected."""
    seconds = str(TIMEOUT - 20)
    done = wait(
        start("-m", "fleet", "--sites", "30", "--workers", "3", "--seconds", seconds), TIMEOUT
    )
    assert done.stderr == ""
    assert done.stdout.endswith("\nAll results are as expected.\n")
    shown = kinds(block("docs/scaling.md", "text", "pages fetched "))
    assert len(shown) == 8
    assert shown <= kinds(done.stdout)
    [(killed, taken_over_by)] = re.findall(
        r"twice at slow\.example: worker (\d) was killed .* and worker (\d) took over", done.stdout
    )
    assert taken_over_by != killed
    assert len(re.findall(r"at least [\d.]+ s between \d+ requests of [23] w", done.stdout)) >= 1
