"""One process at a time: a lock on a folder, for the moments in which a file in it is made or replaced.

In here: nothing about what is in the file. The lock ends with its process, whatever ends that.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

if sys.platform != "win32":
    import fcntl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: Seconds between two looks at a lock that another process has.
_INTERVAL = 0.01


@contextlib.contextmanager
def alone_in(folder: Path, patience: float) -> Iterator[None]:
    """Keep other processes that ask for the same out of a folder.

    A file system without locks lets everybody in.

    :param patience: seconds to wait for those who are in there.
    :raises TimeoutError: somebody is in there for longer.
    """
    if sys.platform == "win32":  # where a file that is in use can be neither removed nor renamed
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        _lock(descriptor, patience)
        yield
    finally:
        os.close(descriptor)


def _lock(descriptor: int, patience: float) -> None:
    until = time.monotonic() + patience
    while sys.platform != "win32":
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > until:
                raise TimeoutError("another process does not end opening the file") from None
            time.sleep(_INTERVAL)
        except OSError:
            return
        else:
            return
