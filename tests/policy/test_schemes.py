"""The table of schemes: ports, the meaning of statuses, and redirects between schemes."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.policy.access import FetchStep, Outcome, target_of
from scrapy_robots_rfc.policy.origins import (
    SCHEMES,
    Origin,
    Site,
    parse_origin,
    scheme_of,
)

SFTP = scheme_of("sftp", {"port": 22, "answers": "ftp"})


@pytest.mark.parametrize(
    ("scheme", "status", "outcome"),
    [
        ("ftp", 200, Outcome.SUCCESSFUL),
        ("ftp", 404, Outcome.UNAVAILABLE),
        ("ftp", 403, Outcome.UNREACHABLE),
        ("ftp", 301, Outcome.UNREACHABLE),
        ("ftp", 503, Outcome.UNREACHABLE),
        ("gemini", 20, Outcome.SUCCESSFUL),
        ("gemini", 29, Outcome.SUCCESSFUL),
        ("gemini", 30, Outcome.UNAVAILABLE),  # without a target
        ("gemini", 51, Outcome.UNAVAILABLE),
        ("gemini", 59, Outcome.UNAVAILABLE),
        ("gemini", 10, Outcome.UNREACHABLE),
        ("gemini", 41, Outcome.UNREACHABLE),
        ("gemini", 44, Outcome.UNREACHABLE),
        ("gemini", 60, Outcome.UNREACHABLE),
        ("gemini", 99, Outcome.UNREACHABLE),
        ("gemini", 200, Outcome.SUCCESSFUL),  # from a handler that returns HTTP statuses
        ("gemini", 404, Outcome.UNAVAILABLE),
    ],
)
def test_what_a_status_means(scheme: str, status: int, outcome: Outcome) -> None:
    """2.3.1: each scheme has its own statuses. Any other status allows nothing."""
    origin = Origin.of(f"{scheme}://a.example/x")
    assert origin is not None
    access = FetchStep(origin.robots_url, scheme=SCHEMES[scheme]).after_response(
        status, None, b"", unreachable_statuses=(429,)
    )
    assert not isinstance(access, FetchStep)
    assert (access.outcome, access.status) == (outcome, status)


@pytest.mark.parametrize(
    ("url", "location", "target"),
    [
        ("gemini://a.example/robots.txt", b"/r", "gemini://a.example/r"),
        ("gemini://a.example/x/robots.txt", b"r", "gemini://a.example/x/r"),
        ("gemini://a.example/robots.txt", b"gemini://B.example:1965/r", "gemini://b.example/r"),
        ("gemini://a.example/robots.txt", b"//b.example/r", "gemini://b.example/r"),
        ("gemini://a.example/robots.txt", b"https://a.example/r", None),
        ("http://a.example/robots.txt", b"https://a.example/r", "https://a.example/r"),
        ("http://a.example/robots.txt", b"ftp://a.example/r", None),
        ("https://a.example/robots.txt", b"gemini://a.example/r", None),
        ("gemini://a.example/robots.txt", b"//[", None),
    ],
)
def test_redirects_stay_in_their_scheme(url: str, location: bytes, target: str | None) -> None:
    """2.3.1.2: redirects between http and https are followed, and within any other scheme."""
    assert target_of(url, location) == target


def test_origins_of_schemes() -> None:
    """Each scheme has its default port, which is always written for a scheme of the user."""
    assert (
        Origin.of("ftp://A.example:21/x")
        == Origin.of("ftp://a.example")
        == Origin("ftp", "a.example", 21)
    )
    assert str(Origin.of("gemini://a.example:1965/")) == "gemini://a.example"
    assert Origin.of("sftp://a.example/x") is None
    assert SFTP is not None
    own = Origin.of("sftp://a.example/x", {**SCHEMES, "sftp": SFTP})
    assert str(own) == "sftp://a.example:22"
    assert parse_origin("gemini://a.example") == Origin("gemini", "a.example", 1965)
    assert Site.of("a.example").covers(Origin("ftp", "a.example", 21))
    assert not Site.of("ftp://a.example").covers(Origin("http", "a.example", 80))


def test_schemes_that_are_taken_away() -> None:
    """Only a scheme of the table can be removed."""
    assert scheme_of("ftp", None) is None
    with pytest.raises(ValueError, match="sftp"):
        scheme_of("sftp", None)
