"""A file that a command writes: whole or not at all, and never over what is no file, or is still to be read.

In here: the way to the disk. What is in the file is the topic's business.
"""

from __future__ import annotations

import os
import secrets
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.sources import STANDARD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Characters of a name that its unfinished part takes over, of which each has four octets at most; names have 255.
_NAME = 50


@dataclass(frozen=True, slots=True)
class Kind:
    """What is written, for people.

    :param what: as in ``written as a page``.
    :param example: a name for it.
    :param source: what no such file may be written over, as in ``one of the reports``.
    """

    what: str
    example: str
    source: str


def target_of(name: str, kind: Kind, sources: Iterable[Path] = ()) -> Path:
    """Return where a file goes: a link is followed.

    :param sources: what is not to be written over.
    :raises Failed: there is a device, a pipe, a folder, or a source.
    """
    try:
        path = Path(name).resolve()
        # Asked by the name: where it stands for a pipe of this process, there is nothing under the path it leads to.
        taken = path.is_symlink() or (Path(name).exists() and not (Path(name).is_file() and path.is_file()))
        source = any(_same(path, each) for each in sources)
    except (OSError, ValueError, RuntimeError):  # a loop of links in some versions of Python, a NUL
        taken, source = True, False
    if taken or name == STANDARD:
        raise Failed(f"{name} cannot be written as {kind.what}; name a file for it, such as {kind.example}", 2)
    if source:
        raise Failed(f"{name} is {kind.source}; name another file, such as {kind.example}", 2)
    return path


def _same(path: Path, source: Path) -> bool:
    return path == source.resolve() or (path.exists() and source.exists() and path.samefile(source))


@contextmanager
def written(path: Path) -> Iterator[IO[bytes]]:
    """Yield a file that appears under its name when it is whole, with the permissions of any other new file.

    :param path: from `target_of`.
    :raises Failed: it cannot be made (2), or written to its end (1); then nothing has changed.
    """
    part = path.with_name(f".{path.name[:_NAME]}.{secrets.token_hex(4)}")
    try:
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    except OSError as error:
        raise Failed(f"{path} cannot be written: {error.strerror}; name a file in a folder of yours", 2) from error
    try:
        with open(handle, "wb") as file:  # noqa: PTH123 - a descriptor
            yield file
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Failed(f"{path} cannot be written: {error.strerror}; name a file where there is room") from error
        raise
