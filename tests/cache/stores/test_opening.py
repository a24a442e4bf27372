"""Values of ROBOTS_CACHE, and errors without passwords."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.exceptions import NotConfigured

from scrapy_robots_rfc.cache.stores.opening import make_store, open_store
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from scrapy_robots_rfc.errors import SettingError, StoreError
from tests.support.case_files import tables
from tests.support.own_store import FolderStore
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from pathlib import Path


def opened(spec: object, **settings: Any) -> tuple[Any, str]:
    """Return the store for a value of the setting."""
    found = make_store(spec, Crawler(Spider, settings))
    assert found is not None
    return found


@pytest.mark.parametrize("spec", ["memory:", None, ""])
def test_memory_alone_needs_no_store(spec: str | None) -> None:
    """Without a store, the crawl uses only its memory."""
    assert make_store(spec, Crawler(Spider)) is None


@pytest.mark.parametrize(
    "path", ["robots.sqlite", "a folder/100%25?x#y@z", "/robots.sqlite", ":memory:"]
)
def test_sqlite_path_is_taken_as_it_stands(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The text after three slashes is a path, relative to the working directory or absolute."""
    monkeypatch.chdir(tmp_path)
    path = f"{tmp_path}{path}" if path.startswith("/") else path
    store, name = opened(f"sqlite:///{path}")
    assert isinstance(store, SqliteStore)
    assert name == f"sqlite:///{path}"
    monkeypatch.chdir("/")
    store.open()
    store.close()
    assert (tmp_path / path).is_file()


@pytest.mark.parametrize("spec", [FolderStore, "tests.support.own_store.FolderStore"])
def test_a_store_of_the_users_own(spec: object, tmp_path: Path) -> None:
    """A class, or its path, is created like Scrapy's components, and named by its path."""
    store, name = opened(spec, COPIES_FOLDER=str(tmp_path))
    assert isinstance(store, FolderStore)
    assert (store.folder, name) == (tmp_path, "tests.support.own_store.FolderStore")
    assert isinstance(opened(MemoryStore)[0], MemoryStore)


@pytest.mark.parametrize("spec", [*tables("stores")["rejected"], 5, ["memory:"], Spider])
def test_what_is_not_accepted(spec: object) -> None:
    """Any other value stops the crawl at start; the error says what is accepted, without a
    password.
    """
    with pytest.raises(
        SettingError, match=r"ROBOTS_CACHE = .*It must be 'memory:', 'sqlite:///PATH'"
    ) as raised:
        opened(spec)
    assert "secret" not in str(raised.value)
    assert "secret" not in str(raised.value.value)


@pytest.mark.parametrize(("spec", "path"), tables("stores")["paths"])
def test_the_path_of_a_file(spec: str, path: str) -> None:
    """The error for a path without enough slashes says how to write it as an address."""
    with pytest.raises(SettingError) as raised:
        opened(spec)
    start = f"ROBOTS_CACHE = '{spec}' is not accepted. It must be 'sqlite:///{path}' to use this"
    assert str(raised.value).startswith(start)


class Failing(MemoryStore):
    """A store that raises when it is created or opened, as the test says."""

    when = "opened"
    error: Exception

    def __init__(self) -> None:
        super().__init__()
        if self.when == "made":
            raise self.error

    def open(self) -> None:
        raise self.error


@pytest.mark.parametrize("when", ["made", "opened"])
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError("redis://me:secret@h"), "opening it failed (OSError: redis://h)"),
        (NotConfigured("no host"), "opening it failed (NotConfigured: no host)"),
        (StoreError("install it"), "install it"),
    ],
)
def test_a_store_that_cannot_be_opened(when: str, error: Exception, text: str) -> None:
    """Any exception of a third-party store at start stops the crawl, although Scrapy ignores
    NotConfigured.
    """
    made = type("Made", (Failing,), {"when": when, "error": error})
    with pytest.raises(StoreError) as raised:
        open_store(made, Crawler(Spider))
    assert str(raised.value) == text
