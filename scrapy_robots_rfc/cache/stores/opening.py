"""Open the store configured in ROBOTS_CACHE.

Error messages do not contain credentials.
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

#: The prefix in the address of an SQLite file. An absolute path adds a fourth slash.
SQLITE = "sqlite:///"
# The suffixes of files that are probably meant as an SQLite file.
_FILES = (".sqlite", ".sqlite3", ".db")
_REDIS = ("redis://", "rediss://")


@contextmanager
def explain_store_errors(spec: object, key: str = CACHE) -> Iterator[None]:
    """Context manager that adds the name and value of the setting to any `StoreError`.

    :param spec: the setting's value.
    :param key: the name of the setting or command-line option.
    """
    try:
        yield
    except StoreError as error:
        address = str(spec)
        is_relative = address.startswith(SQLITE) and not address.startswith(f"{SQLITE}/")
        hint = "; an absolute path needs four slashes: sqlite:////PATH" if is_relative else ""
        raise StoreError(f"{key} = {masked(spec)!r} cannot be used: {error}{hint}") from error


def open_store(spec: object, crawler: Crawler, key: str = CACHE) -> tuple[Store, str] | None:
    """Create and open a store; see `make_store`. Call it within `explain_store_errors`.

    :raises StoreError: if the store cannot be opened. Any other exception from the user's class is
        converted, because after a `NotConfigured`, Scrapy would continue without obeying
        robots.txt.
    """
    try:
        store_and_name = make_store(spec, crawler, key)
        if store_and_name is not None:
            store_and_name[0].open()
    except RobotsError:
        raise
    except Exception as error:
        raise StoreError(f"opening it failed ({error_text(error)})") from error
    return store_and_name


def make_store(spec: object, crawler: Crawler, key: str = CACHE) -> tuple[Store, str] | None:
    """Create the store for a value of ROBOTS_CACHE, without opening it.

    :param spec: an address, a class, or the import path of a class.
    :param crawler: the crawler, which is passed to the user's class.
    :param key: the name of the setting or command-line option.
    :returns: the store and its human-readable name, or `None` if the crawl should only use memory.
    :raises SettingError: if the value is not accepted, or if a package is not installed.
    """
    if spec in (None, "", "memory:"):
        return None
    address = spec if isinstance(spec, str) else ""
    if address.startswith(_REDIS):
        name = without_credentials(address)
        try:
            from scrapy_robots_rfc.cache.stores.redis import RedisStore  # noqa: PLC0415 - optional
        except ModuleNotFoundError as error:
            raise MissingPackageError(key, name, "redis") from error
        return RedisStore(address), name
    path = sqlite_path(address)
    if path is not None:
        from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore  # noqa: PLC0415 - optional

        return SqliteStore(path), address
    # For `robots.db` or `sqlite:robots`, suggest the address with the right prefix.
    file = address.removeprefix("sqlite:").removeprefix("//")
    lacks_slashes = file != address and file.strip("/")
    if (lacks_slashes or file.endswith(_FILES)) and "://" not in file:
        accepted = f"'{SQLITE}{file}' to use this file, or {CACHE_ACCEPTED}"
        raise SettingError(key, address, accepted)
    if ":" in address:  # not an import path
        raise SettingError(key, without_credentials(address), CACHE_ACCEPTED)
    try:
        store_class: Any = load_object(spec)  # type: ignore[arg-type]  # it also raises TypeError
        if not issubclass(store_class, Store):
            raise TypeError("it is not a subclass of Store")
    except Exception as error:
        raise error_of_component(key, spec, CACHE_ACCEPTED, error) from error
    store = build_from_crawler(store_class, crawler)
    return store, f"{store_class.__module__}.{store_class.__qualname__}"


def sqlite_path(address: str) -> str | None:
    """Return the path from the address of an SQLite file, without decoding it.

    :returns: `None` if the address is for another kind of store, or if the path is missing.
    """
    if not address.startswith(SQLITE):
        return None
    return address.removeprefix(SQLITE) or None
