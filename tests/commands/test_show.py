"""`scrapy robots show`, on real sites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import run
from tests.support.site import Reply, Site, redirect, robots as file

if TYPE_CHECKING:
    from pathlib import Path


FILE = """User-agent: *
Disallow: /

User-agent: foobot
User-agent: \x1b[31mbarbot
Allow: /a
Disallow: /a/b
Crawl-delay: 1.5

User-agent: foobot
Disallow: /c
Sitemap: https://a.example/sitemap.xml
Clean-param: id
"""


def test_text(tmp_path: Path) -> None:
    """The text says how the file was fetched, for how long it is used, its groups, and which one
    applies.
    """
    with Site({"/robots.txt": redirect("/b"), "/b": file(FILE)}) as site:
        done = run("show", site.url("/page?x"), "--agent", "zoo,foobot", folder=tmp_path)
        assert site.targets == ["/robots.txt", "/b"]
        assert (done.code, done.err) == (0, "")
        assert done.lines == [
            f"  robots.txt {site.url('/robots.txt')} successful (200), so its rules apply",
            f"  redirected to {site.url('/b')}",
            "  fresh for  86,400 s",
            f"  size       {len(FILE)} bytes",
            "  agent      zoo,foobot (from --agent)",
            "  group      foobot, because no group matches zoo (lines 4-8, 10-13)",
            "  delay      Crawl-delay 1.5 s (robots.txt line 8)",
            "  record     line 8: crawl-delay: 1.5",
            "  record     line 12: sitemap: https://a.example/sitemap.xml",
            "  record     line 13: clean-param: id",
            "",
            "      1  *",
            "      2    Disallow: /",
            "",
            ">     4  foobot, \\x1b[31mbarbot (applies)",
            "      6    Allow: /a",
            "      7    Disallow: /a/b",
            "",
            ">    10  foobot (applies)",
            "     11    Disallow: /c",
        ]


def test_json(tmp_path: Path) -> None:
    """The JSON object has the same facts."""
    headers = (("Cache-Control", "max-age=3600"),)
    with Site({"/robots.txt": Reply(200, FILE.encode(), headers)}) as site:
        done = run("show", site.url("/"), "--json", folder=tmp_path)
    shown = done.records[0]
    assert done.code == 0
    assert 0 < shown["fresh_for"] <= 3600
    assert [group["applies"] for group in shown["groups"]] == [True, False, False]
    names = ("origin", "status", "size", "group", "group_lines", "delay", "interval", "sitemaps")
    assert [shown[name] for name in names] == [
        *(site.url("").rstrip("/"), 200, len(FILE), "*", [[1, 2]], "none", None),
        ["https://a.example/sitemap.xml"],
    ]
    assert [record["line"] for record in shown["records"]] == [8, 12, 13]
    assert shown["records"][2] == {"line": 13, "key": "clean-param", "value": "id"}


MAX = "ROBOTS_CRAWL_DELAY_MAX"
PACED = {
    "": ("Crawl-delay 100 s (robots.txt line 2); shortened to 60 s (ROBOTS_CRAWL_DELAY_MAX)", 60),
    f"{MAX}=200": ("Crawl-delay 100 s (robots.txt line 2)", 100),
    f"{MAX}=0": (f"Crawl-delay 100 s (robots.txt line 2); ignored ({MAX} = 0)", None),
    "ROBOTS_CRAWL_DELAY_OVER=forbid": (
        f"Crawl-delay 100 s (robots.txt line 2) is more than {MAX}, 60 s; every page is disallowed",
        None,
    ),
}


@pytest.mark.parametrize("setting", PACED)
def test_delay(tmp_path: Path, setting: str) -> None:
    """The delay is the longest interval of the file, with what the settings make of it."""
    asked = "User-agent: *\nCrawl-delay: 100\nRequest-rate: 1/5\nDisallow: /x\n"
    text, interval = PACED[setting]
    set_to = ("-s", setting) if setting else ()
    with Site({"/robots.txt": file(asked)}) as site:
        assert f"  delay      {text}" in run("show", site.url("/"), *set_to, folder=tmp_path).lines
        found = run("show", site.url("/"), "--json", *set_to, folder=tmp_path).records[0]
    assert found["interval"] == interval


def test_size_of_a_long_file(tmp_path: Path) -> None:
    """The size of a file beyond the limit is the limit, and the JSON of `check` says so, too."""
    with Site({"/robots.txt": Reply(200, b"#" * 660_000)}) as site:
        text = run("show", site.url("/"), folder=tmp_path)
        made = run("show", site.url("/"), "--json", folder=tmp_path)
        checked = run("check", site.url("/"), "--json", folder=tmp_path)
    assert checked.records[0]["robots_txt"]["truncated"]
    assert "  size       512,000 bytes (the file is longer, but the rest is ignored)" in text.lines
    found = made.records[0]
    assert (found["size"], found["truncated"]) == (512_000, True)


@pytest.mark.parametrize(
    ("status", "code", "result", "means"),
    [(404, 0, "unavailable", "everything"), (503, 2, "unreachable", "nothing")],
)
def test_site_without_a_file(
    tmp_path: Path, status: int, code: int, result: str, means: str
) -> None:
    """A missing file is shown, and an unreachable file is an error with advice."""
    with Site({"/robots.txt": Reply(status)}) as site:
        done = run("show", site.url("/"), "-s", "RETRY_ENABLED=False", folder=tmp_path)
    file, state = site.url("/robots.txt"), f"{result} ({status}), so {means} is allowed"
    assert (done.code, done.lines[0]) == (code, f"  robots.txt {file} {state}")
    advice = "check whether the site is up, or use a local copy (check --robots FILE, lint FILE)"
    error = f"scrapy robots show: {file} is {state}; {advice}\n"
    assert done.err == (error if code else "")


@pytest.mark.parametrize("url", [["https://a.invalid/x"], []])
def test_given_file(tmp_path: Path, url: list[str]) -> None:
    """With --robots, a local file is shown, and nothing is requested. The URL is optional."""
    (tmp_path / "robots.txt").write_text(FILE)
    done = run("show", "--robots", "robots.txt", *url, folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == "  robots.txt robots.txt (given)"
    assert ">     1  * (applies)" in done.lines


MISTAKES = """User-agent: foobot
Disallow: /<b>/
Allow: /<b>/c  # <
Disallow: x

User-agent: *
Disallow: /
"""
VIEW = ("--robots", "robots.txt", "--agent", "foobot", "--url")


def test_entire_file(tmp_path: Path) -> None:
    """With --url, the whole file is shown with the lines that match and the findings."""
    (tmp_path / "robots.txt").write_text(MISTAKES)
    done = run("show", "https://a.invalid/", *VIEW, "/<b>/c", folder=tmp_path)
    assert (done.code, done.err) == (0, "")
    effect = "it matches no URL, because every path starts with `/` (RFC 9309, 2.2.2)"
    assert done.lines == [
        "allowed      https://a.invalid/<b>/c",
        "  why        robots.txt line 3: Allow: /<b>/c",
        "  robots.txt robots.txt (given)",
        "  agent      foobot (from --agent)",
        "  group      foobot, named in the file (lines 1-4)",
        "",
        "      1 | User-agent: foobot",
        "-     2 | Disallow: /<b>/",
        ">     3 | Allow: /<b>/c  # <",
        "      4 | Disallow: x",
        f"                    ^ error never_matches: {effect}",
        "          = meant: Disallow: /x",
        "      5",
        "      6   User-agent: *",
        "      7   Disallow: /",
    ]
    assert run("show", "https://a.invalid/", *VIEW, "/<b>/", folder=tmp_path).code == 1


def test_entire_file_as_html(tmp_path: Path) -> None:
    """With --html, the same view is an HTML page, in which the file's text is escaped."""
    (tmp_path / "robots.txt").write_text(MISTAKES)
    view = (*VIEW, "https://a.invalid/<b>/c", "--agent", "<i>/1", "--html")
    done = run("show", "https://a.invalid/", *view, "view.html", folder=tmp_path)
    assert (done.code, done.err) == (1, "")
    page = (tmp_path / "view.html").read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "<h2>allowed <code>https://a.invalid/&lt;b&gt;/c</code></h2>" in page
    assert '<li class="decides"><b>&gt; 3</b><code>Allow: /&lt;b&gt;/c  # &lt;</code>' in page
    assert '<li class="lost"><b>- 2</b>' in page
    assert '<p class="error">error never_matches: it matches no URL' in page
    assert "agent: &lt;i&gt;" in page
    assert not [text for text in ("<b>/", "<i>", "<script") if text in page]
    assert run("show", "https://a.invalid/", *view, "view.html", folder=tmp_path).code == 1
