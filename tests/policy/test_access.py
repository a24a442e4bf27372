"""The state machine of a fetch (RFC 9309, 2.3.1), without a network."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, strategies as st

from scrapy_robots_rfc.policy.access import (
    Access,
    FetchStep,
    Outcome,
    Successful,
    Unavailable,
    Unreachable,
)
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin
from tests.support.case_files import tables

if TYPE_CHECKING:
    from collections.abc import Iterable

CASES = tables("answers")

ORIGIN = Origin("http", "a.example", 80)
FIRST = FetchStep(ORIGIN.robots_url, scheme=SCHEMES["http"])
CLOSED = (429,)


@pytest.mark.parametrize("statuses", [(), (407,)])
def test_407_allows_nothing(statuses: tuple[int, ...]) -> None:
    """A 407 comes from a proxy: it allows nothing, whatever the settings are, and is not retried
    soon.
    """
    access = FIRST.after_response(407, None, b"", unreachable_statuses=statuses)
    assert access == Unreachable(
        407, "407 Proxy Authentication Required", hopeless=True, spares_site=True
    )


def test_2xx_is_a_file() -> None:
    """2.3.1.1: each 2xx is a file, with its unchanged body."""
    for status in range(200, 300):
        access = FIRST.after_response(status, None, b"body", unreachable_statuses=CLOSED)
        assert access == Successful(status, b"body")


@pytest.mark.parametrize(
    ("statuses", "meaning"),
    [
        ({*range(400, 500)} - {407, 429}, Unavailable),
        ((300, 304, 305, 306, 309, 399), Unavailable),
        ((-1, 0, 99, 100, 199, 429, *range(500, 600), 600, 999), Unreachable),
    ],
    ids=["4xx", "other 3xx", "5xx"],
)
def test_other_statuses(statuses: Iterable[int], meaning: type[Unavailable | Unreachable]) -> None:
    """2.3.1.2 to 2.3.1.4: there is no file after a 4xx that is not in ROBOTS_UNREACHABLE_STATUSES,
    or a 3xx that is not a redirect; after 5xx, 429 and invalid statuses, it is unknown. A Location
    is not followed.
    """
    for status in statuses:
        access = FIRST.after_response(status, b"/x", b"body", unreachable_statuses=CLOSED)
        assert access == meaning(status, str(status))


def test_304_confirms_the_file_at_hand_only() -> None:
    """RFC 9111, 4.3.3: a 304 to a conditional request confirms the cached file."""
    for file, status, body in ((b"file", 304, b"file"), (b"", 304, b""), (b"file", 200, b"new")):
        access = FIRST.after_response(
            status, None, b"new", unreachable_statuses=(304,), cached=file
        )
        assert access == Successful(status, body)


def after(url: str, location: str | None, status: int) -> FetchStep | Access:
    """Return what follows an answer."""
    step = FetchStep(url, scheme=SCHEMES[url.partition(":")[0]])
    target = None if location is None else location.encode("latin-1")
    return step.after_response(status, target, b"", unreachable_statuses=(429,))


@pytest.mark.parametrize(("scheme", "status", "outcome"), CASES["statuses"])
def test_what_a_status_means(scheme: str, status: int, outcome: str) -> None:
    """2.3.1: each scheme has its own statuses. Any other status allows nothing."""
    access = after(f"{scheme}://a.example/robots.txt", None, status)
    assert not isinstance(access, FetchStep)
    assert (access.outcome.value, access.status) == (outcome, status)


@pytest.mark.parametrize(("url", "location", "target"), CASES["redirects"])
def test_redirect_is_followed_without_userinfo(url: str, location: str, target: str) -> None:
    """2.3.1.2: a redirect is followed, relative to the requested URL, without userinfo."""
    for status in (30, 31) if url.startswith("gemini:") else (301, 302, 303, 307, 308):
        following = after(url, location, status)
        assert isinstance(following, FetchStep)
        assert (following.url, following.seen) == (target, ((url, b""),))


@pytest.mark.parametrize(("url", "location"), [(FIRST.url, None), *CASES["refused_redirects"]])
def test_redirect_without_a_usable_target(url: str, location: str | None) -> None:
    """2.3.1.2: a loop, another scheme or no usable Location means unavailable."""
    access = after(url, location, 31 if url.startswith("gemini:") else 302)
    assert isinstance(access, Unavailable)


@pytest.mark.parametrize(("location", "is_followed"), CASES["same_host"])
def test_redirects_to_the_same_host_only(location: str, is_followed: bool) -> None:
    """With ROBOTS_REDIRECTS = "same-host", a redirect to another host name is unreachable.

    A sixth redirect is, too.
    """
    first = FIRST._replace(same_host_only=True)
    sixth = first._replace(seen=((FIRST.url, b""),) * 5)
    following = first.after_response(302, location.encode(), b"", unreachable_statuses=())
    assert isinstance(following, FetchStep if is_followed else Unreachable)
    following = sixth.after_response(302, location.encode(), b"", unreachable_statuses=())
    assert isinstance(following, Unavailable if is_followed else Unreachable)


def test_each_redirect_may_add_or_remove_www() -> None:
    """With "same-host", a chain of redirects may lead to ``www.`` and back."""
    first = FIRST._replace(same_host_only=True)
    second = first.after_response(302, b"http://www.a.example/", b"", unreachable_statuses=())
    assert isinstance(second, FetchStep)
    back = second.after_response(302, b"https://a.example/", b"", unreachable_statuses=())
    assert isinstance(back, FetchStep)


@given(status=st.integers(), location=st.none() | st.binary(max_size=40))
def test_any_answer_has_a_meaning(status: int, location: bytes | None) -> None:
    """2.3.1: whatever a server sends, the fetch continues at an http(s) URL or ends. Nothing
    raises, and nothing becomes allowed by accident.
    """
    following = FIRST.after_response(status, location, b"", unreachable_statuses=CLOSED)
    if isinstance(following, FetchStep):
        assert Origin.of(following.url) is not None
        assert "@" not in following.url.split("/")[2]
    elif following.outcome is not Outcome.UNREACHABLE:
        assert 200 <= status <= 499
