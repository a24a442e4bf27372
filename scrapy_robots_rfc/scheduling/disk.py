"""What a queue on disk needs beside Scrapy's queues.

Its state, in one piece at any time, and a bound of open files.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

logger: logging.Logger = logging.getLogger(__name__)

#: File descriptors that queues on disk use at most; or a quarter of what the process may have, if
#: that is less.
MOST_DESCRIPTORS = 128


def replace_state(folder: str, state: dict[str, list[int]]) -> None:
    """Write the state where Scrapy's scheduler looks for it, atomically.

    Piece by piece, on a thread.
    """
    path = Path(folder, "active.json")
    fresh = path.with_suffix(".json.new")
    try:
        with fresh.open("w", encoding="utf-8") as file:
            between = "{"
            for key, priorities in state.items():
                file.write(f"{between}{json.dumps(key)}: {json.dumps(priorities)}")
                between = ", "
            file.write("{}" if not state else "}")
        fresh.replace(path)
    except OSError as error:
        logger.warning("The state of the queue cannot be written to JOBDIR: %s", error)


def remove_strays(folder: str, priorities: Iterable[int]) -> None:
    """Remove the files of all other priorities from the folder of a part.

    They are not in the state: a process was killed that had just begun them, and they may be in
    pieces.
    """
    known = {f"{priority}{start}" for priority in priorities for start in ("", "s")}
    with suppress(OSError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir() and entry.name not in known:
                shutil.rmtree(entry.path)
            elif entry.name not in known:
                Path(entry.path).unlink()


def most_descriptors() -> int:
    """Return how many file descriptors the queues on disk may use."""
    try:
        import resource  # noqa: PLC0415 - not on every platform
    except ImportError:
        return MOST_DESCRIPTORS
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return (
        MOST_DESCRIPTORS
        if allowed == resource.RLIM_INFINITY
        else min(MOST_DESCRIPTORS, allowed // 4)
    )
