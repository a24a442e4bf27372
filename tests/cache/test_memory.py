"""The memory of a crawl: what it remembers, what it drops first, and its bounds."""

from __future__ import annotations

import gc
import pickle
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from scrapy_robots_rfc.cache import memory as module
from scrapy_robots_rfc.cache.entry import CacheEntry, Validators
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.explanation import groups_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.fetching.parsed import ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.entries import changed, made
from tests.support.hostile_files import LINES, hostile
from tests.support.memory import traced

pytestmark = [
    pytest.mark.once,  # crawls are in `test_crawls_of_one_store.py`
    pytest.mark.usefixtures("few_to_collect"),
]

AGENT = Agent(("examplebot",), "examplebot")
RULES = b"User-agent: *\nDisallow: /closed\n"


def entry_of(body: bytes | None = RULES, fetched: float = 1.0) -> CacheEntry:
    """An entry as a fetch gives it, with a file or without."""
    outcome = Outcome.UNAVAILABLE if body is None else Outcome.SUCCESSFUL
    validators = Validators(
        "https://a.example/robots.txt", b'"an etag"', b"Sat, 21 Nov 2026 19:00:00 GMT"
    )
    return made(
        outcome, 200, "200", fetched, fetched + 86400.0, fetched, validators=validators, body=body
    )


def origin(number: int) -> Origin:
    """One of many origins."""
    return Origin("https", f"site{number}.example", 443)


def noise(size: int, seed: int) -> bytes:
    """A file that cannot be compressed."""
    return random.Random(seed).randbytes(size)


@dataclass(eq=False)
class Value:
    """A parsed entry, as a crawl has it."""

    origin: Origin
    entry: CacheEntry
    file: ParsedRobots = field(init=False)

    def __post_init__(self) -> None:
        self.file = ParsedRobots(None, RobotsTxt.parse(self.entry.body or b""))

    def ask(self) -> None:
        for number in range(2):
            self.file.decide(f"https://a.example/{number}", AGENT)
        self.file.pace(AGENT)


class Crawl:
    """A memory, with counts of what was parsed again and dropped."""

    def __init__(
        self,
        origins: int,
        parsed: int = module.MAX_PARSED,
        parsed_bytes: int = module.MAX_PARSED_BYTES,
        min_bytes: int = module.MIN_BYTES,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.memory: MemoryCache = MemoryCache(
            origins,
            min_bytes=min_bytes,
            parsed=(parsed, parsed_bytes),
            parse=self._parse,
            evicted=lambda: self.counts.update(["evicted"]),
        )

    def _parse(self, origin: Origin, entry: CacheEntry) -> Value:
        self.counts["parsed"] += 1
        return Value(origin, entry)

    def fetch(self, number: int, body: bytes | None = RULES, fetched: float = 1.0) -> Value:
        value = Value(origin(number), entry_of(body, fetched))
        self.memory.put(value.origin, value, value.entry)
        return value

    def known(self, numbers: range) -> list[int]:
        return [number for number in numbers if self.memory.entry(origin(number)) is not None]


@pytest.mark.parametrize(
    "body",
    [RULES, RULES * 100, noise(5000, 1), b"", None],
    ids=["small", "usual", "noise", "empty", "none"],
)
def test_entry_is_returned_unchanged(body: bytes | None) -> None:
    """The value of an origin is the one that was put, and its entry is equal."""
    crawl = Crawl(10)
    full = changed(entry_of(body), unreachable_since=5.0, lifetime=60.0, cut=512_000)
    value = Value(origin(1), full)
    crawl.memory.put(origin(1), value, full)
    assert crawl.memory.get(origin(1)) is value
    assert crawl.memory.entry(origin(1)) == full
    assert (crawl.memory.get(origin(2)), crawl.memory.entry(origin(2))) == (None, None)


def test_least_recently_used_file_is_parsed_again() -> None:
    """Of many files few stay parsed; the others are parsed again, and say the same."""
    crawl = Crawl(100, parsed=3)
    values = [
        crawl.fetch(number, RULES + b"Disallow: /%d" % number, number) for number in range(50)
    ]
    assert [crawl.memory.get(origin(number)) for number in (47, 48, 49)] == values[47:]
    assert crawl.counts == {}
    again = crawl.memory.get(origin(3))  # 47 is dropped
    assert again is not None
    assert again.entry == values[3].entry
    assert not again.file.decide("https://site3.example/3", AGENT).allowed
    assert crawl.memory.get(origin(48)) is values[48]
    assert crawl.memory.get(origin(3)) is again
    assert crawl.counts == {"parsed": 1}
    assert crawl.memory.get(origin(47)) is not values[47]


@pytest.mark.parametrize("parsed", [1, 100])
def test_least_recently_used_origin_is_dropped(parsed: int) -> None:
    """Above the bound in origins the least recently used is dropped, whether parsed or not."""
    crawl = Crawl(30, parsed=parsed)
    for number in range(30):
        crawl.fetch(number)
    for number in (0, 29, 5):
        crawl.memory.get(origin(number))
    for number in range(30, 57):
        crawl.fetch(number)
    assert crawl.known(range(100)) == [0, 5, 29, *range(30, 57)]
    assert crawl.counts["evicted"] == 27
    assert crawl.memory.get(origin(1)) is None


def test_bound_in_bytes() -> None:
    """Files that are no longer parsed are bounded in bytes; the last one always stays."""
    crawl = Crawl(30, parsed=1, min_bytes=100_000)
    for number in range(30):
        crawl.fetch(number, noise(9000, number))
    assert crawl.known(range(100)) == list(range(19, 30))
    crawl.fetch(30, noise(400_000, 1))
    crawl.fetch(31)
    assert crawl.known(range(100)) == [30, 31]
    crawl.fetch(32)
    assert crawl.known(range(100)) == [31, 32]


def test_file_above_the_bound_stays_while_it_is_used() -> None:
    """A file above the bound stays parsed until another file is used."""
    crawl = Crawl(30, parsed_bytes=1000)
    value = crawl.fetch(1)
    value.ask()
    assert [crawl.memory.get(origin(1)) for _ in range(3)] == [value] * 3
    crawl.fetch(2)
    assert crawl.memory.get(origin(1)) is not value


def visited() -> int:
    """Return how many objects a full collection visits, after those that a new object passes."""
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects())


