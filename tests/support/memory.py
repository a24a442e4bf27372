"""Measure memory."""

from __future__ import annotations

import gc
import tracemalloc
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """Count Python's allocations, and give a function that returns the bytes that are allocated."""

    def allocated() -> int:
        gc.collect()  # also empties the lists of free tuples
        return tracemalloc.get_traced_memory()[0]

    gc.collect()
    tracemalloc.start()
    try:
        yield allocated
    finally:
        tracemalloc.stop()
