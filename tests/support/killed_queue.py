"""`python -m tests.support.killed_queue FOLDER SEED`: push and pop until it is killed.

It writes a line for each step: `push URL`, `pop` before each pop, `popped URL` after it, `saved`.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scrapy import Request, Spider, squeues
from scrapy.utils.test import get_crawler

from scrapy_robots_rfc.scheduling.disk import QueueFolder
from scrapy_robots_rfc.scheduling.queue import QueueOnDisk

#: The classes for requests, and for start requests.
KINDS: dict[str, tuple[type[Any], type[Any]]] = {
    "lifo": (squeues.PickleLifoDiskQueue, squeues.PickleFifoDiskQueue),
    "fifo": (squeues.PickleFifoDiskQueue, squeues.PickleLifoDiskQueue),
}
if hasattr(squeues, "PickleLifoSQLiteQueue"):  # from Scrapy 2.19 on
    KINDS["sqlite"] = (squeues.PickleLifoSQLiteQueue, squeues.PickleFifoSQLiteQueue)
SITES = ("one", "two")


def open_folder(path: Path, kind: str) -> QueueFolder:
    """Open a folder by the state that was saved in it, as Scrapy's scheduler does."""
    path.mkdir(parents=True, exist_ok=True)
    crawler = get_crawler(Spider)
    crawler.spider = Spider("pages")
    file = path / "active.json"
    return QueueFolder(
        crawler, str(path), KINDS[kind], json.loads(file.read_bytes()) if file.exists() else {}
    )


def call_and_join(function: Callable[[], object]) -> None:
    """Call a function, and wait for the threads that it started."""
    before = threading.enumerate()
    function()
    for thread in threading.enumerate():
        if thread not in before:
            thread.join()


def write(line: str) -> None:
    """Write a line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main(path: Path, seed: str) -> None:
    """Push more often than pop; save now and then."""
    source = random.Random(seed)
    folders = {kind: open_folder(path / kind, kind) for kind in KINDS}
    queues = [
        (kind, QueueOnDisk(folder, key))
        for kind, folder in folders.items()
        for key in (*SITES, *(key for key in folder.keys if key not in SITES))
    ]
    number = 0
    while True:
        kind, queue = source.choice(queues)
        step = source.random()
        if step < 0.5:
            number += 1
            url = f"http://{kind}.example/{seed}/{number}"
            body = b"x" * source.randrange(4000)
            meta = {"is_start_request": source.random() < 0.3}
            queue.push(Request(url, body=body, priority=source.choice((0, 1)), meta=meta))
            write(f"push {url}")
        elif step < 0.85:
            write("pop")
            request = queue.pop()
            if request:
                write(f"popped {request.url}")
        elif step < 0.996:
            queue.peek()
        else:
            for folder in folders.values():
                call_and_join(folder.save)
            write("saved")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
