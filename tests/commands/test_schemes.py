"""`scrapy robots` with ftp and gemini URLs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from tests.commands.running import run
from tests.support.ftp_site import PASSWORD, USER, ftp_site

if TYPE_CHECKING:
    from pathlib import Path

RULES = "User-agent: *\nDisallow: /closed\nSitemap: /s.xml\n"
CAPSULE = """User-agent: archiver
Disallow: /a*b
Allow: /a*b/but

User-agent: indexer
Disallow: /drafts
"""


def test_check_and_show_ask_an_ftp_server(tmp_path: Path) -> None:
    """The file of an FTP server is fetched, judged by, and shown."""
    (tmp_path / "robots.txt").write_text(RULES)
    with ftp_site(tmp_path) as site:
        done = run("check", site.url("/closed"), site.url("/open"), "--json", folder=tmp_path)
        closed, opened = map(json.loads, done.lines)
        assert (closed["verdict"], closed["rule"]["line"], opened["verdict"]) == ("disallowed", 2, "allowed")
        assert closed["robots_txt"]["url"] == site.url("/robots.txt")
        assert site.retrieved == ["/robots.txt"]
        done = run("show", site.url("/"), folder=tmp_path)
        assert done.code == 0
        assert "/closed" in done.out
    (tmp_path / "robots.txt").unlink()
    with ftp_site(tmp_path) as site:
        done = run("check", site.url("/closed"), folder=tmp_path)
        assert (done.code, done.lines[0].split()[0]) == (0, "allowed")


def test_a_file_of_ftp_is_compared_with_its_account(tmp_path: Path) -> None:
    """User and password of the URL are used, and not shown."""
    (tmp_path / "robots.txt").write_text(RULES)
    with ftp_site(tmp_path, anonymous=False) as site:
        url = site.url("/robots.txt").replace("://", f"://{USER}:{PASSWORD}@")
        done = run("diff", url, "robots.txt", folder=tmp_path)
        assert (done.code, done.lines) == (0, ["0 rules removed or added"])
        done = run("diff", url.replace(PASSWORD, "wrong"), "robots.txt", folder=tmp_path)
        assert (done.code, "the FTP server said 530" in done.err) == (2, True)
        assert "wrong" not in done.err


def test_a_gemini_page_is_judged_by_a_given_file(tmp_path: Path) -> None:
    """Without any network, by the rules of Gemini; the same page of the web by those of RFC 9309."""
    (tmp_path / "robots.txt").write_text(CAPSULE)
    agents = ("--robots", "robots.txt", "--agent", "foobot,archiver,indexer", "--json")
    urls = ("gemini://a.example/a*b/but", "gemini://a.example/axb", "gemini://a.example/drafts", "http://a.example/axb")
    done = run("check", *urls, *agents, folder=tmp_path)
    found = [(each["verdict"], each["rule"] and each["rule"]["line"]) for each in map(json.loads, done.lines)]
    assert found == [("disallowed", 2), ("allowed", None), ("disallowed", 6), ("disallowed", 2)]


def test_schemes_of_a_project(tmp_path: Path) -> None:
    """ROBOTSTXT_SCHEMES counts for commands, too."""
    (tmp_path / "robots.txt").write_text(RULES)
    given = ("--robots", "robots.txt")
    web = ("-s", 'ROBOTSTXT_SCHEMES={"web": {"port": 8}, "ftp": null}')
    assert run("check", "web://a.example/closed", *given, folder=tmp_path).code == 2
    done = run("check", "web://a.example/closed", *given, *web, folder=tmp_path)
    assert (done.code, done.lines[0].split()[0]) == (1, "disallowed")
    assert run("check", "ftp://a.example/closed", *given, *web, folder=tmp_path).code == 2
