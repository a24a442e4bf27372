"""The parser in a script: decisions, arguments, and the recipe of docs/script.md."""

from __future__ import annotations

import pickle
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

import scrapy_robots_rfc
from scrapy_robots_rfc import Decision, Reason, RfcRobotParser, RobotsTxt, robots_from_response
from scrapy_robots_rfc.policy.access import FetchStep, Outcome
from scrapy_robots_rfc.settings import read_settings
from tests.support.documents import block, executed
from tests.support.site import Reply, Site, redirect, robots

URL = "https://e.example/private/x"
FILE = "User-agent: *\nDisallow: /private/\nCrawl-delay: 5\n"


def test_decision_is_true_if_allowed() -> None:
    """A decision is true if the URL may be fetched, and false otherwise."""
    robots = RobotsTxt.parse(FILE)
    for _ in range(2):  # decisions are cached
        assert not robots.decide(URL, "mybot")
        assert robots.decide("https://e.example/x", "mybot")
    assert not Decision(False, Reason.RULE)
    assert pickle.loads(pickle.dumps(robots.decide(URL, "mybot"))) == robots.decide(URL, "mybot")


@pytest.mark.parametrize("body", [FILE, "", "<html>"])
@pytest.mark.parametrize(
    ("url", "agent"),
    [
        ("mybot", URL),
        ("mybot/1.0 (+https://e.example)", URL),
        ("mybot", "/private/"),
        ("mybot", "otherbot"),
        ("", "mybot"),
        ("e.example/private/", "mybot"),
        (b"mybot", "x"),
    ],
)
def test_wrong_order_of_arguments(body: str, url: str | bytes, agent: str) -> None:
    """Arguments in the order of urllib.robotparser raise ValueError, which says the right order."""
    for file in (RobotsTxt.parse(body), robots_from_response(404), robots_from_response(None)):
        for _ in range(2):
            with pytest.raises(ValueError, match=r"call decide\(url, tokens\)"):
                file.decide(url, agent)


@pytest.mark.parametrize(
    ("url", "agent"),
    [
        (None, "mybot"),
        (None, ["mybot"]),
        (Path("/x"), ["mybot"]),
        (URL, None),
        (URL, b"mybot"),
        (URL, 5),
        (URL, [b"mybot"]),
        (URL, [None]),
    ],
)
def test_arguments_of_other_types(url: Any, agent: Any) -> None:
    """A URL or agent of another type raises TypeError, which says what is accepted."""
    for file in (RobotsTxt.parse(FILE), robots_from_response(404)):
        with pytest.raises(TypeError, match=r"^the (URL|agent) must be a str"):
            file.decide(url, agent)


@pytest.mark.parametrize(
    ("url", "agent"), [(None, "mybot"), (5, b"mybot"), (URL, None), (URL, 5), (URL, Path("mybot"))]
)
def test_arguments_of_the_parser_for_scrapy(url: Any, agent: Any) -> None:
    """The parser for Scrapy raises the same, and accepts a str or bytes."""
    parser = RfcRobotParser(FILE.encode())
    with pytest.raises(TypeError, match=r"^the (URL|agent) must be a str or bytes, not "):
        parser.allowed(url, agent)
    if url == URL:
        with pytest.raises(TypeError, match=r"^the agent must be a str or bytes, not "):
            parser.crawl_delay(agent)


@pytest.mark.parametrize("url", [URL, "/private/x", "HTTPS://e.example/private/", "//e/private/"])
@pytest.mark.parametrize("agent", ["mybot", "Scrapy/2.19.0 (+https://scrapy.org)", "", "my bot"])
def test_right_order_of_arguments(url: str, agent: str) -> None:
    """A URL or path and any name or User-Agent header are accepted."""
    assert not RobotsTxt.parse(FILE).decide(url, agent)
    assert not RobotsTxt.parse(FILE).decide(url.encode(), agent)


@pytest.mark.parametrize(
    "text",
    [
        "https://e/robots.txt",
        "HTTP://e\n",
        "e.example",
        "r.txt",
        "a/b.txt",
        "/r",
        "./r",
        "~/r",
        "C:\\r",
    ],
)
def test_address_instead_of_a_file(text: str) -> None:
    """Text that is a URL or path raises ValueError, but not if it is what a site sent."""
    with pytest.raises(ValueError, match=r"is a URL or a path; pass the content of the file"):
        RobotsTxt.parse(text)
    assert RobotsTxt.parse(text.encode()).decide(URL, "mybot")
    assert robots_from_response(200, text).decide(URL, "mybot")


@pytest.mark.parametrize(
    "text",
    ["", "404", "No.", "N/A", "Disallow://x.txt", "#/x", "/a b", "disallow /a.b", "/a\n/b"],
)
def test_short_files(text: str) -> None:
    """A file may have a single line, or no record at all."""
    assert RobotsTxt.parse(text).decide(URL, "mybot")


@pytest.mark.parametrize("body", [["User-agent: *"], 5, Path("robots.txt")])
def test_files_of_other_types(body: Any) -> None:
    """A file that is neither bytes nor text raises TypeError."""
    with pytest.raises(TypeError, match="must be bytes or str"):
        RobotsTxt.parse(body)
    with pytest.raises(TypeError, match="must be bytes or str"):
        robots_from_response(200, body)


