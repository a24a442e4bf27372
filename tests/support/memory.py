"""How much memory something takes while it is used."""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def growth(use: Callable[[int], object], times: int) -> list[int]:
    """Return the octets that are allocated after each of some uses, since before the first one.

    :param use: is given the number of the use, from 0.
    """
    gc.collect()
    tracemalloc.start()
    try:
        found = []
        for number in range(times):
            use(number)
            gc.collect()  # empties the lists of free tuples, too
            found.append(tracemalloc.get_traced_memory()[0])
        return found
    finally:
        tracemalloc.stop()
