"""Recognize errors that mean that file descriptors or disk space are missing."""

import errno
import os
from contextlib import ExitStack

from scrapy_robots_rfc._runtime import DISK_FULL

# SQLite opens its database, the journal, and the folder to flush it.
_DESCRIPTORS_OF_SQLITE = 3


def lacks_descriptors(error: object) -> bool:
    """Return whether an error means that no file descriptors are left."""
    if getattr(error, "sqlite_errorname", "") == "SQLITE_CANTOPEN":  # SQLite doesn't say why
        with ExitStack() as stack:
            try:
                for _ in range(_DESCRIPTORS_OF_SQLITE):
                    stack.callback(os.close, os.open(os.devnull, os.O_RDONLY))
            except OSError as cause:
                error = cause
    return isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE)


def is_shortage(error: object) -> bool:
    """Return whether an error means that no file descriptors or no disk space is left."""
    is_full = isinstance(error, OSError) and error.errno in DISK_FULL
    is_full |= getattr(error, "sqlite_errorname", "") == "SQLITE_FULL"
    return is_full or lacks_descriptors(error)


def raise_if_shortage(error: Exception) -> None:
    """Re-raise an error if descriptors or space are missing, because the queue is not damaged."""
    if is_shortage(error):
        raise error
