"""Tallies: what counts most among more keys than anybody wants to remember.

In here: counting within a bound, and how wrong it may be. What is counted is others' business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Hashable

K = TypeVar("K", bound="Hashable")

#: Keys that a tally remembers at least.
KEPT = 1000


class TopK(Generic[K]):
    """Counts keys, and forgets those that count least when they become too many (the summaries of Misra and Gries).

    With up to twice the bound of keys every count is exact. With more, a count may be too low, by `error` at most, and
    that is never more than the sum of all that was added, divided by the bound: what counts more than that is known.

    :param bound: how many keys are remembered at least; never more than twice as many.
    """

    def __init__(self, bound: int = KEPT) -> None:
        self._bound = bound
        self._counts: dict[K, float] = {}
        self._error = 0.0

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def error(self) -> float:
        """By how much a count may be too low, that of a key that was forgotten too."""
        return self._error

    def add(self, key: K, amount: float = 1) -> None:
        """Count a key.

        :param amount: how much it counts, above 0.
        """
        self._counts[key] = self._counts.get(key, 0) + amount
        if len(self._counts) > 2 * self._bound:
            self._forget()

    def most(self, number: int) -> list[tuple[K, float]]:
        """Return the keys that count most, with their counts; those that count the same in the order of their text."""
        return sorted(self._counts.items(), key=lambda item: (-item[1], str(item[0])))[:number]

    def _forget(self) -> None:
        """Take from all of them what the first one beyond the bound counts, and keep what is left."""
        cut = sorted(self._counts.values(), reverse=True)[self._bound]
        self._error += cut
        self._counts = {key: count - cut for key, count in self._counts.items() if count > cut}


class Names:
    """The first few names, with the last that was said of each, and how often the others came.

    :param bound: how many are remembered.
    """

    def __init__(self, bound: int = 10) -> None:
        self._bound = bound
        #: Name -> how often it came, and what was last said of it.
        self.named: dict[str, tuple[int, str]] = {}
        #: How often others came.
        self.more = 0

    def add(self, name: str, what: str) -> None:
        """Note a name, and what there is to say of it."""
        if name in self.named or len(self.named) < self._bound:
            self.named[name] = self.named.get(name, (0, ""))[0] + 1, what
        else:
            self.more += 1
