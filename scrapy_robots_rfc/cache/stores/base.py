"""The contract of a store, which has robots.txt files outside of a crawl's memory.

`open_store` makes the one that ROBOTS_CACHE names; errors show no credentials. `cache/client.py`
calls it, on which thread and with what consequence of an error. To a store values are octets;
`cache/entry.py` writes and reads them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc.core.text import error_text, hidden, without_credentials
from scrapy_robots_rfc.errors import MissingPackageError, RobotsError, SettingError, StoreError
from scrapy_robots_rfc.settings import CACHE, CACHE_ACCEPTED

#: What stands before the path of an SQLite file. An absolute path begins with a fourth slash.
SQLITE = "sqlite:///"
_REDIS = ("redis://", "rediss://")


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


@contextmanager
def errors_of(spec: object, key: str = CACHE) -> Iterator[None]:
    """Have each `StoreError` that is raised within name the setting and what is accepted.

    :param spec: the value.
    :param key: the setting, or the option of a command.
    """
    try:
        yield
    except StoreError as error:
        text = f"{key} = {hidden(spec)!r} cannot be used: {error}; it must be {CACHE_ACCEPTED}"
        raise StoreError(text) from error


def open_store(spec: object, crawler: Crawler, key: str = CACHE) -> tuple[Store, str] | None:
    """Return what `store_of` returns, and open the store.

    :raises StoreError: also for whatever a class of the user's raises. With Scrapy's NotConfigured
        the crawl would go on without the middleware, and robots.txt would not be obeyed.
    """
    try:
        made = store_of(spec, crawler, key)
        if made is not None:
            made[0].open()
    except RobotsError:
        raise
    except Exception as error:
        raise StoreError(f"it cannot be opened ({error_text(error)})") from error
    return made


def store_of(spec: object, crawler: Crawler, key: str = CACHE) -> tuple[Store, str] | None:
    """Return the store that a value of ROBOTS_CACHE asks for, not opened, and its name for people.

    :param spec: an address, a class, or the path of one.
    :param crawler: what a class of the user's is made from, as Scrapy makes its components.
    :param key: the setting, or the option of a command, that has the value.
    :returns: ``None`` where there is to be none but the crawl's memory.
    :raises SettingError: the value is not accepted, or needs a package that is not installed.
    """
    if spec in (None, "", "memory:"):
        return None
    address = spec if isinstance(spec, str) else ""
    if address.startswith(_REDIS):
        try:
            from scrapy_robots_rfc.cache.stores.redis import RedisStore  # noqa: PLC0415 - the package is an extra
        except ModuleNotFoundError as error:
            raise MissingPackageError(key, without_credentials(address), "redis") from error
        return RedisStore(address), without_credentials(address)
    if (path := sqlite_path(address)) is not None:
        from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore  # noqa: PLC0415 - loaded when it is asked for

        return SqliteStore(path), address
    if ":" in address:  # and no path of a class
        raise SettingError(key, without_credentials(address), CACHE_ACCEPTED)
    try:
        found: Any = load_object(spec)  # type: ignore[arg-type]  # another type is refused, too
        if not issubclass(found, Store):
            raise TypeError("it is another class")
    except Exception as error:
        accepted = f"{CACHE_ACCEPTED} ({type(error).__name__}: {error})"
        raise SettingError(key, spec, accepted) from error
    return build_from_crawler(found, crawler), f"{found.__module__}.{found.__qualname__}"


def sqlite_path(address: str) -> str | None:
    """Return the path in the address of an SQLite file; nothing in it is decoded.

    :returns: ``None`` for another address, or one without a path.
    """
    return address.removeprefix(SQLITE) or None if address.startswith(SQLITE) else None
