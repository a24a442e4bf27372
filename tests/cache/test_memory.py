"""The memory of a crawl.

What it remembers, what goes first, and that nothing makes it larger than its bounds.
"""

from __future__ import annotations

import gc
import random
import tracemalloc
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from bench import generate
from scrapy_robots_rfc.cache import memory as module
from scrapy_robots_rfc.cache.entry import CacheEntry, Validators
from scrapy_robots_rfc.cache.memory import MemoryCache
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.findings import groups_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.fetching.parsed import ParsedRobots
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.entries import changed, made
from tests.support.hostile_files import LINES, hostile

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.once,  # its crawls are `tests/cache/test_bounded_crawls.py`
    pytest.mark.usefixtures("few_to_collect"),
]

AGENT = Agent(("examplebot",), "examplebot")
RULES = b"User-agent: *\nDisallow: /closed\n"


def copy_of(body: bytes | None = RULES, fetched: float = 1.0) -> CacheEntry:
    """A copy as a fetch gives it, of a file or of none."""
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


def noise(octets: int, seed: int) -> bytes:
    """A file that cannot be made small."""
    return random.Random(seed).randbytes(octets)


@dataclass(eq=False)
class Value:
    """What is made of a copy: a file as a crawl has it."""

    origin: Origin
    copy: CacheEntry
    file: ParsedRobots = field(init=False)

    def __post_init__(self) -> None:
        robots = RobotsTxt.parse(self.copy.body or b"")
        self.file = ParsedRobots(None, robots)

    def ask(self) -> None:
        """Everything that a crawl asks, twice, so that an index is made."""
        for number in range(2):
            self.file.decide(f"https://a.example/{number}", AGENT)
        self.file.pace(AGENT)


class Crawl:
    """A memory, and what was made and dropped."""

    def __init__(
        self,
        origins: int,
        parsed: int = module.PARSED,
        octets: int = module.PARSED_OCTETS,
        at_least: int = module.AT_LEAST,
    ) -> None:
        self.counts: Counter[str] = Counter()
        self.memory: MemoryCache = MemoryCache(
            origins,
            at_least=at_least,
            parsed=(parsed, octets),
            parse=self._parse,
            evicted=lambda: self.counts.update(["evicted"]),
        )

    def _parse(self, origin: Origin, copy: CacheEntry) -> Value:
        self.counts["parsed"] += 1
        return Value(origin, copy)

    def fetch(self, number: int, body: bytes | None = RULES, fetched: float = 1.0) -> Value:
        """Put an origin's copy into the memory, and return its value."""
        copy = copy_of(body, fetched)
        value = Value(origin(number), copy)
        self.memory.put(value.origin, value, copy)
        return value

    def known(self, numbers: range) -> list[int]:
        """The origins that are remembered, of some."""
        return [number for number in numbers if self.memory.entry(origin(number)) is not None]


def test_what_is_put_is_parsed() -> None:
    """The very value comes back, and the copy as it was."""
    crawl = Crawl(10)
    value = crawl.fetch(1)
    assert crawl.memory.get(origin(1)) is value
    assert crawl.memory.entry(origin(1)) == value.copy
    assert (crawl.memory.get(origin(2)), crawl.memory.entry(origin(2))) == (None, None)


@pytest.mark.parametrize(
    "body",
    [RULES, RULES * 100, noise(5000, 1), b"", None],
    ids=["small", "usual", "noise", "empty", "none"],
)
def test_entry_comes_back_whole(body: bytes | None) -> None:
    """What is remembered of an origin is an equal entry, however its file is stored."""
    crawl = Crawl(10)
    full = changed(copy_of(body), unreachable_since=5.0, lifetime=60.0, cut=512_000)
    crawl.memory.put(origin(1), Value(origin(1), full), full)
    bare = made(Outcome.UNREACHABLE, None, "no answer", 1.0, 2.0)
    crawl.memory.put(origin(2), Value(origin(2), bare), bare)
    assert crawl.memory.entry(origin(1)) == full
    assert crawl.memory.entry(origin(2)) == bare


def test_later_value_replaces_an_earlier_one() -> None:
    """The later value takes the place of the one before, wherever that was."""
    crawl = Crawl(10)
    crawl.fetch(1, noise(5000, 1))
    later = crawl.fetch(1, None, fetched=2.0)
    assert crawl.memory.get(origin(1)) is later
    assert crawl.memory.entry(origin(1)) == later.copy
    assert len(crawl.memory) == 1
    assert crawl.counts == {}


def test_file_that_was_not_used_for_longest_is_parsed_again() -> None:
    """Of many files few stay parsed.

    The others are parsed again from an equal copy, and say the same.
    """
    crawl = Crawl(100, parsed=3)
    values = [
        crawl.fetch(number, RULES + b"Disallow: /%d" % number, number) for number in range(50)
    ]
    assert len(crawl.memory) == 50
    assert [crawl.memory.get(origin(number)) for number in (47, 48, 49)] == values[47:]
    assert crawl.counts == {}
    again = crawl.memory.get(origin(3))  # 47 goes
    assert again is not None
    assert again.copy == values[3].copy
    assert not again.file.decide("https://site3.example/3", AGENT).allowed
    assert crawl.memory.get(origin(48)) is values[48]
    assert crawl.memory.get(origin(3)) is again
    assert crawl.counts == {"parsed": 1}
    assert crawl.memory.get(origin(47)) is not values[47]
    assert crawl.counts == {"parsed": 2}


