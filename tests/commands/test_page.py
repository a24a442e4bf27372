"""`scrapy robots page`: the rules of a URL, a file or standard input."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command_line import run
from tests.support.site import Reply, Site, redirect, robots

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
<meta name=robots content="index, max-snippet: x, foo">
<meta name=googlebot content="noarchive nosnippet, x: none, noodp, follow: 1">
<meta name=* content=noindex>
<meta name=viewport content="width=device-width, initial-scale=1">
<body><meta name=robots content=nosnippet>
"""


def rules(*arguments: str, folder: Path, stdin: str = "") -> list[dict[str, Any]]:
    """Run the command, and return its JSON objects."""
    done = run("page", *arguments, "--json", folder=folder, stdin=stdin)
    assert (done.code, done.err) == (0, "")
    return done.records


def page(*headers: str, body: str = HEAD, **other: Any) -> Reply:
    """Return a page with X-Robots-Tag lines."""
    tags = tuple(("X-Robots-Tag", value) for value in headers)
    return Reply(body=body.encode(), headers=(("Content-Type", "text/html"), *tags), **other)


def test_rules_of_a_url(tmp_path: Path) -> None:
    """All rules of headers and metas are shown: the crawler that each addresses, whether it
    applies, and mistakes.
    """
    with Site(
        {"/": page("noindex, otherbot: max-snippet: 5", "max-video-preview: 1, noindx")}
    ) as site:
        (found,) = rules(site.url("/"), "--agent", "mybot", folder=tmp_path)
    names = ("source", "bot", "name", "applies", "odd")
    assert [tuple(each[name] for name in names) for each in found["rules"]] == [
        ("header", "*", "noindex", True, None),
        ("header", "otherbot", "max-snippet", False, None),
        ("header", "*", "max-video-preview", True, None),
        ("header", "*", "noindx", True, "unknown directive"),
        ("meta", "robots", "index", True, None),
        ("meta", "robots", "max-snippet", True, "no valid value"),
        ("meta", "robots", "foo", True, "unknown directive"),
        ("meta", "googlebot", "noarchive nosnippet", False, "spaces instead of commas"),
        ("meta", "googlebot: x", "none", False, None),
        ("meta", "googlebot: x", "noodp", False, None),
        ("meta", "googlebot: x", "follow", False, "takes no value"),
        ("meta", "*", "noindex", False, None),
        ("meta", "robots", "nosnippet", False, "ignored because it is not in the head"),
    ]
    facts = [found[name] for name in ("url", "tokens", "nofollow", "noindex")]
    assert facts == [site.url("/"), ["mybot"], False, True]
    without_value = dict.fromkeys(("noindx", "foo", "index", "noindex"))
    assert found["directives"] == {**without_value, "max-video-preview": "1"}
    assert found["conflicts"] == ["noindex"]


@pytest.mark.parametrize("source", ["page.html", "-"])
def test_rules_of_a_file(tmp_path: Path, source: str) -> None:
    """The rules of a file, or of standard input, come from its metas.

    Each agent has its own answer.
    """
    text = "<meta name=One content=nofollow><meta name=two content=noarchive>"
    (tmp_path / "page.html").write_text(text)
    found = rules(source, "--agent", "one", "--agent", "two", folder=tmp_path, stdin=text)
    assert [(each["agent"], list(each["directives"]), each["status"]) for each in found] == [
        ("one", ["nofollow"], None),
        ("two", ["noarchive"], None),
    ]


def test_text(tmp_path: Path) -> None:
    """The text shows the status and the rules that apply, with their sources and conflicts, then
    all rules, escaped.
    """
    with Site({"/": page("noindex, \x9b2J: all, mybot: noai", status=404)}) as site:
        done = run("page", site.url("/"), "--agent", "mybot", "--agent", "other", folder=tmp_path)
    assert done.code == 0
    mine = done.out.partition("\n\n")[0].splitlines()
    where = "X-Robots-Tag: noindex, \\x9b2J: all, mybot: noai"
    assert mine[:3] == [
        f"{site.url('/')} (status 404)",
        "  agent      mybot (from --agent)",
        "  applies    foo (meta robots: index, max-snippet: x, foo)",
    ]
    assert f"  applies    noindex, although another rule allows it ({where})" in mine
    assert "    header  \\x9b2J: all" in mine
    assert "  > header  mybot: noai" in mine
    assert "  > meta    robots: max-snippet: x (no valid value)" in mine


def test_redirect_and_userinfo(tmp_path: Path) -> None:
    """The command follows redirects, ignores their rules, and does not show userinfo."""
    from_page = redirect("/to")
    first = Reply(302, headers=(*from_page.headers, ("X-Robots-Tag", "nofollow")))
    with Site({"/": first, "/to": page("noindex")}) as site:
        (found,) = rules(site.url("/").replace("//", "//me:secret@"), folder=tmp_path)
    assert (found["url"], found["nofollow"], found["noindex"]) == (site.url("/to"), False, True)


def test_disallowed_page(tmp_path: Path) -> None:
    """A page that robots.txt disallows is not requested, and the exit code is 2."""
    with Site({"/robots.txt": robots("User-agent: *\nDisallow: /\n")}) as site:
        done = run("page", site.url("/"), folder=tmp_path)
        assert site.pages == []
    assert (done.code, done.out) == (2, "")
    reason = "Forbidden by robots.txt (robots.txt line 2: Disallow: /)"
    assert done.err == f"scrapy robots page: {site.url('/')} cannot be read: {reason}\n"


def test_unreadable_page(tmp_path: Path) -> None:
    """A page that cannot be read is one line on stderr."""
    with Site({"/": Reply(reset=True)}) as site:
        done = run("page", site.url("/"), "-s", "RETRY_ENABLED=0", folder=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"scrapy robots page: {site.url('/')} cannot be read: ")
