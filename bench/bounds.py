"""What files cost that are made to cost much.

Wildcards, many origins, and the longest block of the event loop.
"""

from __future__ import annotations

import gc
import random
import threading
import time
from contextlib import contextmanager
from itertools import cycle, islice, product
from string import ascii_lowercase
from time import perf_counter_ns, process_time_ns
from typing import TYPE_CHECKING, NamedTuple

from bench.memory import resident
from bench.samples import AGENT, Sample
from bench.timing import quiet
from scrapy_robots_rfc.cache.entry import CacheEntry, Validators
from scrapy_robots_rfc.cache.memory import LARGE, MemoryCache
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.fetching.parsed import ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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
    return Sample(
        "site.example",
        "\n".join(["User-agent: *", *lines, ""]).encode(),
        tuple(targets),
        len(lines),
    )


def _words(count: int) -> list[str]:
    return ["".join(word) for word in islice(product(ascii_lowercase + "012345", repeat=3), count)]


def wildcards() -> dict[str, Sample]:
    """Files and URLs of the table of patterns, by name.

    Of the last one the parser is new each time.
    """
    rng = random.Random(_SEED)
    words = _words(32_236)
    long = "".join(rng.choice(ascii_lowercase) for _ in range(2069))
    sharing = [f"/*longest-literal-of-all*{word}" for word in words[:5000]]
    plain = [f"/{word}/{number}" for number, word in enumerate(words[:1000])]
    return {
        "100 wildcard rules": _sample(
            [f"/*{word}/*" for word in words[:1700:17]], f"{_SITE}/foo/bar?page=1"
        ),
        "5,000 that share a literal": _sample(sharing, f"{_SITE}/longest-literal-of-all/foo"),
        "32,236 of /*aaa*X": _sample([f"/*{word}*X" for word in words], f"{_SITE}/{long}X"),
        "8,000 octets of escapes": _sample(
            [f"/{word}" for word in words[:100]], f"{_SITE}/" + "%2F%41%zz" * 888
        ),
        "1,000 plain, 2 to 20": _sample(
            plain, *(f"{_SITE}{pattern}" for pattern in rng.sample(plain, 20))
        ),
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


class Origins(NamedTuple):
    """What a memory of many origins costs.

    :param put: microseconds of parsing a file, putting it, and the first verdict.
    :param in_turn: microseconds of a question, one origin after the other.
    :param at_random: the same in any order.
    :param pause: the longest that the garbage collector took, in milliseconds of processor time.
    :param kib: KiB of memory for each origin.
    """

    put: float
    in_turn: float
    at_random: float
    pause: float
    kib: float


def origins(files: Sequence[Sample], count: int) -> Origins:
    """Fill a memory with many origins, and ask each of them.

    Large files are left out: a thread parses them.
    """

    def parse(_: Origin, entry: CacheEntry) -> ParsedRobots:
        return ParsedRobots(None, RobotsTxt.parse(entry.body or b""))

    def origin_of(number: int) -> Origin:
        return Origin("https", f"{number}.{usual[number % len(usual)].name}", 443)

    def ask(order: Iterable[int]) -> float:
        start = process_time_ns()
        for number in order:
            file = memory.get(origin_of(number))
            assert file is not None
            urls = usual[number % len(usual)].urls
            file.decide(urls[number % len(urls)], _AGENT)
        return (process_time_ns() - start) / count / 1000

    memory: MemoryCache = MemoryCache(count, parse=parse, evicted=lambda: None)
    usual = [file for file in files if len(file.body) <= LARGE]
    put = 0
    with longest_pause() as pause:
        before = resident()
        for number, file in enumerate(islice(cycle(usual), count)):
            origin = origin_of(number)
            body = bytes(bytearray(file.body))  # a copy, because no two origins share their octets
            validators = Validators(origin.robots_url, b'"%x-5f2a"' % number)
            fetched = float(number)
            validity = Validity(Outcome.SUCCESSFUL, fetched + 86400.0, fetched)
            entry = CacheEntry(validity, 200, "200", fetched, validators, body)
            start = process_time_ns()
            value = parse(origin, entry)
            memory.put(origin, value, entry)
            value.decide(file.urls[0], _AGENT)
            put += process_time_ns() - start
        in_turn = ask(range(count))
        at_random = ask(random.Random(count).choices(range(count), k=count))
        kib = (resident() - before) / count / 1024
    assert len(memory) == count
    return Origins(put / count / 1000, in_turn, at_random, pause[0], kib)


@contextmanager
def longest_pause() -> Iterator[list[float]]:
    """Have a list of one number, the longest collection of garbage meanwhile, in milliseconds of
    processor time.
    """
    found, began = [0.0], 0

    def collected(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = process_time_ns()
        else:
            found[0] = max(found[0], (process_time_ns() - began) / 1e6)

    gc.callbacks.append(collected)
    try:
        yield found
    finally:
        gc.callbacks.remove(collected)


def hostile(size: int) -> list[bytes]:
    """Files of so many octets that take long to parse."""
    found = []
    for line in _HOSTILE:
        text = b"User-agent: *\n"
        lines = (f"{line % number if '%d' in line else line}\n".encode() for number in range(size))
        found.append((text + b"".join(islice(lines, size // (len(line) + 3))))[:size])
    return found


def longest_block(body: bytes, repeat: int) -> float:
    """The longest time, in milliseconds, that the event loop stands still while a file is parsed
    and asked twice.

    A large file is parsed on a thread, as a crawl does it; the loop is a thread that wants to run
    every millisecond.
    """
    return min(
        _beside_thread(body) if len(body) > LARGE else _at_once(body) for _ in range(repeat + 1)
    )


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