@pytest.mark.parametrize("parsed", [1, 100])
def test_least_recently_used_goes_first(parsed: int) -> None:
    """The bound in origins is respected, and counts what is dropped.

    Use is use, whether a value is parsed or not.
    """
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


def test_bound_in_octets() -> None:
    """Files that cannot be made small are bounded in octets.

    The last one stays, whatever its size.
    """
    crawl = Crawl(30, at_least=100_000)
    for number in range(30):
        crawl.fetch(number, noise(9000, number))
    assert crawl.known(range(100)) == list(range(20, 30))
    crawl.fetch(30, noise(400_000, 1))
    assert crawl.known(range(100)) == [30]
    assert crawl.memory.get(origin(30)) is not None
    crawl.fetch(31)
    assert crawl.known(range(100)) == [31]


def test_file_that_takes_more_than_all_may_stays_while_it_is_used() -> None:
    """One file above the bound is parsed once, as long as no other is asked."""
    crawl = Crawl(30, octets=1000)
    value = crawl.fetch(1)
    value.ask()
    assert [crawl.memory.get(origin(1)) for _ in range(3)] == [value] * 3
    crawl.fetch(2)
    assert crawl.memory.get(origin(1)) is not value


def looked_at() -> int:
    """Objects that a full collection looks at, after each of the three that a new one passes."""
    for _ in range(3):
        gc.collect()
    return len(gc.get_objects())


def test_no_collection_looks_at_what_is_not_parsed() -> None:
    """An origin is plain tuples, numbers and texts.

    The garbage collector looks at none of them a second time.
    """
    crawl = Crawl(1000, parsed=10)
    for number in range(30):
        crawl.fetch(number)
    before = looked_at()
    for number in range(30, 530):
        crawl.fetch(number)
    assert looked_at() - before < 100


@pytest.fixture
def traced() -> Iterator[None]:
    """Python's allocations are counted."""
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def taken() -> int:
    """Octets that are allocated."""
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("kind", LINES)
def test_weight_of_a_hostile_file(kind: str) -> None:
    """A file counts for what it takes, or more, whatever stands in it and is asked of it."""
    # What stays for the whole process: so much that it is read as the larger one is.
    Value(origin(0), copy_of(hostile(kind, 5000))).ask()
    body = hostile(kind, 10_000)
    before = taken()
    value = Value(origin(1), copy_of(None))
    value.file = ParsedRobots(None, RobotsTxt.parse(bytes(bytearray(body))))
    value.ask()
    assert value.file.robots is not None
    assert len(groups_of(value.file.robots)) < len(body)  # a spider may ask for all of it
    assert taken() - before < module.A_VALUE + module.AN_OCTET * len(body)


@pytest.mark.usefixtures("traced")
def test_hostile_files_fill_no_memory() -> None:
    """However many files are made to fill the memory, the bound is respected.

    By Python's count of it, not by our own.
    """
    crawl = Crawl(300, octets=800_000, at_least=400_000)
    before = taken()
    for number in range(2 * len(LINES)):
        crawl.fetch(number, hostile(list(LINES)[number % len(LINES)], 8000)).ask()
    assert len(crawl.memory) == 2 * len(LINES)
    # The one in use may have grown since it was weighed.
    assert taken() - before < 1_200_000 + 80 * 8000


@pytest.mark.usefixtures("traced")
def test_octets_of_an_origin() -> None:
    """Origins whose files are not parsed take what is counted, or less, the tables that they
    stand in included.
    """
    crawl = Crawl(10_000, parsed=1)
    before = taken()
    for number in range(1000):
        crawl.fetch(number)
    assert taken() - before < 1000 * (module.AN_ENTRY + len(RULES))


@pytest.mark.usefixtures("traced")
def test_real_files_take_little_memory() -> None:
    """Files as real ones are, the largest one among them, take less than 3 KiB each where they
    are not parsed.
    """
    files = generate.files(200)
    crawl = Crawl(200, parsed=3)
    before = taken()
    for number, file in enumerate(files):
        crawl.fetch(number, file.body)
    for number in range(3):  # small ones, so that the others are not parsed
        crawl.fetch(number)
    assert len(crawl.memory) == 200
    assert taken() - before < 200 * 3 * 1024


def test_large_file_is_not_parsed_while_a_page_waits() -> None:
    """A large file that is not parsed any more has to be parsed elsewhere; its copy is there."""
    crawl = Crawl(100, parsed=1)
    value = crawl.fetch(1, RULES + b"#" * module.LARGE)
    assert crawl.memory.get(origin(1)) is value
    crawl.fetch(2)
    assert crawl.memory.get(origin(1)) is None
    assert crawl.memory.entry(origin(1)) == value.copy
    assert crawl.counts == {}


def test_hostile_files_in_turn_are_parsed_once() -> None:
    """Four files of 512,000 octets, made to take much memory, stay parsed while their origins
    are asked in turn.
    """
    crawl = Crawl(100)
    body = hostile("wildcards", 511_000)
    for number in range(4):
        crawl.fetch(number, body).file.prepare(AGENT)
    for turn in range(12):
        value = crawl.memory.get(origin(turn % 4))
        assert value is not None
        value.file.decide(f"https://a.example/{turn}", AGENT)
    assert crawl.counts == {}