def test_garbage_collector_visits_only_parsed_files() -> None:
    """The garbage collector visits no object of an origin whose file is not parsed."""
    crawl = Crawl(1000, parsed=10)
    for number in range(30):
        crawl.fetch(number)
    before = visited()
    for number in range(30, 530):
        crawl.fetch(number)
    assert visited() - before < 100


@pytest.mark.parametrize("kind", LINES)
def test_weight_of_a_hostile_file(kind: str) -> None:
    """A parsed file takes at most its weight, even if it is hostile."""
    # What stays for the whole process; the file is large enough to be read like the next one.
    Value(origin(0), entry_of(hostile(kind, 5000))).ask()
    body = hostile(kind, 10_000)
    with traced() as allocated:
        before = allocated()
        value = Value(origin(1), entry_of(None))
        value.file = ParsedRobots(None, RobotsTxt.parse(bytes(bytearray(body))))
        value.ask()
        assert value.file.robots is not None
        assert len(groups_of(value.file.robots)) < len(body)  # a spider may ask for all of it
        assert allocated() - before < module.PARSED_OVERHEAD + module.PARSED_FACTOR * len(body)


def test_bytes_of_an_origin() -> None:
    """An origin whose file is not parsed takes at most its weight, and at most 2.5 KiB."""
    crawl = Crawl(10_000, parsed=1)
    size = len(pickle.dumps(entry_of(RULES * 10), pickle.HIGHEST_PROTOCOL))
    with traced() as allocated:
        before = allocated()
        for number in range(1000):
            crawl.fetch(number, RULES * 10)
        assert allocated() - before < 1000 * min(module.ENTRY_OVERHEAD + size, 2560)


def test_hostile_files_in_turn_are_parsed_once() -> None:
    """Four hostile files of 512,000 bytes stay parsed while their origins are used in turn."""
    crawl = Crawl(100)
    body = hostile("wildcards", 511_000)
    for number in range(4):
        crawl.fetch(number, body).file.decide("https://a.example/", AGENT)
    for turn in range(12):
        value = crawl.memory.get(origin(turn % 4))
        assert value is not None
        value.file.decide(f"https://a.example/{turn}", AGENT)
    assert crawl.counts == {}
