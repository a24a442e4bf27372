"""Places where feeds are written: no two at one, and a local file that can be.

In here: what is looked at before a crawl starts. What is written there is `feeds.py`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from w3lib.url import file_uri_to_path

from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.stores.address import without_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


def check_places(key: str, feeds: Mapping[str, object], items: Iterable[object]) -> None:
    """Refuse two feeds, of items or of a report, at one place.

    :param key: the setting of the report.
    :param feeds: its URIs -> options.
    :param items: URIs and paths of the feeds of items.
    :raises SettingError: there are two.
    """
    taken = {_place(uri): "FEEDS" for uri in items if uri}
    for uri, options in feeds.items():
        place = _place(uri)
        if place in taken:
            accepted = f"at a place of its own; {taken[place]} has another one there"
            raise SettingError(f"{key}[{without_credentials(uri)!r}]", options, accepted)
        taken[place] = key


def _place(uri: object) -> str:
    """Return a URI so that two ways of writing a local file are one."""
    text = os.fspath(uri) if isinstance(uri, Path) else str(uri)
    if text.startswith("file:"):
        text = file_uri_to_path(text)
    if "://" in text or text.startswith("stdout:") or "\0" in text:  # the last is refused elsewhere
        return text
    return os.path.realpath(text)


def check_writable(path: Path) -> None:
    """See that a file can be written, and leave nothing behind: neither a file nor one cut short.

    :raises OSError: it cannot.
    :raises ValueError: there is a NUL in its name.
    """
    if "\0" in str(path):
        raise ValueError("embedded null byte")
    there = os.path.lexists(path)
    folder = path.parent
    while not folder.exists() and folder != folder.parent:  # Scrapy makes those that are missing
        folder = folder.parent
    if not folder.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(folder, os.W_OK | os.X_OK) and not there:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if there or folder == path.parent:
        # Without waiting: nobody may read the other end of a pipe.
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NONBLOCK", 0)
        os.close(os.open(path, flags, 0o666))
        if not there:
            path.unlink()
