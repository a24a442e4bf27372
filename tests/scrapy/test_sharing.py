"""Crawls that use one store: a file is fetched once, whoever needs it, and whatever becomes of the store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from twisted.internet.defer import Deferred, DeferredList

from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.errors import SettingError, StoreError
from tests.scrapy.crawling import Crawl, crawl, records
from tests.scrapy.kept import KEPT, Kept
from tests.scrapy.site import Reply, Site, robots

if TYPE_CHECKING:
    from pathlib import Path

    from tests.scrapy.site import Asked

pytestmark = pytest.mark.reactor

FORBID = robots("User-agent: *\nDisallow: /x\n")


@pytest.fixture(autouse=True)
def store() -> Kept:
    """The store of the crawls of a test."""
    Kept.store = Kept()
    return Kept.store


async def crawls(*requests: list[str], settings: dict[str, Any]) -> list[Crawl]:
    """Crawl side by side."""
    together = [Deferred.fromCoroutine(crawl(urls, settings)) for urls in requests]
    return [result for _, result in await DeferredList(together, consumeErrors=True)]


@ensureDeferred
async def test_next_crawl_fetches_nothing_that_is_fresh(site: Site, other: Site) -> None:
    """A crawl goes by what the one before it kept: the file, that there is none, and that nobody knows."""
    with Site() as third:
        site.replies["/robots.txt"] = FORBID
        third.replies["/robots.txt"] = Reply(503)
        pages = [site.url("/x"), site.url("/y"), other.url("/"), third.url("/")]
        first = await crawl(pages, KEPT)
        second = await crawl(pages, KEPT)
        assert [one.fetches for one in (site, other, third)] == [1, 1, 1]
        said = [{url: str(outcome) for url, outcome in c.outcomes.items()} for c in (first, second)]
        assert said[0] == said[1]
        assert isinstance(second.outcomes[site.url("/x")], RobotsDisallowed)
        assert (second.stat("cache/store_hits"), second.stat("request_count")) == (3, 0)


@ensureDeferred
async def test_others_wait_for_the_one_that_fetches(site: Site) -> None:
    """Two crawls need a file at once: one asks for it, the other one waits, and goes by it."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /x\n", gate=gate)

    class Opening(Kept):
        def lease(self, key: str, owner: str, seconds: float) -> bool:
            ours = super().lease(key, owner, seconds)
            if not ours:
                gate.set()
            return ours

    Kept.store = Opening()
    both = await crawls([site.url("/x")], [site.url("/x")], settings=KEPT)
    assert site.fetches == 1
    assert sum(result.stat("cache/lease_waits") for result in both) == 1
    assert all(isinstance(result.outcomes[site.url("/x")], RobotsDisallowed) for result in both)


@ensureDeferred
async def test_lease_of_a_dead_crawl_ends(site: Site, store: Kept) -> None:
    """A crawl that died with a lease is waited for until that ends, and no longer."""
    store.lease(site.url(""), "dead", 0.5)
    result = await crawl([site.url("/y")], KEPT)
    assert result.outcomes == {site.url("/y"): 200}
    assert site.fetches == result.stat("cache/lease_waits") == 1


@ensureDeferred
async def test_lease_is_given_back(site: Site, store: Kept) -> None:
    """When a crawl has ended, any other one can have the lease at once, also of a file that never came."""
    await crawl([site.url("/y")], KEPT)
    assert store.lease(site.url(""), "next", 1)


@ensureDeferred
async def test_file_that_may_not_be_stored(site: Site) -> None:
    """RFC 9111, 5.2.2.5: with no-store a file serves the crawl that fetched it, and no other one."""
    site.replies["/robots.txt"] = Reply(body=b"", headers=(("Cache-Control", "no-store"),))
    await crawl([site.url("/x"), site.url("/y")], KEPT)
    assert site.fetches == 1
    await crawl([site.url("/x")], KEPT)
    assert site.fetches == 2


