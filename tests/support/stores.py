"""Stores in memory: the shortest implementation of the interface, shared and failing ones."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NoReturn

from scrapy_robots_rfc.cache.stores.base import SharedStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self

    from scrapy.crawler import Crawler


#: Seconds until a worker asks again for a turn that is taken.
_ASK_AGAIN = 0.05

#: Seconds that a waiting worker may be late without losing its place, because its event loop may be
#: busy. After the death of a worker, the others wait once for this time.
_GRACE = 5.0


@dataclass(slots=True)
class _Turn:
    """The owner of a turn and its end, the start of the next turn, and the workers in line.

    :param line: until when each waiting worker keeps its place, in order.
    """

    owner: str | None = None
    until: float = 0.0
    start: float = 0.0
    line: dict[str, float] = field(default_factory=dict)


class MemoryStore(SharedStore):
    """The store. Several crawls of one process may share it.

    :param now: returns the time in seconds, on any clock.
    """

    threads: ClassVar[int] = 2

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._lock = threading.Lock()
        self._values: dict[str, tuple[bytes, float]] = {}
        self._leases: dict[str, tuple[str, float]] = {}
        self._turns: dict[str, _Turn] = {}

    def open(self) -> None:
        """Do nothing."""

    def get(self, key: str) -> bytes | None:
        with self._lock:
            value, until = self._values.get(key, (None, 0.0))
            if until > self._now():
                return value
            self._values.pop(key, None)
            return None

    def put(self, key: str, value: bytes, seconds: float) -> None:
        with self._lock:
            self._values[key] = value, self._now() + seconds

    def delete(self, key: str) -> bool:
        with self._lock:
            _, until = self._values.pop(key, (b"", 0.0))
            return until > self._now()

    def keys(self) -> Iterator[str]:
        with self._lock:
            now = self._now()
            return iter([key for key, (_, until) in self._values.items() if until > now])

    def close(self) -> None:
        """Do nothing."""

    def lease(self, key: str, owner: str, seconds: float) -> bool:
        with self._lock:
            holder, until = self._leases.get(key, (owner, 0.0))
            if holder != owner and until > self._now():
                return False
            self._leases[key] = owner, self._now() + seconds
            return True

    def release(self, key: str, owner: str) -> None:
        with self._lock:
            if self._leases.get(key, ("", 0.0))[0] == owner:
                del self._leases[key]

    def take_turn(self, key: str, owner: str, seconds: float) -> float:
        with self._lock:
            now, turn = self._now(), self._turns.setdefault(key, _Turn())
            turn.line = {waiting: until for waiting, until in turn.line.items() if until > now}
            if turn.owner not in (owner, None) and turn.until > now:
                pause = min(turn.until - now, _ASK_AGAIN)
            elif turn.owner != owner and turn.start > now:
                pause = turn.start - now
            elif turn.owner == owner or next(iter(turn.line), owner) == owner:
                turn.line.pop(owner, None)
                turn.owner, turn.until = owner, now + seconds
                return 0.0
            else:
                pause = _ASK_AGAIN
            turn.line[owner] = now + pause + _GRACE
            return pause

    def owner_of_turn(self, key: str) -> str | None:
        """Return the owner of the turn at a site, or ``None`` if it is free."""
        with self._lock:
            return self._turns[key].owner

    def forget_turns(self) -> None:
        with self._lock:
            self._turns.clear()

    def end_turn(self, key: str, owner: str, interval: float) -> None:
        with self._lock:
            now, turn = self._now(), self._turns.setdefault(key, _Turn())
            if turn.owner in (owner, None) or turn.until <= now:
                turn.owner, turn.start = None, max(turn.start, now + interval)


#: The setting that has every crawl use `OneStore.store`.
ONE_STORE = {"ROBOTS_CACHE": "tests.support.stores.OneStore"}


class OneStore(MemoryStore):
    """One store for all crawls, until a test replaces it."""

    store: ClassVar[OneStore]

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        assert isinstance(cls.store, cls)
        return cls.store


class NamedStore(MemoryStore):
    """A store whose instances share their values if their setting OWN_NAME is the same."""

    places: dict[str, dict[str, tuple[bytes, float]]] = {}  # noqa: RUF012 - shared on purpose

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        store = cls()
        store._values = cls.places.setdefault(crawler.settings.get("OWN_NAME", ""), {})
        return store


class Broken(MemoryStore):
    """A store that fails to return its keys and values."""

    def keys(self) -> NoReturn:
        self.get("")

    def get(self, key: str) -> NoReturn:
        raise OSError("no route to redis://me:secret@host\nat all")
