"""Base classes of stores, which keep robots.txt files outside of the memory of a crawl.

`cache/client.py` calls the store in threads and handles its errors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar


class Store(ABC):
    """A key-value store for bytes.

    Methods may block, because they run in threads. The exception is `open`, which runs on the event
    loop and delays the start of the crawl. At most `threads` calls run at the same time. If a
    method raises any exception, the crawl continues without the store and calls it again later.

    Keys are origins such as ``scheme://authority``, in lowercase ASCII and without userinfo.
    """

    #: Maximum number of concurrent calls.
    threads: ClassVar[int] = 1

    @abstractmethod
    def open(self) -> None:
        """Prepare the store. This is called once, when the crawl starts.

        :raises Exception: if the store can never work, so that the crawl is stopped. Temporary
            failures must not raise. The message of a `StoreError` is shown to the user as is.
        """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the latest value of a key, or `None` if it is missing or expired."""

    @abstractmethod
    def put(self, key: str, value: bytes, seconds: float) -> None:
        """Store a value atomically, replacing any existing one.

        :param seconds: the time until it expires, above 0. The store may drop it earlier.
        """

    @abstractmethod
    def delete(self, key: str) -> bool:
        """Delete a value, and return whether it existed."""

    @abstractmethod
    def keys(self) -> Iterator[str]:
        """Yield all keys, in any order. Keys that change during the call may be missing."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources. This is called once, when the crawl ends."""


class SharedStore(Store):
    """A store that several workers share.

    Workers take a lease to fetch a file, and a turn to send a request to a site with an interval.
    Times are measured by the clock of the store, so the clocks of the workers may differ.
    """

    @abstractmethod
    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Take or renew the lease for a key, which only one owner can have at a time.

        :param owner: a unique name of the worker.
        :param seconds: the time until the lease expires.
        :returns: True if the owner has the lease now.
        """

    @abstractmethod
    def release(self, key: str, owner: str) -> None:
        """Release a lease if the owner has it."""

    @abstractmethod
    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        """Take or renew the turn for a key, which only one owner can have at a time.

        The owner that has waited longest is next. An owner that stops calling this method loses its
        place in the line.

        :param seconds: the time until the turn expires.
        :returns: 0 if the owner has the turn now, otherwise the seconds to wait before the next
            call.
        """

    @abstractmethod
    def end_turn(self, key: str, owner: str, interval: float) -> None:
        """End a turn, unless another owner has it.

        :param interval: the time in seconds until the next turn may start.
        """
