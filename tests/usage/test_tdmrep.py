"""The tdmrep.json of a site: how it is requested, and what happens if it cannot be read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred

from tests.support.crawling import Crawl, crawl, records
from tests.support.site import Reply, Site, redirect, robots
from tests.support.timed_site import DELAY, gaps
from tests.usage.test_use import Permitted

if TYPE_CHECKING:
    from collections.abc import Iterator


NAME = "/.well-known/tdmrep.json"
PAGE = Reply(headers=(("Content-Type", "text/html"),))
RESERVED = Reply(200, json.dumps([{"location": "/*", "tdm-reservation": 1}]).encode())
SETTINGS = {"ROBOTS_USE": ["tdm"]}


@pytest.fixture
def site() -> Iterator[Site]:
    """A site with three pages, whose tdmrep.json redirects to a disallowed file."""
    pages = dict.fromkeys(("/a", "/b", "/c"), PAGE)
    rules = robots("User-agent: *\nDisallow: /private/\n")
    replies = {
        "/robots.txt": rules,
        NAME: redirect("/private/tdm.json"),
        "/private/tdm.json": RESERVED,
    }
    with Site({**replies, **pages}) as running:
        yield running


class OneByOne(Permitted):
    """Requests one page at a time."""

    custom_settings = {"CONCURRENT_REQUESTS": 1}  # noqa: RUF012 - Scrapy's


async def crawled(site: Site, *paths: str, **settings: Any) -> Crawl:
    """Crawl pages and declare a use that depends on the tdmrep.json."""
    return await crawl(
        [site.url(path) for path in paths], {**SETTINGS, **settings}, spider=OneByOne
    )


def unread(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The warnings about a tdmrep.json."""
    return [line for line in records(caplog) if line.startswith("Cannot read ")]


