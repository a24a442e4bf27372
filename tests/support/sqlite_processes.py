"""Processes that use one SQLite file, and are killed: run as a program, prints what came of it as
JSON.

A program of its own, because it forks: a process that has threads must not.
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

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS = 10_000.0
KEYS = 40


def value_of(key: str, number: int) -> bytes:
    """Return a value that shows whose it is, and whether it is whole.

    The larger ones need several pages.
    """
    return f"{key} {number} ".encode() * (1 + number % 300)


def is_whole(key: str, value: bytes) -> bool:
    """Whether a value is one that was put under this key."""
    return value == value_of(key, int(value.split(b" ", 2)[1]))


def forked(work: Callable[[], None]) -> int:
    """Do something in a process of its own and return its number.

    It ends with 0 if nothing was raised.
    """
    process = os.fork()
    if process:
        return process
    try:
        work()
        os._exit(0)
    except BaseException:  # noqa: BLE001 - the process ends here
        traceback.print_exc()
        os._exit(1)


def writer(path: Path, seed: int, pipe: int) -> None:
    """Put values for ever, and write each one that is put into a pipe."""
    store = SqliteStore(path)
    store.open()
    number = seed * 1_000_000
    while True:
        number += 1
        key = f"https://{number % KEYS}.example"
        store.put(key, value_of(key, number), SECONDS)
        os.write(pipe, f"{key} {number}\n".encode())


def killed_once(path: Path, seed: int, store: SqliteStore) -> tuple[int, list[str]]:
    """Kill a writer at any moment: how many values it had put, and what is wrong with them now."""
    reading, writing = os.pipe()
    process = forked(lambda: writer(path, seed, writing))
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        # Each fourth one may still be about to open the file; of the others so many lines are read
        # while they go on.
        read = [
            pipe.readline() for _ in range(random.Random(seed).randint(1, 40) if seed % 4 else 0)
        ]
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        lines = [line.decode().split() for line in (*read, *pipe)]
    put = {key: int(number) for key, number in lines}
    return len(lines), [*_wrong(put, store), *_wrong(put, _fresh(path))]


def _fresh(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    store.open()
    return store


def _wrong(put: dict[str, int], store: SqliteStore) -> list[str]:
    found = []
    for key, number in put.items():
        value = store.get(key)
        # The last value may have been put, and not written there.
        if value is None or not is_whole(key, value) or int(value.split(b" ", 2)[1]) < number:
            found.append(
                f"{key}: {number} was put, {value if value is None else value[:40]!r} is there"
            )
    return found


def kill(path: Path, times: int) -> dict[str, Any]:
    """Kill writers, one after the other, while a reader has the file open."""
    store = _fresh(path)
    counts, wrong = [], []
    for seed in range(1, times + 1):
        count, found = killed_once(path, seed, store)
        counts.append(count)
        wrong += found
    store.close()
    with sqlite3.connect(path) as connection:
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
    return {
        "killed": times,
        "with_values": sum(map(bool, counts)),
        "wrong": wrong,
        "integrity": integrity,
    }


def share(path: Path, processes: int, calls: int) -> dict[str, Any]:
    """Let processes that start at once make, write and read one file."""
    reading, writing = os.pipe()

    def work(seed: int) -> None:
        os.close(writing)
        os.read(reading, 1)  # the end of the pipe: all are here
        store = SqliteStore(path)
        store.open()
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
    with sqlite3.connect(path) as connection:
        integrity = connection.execute("PRAGMA integrity_check").fetchone()[0]
    keys = len(list(_fresh(path).keys()))
    return {"failed": failed, "keys": keys, "integrity": integrity}


def main() -> None:
    """Do what the command line says.

    A list of tasks, each a name, the path of the file, and numbers.
    """
    programs: dict[str, Callable[..., dict[str, Any]]] = {"kill": kill, "share": share}
    results = [
        programs[name](Path(path), *numbers) for name, path, *numbers in json.loads(sys.argv[1])
    ]
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main()
