"""robots.txt of Gemini capsules, in crawls by the handler of the example project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.utils.reactor import is_asyncio_reactor_installed

from demo.gemini import Capsule
from scrapy_robots_rfc import RobotsDisallowed
from tests.support.command_line import run
from tests.support.crawling import Crawl, crawl

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.site import Site

pytestmark = pytest.mark.skipif(
    not is_asyncio_reactor_installed(), reason="the handler needs asyncio"
)

SETTINGS = {
    "DOWNLOAD_HANDLERS": {"gemini": "demo.gemini.GeminiHandler"},
    "HTTPERROR_ALLOW_ALL": True,
    "ROBOTSTXT_USER_AGENT": ["foobot", "archiver"],
}
RULES = "User-agent: archiver\nAllow: /closed/but\nDisallow: /closed\n"
TEXT = "20 text/plain"


@pytest.fixture
def capsule() -> Iterator[Capsule]:
    """A capsule with three pages and no robots.txt."""
    running = Capsule(dict.fromkeys(("/open", "/closed/but", "/closed*"), (TEXT, "x")))
    yield running
    running.stop()


async def pages(
    capsule: Capsule, settings: dict[str, Any] | None = None
) -> tuple[dict[str, int | str], Crawl]:
    """Crawl all pages of a capsule, and return the outcome of each."""
    paths = [path for path in capsule.pages if path != "/robots.txt"]
    done = await crawl([capsule.url(path) for path in paths], {**SETTINGS, **(settings or {})})
    ends = {path: done.outcomes[capsule.url(path)] for path in paths}
    found = {
        path: end.why if isinstance(end, RobotsDisallowed) else end for path, end in ends.items()
    }
    return found, done  # type: ignore[return-value]  # anything else fails its test


@ensureDeferred
async def test_a_capsule_is_crawled_by_its_rules(capsule: Capsule) -> None:
    """The file is fetched once, and the group for the crawl's purpose decides."""
    capsule.pages = {**capsule.pages, "/robots.txt": (TEXT, RULES)}
    ends, done = await pages(capsule)
    because = "robots.txt line 3: Disallow: /closed"
    assert ends == {"/open": 20, "/closed/but": because, "/closed*": because}
    assert sorted(capsule.log) == ["/open", "/robots.txt"]
    assert done.stat("response_status_count/20") == 1


@pytest.mark.parametrize(
    "parser", ["scrapy_robots_rfc.RfcRobotParser", "scrapy.robotstxt.ProtegoRobotParser"]
)
@ensureDeferred
async def test_any_parser_reads_the_rules_of_gemini(capsule: Capsule, parser: str) -> None:
    """A third-party parser gets the file in the terms of RFC 9309."""
    capsule.pages = {
        **capsule.pages,
        "/closedx": (TEXT, "x"),
        "/robots.txt": (TEXT, RULES.replace("closed\n", "closed*\n")),
    }
    ends, _ = await pages(capsule, {"ROBOTSTXT_PARSER": parser, "ROBOTSTXT_USER_AGENT": "archiver"})
    assert [path for path, end in ends.items() if end == 20] == ["/open", "/closed/but", "/closedx"]


@ensureDeferred
async def test_a_store_and_an_archive_keep_the_file_of_a_capsule(
    capsule: Capsule, tmp_path: Path
) -> None:
    """The next crawl does not fetch the file again, and `check` judges by the rules of Gemini."""
    capsule.pages = {**capsule.pages, "/robots.txt": (TEXT, RULES)}
    archive = tmp_path / "robots.warc.gz"
    stored = {"ROBOTS_CACHE": f"sqlite:///{tmp_path / 'robots.sqlite'}"}
    first, _ = await pages(capsule, {**stored, "ROBOTS_ARCHIVE": str(archive)})
    again, _ = await pages(capsule, stored)
    assert first == again
    assert capsule.log.count("/robots.txt") == 1
    for options in ((), ("--agent", "foobot,archiver", "--archive", str(archive))):
        command = (
            ("check", capsule.url("/closed/but"))
            if options
            else ("cache", "ls", "--store", stored["ROBOTS_CACHE"])
        )
        done = run(*command, *options, folder=tmp_path)
        assert capsule.url("") in done.out
    assert "line 3: Disallow: /closed" in done.out


@ensureDeferred
async def test_custom_scheme(capsule: Capsule) -> None:
    """With a handler and a description, a user's scheme is judged and paced."""
    capsule.pages = {**capsule.pages, "/robots.txt": (TEXT, f"{RULES}Crawl-delay: 0.05\n")}
    settings = {
        **SETTINGS,
        "DOWNLOAD_HANDLERS": {"moon": "demo.gemini.GeminiHandler"},
        "ROBOTS_SCHEMES": {"moon": {"port": 1, "answers": "gemini", "rules": "gemini"}},
    }
    urls = [
        capsule.url(path).replace("gemini:", "moon:")
        for path in ("/open", "/open?again", "/closed/but")
    ]
    done = await crawl(urls, settings)
    assert done.verdicts(*urls) == [20, 20, "rule"]
    assert done.stat("crawl_delay/sites") == 1
    assert done.stat("exempted") == 0


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("51 no such page", None),
        ("41 down", "robots.txt unreachable: 41"),
        ("60 certificate, please", "robots.txt unreachable: 60"),
        ("31 https://a.example/robots.txt", None),
        ("31 /robots.txt", None),
    ],
)
@ensureDeferred
async def test_a_capsule_without_a_file(capsule: Capsule, answer: str, reason: str | None) -> None:
    """A missing file allows everything, an unknown one nothing (2.3.1)."""
    capsule.pages = {"/open": (TEXT, "x"), "/robots.txt": (answer, "")}
    ends, _ = await pages(capsule)
    assert ends == {"/open": 20 if reason is None else reason}


@ensureDeferred
async def test_redirects_lead_to_other_capsules(capsule: Capsule) -> None:
    """The target of a redirect counts (2.3.1.2)."""
    other = Capsule({"/r": (TEXT, RULES)})
    capsule.pages = {
        "/closed": (TEXT, "x"),
        "/robots.txt": ("30 /there", ""),
        "/there": (f"31 {other.url('/r')}", ""),
    }
    ends, _ = await pages(capsule)
    other.stop()
    assert ends["/closed"] == "robots.txt line 3: Disallow: /closed"


@ensureDeferred
async def test_a_long_file_is_cut_off(capsule: Capsule) -> None:
    """2.5: the transfer ends at the limit."""
    capsule.pages = {
        **capsule.pages,
        "/robots.txt": (TEXT, f"{RULES}{'#' * 20_000_000}\nDisallow: /open\n"),
    }
    ends, done = await pages(capsule)
    assert (ends["/open"], ends["/closed*"]) == (20, "robots.txt line 3: Disallow: /closed")
    assert done.stat("truncated") == 1
    assert done.stats["downloader/response_bytes"] < 1_000_000


@ensureDeferred
async def test_capsule_without_tls(site: Site) -> None:
    """A TLS failure is a network failure (2.3.1.4)."""
    url = site.url("/open").replace("http:", "gemini:")
    done = await crawl([url], SETTINGS)
    assert done.dropped(url).why.startswith("robots.txt unreachable: TLS: ")
