"""What the crawls of one process have for each other: by event loop, by kind, by route, and for so many origins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache import locks as module
from scrapy_robots_rfc.cache.locks import Peers
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.kept_entries import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_robots_rfc.cache.entry import CacheEntry

ORIGINS = [Origin("http", f"{name}.example", 80) for name in "abc"]
HERE = ORIGINS[0]
KIND = "kind"


class Crawl:
    """A crawl, and what it remembers."""

    def __init__(self, loop: object, kind: str = KIND) -> None:
        self.closing = False
        self.copies: dict[Origin, CacheEntry] = {}
        self.peers = Peers(lambda asker: asker, lambda: self.closing)
        self.peers.join(loop, kind, self.copies.get)

    def has(self, origin: Origin, copy: CacheEntry = FILE, route: str | None = None, *, shared: bool = True) -> None:
        """Let it remember a copy that it got by a route."""
        self.copies[origin] = copy
        self.peers.keep(origin, route, shared=shared)


@pytest.fixture
def make() -> Iterator[Callable[..., Crawl]]:
    """Makes crawls, and ends them."""
    made: list[Crawl] = []
    loop = object()

    def one(kind: str = KIND, loop: object = loop) -> Crawl:
        made.append(Crawl(loop, kind))
        return made[-1]

    yield one
    for crawl in made:
        crawl.peers.leave()
    assert module._GROUPS == {}


def test_newest_entry_of_equal_crawls_is_given(make: Callable[..., Crawl]) -> None:
    """The newest copy of those that are alike counts, and nobody's own."""
    one, two, three = make(), make(), make()
    one.has(HERE)
    two.has(HERE, replace(FILE, fetched=FILE.fetched + 1))
    assert three.peers.look(HERE, None) == (two.copies[HERE], False)
    assert two.peers.look(HERE, None) == (FILE, False)
    assert three.peers.look(ORIGINS[1], None) == (None, False)


def test_different_crawls_share_nothing(make: Callable[..., Crawl]) -> None:
    """Crawls of another kind, on another event loop, by another route, or that keep it to themselves, have nothing."""
    asking = make()
    make("other").has(HERE)
    make(loop=object()).has(HERE)
    make().has(HERE, route="proxy")
    make().has(HERE, shared=False)
    assert asking.peers.look(HERE, None) == (None, False)
    assert asking.peers.look(HERE, "proxy") == (FILE, False)


def test_who_is_fetching(make: Callable[..., Crawl]) -> None:
    """A fetch by the same route is waited for until it ends, or its crawl does."""
    one, two = make(), make()
    one.peers.begin(HERE, None)
    assert two.peers.look(HERE, None) == (None, True)
    assert two.peers.look(HERE, "proxy") == (None, False)
    assert one.peers.look(HERE, None) == (None, False)
    one.closing = True
    assert two.peers.look(HERE, None) == (None, False)
    one.closing = False
    one.peers.end(HERE)
    assert two.peers.look(HERE, None) == (None, False)


def test_routes_of_many_origins_are_forgotten(make: Callable[..., Crawl], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of so many origins a crawl remembers where their file is from: the last ones."""
    monkeypatch.setattr(module, "_REMEMBERED", 2)
    one, two = make(), make()
    for origin in ORIGINS:
        one.has(origin)
    assert [two.peers.look(origin, None)[0] for origin in ORIGINS] == [None, FILE, FILE]


def test_crawl_that_has_left_shares_nothing(make: Callable[..., Crawl]) -> None:
    """A crawl that has ended shares nothing."""
    one, two = make(), make()
    one.has(HERE)
    one.peers.leave()
    assert two.peers.look(HERE, None) == (None, False)
