"""`python -m bench.stores [--origins N] [--corpus DIR]`: what the stores of robots.txt files cost,
an origin.

Copies of files with the distribution of real ones are put into an SQLite file and a Redis server,
and read again, by as many threads as a crawl uses. The server is started for it, on this machine.
What a crawl has in its own memory is measured elsewhere.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.generate import files
from bench.report import table
from bench.samples import folder
from scrapy_robots_rfc.cache.entry import CacheEntry, Validators, encode
from scrapy_robots_rfc.cache.stores.base import SharedStore, Store
from scrapy_robots_rfc.cache.stores.redis import RedisStore
from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from scrapy_robots_rfc.policy.access import Outcome, Validity
from tests.support.redis_server import COMMAND, RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

_KEEP = 30 * 86_400.0
#: Different files; origins beyond that have the same ones again.
_FILES = 2000


@dataclass(frozen=True, slots=True)
class Measured:
    """What one store cost.

    :param octets: all that it grew by, an origin.
    :param rates: calls a second, by what was called.
    """

    octets: float
    rates: dict[str, float]


def values(origins: int, bodies: Sequence[bytes]) -> dict[str, bytes]:
    """The values of so many origins, by key."""
    now = time.time()
    made = {}
    for number in range(origins):
        key, body = f"https://host-{number:07}.example", bodies[number % len(bodies)]
        made[key] = encode(_copy(key, body, now))
    return made


def _copy(key: str, body: bytes, now: float) -> CacheEntry:
    validators = Validators(f"{key}/robots.txt", b'"5f3a1c-7d0"', b"Tue, 14 Nov 2023 22:13:20 GMT")
    return CacheEntry(
        Validity(Outcome.SUCCESSFUL, now + 86_400, now), 200, "200", now, validators, body
    )


def measure(store: Store, stored: dict[str, bytes], grown: Callable[[], int]) -> Measured:
    """Put values into an empty store, and ask for them in another order.

    :param grown: octets that the store has grown by.
    """
    keys = list(stored)
    random.Random(9309).shuffle(keys)
    rates = {"put": _rate(store, lambda key: store.put(key, stored[key], _KEEP), stored)}
    octets = grown() / len(stored)
    rates["get"] = _rate(store, store.get, keys)
    if isinstance(store, SharedStore):
        shared = store
        rates["lease"] = _rate(store, lambda key: shared.lease(key, "me", 15), keys)
    return Measured(octets, rates)


def _rate(store: Store, call: Callable[[str], object], keys: Iterable[str]) -> float:
    asked = list(keys)
    with ThreadPoolExecutor(store.threads) as threads:
        began = time.perf_counter()
        for _ in threads.map(call, asked):
            pass
        return len(asked) / (time.perf_counter() - began)


def in_sqlite(stored: dict[str, bytes]) -> Measured:
    """Measure an SQLite file."""
    with tempfile.TemporaryDirectory() as name:
        store = SqliteStore(Path(name) / "robots.sqlite")
        store.open()
        try:
            return measure(
                store, stored, lambda: sum(path.stat().st_size for path in Path(name).iterdir())
            )
        finally:
            store.close()


def in_redis(stored: dict[str, bytes]) -> Measured:
    """Measure a Redis server of its own."""
    import redis  # noqa: PLC0415 - only where there is a server

    with RedisServer() as server, redis.Redis(port=server.port) as client:
        store = RedisStore(server.url)
        store.open()

        def used() -> int:
            return int(client.info("memory")["used_memory"])

        before = used()
        try:
            return measure(store, stored, lambda: used() - before)
        finally:
            store.close()


def row(name: str, found: Measured) -> list[str]:
    """A row of the table."""
    rates = [found.rates.get(call) for call in ("put", "get", "lease")]
    return [
        name,
        f"{found.octets:,.0f}",
        *("-" if rate is None else f"{rate:,.0f}" for rate in rates),
    ]


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.stores", description=__doc__)
    parser.add_argument("--origins", type=int, default=10_000, help="how many (default: 10,000)")
    parser.add_argument(
        "--corpus", type=Path, help="a folder of robots.txt files, to be measured with instead"
    )
    options = parser.parse_args()
    count = min(options.origins, _FILES)
    samples = folder(options.corpus, random.Random(9309), count) if options.corpus else files(count)
    bodies = [sample.body for sample in samples]
    stored = values(options.origins, bodies)
    rows = [row("SQLite", in_sqlite(stored))]
    if COMMAND is not None:
        rows.append(row("Redis", in_redis(stored)))
    mean = sum(map(len, bodies)) / len(bodies)
    value = sum(map(len, stored.values())) / len(stored)
    title = (
        f"{options.origins:,} origins: {mean:,.0f} octets a file, {value:,.0f} a value on the"
        " average"
    )
    print(table(title, ["store", "octets an origin", "put/s", "get/s", "lease/s"], rows))
    if COMMAND is None:
        print("\nredis-server is not installed", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
