"""`scrapy robots` with ftp, gemini and other URLs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from demo.gemini import Capsule
from tests.support.command_line import run
from tests.support.ftp_site import ftp_site

if TYPE_CHECKING:
    from pathlib import Path

RULES = "User-agent: *\nDisallow: /closed\nSitemap: /s.xml\n"
CAPSULE = """User-agent: archiver
Disallow: /a*b
Allow: /a*b/but

User-agent: indexer
Disallow: /drafts
"""


def test_ftp(tmp_path: Path) -> None:
    """The robots.txt of an FTP server is fetched, used, and shown."""
    (tmp_path / "robots.txt").write_text(RULES)
    with ftp_site(tmp_path) as site:
        done = run("check", site.url("/closed"), site.url("/open"), "--json", folder=tmp_path)
        closed, opened = done.records
        assert (closed["verdict"], opened["verdict"]) == ("disallowed", "allowed")
        assert closed["rule"]["line"] == 2
        assert closed["robots_txt"]["url"] == site.url("/robots.txt")
        assert site.retrieved == ["/robots.txt"]
        done = run("show", site.url("/"), folder=tmp_path)
        assert done.code == 0
        assert "/closed" in done.out
    (tmp_path / "robots.txt").unlink()
    with ftp_site(tmp_path) as site:
        done = run("check", site.url("/closed"), folder=tmp_path)
        assert (done.code, done.lines[0].split()[0]) == (0, "allowed")


def test_gemini(tmp_path: Path) -> None:
    """A given file is read by the rules of Gemini for a Gemini page, and by RFC 9309 for a web
    page.
    """
    (tmp_path / "robots.txt").write_text(CAPSULE)
    agents = ("--robots", "robots.txt", "--agent", "foobot,archiver,indexer", "--json")
    lines = {
        "gemini://a.example/a*b/but": 2,
        "gemini://a.example/axb": None,
        "gemini://a.example/drafts": 6,
        "http://a.example/axb": 2,
    }
    for record in run("check", *lines, *agents, folder=tmp_path).records:
        line = lines[record["url"]]
        assert record["verdict"] == ("disallowed" if line else "allowed")
        assert (record["rule"] and record["rule"]["line"]) == line


def test_schemes_of_a_project(tmp_path: Path) -> None:
    """ROBOTS_SCHEMES applies to commands, too."""
    (tmp_path / "robots.txt").write_text(RULES)
    given = ("--robots", "robots.txt")
    web = ("-s", 'ROBOTS_SCHEMES={"web": {"port": 8}, "ftp": null}')
    assert run("check", "web://a.example/closed", *given, folder=tmp_path).code == 0
    done = run("check", "web://a.example/closed", *given, *web, folder=tmp_path)
    assert (done.code, done.lines[0].split()[0]) == (1, "disallowed")
    done = run("check", "web://:x/", *given, *web, folder=tmp_path)
    assert (done.code, " http, https, gemini or web URL" in done.err) == (2, True)


def test_files_and_pages_of_a_custom_scheme(tmp_path: Path) -> None:
    """`lint` and `page` accept URLs of a scheme that the user added."""
    text = "20 text/plain"
    capsule = Capsule({"/open": (text, "x"), "/robots.txt": (text, f"{RULES}Dissallow: /x\n")})
    options = (
        "-s", 'DOWNLOAD_HANDLERS={"moon": "demo.gemini.GeminiHandler"}',
        "-s", 'ROBOTS_SCHEMES={"moon": {"port": 1, "answers": "gemini", "rules": "gemini"}}',
    )  # fmt: skip
    url = capsule.url("/open").replace("gemini:", "moon:")
    try:
        done = run("lint", url, *options, folder=tmp_path)
        assert (done.code, done.err) == (1, "")
        assert done.lines[-1].endswith("/robots.txt: 2 findings (2 warnings)")
        done = run("page", url, *options, folder=tmp_path)
        assert (done.code, done.err, done.lines[0]) == (0, "", f"{url} (status 20)")
    finally:
        capsule.stop()


@pytest.mark.parametrize("url", ["ftp://a.example/closed", "data:,a@b", "S3://b/"])
def test_schemes_without_robots_txt(url: str, tmp_path: Path) -> None:
    """Pages of schemes without robots.txt are allowed, as in a crawl."""
    (tmp_path / "robots.txt").write_text(RULES)
    only = 'ROBOTS_SCHEMES={"ftp": null}'
    done = run("check", url, "--robots", "robots.txt", "--json", "-s", only, folder=tmp_path)
    found = done.records[0]
    assert (done.code, done.err) == (0, "")
    names = ("url", "verdict", "reason", "robots_txt")
    assert [found[name] for name in names] == [url, "allowed", "exempt", None]
    scheme = url.partition(":")[0].lower()
    assert found["why"] == f"robots.txt applies to http, https and gemini URLs, not to {scheme}"


def test_missing_handler(tmp_path: Path) -> None:
    """If the crawl itself cannot request a file, the advice is that of the log."""
    advice = "install or enable what it needs (no handler available for that scheme)"
    for topic in ("check", "show", "lint"):
        done = run(topic, "gemini://a.example/x", folder=tmp_path)
        assert done.code == 2
        assert "DOWNLOAD_HANDLERS['gemini']" in done.err or topic != "check"
        assert done.err.endswith(
            f"; {advice}, or use a local copy (check --robots FILE, lint FILE)\n"
        )
