"""The contract of a store, which keeps robots.txt files outside of a crawl's memory.

`opening.py` makes the store that ROBOTS_CACHE names. `cache/client.py` calls it on threads, and
handles its errors. A store has bytes; `cache/entry.py` writes and reads them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar


class Store(ABC):
    """Bytes by key.

    All methods may block. Only `open` is called on the thread of the event loop, so it delays the
    start. At most `threads` other calls run at a time, each on its own thread. Any exception means
    that the store failed: the crawl continues without it, and calls it again later.

    Keys are origins as ``scheme://authority``, lower-case ASCII, without userinfo.
    """

    #: Maximum concurrent calls.
    threads: ClassVar[int] = 1

    @abstractmethod
    def open(self) -> None:
        """Prepare the store; called once, first, when the crawl starts.

        :raises Exception: the store can never work, which stops the crawl. Do not raise for a
            temporary fault. The text of a `StoreError` is shown unchanged.
        """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the value that was stored last, or `None` if there is none, or it has expired."""

    @abstractmethod
    def put(self, key: str, value: bytes, seconds: float) -> None:
        """Store a value atomically, replacing any existing one.

        :param seconds: when it expires, above 0; the store may drop it earlier.
        """

    @abstractmethod
    def delete(self, key: str) -> bool:
        """Delete a value, and return whether it existed."""

    @abstractmethod
    def keys(self) -> Iterator[str]:
        """Yield all keys, in any order. Keys that change during the call may be missing."""

    @abstractmethod
    def close(self) -> None:
        """Close what is open; called once, last."""


class SharedStore(Store):
    """A store that several workers share, with leases and turns.

    Only its own clock counts, so the clocks of the workers do not matter.
    """

    @abstractmethod
    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let one owner at a time fetch the file of a key.

        :param owner: a name that no other worker has. An owner that has the lease renews it.
        :param seconds: when the lease expires, from now.
        :returns: whether the owner has it now.
        """

    @abstractmethod
    def release(self, key: str, owner: str) -> None:
        """End a lease, if the owner has it."""

    @abstractmethod
    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        """Let one owner at a time send a request, an interval after the previous one for the key.

        The owner that has waited longest is next, so that none waits for ever; one that stops
        asking loses its place.

        :param seconds: when the turn expires, unless its owner takes it again before.
        :returns: 0 if the owner has the turn, or the seconds, above 0, after which to ask again.
        """

    @abstractmethod
    def end_turn(self, key: str, owner: str, interval: float) -> None:
        """End a turn, unless another owner has it.

        :param interval: seconds after which the next turn may start.
        """
