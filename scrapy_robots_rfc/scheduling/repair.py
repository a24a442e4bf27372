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

    The file contains the number of requests, and then each request followed by its size, so it is
    read backwards. A position is the end of a request if following the sizes from there leads
    exactly to the first request.
    """
    file_size = len(data)
    end = max(file_size, _SIZE.size)  # an empty file is read like one without requests
    while True:
        count = _count_lifo(data, end)
        if count is not None:
            return end, count
        # Try the nearest earlier position. A request ends with its size, and the first of its four
        # bytes is zero, unless the size is 16 MiB or more. So look for an earlier zero byte.
        start_of_size = data.rfind(b"\0", _SIZE.size, end - _SIZE.size)
        end = start_of_size + _SIZE.size
        if start_of_size < 0 or end < file_size - MAX_CUT:
            raise ValueError("no request can be read at the end of the file")


def _count_lifo(data: bytes | mmap, end: int) -> int | None:
    """Return the number of requests before a position, or `None` if no request ends there.

    Without requests, the position is the end of the request count at the start of the file.
    """
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
    """Cut off an incomplete request, and correct the positions and the size in `info.json`.

    The requests are in files named q00000, q00001, ..., which are called chunks. The queue reads
    from its tail: the first chunk, the number of requests popped from it, and the offset of the
    next one. It writes to its head: the last chunk, and the number of requests written to it.
    """
    stored = _read_info(path / "info.json")
    info = stored or {"chunksize": 100_000, "tail": [0, 0, 0]}
    tail_chunk, popped, offset = info["tail"]
    names = [file.name for file in path.iterdir() if re.fullmatch(r"q\d{5,}", file.name)]
    numbers = sorted(int(name[1:]) for name in names)
    chunks = [number for number in numbers if number >= tail_chunk]
    if tail_chunk not in chunks:  # all of its requests were popped after the last save
        tail_chunk = min(chunks, default=tail_chunk)
        popped = offset = 0
    unread = {
        chunk: _cut_fifo(path / f"q{chunk:05d}", offset if chunk == tail_chunk else 0)
        for chunk in chunks
    }
    head_chunk = max(chunks, default=tail_chunk)
    written = unread.get(head_chunk, 0)
    if head_chunk == tail_chunk:
        written += popped  # popped requests remain in the file
    if written >= info["chunksize"]:  # the last chunk is full, so the queue writes to a new one
        head_chunk, written = head_chunk + 1, 0
    tail, head = [tail_chunk, popped, offset], [head_chunk, written]
    repaired = {**info, "size": sum(unread.values()), "tail": tail, "head": head}
    if repaired == stored:
        return False
    (path / "info.json").write_text(json.dumps(repaired), encoding="utf-8")
    return True


def _read_info(path: Path) -> dict[str, Any] | None:
    """Return the state stored by a FIFO queue, or `None` if it cannot be read."""
    try:
        info: dict[str, Any] = json.loads(path.read_bytes())
        chunk, popped, offset = info["tail"]
        values = (info["chunksize"], chunk, popped, offset)
    except (OSError, ValueError, TypeError, KeyError):
        return None
    return info if all(isinstance(value, int) and value >= 0 for value in values) else None


def _cut_fifo(path: Path, offset: int) -> int:
    """Cut off an incomplete request. Return the number of requests after an offset.

    Each request is preceded by its size.

    :param offset: where the first request begins that was not popped.
    """
    with path.open("rb+") as file:
        data = _content(file.fileno())
        length = len(data)
        count = 0
        while offset + _SIZE.size <= length:
            (size,) = _SIZE.unpack_from(data, offset)
            next_offset = offset + _SIZE.size + size
            if not size or next_offset > length:  # requests are never empty, so 0 is not a size
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