@ensureDeferred
async def test_hop_that_its_own_site_disallows(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect to a disallowed path is not followed, and pages are fetched without a warning."""
    result = await crawled(site, "/a", "/b")
    assert site.pages == [NAME, "/a", "/b"]
    assert list(result.outcomes.values()) == [200, 200]
    assert (result.stat("forbidden"), result.stat("allowed")) == (1, 3)
    assert unread(caplog) == []


@pytest.mark.parametrize(
    ("rules", "warned"),
    [(robots("User-agent: *\nDisallow: /\n"), 0), (Reply(503), 1)],
    ids=["disallow", "503"],
)
@ensureDeferred
async def test_hop_that_another_site_disallows(
    site: Site, rules: Reply, warned: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A redirect to a site whose robots.txt disallows it, or is unreachable, is not followed."""
    with Site({"/robots.txt": rules, "/tdm.json": RESERVED}) as other:
        site.replies[NAME] = redirect(other.url("/tdm.json"))
        result = await crawled(site, "/a")
        assert other.pages == []
    assert list(result.outcomes.values()) == [200]
    assert len(unread(caplog)) == warned


@ensureDeferred
async def test_hop_that_another_site_allows(site: Site) -> None:
    """A redirect to a site that allows it is followed, also outside the spider's domains."""
    with Site({"/tdm.json": RESERVED}) as other:
        site.replies[NAME] = redirect(other.url("/tdm.json").replace("127.0.0.1", "localhost"))
        result = await crawl(
            [site.url("/a")], SETTINGS, spider=OneByOne, allowed_domains=["127.0.0.1"]
        )
        assert other.pages == ["/tdm.json"]
    assert result.verdicts() == ["use"]


@pytest.mark.reactor
@ensureDeferred
async def test_pace_of_a_hop() -> None:
    """The file, a hop of its redirects and the page keep the interval of their site."""
    paced = robots(f"User-agent: *\nCrawl-delay: {DELAY}\n")
    hop = redirect("/tdm.json")
    with Site({"/robots.txt": paced, NAME: hop, "/tdm.json": RESERVED, "/a": PAGE}) as clocked:
        await crawled(clocked, "/a", DOWNLOAD_DELAY=0)
    assert [target for _, target in clocked.arrivals][1:] == ["/a", NAME, "/tdm.json"]
    assert min(gaps(clocked)) >= DELAY


@ensureDeferred
async def test_two_sites_that_refer_to_each_other(site: Site) -> None:
    """Two sites whose tdmrep.json redirect to each other do not wait for each other."""
    with Site({"/a": PAGE}) as other:
        site.replies[NAME] = redirect(other.url(NAME))
        other.replies[NAME] = redirect(site.url(NAME))
        result = await crawl([site.url("/a"), other.url("/a")], SETTINGS)
    assert list(result.outcomes.values()) == [200, 200]


@ensureDeferred
async def test_redirects_to_the_same_host_only(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """ROBOTS_REDIRECTS also applies to tdmrep.json."""
    with Site({NAME: RESERVED}) as other:
        site.replies[NAME] = redirect(other.url(NAME, host="localhost"))
        result = await crawled(site, "/a", ROBOTS_REDIRECTS="same-host")
    assert list(result.outcomes.values()) == [200]
    assert other.targets == []
    (line,) = unread(caplog)
    assert "refused by ROBOTS_REDIRECTS" in line


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply(503), "ValueError: status 503"),
        (Reply(407), "ValueError: status 407"),
        (Reply(429), "ValueError: status 429"),
        (Reply(reset=True), ""),
        (Reply(200, b"{"), "ValueError: not JSON"),
        (redirect(NAME), "ValueError: more than 5 redirects"),
        (Reply(200, b'["' + b"x" * 200_000 + b'"]'), ""),
    ],
    ids=["503", "407", "429", "reset", "json", "redirects", "size"],
)
@ensureDeferred
async def test_file_that_cannot_be_read(
    site: Site, reply: Reply, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    """If the file cannot be read, the use is unknown, pages are fetched, and there is a warning."""
    site.replies[NAME] = reply
    result = await crawled(site, "/a", "/b", "/c")
    assert list(result.spider.permitted.values()) == [{"tdm": None}] * 3
    (line,) = unread(caplog)
    assert line.startswith(f"Cannot read {site.url(NAME)} ({why}")
    assert "so its pages are fetched. The next attempt is in 300 s" in line
    # Twisted sends a request again if a reused connection breaks.
    assert site.pages.count(NAME) in {302: (6,), 200: (1, 2)}.get(reply.status, (1,))


@pytest.mark.parametrize("status", [503, 403])
@ensureDeferred
async def test_file_that_is_there_later(
    site: Site, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A file that could not be read is requested again after ROBOTS_UNREACHABLE_TTL."""
    site.replies[NAME] = lambda _: Reply(status) if site.pages.count(NAME) < 3 else RESERVED
    settings = {"ROBOTS_UNREACHABLE_STATUSES": [403], "ROBOTS_UNREACHABLE_TTL": 1e-6}
    result = await crawled(site, "/a", "/b", "/c", **settings)
    assert result.verdicts() == [200, 200, "use"]
    assert site.pages.count(NAME) == 3
    assert len(unread(caplog)) == 1


@ensureDeferred
async def test_no_file(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A site that answers 404 reserves nothing, and gets no second request."""
    site.replies[NAME] = Reply(404)
    result = await crawled(site, "/a", "/b", ROBOTS_UNREACHABLE_TTL=1e-6)
    assert list(result.outcomes.values()) == [200, 200]
    assert site.pages.count(NAME) == 1
    assert unread(caplog) == []


@ensureDeferred
async def test_refusal_of_the_site(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A page that the file refuses is forbidden by its site, and not counted as allowed."""
    site.replies[NAME] = RESERVED
    caplog.set_level("DEBUG")
    result = await crawled(site, "/a", "/b")
    assert [result.stat(name) for name in ("forbidden", "allowed", "use/tdmrep")] == [2, 1, 2]
    why = f"refuses tdm ({NAME} /*: 1)"
    assert f"Forbidden by its site: <GET {site.url('/a')}> ({why})" in caplog.messages
    assert str(result.outcomes[site.url("/a")]) == f"Forbidden by its site ({why})"