@ensureDeferred
async def test_evicted_origin_comes_back_from_the_store(site: Site, other: Site) -> None:
    """What no longer has room in memory is not fetched again."""
    order = [site.url("/1"), other.url("/1"), site.url("/2"), other.url("/2")]
    settings = {**KEPT, "ROBOTSTXT_CACHE_SIZE": 1, "CONCURRENT_REQUESTS": 1}
    result = await crawl(order, settings)
    assert set(result.outcomes.values()) == {200}
    assert (site.fetches, other.fetches) == (1, 1)
    assert result.stat("cache/evictions") >= 1


@ensureDeferred
async def test_store_that_fails(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A store that fails is counted, told once, and does without: the crawl fetches for itself, and obeys."""
    site.replies["/robots.txt"] = FORBID
    result = await crawl([site.url("/x"), site.url("/y")], {"ROBOTSTXT_CACHE": "tests.scrapy.kept.Failing"})
    assert isinstance(result.outcomes[site.url("/x")], RobotsDisallowed)
    assert result.outcomes[site.url("/y")] == 200
    assert site.fetches == 1
    assert result.stat("cache/store_errors") >= 1
    assert len([line for line in records(caplog) if "the store is gone" in line]) == 1


@ensureDeferred
async def test_a_server_says_for_how_long(site: Site) -> None:
    """A crawl that begins after a copy's time asks for the file again, with what the server gave to ask with."""

    def answer(asked: Asked) -> Reply:
        if asked.headers.get("If-None-Match") == '"1"':
            return Reply(304)
        headers = (("Cache-Control", "max-age=0"), ("ETag", '"1"'))
        return Reply(body=b"User-agent: *\nDisallow: /x\n", headers=headers)

    site.replies["/robots.txt"] = answer
    settings = {**KEPT, "ROBOTSTXT_CACHE_MIN_AGE": 0}
    for _ in range(2):
        result = await crawl([site.url("/x")], settings)
        assert isinstance(result.outcomes[site.url("/x")], RobotsDisallowed)
    assert (site.fetches, result.stat("cache/revalidated")) == (2, 1)


@ensureDeferred
async def test_job_that_is_resumed(site: Site, tmp_path: Path) -> None:
    """With JOBDIR and nothing else said, a crawl that is resumed goes by the files in the job's folder."""
    site.replies["/robots.txt"] = FORBID
    job = tmp_path / "a job: 100%?#"
    settings = {"JOBDIR": str(job)}
    await crawl([site.url("/x"), site.url("/y")], settings)
    resumed = await crawl([site.url("/x"), site.url("/z")], settings)
    assert site.targets == ["/robots.txt", "/y", "/z"]
    assert isinstance(resumed.outcomes[site.url("/x")], RobotsDisallowed)
    assert (job / "robots.sqlite").is_file()


@ensureDeferred
async def test_job_that_keeps_nothing(site: Site, tmp_path: Path) -> None:
    """What the user says goes before JOBDIR."""
    kept = tmp_path / "robots.sqlite"
    settings = {"JOBDIR": str(tmp_path), "ROBOTSTXT_CACHE": "memory:"}
    for _ in range(2):
        await crawl([site.url("/x")], settings)
    assert site.fetches == 2
    assert not kept.exists()


@pytest.mark.parametrize(
    ("value", "error"),
    [("memcached://user:secret@host/", SettingError), ("no.such.Store", SettingError), ("sqlite:///", SettingError)],
)
@ensureDeferred
async def test_address_that_is_not_accepted(value: str, error: type[Exception]) -> None:
    """What is no store stops the crawl at start, and the message has no password."""
    with pytest.raises(error) as caught:
        await crawl((), {"ROBOTSTXT_CACHE": value})
    assert "ROBOTSTXT_CACHE" in str(caught.value)
    assert "secret" not in str(caught.value)


@ensureDeferred
async def test_store_that_cannot_be_opened(tmp_path: Path) -> None:
    """A store that can never work stops the crawl at start."""
    with pytest.raises(StoreError, match="cannot be opened"):
        await crawl((), {"ROBOTSTXT_CACHE": f"sqlite:///{tmp_path}"})
