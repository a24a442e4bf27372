"""The access table of RFC 9309, 2.3.1, in real crawls.

What the robots.txt's answer means for a page.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from pytest_twisted import ensureDeferred

from tests.support.crawling import crawl, plugged, records
from tests.support.site import Reply, Site, redirect, robots

if TYPE_CHECKING:
    from scrapy import Request
    from scrapy.http import Response

RULES = "User-agent: *\nDisallow: /private\n"


@ensureDeferred
async def test_rules_of_a_successful_file_are_obeyed(site: Site) -> None:
    """2.3.1.1: the rules of a file that was downloaded decide page by page."""
    site.replies["/robots.txt"] = robots(RULES)
    pages = [site.url("/"), site.url("/private/x")]
    assert (await crawl(pages)).verdicts(*pages) == [200, "rule"]
    assert sorted(site.targets) == ["/", "/robots.txt"]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, "rule"),
        (304, 200),
        (404, 200),
        (429, "unreachable"),
        (503, "unreachable"),
        (999, "unreachable"),
    ],
)
@ensureDeferred
async def test_status_decides_before_the_body(site: Site, status: int, expected: object) -> None:
    """2.3.1.1 to 2.3.1.4: the status of the answer decides before its body does."""
    site.replies["/robots.txt"] = Reply(
        status, b"" if status == 304 else b"User-agent: *\nDisallow: /\n"
    )
    result = await crawl([site.url("/x")])
    assert result.verdicts() == [expected]
    assert site.pages == (["/x"] if expected == 200 else [])
    assert result.stat(f"response_status_count/{status}") == 1


@ensureDeferred
async def test_statuses_can_be_configured(site: Site) -> None:
    """The 4xx statuses in ROBOTS_UNREACHABLE_STATUSES mean unreachable."""
    site.replies["/robots.txt"] = Reply(403)
    result = await crawl([site.url("/x")], {"ROBOTS_UNREACHABLE_STATUSES": [403]})
    assert result.verdicts() == ["unreachable"]
    site.replies["/robots.txt"] = Reply(429)
    result = await crawl([site.url("/x")], {"ROBOTS_UNREACHABLE_STATUSES": []})
    assert result.verdicts() == [200]


@pytest.mark.parametrize("status", [301, 308])
@ensureDeferred
async def test_redirects_are_followed_across_hosts(site: Site, other: Site, status: int) -> None:
    """2.3.1.2: a redirect leads to another authority, and its rules count for the origin that
    was asked.
    """
    site.replies["/robots.txt"] = redirect(other.url("/elsewhere.txt"), status)
    other.replies["/elsewhere.txt"] = robots(RULES)
    other.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    pages = [site.url("/private"), site.url("/open")]
    result = await crawl(pages, {"REDIRECT_ENABLED": False})
    assert result.verdicts(*pages) == ["rule", 200]
    assert other.targets == ["/elsewhere.txt"]


@ensureDeferred
async def test_redirects_to_the_same_host_only(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """With ROBOTS_REDIRECTS = "same-host", another host is not asked, and nothing is allowed."""
    settings = {"ROBOTS_REDIRECTS": "same-host"}
    site.replies["/robots.txt"] = redirect(other.url("/elsewhere.txt"))
    other.replies["/elsewhere.txt"] = robots(RULES)
    pages = [site.url("/private"), site.url("/open")]
    assert (await crawl(pages, settings)).verdicts(*pages) == ["rule", 200]
    site.replies["/robots.txt"] = redirect(other.url("/elsewhere.txt", host="localhost"))
    result = await crawl([site.url("/open")], settings)
    assert result.verdicts() == ["unreachable"]
    assert other.targets == ["/elsewhere.txt"]
    (line,) = [line for line in caplog.messages if "ROBOTS_REDIRECTS" in line and "next" in line]
    cause = "redirect to another host, refused by ROBOTS_REDIRECTS"
    assert line.startswith(f"{site.url('/robots.txt')} is unreachable ({cause})")


@pytest.mark.parametrize(("hops", "expected"), [(5, "rule"), (6, 200)])
@ensureDeferred
async def test_five_redirects_and_no_more(site: Site, hops: int, expected: object) -> None:
    """2.3.1.2: the file at the end of five redirects is obeyed.

    At the sixth it counts as unavailable.
    """
    site.replies["/robots.txt"] = redirect("/1")
    for hop in range(1, hops):
        site.replies[f"/{hop}"] = redirect(f"{hop + 1}")
    site.replies[f"/{hops}"] = robots("User-agent: *\nDisallow: /\n")
    result = await crawl([site.url("/x")])
    assert result.verdicts() == [expected]
    assert site.targets[:6] == ["/robots.txt", "/1", "/2", "/3", "/4", "/5"]
    assert site.targets[6:] == ["/x"] * (expected == 200)


@ensureDeferred
async def test_failure_after_a_redirect_names_the_target(
    site: Site, other: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The cause names the URL that failed, without its credentials, its query and its end if it
    is long. The summary counts it together with the same failure at other URLs.
    """
    long, dead = "/x" * 100, "http://127.0.0.1:1/robots.txt"
    with Site({"/robots.txt": redirect(dead)}) as third:
        target = other.url(f"{long}?key=secret").replace("//", "//user:secret@")
        site.replies["/robots.txt"] = redirect(target)
        other.replies = dict.fromkeys([f"{long}?key=secret", "/robots.txt"], Reply(503))
        pages = [one.url("/") for one in (site, other, third)]
        result = await crawl(pages, {"REDIRECT_ENABLED": False})
        shown = f"{other.url(long)[:97]}..."
        causes = [f"503, after a redirect to {shown}", "503", "connection refused, after"]
        for page, cause in zip(pages, causes, strict=True):
            assert result.dropped(page).why.startswith(f"robots.txt unreachable: {cause}")
            assert f"{page}robots.txt is unreachable ({cause}" in caplog.text
    assert result.dropped(pages[2]).why.endswith(f" a redirect to {dead}")
    assert "3 unreachable (2x 503, 1x connection refused), so nothing is" in caplog.text
    assert not any("secret" in line for line in records(caplog, logging.DEBUG))


