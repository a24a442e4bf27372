"""Open the store that ROBOTS_CACHE names: by an address, a class, or the path of a class.

Errors show no credentials.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc.cache.stores.base import Store
from scrapy_robots_rfc.core.text import error_text, masked, without_credentials
from scrapy_robots_rfc.errors import (
    MissingPackageError,
    RobotsError,
    SettingError,
    StoreError,
    error_of_component,
)
from scrapy_robots_rfc.settings import CACHE, CACHE_ACCEPTED

#: The address of an SQLite file begins with this. An absolute path adds a fourth slash.
SQLITE = "sqlite:///"
_REDIS = ("redis://", "rediss://")


@contextmanager
def explain_store_errors(spec: object, key: str = CACHE) -> Iterator[None]:
    """Add the setting to each `StoreError` that is raised within.

    :param spec: the value.
    :param key: the setting, or the option of a command.
    """
    try:
        yield
    except StoreError as error:
        address = str(spec)
        is_relative = address.startswith(SQLITE) and not address.startswith(f"{SQLITE}/")
        hint = "; an absolute path needs four slashes: sqlite:////PATH" if is_relative else ""
        raise StoreError(f"{key} = {masked(spec)!r} cannot be used: {error}{hint}") from error


def open_store(spec: object, crawler: Crawler, key: str = CACHE) -> tuple[Store, str] | None:
    """Open and return the store and the name that `make_store` returns.

    :raises StoreError: also for whatever the user's class raises. With Scrapy's NotConfigured
        the crawl would continue without the middleware, and robots.txt would not be obeyed.
    """
    try:
        made = make_store(spec, crawler, key)
        if made is not None:
            made[0].open()
    except RobotsError:
        raise
    except Exception as error:
        raise StoreError(f"it cannot be opened ({error_text(error)})") from error
    return made


def make_store(spec: object, crawler: Crawler, key: str = CACHE) -> tuple[Store, str] | None:
    """Return the store for a value of ROBOTS_CACHE, not opened, and its name in texts for the user.

    :param spec: an address, a class, or the path of a class.
    :param crawler: passed to the user's class, as Scrapy makes its components.
    :param key: the setting, or the option of a command, that has the value.
    :returns: `None` if there is no store but the crawl's memory.
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
    if ":" in address:  # not the path of a class
        raise SettingError(key, without_credentials(address), CACHE_ACCEPTED)
    try:
        found: Any = load_object(spec)  # type: ignore[arg-type]  # another type is refused, too
        if not issubclass(found, Store):
            raise TypeError("it is another class")
    except Exception as error:
        raise error_of_component(key, spec, CACHE_ACCEPTED, error) from error
    return build_from_crawler(found, crawler), f"{found.__module__}.{found.__qualname__}"


def sqlite_path(address: str) -> str | None:
    """Return the path in the address of an SQLite file, not decoded.

    :returns: `None` for another address, or one without a path.
    """
    return address.removeprefix(SQLITE) or None if address.startswith(SQLITE) else None
