"""How long a file is used, and how it is refreshed, in real crawls: RFC 9309, 2.4; RFC 9111; RFC
9110, 13.
"""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from scrapy_robots_rfc import Decision, RobotsService
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.signals import robots_fetched
from tests.support.crawling import listening, records
from tests.support.service_crawls import gather, run
from tests.support.site import Reply, Site, redirect

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.service_crawls import Clock
    from tests.support.site import Asked

FORBID = b"User-agent: *\nDisallow: /x\n"
DAY = 86_400.0
MODIFIED = "Tue, 14 Nov 2023 22:13:20 GMT"


def file(
    body: bytes = FORBID, status: int = 200, gate: threading.Event | None = None, **headers: str
) -> Reply:
    """Return a robots.txt with headers; an underscore is a hyphen."""
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Reply(status, body, named, gate=gate)


def conditions(site: Site) -> list[tuple[str | None, str | None]]:
    """Return the conditions of all requests for robots.txt."""
    asked = [asked.headers for asked in site.asked if asked.target == "/robots.txt"]
    return [(headers.get("If-None-Match"), headers.get("If-Modified-Since")) for headers in asked]


async def fetched_again_at(
    site: Site, clock: Clock, moments: list[float], settings: dict[str, Any] | None = None
) -> list[int]:
    """Return the number of fetches at the start and at later moments."""
    fetches: list[int] = []

    async def script(service: RobotsService) -> None:
        start = clock.now
        for moment in (0.0, *moments):
            clock.now = start + moment
            await service.robots(site.url("/"))
            fetches.append(site.fetches)

    await run(script, settings)
    return fetches


@pytest.mark.parametrize(
    ("reply", "moment"),
    [
        (file(), DAY),
        (file(Cache_Control="max-age=3600"), 3600),
        (file(Cache_Control="max-age=604800"), DAY),
        (file(Cache_Control="max-age=60"), 600),
        (file(Cache_Control="max-age=3600, no-cache"), 600),
        (file(Cache_Control="no-store"), 600),
        (file(Expires="Tue, 14 Nov 2023 23:13:20 GMT", Date="Tue, 14 Nov 2023 22:13:20 GMT"), 3600),
        (file(b"gone", 410, Cache_Control="max-age=3600"), 3600),
        (file(b"gone", 404), DAY),
        (file(b"", 503, Cache_Control="max-age=86400"), 300),
    ],
)
@ensureDeferred
async def test_a_file_is_fresh_for(site: Site, clock: Clock, reply: Reply, moment: float) -> None:
    """2.4, RFC 9111, 4.2: the headers say how long a file, or its absence, is fresh, from 600 s to
    24 hours; an unreachable file goes by its own time (2.3.1.4).
    """
    site.replies["/robots.txt"] = reply
    assert await fetched_again_at(site, clock, [moment - 1, moment]) == [1, 1, 2]


@ensureDeferred
async def test_limits_of_the_user(site: Site, clock: Clock) -> None:
    """ROBOTS_CACHE_MIN_AGE and ROBOTS_CACHE_MAX_AGE limit the time; the latter wins."""
    site.replies["/robots.txt"] = file(Cache_Control="max-age=0")
    assert await fetched_again_at(site, clock, [4, 5], {"ROBOTS_CACHE_MIN_AGE": 5}) == [1, 1, 2]
    assert await fetched_again_at(site, clock, [0, 1], {"ROBOTS_CACHE_MIN_AGE": 0}) == [3, 3, 4]
    assert await fetched_again_at(site, clock, [59, 60], {"ROBOTS_CACHE_MAX_AGE": 60}) == [5, 5, 6]


def unchanged(
    *, etag: str | None = None, modified: str | None = None, **headers: str
) -> Callable[[Asked], Reply]:
    """Return an unchanging file on a server that supports conditions."""
    given = {"ETag": etag, "Last-Modified": modified}
    own = {name: value for name, value in given.items() if value is not None}

    def answer(asked: Asked) -> Reply:
        matches = asked.headers.get("If-None-Match", "-") == etag
        matches = matches or asked.headers.get("If-Modified-Since", "-") == modified
        return file(b"", 304, None, **headers) if matches else file(FORBID, 200, None, **own)

    return answer