def test_response_without_a_body() -> None:
    """A successful response needs a body, which may be empty."""
    with pytest.raises(TypeError, match='status 206 needs the body; pass b"" if it is'):
        robots_from_response(206)
    assert robots_from_response(200, b"").decide(URL, "mybot")


@pytest.mark.parametrize("status", ["200", b"200", FILE])
def test_status_of_another_type(status: Any) -> None:
    """A status that isn't a number raises TypeError, also if the arguments are swapped."""
    with pytest.raises(TypeError, match=r"^the status must be an int or None, not (str|bytes)$"):
        robots_from_response(status, 200)  # type: ignore[arg-type]  # on purpose


def test_crawl_delay_of_a_url() -> None:
    """A URL instead of an agent raises ValueError."""
    for file in (RobotsTxt.parse(FILE), robots_from_response(404)):
        with pytest.raises(ValueError, match=r"call crawl_delay\(tokens\)"):
            file.crawl_delay(URL)


def test_text() -> None:
    """A file may be text, which is encoded as UTF-8, whatever characters it has."""
    text = "User-agent: *\nDisallow: /caf\u00e9\n# \ud800"
    assert RobotsTxt.parse(text).content == RobotsTxt(text.encode("utf-8", "surrogatepass")).content
    assert not RobotsTxt.parse(text).decide("/caf%C3%A9", "mybot")


def test_representation() -> None:
    """The representation shows the groups and rules, is short, and is safe to print."""
    shown = repr(RobotsTxt.parse(f"\ufeff# x\n{FILE}\nUser-agent: a\x1b\nAllow:\n"))
    assert shown == ("<RobotsTxt: User-agent: *, Disallow: /private/, User-agent: a\\x1b, Allow:>")
    assert repr(RobotsTxt()) == "<RobotsTxt: no rules>"
    long = repr(RobotsTxt.parse(b"User-agent: *\n" + b"Disallow: /\xff\n" * 40_000))
    assert long.endswith(" ...>")
    assert len(long) < 2000
    assert repr(robots_from_response(503)) == "<RobotsTxt: unreachable>"


def test_version() -> None:
    """The package has its version."""
    assert scrapy_robots_rfc.__version__ == metadata.version("scrapy-robots-rfc")


def test_response_means_what_it_means_in_a_crawl() -> None:
    """Every status has the same effect as in a crawl."""
    unreachable = read_settings(Settings()).unreachable_statuses
    for status in range(100, 700):
        step = FetchStep("https://e.example/robots.txt")
        access = step.after_response(status, None, b"", unreachable_statuses=unreachable)
        assert not isinstance(access, FetchStep)
        file = robots_from_response(status, FILE)
        decision = file.decide(URL, "mybot")
        if access.outcome is Outcome.SUCCESSFUL:
            assert decision.reason is Reason.RULE
        else:
            assert decision.reason.value == access.outcome.value
            assert decision.allowed is (access.outcome is Outcome.UNAVAILABLE)
            assert (file.crawl_delay("mybot"), file.sitemaps) == (None, ())
        assert file.decide("https://e.example/robots.txt", "mybot")


def test_size_limit() -> None:
    """The size limit applies to the body of a response."""
    long = b"#" * 600_000 + b"\nUser-agent: *\nDisallow: /\n"
    assert robots_from_response(200, long).decide(URL, "mybot")
    assert not robots_from_response(200, long, max_size=700_000).decide(URL, "mybot")


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (robots(FILE), Reason.RULE),
        (redirect("/file", 301), Reason.RULE),
        (redirect("/robots.txt"), Reason.UNAVAILABLE),
        (robots(FILE + "#" * 100, cut=100), Reason.UNREACHABLE),
        (robots("#" * 100, cut=100), Reason.UNREACHABLE),
        (robots(FILE + "#" * 600_000), Reason.RULE),
        (Reply(404), Reason.UNAVAILABLE),
        (Reply(429), Reason.UNREACHABLE),
        (Reply(503), Reason.UNREACHABLE),
        (None, Reason.UNREACHABLE),
    ],
)
def test_recipe(reply: Any, reason: Reason) -> None:
    """The function in docs/script.md fetches a file, and obeys the RFC if it cannot be fetched."""
    fetch = executed(block("docs/script.md", "python", "def fetch_robots"))["fetch_robots"]
    replies = {"/robots.txt": reply, "/file": robots(FILE)} if reply else {}
    with Site(replies) as site:
        address = site.url("").rstrip("/")
        if reply:
            page = f"{address}/private/x"
            decision = fetch(page, "mybot").decide(page, "mybot")
            assert site.asked[0].headers["User-Agent"] == "mybot"
    if not reply:  # the site is down
        decision = fetch(address, "mybot").decide(f"{address}/private/x", "mybot")
    assert decision.reason is reason
    assert bool(decision) is (reason is Reason.UNAVAILABLE)
    for url in ("e.example/x", "e.example:8000", "/x"):  # without a scheme
        with pytest.raises(ValueError, match="unknown url type"):
            fetch(url, "mybot")


def test_example() -> None:
    """The first example in docs/script.md prints nothing, because the page is disallowed."""
    robots = executed(block("docs/script.md", "python", "if robots.decide"))["robots"]
    assert robots.crawl_delay("mybot") == 5
