"""Base classes for stores, which keep robots.txt files outside a crawl's memory.

`cache/client.py` calls the store in threads and handles its errors.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar


class Store(ABC):
    """A key-value store for bytes.

    Methods may block, because they run in threads. The exception is `open`, which runs on the event
    loop and delays the start of the crawl. No more than `threads` calls run at the same time. If a
    method raises an exception, the crawl continues without the store and tries it again later.

    Keys are origins such as ``scheme://authority``, in lowercase ASCII and without userinfo.
    """

    #: Maximum number of concurrent calls.
    threads: ClassVar[int] = 1

    @abstractmethod
    def open(self) -> None:
        """Prepare the store. This is called once, when the crawl starts.

        :raises Exception: if the store can never work. This stops the crawl, so do not raise for
            temporary failures. The message of a `StoreError` is shown to the user unchanged.
        """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the latest value for a key, or `None` if it is missing or expired."""

    @abstractmethod
    def put(self, key: str, value: bytes, seconds: float) -> None:
        """Store a value atomically, replacing any existing one.

        :param seconds: the time until the value expires, above 0. The store may drop it sooner.
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
    """A store that several workers can share.

    Workers take a lease before they fetch a file, and a turn before they send a request to a site
    that requires an interval. Times are measured with the store's clock, so the workers' clocks may
    differ.
    """

    @abstractmethod
    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Take or renew the lease on a key. Only one owner can hold it at a time.

        :param owner: a unique name for the worker.
        :param seconds: the time until the lease expires.
        :returns: True if the owner now holds the lease.
        """

    @abstractmethod
    def release(self, key: str, owner: str) -> None:
        """Release a lease if the owner holds it."""

    @abstractmethod
    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        """Take or renew the turn for a key. Only one owner can hold it at a time.

        The owner that has been waiting longest goes next. An owner that stops calling this method
        loses its place in line.

        :param seconds: the time until the turn expires.
        :returns: 0 if the owner now holds the turn, or else the seconds to wait before the next
            call.
        """

    @abstractmethod
    def end_turn(self, key: str, owner: str, interval: float) -> None:
        """End a turn, unless another owner holds it.

        :param interval: the seconds until the next turn may start.
        """
