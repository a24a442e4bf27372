"""Repair queuelib's queue files, which are inconsistent after a process was killed.

`LifoDiskQueue` truncates its file at each `pop`, buffers its writes, and stores the number of
requests only when it is closed. `FifoDiskQueue` also stores its position and size only then.
"""

import json
import os
import re
from mmap import ACCESS_READ, mmap
from pathlib import Path
from struct import Struct
from typing import Any

from queuelib.queue import FifoDiskQueue, LifoDiskQueue

# Used in both file formats for the size of a request, and in LIFO files for the request count.
_SIZE = Struct(">L")

# A killed process leaves at most one incomplete request, which is at the end. If more bytes than
# this are invalid, the file was damaged in some other way, so we don't truncate it.
MAX_CUT = 1 << 20


def repair(path: Path, kind: type[Any]) -> bool:
    """Make the files of a queue consistent, and return whether they were changed.

    :param kind: the queue class. Only queuelib's formats are supported.
    :raises ValueError: the files are damaged in some other way.
    """
    if not path.exists():
        return False
    if issubclass(kind, LifoDiskQueue):
        return _repair_lifo(path)
    if issubclass(kind, FifoDiskQueue):
        return _repair_fifo(path)
    return False


def _repair_lifo(path: Path) -> bool:
    """Cut off an incomplete request, and correct the number of requests at the start."""
    with path.open("rb+") as file:
        data = _content(file.fileno())
        end, count = _end_of_lifo(data)
        header = _SIZE.pack(count)
        if data[: _SIZE.size] == header and end == len(data):
            return False
        file.write(header)
        file.truncate(end)
    return True


def _end_of_lifo(data: bytes | mmap) -> tuple[int, int]:
    """Return where the last complete request ends, and the number of requests up to there.

    A request is followed by its size, so the file is read backwards. A position is the end of a
    request if following the sizes from there leads exactly to the start.
    """
    size = len(data)
    end = max(size, _SIZE.size)
    while (count := _count_lifo(data, end)) is None:
        # A request's size starts with a zero byte unless it is 16 MiB or more.
        end = data.rfind(b"\0", _SIZE.size, end - _SIZE.size) + _SIZE.size
        if end < max(2 * _SIZE.size, size - MAX_CUT):
            raise ValueError("no request can be read at the end of the file")
    return end, count


def _count_lifo(data: bytes | mmap, end: int) -> int | None:
    """Return the number of requests before a position, or `None` if no request ends there."""
    count = 0
    while end >= 2 * _SIZE.size:
        end -= _SIZE.size
        (size,) = _SIZE.unpack_from(data, end)
        if not size:
            return None
        end -= size
        count += 1
    return count if end == _SIZE.size else None


def _repair_fifo(path: Path) -> bool:
    """Cut off an incomplete request, and correct the positions and the size in `info.json`."""
    stored = _read_info(path / "info.json")
    info = stored or {"chunksize": 100_000, "tail": [0, 0, 0]}
    # The queue reads from its tail, which consists of a chunk, the number of requests popped from
    # it, and the offset of the next one. It writes to its head, which is the last chunk.
    first, popped, offset = info["tail"]
    names = [file.name for file in path.iterdir() if re.fullmatch(r"q\d{5,}", file.name)]
    numbers = sorted(int(name[1:]) for name in names)
    chunks = [number for number in numbers if number >= first]
    if chunks and chunks[0] > first:  # all earlier requests were popped after the last save
        popped = offset = 0
    tail = [chunks[0], popped, offset] if chunks else [first, 0, 0]
    size = 0
    head = tail[:2]
    for number in chunks:
        count = _cut_fifo(path / f"q{number:05d}", offset)
        head = [number, popped + count]
        size += count
        popped = offset = 0
    if head[1] >= info["chunksize"]:
        head = [head[0] + 1, 0]
    repaired = {**info, "size": size, "tail": tail, "head": head}
    if repaired == stored:
        return False
    (path / "info.json").write_text(json.dumps(repaired), encoding="utf-8")
    return True


def _read_info(path: Path) -> dict[str, Any] | None:
    """Return the state stored by a FIFO queue, or `None` if it cannot be read."""
    try:
        info: dict[str, Any] = json.loads(path.read_bytes())
        chunksize, (chunk, popped, offset) = info["chunksize"], info["tail"]
    except (OSError, ValueError, TypeError, KeyError):
        return None
    values = (chunksize, chunk, popped, offset)
    return info if all(isinstance(value, int) and value >= 0 for value in values) else None


def _cut_fifo(path: Path, offset: int) -> int:
    """Cut off an incomplete request. Return the number of requests after an offset.

    Each request is preceded by its size.
    """
    with path.open("rb+") as file:
        data = _content(file.fileno())
        length = len(data)
        count = 0
        while offset + _SIZE.size <= length:
            (size,) = _SIZE.unpack_from(data, offset)
            next_offset = offset + _SIZE.size + size
            if not size or next_offset > length:
                break
            offset = next_offset
            count += 1
        if length - offset > MAX_CUT:
            raise ValueError("no request can be read in the middle of the file")
        if offset < length:
            file.truncate(offset)
    return count


def _content(file: int) -> bytes | mmap:
    """Return a file's bytes. The file is not mapped if it is empty, because that would fail."""
    return mmap(file, 0, access=ACCESS_READ) if os.fstat(file).st_size else b""
