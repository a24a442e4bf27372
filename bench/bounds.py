"""What files cost that are made to cost much: wildcards, many origins, and the longest block of the event loop."""

from __future__ import annotations

import random
import threading
import time
from itertools import cycle, islice, product
from string import ascii_lowercase
from time import perf_counter_ns
from typing import TYPE_CHECKING

from bench.samples import AGENT, Sample
from bench.timing import quiet
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.memory import LARGE, MemoryCache
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.fetching.parsed import ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.caching import Validity
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.peers import Peer

_AGENT = Agent((AGENT,), AGENT)
_SITE = "https://site.example"
_SEED = 512_000
# Lines that a hostile file repeats; `%d` becomes the number of the line.
_HOSTILE = (
    "low",
    "user-agent:",
    "dissalow /x",
    "Crawl-delay: 1",
    "Disallow: /%d",
    "Disallow: /*%d*a",
    "Allow: *%%26%d",
)


def _sample(patterns: Iterable[str], *targets: str) -> Sample:
    lines = [f"Disallow:{pattern}" for pattern in patterns]
    return Sample("site.example", "\n".join(["User-agent: *", *lines, ""]).encode(), tuple(targets), len(lines))


def _words(count: int) -> list[str]:
    return ["".join(word) for word in islice(product(ascii_lowercase + "012345", repeat=3), count)]


def wildcards() -> dict[str, Sample]:
    """Files and URLs of the table of patterns, by name; of the last one the parser is new each time."""
    rng = random.Random(_SEED)
    words = _words(32_236)
    long = "".join(rng.choice(ascii_lowercase) for _ in range(2069))
    sharing = [f"/*longest-literal-of-all*{word}" for word in words[:5000]]
    plain = [f"/{word}/{number}" for number, word in enumerate(words[:1000])]
    return {
        "100 wildcard rules": _sample([f"/*{word}/*" for word in words[:1700:17]], f"{_SITE}/foo/bar?page=1"),
        "5,000 that share a literal": _sample(sharing, f"{_SITE}/longest-literal-of-all/foo"),
        "32,236 of /*aaa*X": _sample([f"/*{word}*X" for word in words], f"{_SITE}/{long}X"),
        "8,000 octets of escapes": _sample([f"/{word}" for word in words[:100]], f"{_SITE}/" + "%2F%41%zz" * 888),
        "1,000 plain, 2 to 20": _sample(plain, *(f"{_SITE}{pattern}" for pattern in rng.sample(plain, 20))),
    }


def following(peer: Peer, file: Sample, repeat: int) -> float:
    """Microseconds of all verdicts of a file but the first, together."""
    best = 1 << 62
    with quiet():
        for _ in range(repeat + 1):
            ask = peer.load(file.body, file.name)
            ask(file.urls[0], peer.agent)
            start = perf_counter_ns()
            for url in file.urls[1:]:
                ask(url, peer.agent)
            best = min(best, perf_counter_ns() - start)
    return best / 1000


def origins(files: Sequence[Sample], count: int) -> tuple[float, float]:
    """Microseconds of a question to one of many origins in memory: one after the other, and at random."""

    def revive(_: Origin, entry: CacheEntry) -> ParsedRobots:
        return ParsedRobots(None, RobotsTxt.parse(entry.body or b""))

    memory: MemoryCache[ParsedRobots] = MemoryCache(
        count, revive=revive, evicted=lambda: None, weigh=lambda file: file.weight
    )
    asked = []
    for number, file in enumerate(islice(cycle(files), count)):
        origin = Origin("https", f"{number}.{file.name}", 443)
        body = bytes(bytearray(file.body))  # a copy, because no two origins share their octets
        entry = CacheEntry(Validity(Outcome.SUCCESSFUL, 86400.0, 0.0), 200, "200", 0.0, body=body)
        memory.put(origin, revive(origin, entry), entry)
        asked.append((origin, entry, file.urls))

    def ask(order: Sequence[tuple[Origin, CacheEntry, Sequence[str]]], turn: int) -> float:
        start = perf_counter_ns()
        for origin, entry, urls in order:
            file = memory.get(origin)
            if file is None:  # a large one that was packed
                file = revive(origin, entry)
                memory.put(origin, file, entry)
            file.decide(urls[turn], _AGENT)
        return (perf_counter_ns() - start) / len(order) / 1000

    for turn in range(3):
        ask(asked, turn)
    return ask(asked, 3), ask(random.Random(count).choices(asked, k=count), 4)


def hostile(size: int) -> list[bytes]:
    """Files of so many octets that take long to parse."""
    found = []
    for line in _HOSTILE:
        text = b"User-agent: *\n"
        lines = (f"{line % number if '%d' in line else line}\n".encode() for number in range(size))
        found.append((text + b"".join(islice(lines, size // (len(line) + 3))))[:size])
    return found


def longest_block(body: bytes, repeat: int) -> float:
    """The longest time, in milliseconds, that the event loop stands still while a file is parsed and asked twice.

    A large file is parsed on a thread, as a crawl does it; the loop is a thread that wants to run every millisecond.
    """
    return min(_beside_thread(body) if len(body) > LARGE else _at_once(body) for _ in range(repeat + 1))


def _at_once(body: bytes) -> float:
    start = perf_counter_ns()
    file = ParsedRobots(None, RobotsTxt.parse(body))
    file.decide(f"{_SITE}/", _AGENT)
    file.pace(_AGENT)
    first = perf_counter_ns()
    file.decide(f"{_SITE}/", _AGENT)
    return max(first - start, perf_counter_ns() - first) / 1e6


def _beside_thread(body: bytes) -> float:
    last = perf_counter_ns()
    file = ParsedRobots(None, RobotsTxt.parse(body))
    thread = threading.Thread(target=file.prepare, args=(_AGENT,))
    longest, last = perf_counter_ns() - last, perf_counter_ns()
    thread.start()
    while thread.is_alive():
        time.sleep(0.001)
        now = perf_counter_ns()
        longest, last = max(longest, now - last), now
    file.decide(f"{_SITE}/", _AGENT)
    return max(longest, perf_counter_ns() - last) / 1e6