@ensureDeferred
async def test_redirect_with_allowed_domains(site: Site) -> None:
    """2.3.1.2: OffsiteMiddleware does not keep the crawl from a robots.txt on another host."""
    with Site({"/robots.txt": robots("User-agent: *\nDisallow: /\n")}) as offsite:
        site.replies["/robots.txt"] = redirect(offsite.url("/robots.txt", host="localhost"))
        result = await crawl([site.url("/x")], allowed_domains=["127.0.0.1"])
        assert result.verdicts() == ["rule"]
        assert offsite.fetches == 1


@pytest.mark.parametrize(
    "reply", [Reply(reset=True), robots(RULES, cut=5)], ids=["reset", "data loss"]
)
@ensureDeferred
async def test_broken_transfer_is_unreachable(site: Site, reply: Reply) -> None:
    """2.3.1.4: half an answer means unreachable, even if DOWNLOAD_FAIL_ON_DATALOSS is off."""
    site.replies["/robots.txt"] = reply
    result = await crawl([site.url("/x")], {"DOWNLOAD_FAIL_ON_DATALOSS": False})
    assert result.verdicts() == ["unreachable"]


class Stopper:
    """A middleware that says of every transfer that it was stopped."""

    def process_response(self, request: Request, response: Response) -> Response:
        response.flags.append("download_stopped")
        return response


@ensureDeferred
async def test_transfer_that_a_component_stops(site: Site) -> None:
    """2.3.1.4: half a file allows nothing if a component of the crawl ended its transfer.

    The site is not blamed.
    """
    site.replies["/robots.txt"] = robots(RULES)
    result = await crawl([site.url("/x")], plugged(Stopper, 900))
    assert result.dropped(site.url("/x")).why.endswith(": another component stopped the transfer")
    assert result.stat("forbidden/local") == 1


@ensureDeferred
async def test_https_and_http_are_two_services(site: Site) -> None:
    """2.3: the file of one scheme and port says nothing about another."""
    with Site({"/robots.txt": robots("User-agent: *\nDisallow: /\n")}, tls=True) as secure:
        pages = [site.url("/x"), secure.url("/x")]
        assert (await crawl(pages)).verdicts(*pages) == [200, "rule"]
        assert (site.fetches, secure.fetches) == (1, 1)


@ensureDeferred
async def test_dot_segments_are_judged_both_ways(site: Site) -> None:
    """RFC 3986, 5.2.4: a page that would be disallowed once somebody removes its dot segments is
    disallowed.
    """
    site.replies["/robots.txt"] = robots(
        "User-agent: *\nDisallow: /private\nDisallow: /a/../open\n"
    )
    dropped = ["/a/../private/x", "/a/%2e%2E/private", "/./private", "/a/../open/x"]
    pages = [site.url(path) for path in (*dropped, "/a/../b", "/c/./d")]
    assert (await crawl(pages)).verdicts(*pages) == [*["rule"] * 4, 200, 200]


@ensureDeferred
async def test_page_called_robots_txt_is_always_allowed(site: Site) -> None:
    """2.2.2: /robots.txt itself may be fetched, also where everything else may not."""
    pages = [site.url("/robots.txt"), site.url("/x")]
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /\n")
    assert (await crawl(pages)).verdicts(*pages) == [200, "rule"]
    site.replies["/robots.txt"] = Reply(503)
    assert (await crawl(pages)).verdicts(*pages) == [503, "unreachable"]
