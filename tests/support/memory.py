"""Measure memory."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def growth(use: Callable[[int], object], times: int) -> list[int]:
    """Return the bytes that are allocated after each of some calls.

    :param use: the function; its argument is the number of the call, from 0.
    """
    gc.collect()
    tracemalloc.start()
    try:
        sizes = []
        for number in range(times):
            use(number)
            gc.collect()  # also empties the lists of free tuples
            sizes.append(tracemalloc.get_traced_memory()[0])
        return sizes
    finally:
        tracemalloc.stop()
