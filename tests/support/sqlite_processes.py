"""Let processes share one SQLite file, or kill them, and print the results as JSON.

This is a program, because it forks, and a process with threads must not fork.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import traceback
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.sqlite_files import opened

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore

SECONDS = 10_000.0
KEYS = 40


def value_of(key: str, number: int) -> bytes:
    """Return a value that tells its key and whether it is complete; some need several pages."""
    return f"{key} {number} ".encode() * (1 + number % 300)


def is_whole(key: str, value: bytes) -> bool:
    """Return whether a value was put with this key."""
    return value == value_of(key, int(value.split(b" ", 2)[1]))


def forked(work: Callable[[], None]) -> int:
    """Call a function in a child process, and return its process id.

    The exit code is 0 if the function raises nothing.
    """
    process = os.fork()
    if process:
        return process
    try:
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the child ends here
        traceback.print_exc()
        os._exit(1)


def writer(path: Path, seed: int, pipe: int) -> None:
    """Put values endlessly, and write each key and number into a pipe."""
    store = opened(path)
    number = seed * 1_000_000
    while True:
        number += 1
        key = f"https://{number % KEYS}.example"
        store.put(key, value_of(key, number), SECONDS)
        os.write(pipe, f"{key} {number}\n".encode())


def killed_once(path: Path, seed: int, store: SqliteStore) -> tuple[int, list[str]]:
    """Kill a writer; return how many values it had put, and what is wrong with them."""
    reading, writing = os.pipe()
    process = forked(lambda: writer(path, seed, writing))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        # Every fourth writer is killed at its start, the others after a random number of values.
        read = [
            pipe.readline() for _ in range(random.Random(seed).randint(1, 40) if seed % 4 else 0)
        ]
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        lines = [line.decode().split() for line in (*read, *pipe)]
    put = {key: int(number) for key, number in lines}
    return len(lines), [*_wrong(put, store), *_wrong(put, opened(path))]


def _wrong(put: dict[str, int], store: SqliteStore) -> list[str]:
    errors = []
    for key, number in put.items():
        value = store.get(key)
        # A later value may be there, which the writer could not report.
        if value is None or not is_whole(key, value) or int(value.split(b" ", 2)[1]) < number:
            errors.append(f"{key}: put {number}, found {value and value[:40]!r}")
    return errors


def integrity(path: Path) -> str:
    """Return what SQLite says about a file: `ok`, or its errors."""
    with sqlite3.connect(path) as connection:
        result: str = connection.execute("PRAGMA integrity_check").fetchone()[0]
        return result


def kill(path: Path, times: int) -> dict[str, Any]:
    """Kill writers, one after another, while a reader has the file open."""
    store = opened(path)
    counts, wrong = [], []
    for seed in range(1, times + 1):
        count, errors = killed_once(path, seed, store)
        counts.append(count)
        wrong += errors
    store.close()
    return {"with_values": sum(map(bool, counts)), "wrong": wrong, "integrity": integrity(path)}


def share(path: Path, processes: int, calls: int) -> dict[str, Any]:
    """Let processes create, write and read one file at once."""
    reading, writing = os.pipe()

    def work(seed: int) -> None:
        os.close(writing)
        os.read(reading, 1)  # returns at the end of the pipe, when all children exist
        store = opened(path)
        for number in range(calls):
            key = f"https://{number % KEYS}.example"
            store.put(key, value_of(key, seed * 1000 + number), SECONDS)
            other = f"https://{(number * 7) % KEYS}.example"
            value = store.get(other)
            assert value is None or is_whole(other, value), other
        store.close()

    children = [forked(partial(work, seed)) for seed in range(processes)]
    os.close(reading)
    os.close(writing)
    failed = sum(os.waitpid(child, 0)[1] != 0 for child in children)
    keys = len(list(opened(path).keys()))
    return {"failed": failed, "keys": keys, "integrity": integrity(path)}


def main() -> None:
    """Run the tasks of the command line: a JSON list of names, paths and numbers."""
    programs: dict[str, Callable[..., dict[str, Any]]] = {"kill": kill, "share": share}
    results = [
        programs[name](Path(path), *numbers) for name, path, *numbers in json.loads(sys.argv[1])
    ]
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