@pytest.mark.parametrize(
    ("etag", "modified"),
    [('"1"', None), ('W/"1"', MODIFIED), (None, MODIFIED)],
    ids=["tag", "both", "date"],
)
@ensureDeferred
async def test_file_that_has_not_changed(
    site: Site, clock: Clock, etag: str | None, modified: str | None
) -> None:
    """RFC 9111, 4.3: a copy is confirmed by its validators, and is fresh again."""
    site.replies["/robots.txt"] = unchanged(etag=etag, modified=modified)
    said: list[tuple[Any, ...]] = []

    def listen(
        origin: Any, result: Outcome, status: int, body: bytes | None, error: str | None
    ) -> None:
        said.append((result, status, body, error))

    async def script(service: RobotsService) -> None:
        for _ in range(3):
            known = await service.robots(site.url("/x"))
            assert not known.decide(site.url("/x")).allowed
            assert known.decide(site.url("/y")).allowed
            clock.now += DAY
        assert (known.outcome, known.status, known.stale) == (Outcome.SUCCESSFUL, 304, False)

    result = await run(script, prepare=listening(listen, robots_fetched))
    assert conditions(site) == [(None, None), (etag, modified), (etag, modified)]
    assert said == [(Outcome.SUCCESSFUL, status, FORBID, None) for status in (200, 304, 304)]
    assert result.stat("response_status_count/304") == 2
    assert result.stat("result/successful") == 3


@ensureDeferred
async def test_headers_of_the_304_count(site: Site, clock: Clock) -> None:
    """RFC 9111, 4.3.4: the headers of a 304 say how long the copy is fresh, or else the previous
    ones.
    """
    site.replies["/robots.txt"] = unchanged(etag='"1"', Cache_Control="max-age=1200")
    assert await fetched_again_at(site, clock, [DAY, DAY + 1199, DAY + 1200]) == [1, 2, 2, 3]
    with Site() as silent:
        answers = iter([file(Cache_Control="max-age=1200", ETag='"1"'), Reply(304), Reply(304)])
        silent.replies["/robots.txt"] = lambda _: next(answers)
        assert await fetched_again_at(silent, clock, [1200, 2399, 2400]) == [1, 2, 2, 3]


@ensureDeferred
async def test_file_that_has_changed(site: Site, clock: Clock) -> None:
    """RFC 9111, 4.3.3: a new file replaces the copy."""
    answers = iter(
        [file(ETag='"1"'), file(b"User-agent: *\nDisallow: /y\n", ETag='"2"'), Reply(304)]
    )
    site.replies["/robots.txt"] = lambda _: next(answers)

    async def script(service: RobotsService) -> None:
        for expected in ([False, True], [True, False], [True, False]):
            known = await service.robots(site.url("/x"))
            assert [known.decide(site.url(path)).allowed for path in ("/x", "/y")] == expected
            clock.now += DAY

    await run(script)
    assert [tag for tag, _ in conditions(site)] == [None, '"1"', '"2"']


@ensureDeferred
async def test_validators_are_sent_to_the_url_of_the_file(
    site: Site, other: Site, clock: Clock
) -> None:
    """RFC 9110, 13.1: validators are sent only to the URL of the file, not before or after a
    redirect.
    """
    site.replies["/robots.txt"] = redirect(other.url("/robots.txt"))
    other.replies["/robots.txt"] = unchanged(etag='"1"')
    await fetched_again_at(site, clock, [DAY])
    assert conditions(site) == [(None, None)] * 2
    assert conditions(other) == [(None, None), ('"1"', None)]

    with Site() as moved:
        site.asked.clear()
        site.replies["/robots.txt"] = unchanged(etag='"1"')
        moved.replies["/robots.txt"] = file()

        async def script(service: RobotsService) -> None:
            await service.robots(site.url("/"))
            site.replies["/robots.txt"] = redirect(moved.url("/robots.txt"))
            clock.now += DAY
            await service.robots(site.url("/"))

        await run(script)
        assert conditions(moved) == [(None, None)]


