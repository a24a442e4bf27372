"""Let processes share one SQLite file and kill them, and print what they put as JSON.

This is a program, because it forks, and a process with threads must not fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import traceback
from itertools import count
from pathlib import Path

from scrapy_robots_rfc.cache.stores import sqlite
from tests.support.sqlite_files import opened

PROCESSES = 8
#: How many processes start together, and are killed. The first ones create the file.
ROUNDS = [PROCESSES, *[1] * 30]


def value_of(key: str, number: int) -> bytes:
    """Return a value that tells its key and whether it is complete; some need several pages."""
    return f"{key} {number} ".encode() * (1 + number % 300)


def number_of(key: str, value: bytes) -> int:
    """Return the number of a value, which must be complete and of this key."""
    number = int(value.split(b" ", 2)[1])
    assert value == value_of(key, number)
    return number


def write(path: Path, process: int, start: int, pipe: int) -> None:
    """Put values endlessly, write each key and number into a pipe, and read other values."""
    sqlite.LOCK_TIMEOUT = 60.0  # on a busy machine, eight processes may need more than usual
    store = opened(path)
    for number in count(start):
        key = f"https://{process}-{number % 5}.example"
        store.put(key, value_of(key, number), 10_000.0)
        os.write(pipe, f"{key} {number}\n".encode())
        other = f"https://{number % PROCESSES}-{number % 5}.example"
        value = store.get(other)
        if value is not None:
            number_of(other, value)


def started(path: Path, process: int, start: int, begin: tuple[int, int]) -> tuple[int, int]:
    """Start a process that writes when a pipe is closed; return its ID and its output."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        os.close(begin[1])
        os.read(begin[0], 1)
        write(path, process, start, writing)
    finally:
        traceback.print_exc()
        os._exit(1)


def main(path: Path) -> None:
    """Start processes together, kill each after some values, and do that several times."""
    put: dict[str, int] = {}
    numbers = random.Random(1)
    for number, processes in enumerate(ROUNDS):
        begin, start = os.pipe(), number * 1_000_000
        children = [started(path, process, start, begin) for process in range(processes)]
        for end in begin:
            os.close(end)
        for child, output in children:
            with os.fdopen(output, "rb") as pipe:
                # Some are killed at their start.
                lines = [pipe.readline() for _ in range(numbers.randrange(-8, 30))]
                os.kill(child, signal.SIGKILL)
                assert os.waitpid(child, 0)[1] == signal.SIGKILL
                for line in (*lines, *pipe):
                    key, last = line.decode().split()
                    put[key] = int(last)
    json.dump(put, sys.stdout)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
