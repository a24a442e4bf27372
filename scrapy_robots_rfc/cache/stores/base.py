"""The contract of a store, which keeps robots.txt files outside of a crawl's memory.

`opening.py` makes the store that ROBOTS_CACHE names. `cache/client.py` calls it on threads, and
handles its errors. To a store values are bytes; `cache/entry.py` writes and reads them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar


class Store(ABC):
    """Octets by key.

    All methods may block. `open` alone is called on the thread of the event loop, so it delays the
    start. At most `threads` other calls run at a time, each on a thread of its own. Any exception
    means that the store failed: the crawl goes on without it, and calls it again later.

    Keys are origins as ``scheme://authority``, lower-case ASCII, without userinfo.
    """

    #: Calls that may be under way at once.
    threads: ClassVar[int] = 1

    @abstractmethod
    def open(self) -> None:
        """Get ready; called once, before anything else, when the crawl starts.

        :raises Exception: the store can never work; this stops the crawl. Do not raise for a fault
            that may pass. The text of a `StoreError` is shown as it is.
        """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the value that was put last; ``None`` if there is none, or its time is over."""

    @abstractmethod
    def put(self, key: str, value: bytes, seconds: float) -> None:
        """Store a value, whole or not at all, in place of any other.

        :param seconds: above 0, after which its time is over; it may be gone before.
        """

    @abstractmethod
    def delete(self, key: str) -> bool:
        """Drop a value, and return whether there was one."""

    @abstractmethod
    def keys(self) -> Iterator[str]:
        """Yield all keys, in any order; those that change meanwhile may be among them or not."""

    @abstractmethod
    def close(self) -> None:
        """Close all that is open; called once, last."""


class SharedStore(Store):
    """A store that several workers use at once, and by which they take turns.

    Times are measured by the store's own clock, so that the clocks of the workers do not matter.
    """

    @abstractmethod
    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let one owner at a time fetch the file of a key.

        :param owner: a name that no other worker has. An owner that has the lease renews it, from
            now.
        :param seconds: after which the lease ends by itself.
        :returns: whether the owner has it now.
        """

    @abstractmethod
    def release(self, key: str, owner: str) -> None:
        """End a lease, if it is the owner's."""

    @abstractmethod
    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        """Let one owner at a time send a request, an interval apart from all others of the key.

        The owner that has waited longest goes first, so that none waits for ever; one that stops
        asking loses its place.

        :param seconds: after which a turn ends by itself, unless its owner takes it again
            before.
        :returns: 0 if the turn is the owner's; else the seconds, above 0, after which to ask again.
        """

    @abstractmethod
    def end_turn(self, key: str, owner: str, interval: float) -> None:
        """End a turn, unless another owner has it.

        The next one begins after so many seconds at the earliest.
        """
