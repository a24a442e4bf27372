"""The contract of a store: what is asked of a place that keeps robots.txt files outside of a crawl's memory.

In here: two abstract classes. Who calls them, on which thread, and what follows from an error is `keeper.py`; what the
values are is `codec.py`: to a store they are octets.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator


class Store(ABC):
    """Keeps octets by key.

    All methods block and may take their time: none is called on the thread of the event loop, but for `open`. At most
    `threads` of them are under way at a time, each on a thread of its own. Any exception means that the store failed:
    the crawl goes on without it, and asks again later.

    Keys are origins as ``scheme://authority``, lower-case ASCII, without userinfo.
    """

    #: Calls that may be under way at once.
    threads: ClassVar[int] = 1

    @abstractmethod
    def open(self) -> None:
        """Get ready; called once, before anything else, when the crawl starts.

        :raises StoreError: this cannot work; stops the crawl. What may pass is no reason to raise.
        """

    @abstractmethod
    def get(self, key: str) -> bytes | None:
        """Return the value that was put last; ``None`` where there is none, or where it is no longer kept."""

    @abstractmethod
    def put(self, key: str, value: bytes, keep: float) -> None:
        """Keep a value, whole or not at all, in place of any other.

        :param keep: seconds after which nobody wants it, above 0; it may be gone before.
        """

    @abstractmethod
    def delete(self, key: str) -> bool:
        """Drop a value; whether there was one."""

    @abstractmethod
    def keys(self) -> Iterator[str]:
        """All keys, in any order; what changes meanwhile may be among them or not."""

    @abstractmethod
    def close(self) -> None:
        """Let go of everything; called once, last."""


class SharedStore(Store):
    """A store that several workers use at once, and by which they take turns.

    Times are measured by the store's own clock, so that the clocks of the workers do not matter.
    """

    @abstractmethod
    def lease(self, key: str, owner: str, seconds: float) -> bool:
        """Let one owner at a time fetch the file of a key.

        :param owner: a name that nobody else has. An owner that has the lease gets it anew, for so long from now.
        :param seconds: the lease ends by itself after that.
        :returns: whether the owner has it now.
        """

    @abstractmethod
    def release(self, key: str, owner: str) -> None:
        """End a lease, if it is the owner's."""

    @abstractmethod
    def take_turn(self, key: str, owner: str, hold: float) -> float:
        """Let one owner at a time send a request that keeps an interval with all others of the key.

        Who has asked for longest goes first, so that nobody waits for ever; who does not come back has no place.

        :param hold: seconds after which a turn ends by itself, unless it is taken again by its owner before.
        :returns: 0, and the turn is the owner's; else seconds, above 0, after which to ask again.
        """

    @abstractmethod
    def end_turn(self, key: str, owner: str, interval: float) -> None:
        """End a turn, if it is the owner's or nobody's; the next one begins after so many seconds at the earliest."""
