"""TopK: counts keys in bounded memory, however many there are."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

#: Keys that a `TopK` remembers at least.
REMEMBERED = 1000

K = TypeVar("K", bound="Hashable")


class TopK(Generic[K]):
    """Counts keys, and forgets those that count least when they become too many.

    These are the summaries of Misra and Gries. Every count is exact as long as there are at most
    twice `bound` keys. With more keys a count may be too low by `error`, which is never above the
    sum of all amounts divided by `bound`.

    :param bound: how many keys are remembered at least; never more than twice as many.
    """

    def __init__(self, bound: int = REMEMBERED) -> None:
        self._bound = bound
        self._counts: dict[K, float] = {}
        #: By how much a count may be too low at most, also that of a key that was forgotten.
        self.error: float = 0.0

    def add(self, key: K, amount: float = 1) -> None:
        """Count a key.

        :param amount: how much it counts, above 0.
        """
        self._counts[key] = self._counts.get(key, 0) + amount
        if len(self._counts) > 2 * self._bound:
            # Subtract the count of the first key beyond the bound from all counts.
            cut = sorted(self._counts.values(), reverse=True)[self._bound]
            self.error += cut
            self._counts = {key: n - cut for key, n in self._counts.items() if n > cut}

    def most(self, number: int) -> list[tuple[K, float]]:
        """Return the keys that count most, with their counts; equal ones by their text."""
        return sorted(self._counts.items(), key=lambda item: (-item[1], str(item[0])))[:number]
