"""`python -m tests.support.killed_queue FOLDER SEED`: push and pop until it is killed.

It writes a line for each step: `push URL`, `pop` before each pop, and `popped URL` after it.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path
from typing import Any

from scrapy import Request, squeues

from scrapy_robots_rfc import OriginPriorityQueue
from tests.support.disk_queues import crawler
from tests.support.job import write

#: The classes for requests, and for start requests.
KINDS: dict[str, tuple[type[Any], type[Any] | None]] = {
    "lifo": (squeues.PickleLifoDiskQueue, squeues.PickleFifoDiskQueue),
    "fifo": (squeues.PickleFifoDiskQueue, squeues.PickleLifoDiskQueue),
    "no start class": (squeues.MarshalLifoDiskQueue, None),
}
if hasattr(squeues, "PickleLifoSQLiteQueue"):  # from Scrapy 2.19 on
    KINDS["sqlite"] = (squeues.PickleLifoSQLiteQueue, squeues.PickleFifoSQLiteQueue)
SITES = ("one", "two")


def opened(folder: Path, kind: str) -> OriginPriorityQueue:
    """Open the queue in a folder."""
    queue_class, start_class = KINDS[kind]
    return OriginPriorityQueue(crawler(), queue_class, str(folder), start_queue_cls=start_class)


def main(path: Path, seed: str) -> None:
    """Push more often than pop. Some of the requests are large."""
    source = random.Random(seed)
    queues = {kind: opened(path / kind, kind) for kind in KINDS}
    number = 0
    while True:
        kind = source.choice(list(KINDS))
        if source.random() < 0.6:
            number += 1
            url = f"http://{source.choice(SITES)}.example/{kind}/{seed}/{number}"
            body = b"x" * source.randrange(1_200_000 if number % 50 == 0 else 4000)
            meta = {"is_start_request": source.random() < 0.3}
            queues[kind].push(Request(url, body=body, priority=source.choice((0, 1)), meta=meta))
            write(f"push {url.replace(' ', '%20')}")
        else:
            write("pop")
            request = queues[kind].pop()
            if request:
                write(f"popped {request.url}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