@ensureDeferred
async def test_a_part_of_a_file_is_not_confirmed(site: Site, clock: Clock) -> None:
    """2.5: a file that was cut off is fetched again, so that a crawl with a larger limit gets all
    of it.
    """
    site.replies["/robots.txt"] = file(FORBID + b"# more\n" * 100_000, ETag='"1"')
    await fetched_again_at(site, clock, [DAY])
    assert conditions(site) == [(None, None)] * 2


@ensureDeferred
async def test_requests_wait_for_the_verdict(site: Site, clock: Clock) -> None:
    """2.4: requests wait while a copy that is not fresh is refreshed, once for all."""
    gate = threading.Event()
    site.replies["/robots.txt"] = file(ETag='"1"')
    verdicts: list[bool] = []

    async def script(service: RobotsService) -> None:
        await service.robots(site.url("/x"))
        clock.now += DAY
        site.replies["/robots.txt"] = file(b"", 304, gate=gate)

        async def ask(number: int) -> None:
            if number == 9:
                assert verdicts == []
                gate.set()
            verdicts.append((await service.robots(site.url("/x"))).decide(site.url("/x")).allowed)

        await gather(*map(ask, range(10)))

    await run(script)
    assert verdicts == [False] * 10
    assert site.fetches == 2


@ensureDeferred
async def test_decisions_say_that_a_copy_is_stale(
    site: Site, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """2.3.1.4: decisions, stats and the summary say that a copy is stale."""
    site.replies["/robots.txt"] = file(ETag='"1"')
    decisions: list[tuple[Decision, str]] = []

    async def script(service: RobotsService) -> None:
        known = await service.robots(site.url("/x"))
        assert not known.decide(site.url("/x")).stale
        assert "stale" not in known.why(known.decide(site.url("/x")))
        site.replies["/robots.txt"] = Reply(503)
        for _ in range(2):
            clock.now += DAY
            known = await service.robots(site.url("/x"))
        assert known.stale
        decisions.extend(
            (decision, known.why(decision))
            for decision in map(known.decide, (site.url("/x"), site.url("/y")))
        )

    result = await run(script, requests=[site.url("/x"), site.url("/y")])
    (forbidden, why), (allowed, _) = decisions
    assert (forbidden.allowed, allowed.allowed) == (False, True)
    assert forbidden.stale
    assert allowed.stale
    assert why == "robots.txt line 2: Disallow: /x; stale copy, its refresh failed: 503"
    assert result.dropped(site.url("/x")).decision.stale
    assert (result.stat("cache/stale_decisions"), result.stat("origins/stale")) == (2, 1)
    assert any("1 successful (1 stale)" in line for line in records(caplog, logging.INFO))


@pytest.mark.parametrize(("reply", "tag"), [(file(ETag='"1"'), '"1"'), (file(), None)])
@ensureDeferred
async def test_stale_copy_is_confirmed(
    site: Site, clock: Clock, reply: Reply, tag: str | None
) -> None:
    """RFC 9111, 4.3: a stale copy is refreshed with its validators, and a 304 ends the failures.
    Without validators, a 304 confirms nothing, and the copy is still obeyed.
    """
    site.replies["/robots.txt"] = reply
    seen: list[tuple[bool, bool]] = []

    async def script(service: RobotsService) -> None:
        await service.robots(site.url("/x"))
        for status in (503, 429, 304):
            clock.now += DAY
            site.replies["/robots.txt"] = Reply(status)
            known = await service.robots(site.url("/x"))
            seen.append((known.stale, known.decide(site.url("/x")).allowed))

    await run(script)
    assert seen == [(True, False), (True, False), (not tag, False)]
    assert [sent for sent, _ in conditions(site)] == [None, *[tag] * 3]


@ensureDeferred
async def test_being_unreachable_begins_with_the_first_attempt(site: Site) -> None:
    """2.3.1.4: the 30 days start when the file first failed."""
    site.replies["/robots.txt"] = Reply(503)

    async def script(service: RobotsService) -> None:
        known = await service.robots(site.url("/x"))
        assert known.validity.unreachable_since is not None
        assert known.validity.unreachable_since <= known.fetched - 0.2

    await run(script, {"ROBOTS_UNREACHABLE_BACKOFF": [0.2]})
    assert site.fetches == 2
