"""`scrapy robots diff`, as Scrapy's command line runs it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import on_terminal, run
from tests.support.site import Reply, Site
from tests.support.site import robots as file

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.command_copies import Done

OLD = "User-agent: *\nDisallow: /\n\nUser-agent: foobot\nUser-agent: gone\nDisallow: /a\nDisallow: /b\n"
NEW = "User-agent: *\nDisallow: /\n\nUser-agent: foobot\nAllow: /b/c\nDisallow: /b\n\nUser-agent: come\nAllow: /\n"
URLS = "# pages\nhttps://e.example/a\nhttps://e.example/b\nhttps://e.example/b/c\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with what is compared."""
    for name, text in (("old.txt", OLD), ("new.txt", NEW), ("urls", URLS)):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def diff(robots: Callable[..., Done], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Run ``scrapy robots diff`` in that folder."""
    monkeypatch.chdir(folder)
    return lambda *arguments, stdin="": robots("diff", *arguments, stdin=stdin)


def test_all_groups_are_compared(diff: Callable[..., Done]) -> None:
    """Rules that came and went, group by group; the exit code says that there are some."""
    done = diff("old.txt", "new.txt")
    assert (done.code, done.err) == (1, "")
    assert done.lines == [
        "group for foobot",
        "  - line 6: Disallow: /a",
        "  + line 5: Allow: /b/c",
        "group for come: it was none, now that of come",
        "  + line 9: Allow: /",
        "group for gone: it was that of gone, now none",
        "  - line 6: Disallow: /a",
        "  - line 7: Disallow: /b",
        "4 rules removed or added",
    ]


def test_what_applies_to_one_crawler_is_compared(diff: Callable[..., Done]) -> None:
    """What applies to a crawler, and the URLs that change their verdict for it."""
    done = diff("old.txt", "-", "--agent", "foobot", "--urls", "urls", stdin=NEW)
    assert done.code == 1
    assert done.lines == [
        "group for foobot",
        "  - line 6: Disallow: /a",
        "  + line 5: Allow: /b/c",
        "disallowed -> allowed  https://e.example/a",
        "  - robots.txt line 6: Disallow: /a",
        "  + robots.txt: no rule of the group `foobot` matches",
        "disallowed -> allowed  https://e.example/b/c",
        "  - robots.txt line 7: Disallow: /b",
        "  + robots.txt line 5: Allow: /b/c",
        "2 rules removed or added, 2 of 3 URLs change their verdict",
    ]
    assert (
        diff("old.txt", "new.txt", "--agent", "gone").lines[0] == "group for gone: it was that of gone, now that of *"
    )


def test_exit_code_is_0_where_nothing_changed(diff: Callable[..., Done]) -> None:
    """Files that say the same give exit code 0, be it for one crawler alone."""
    done = diff("new.txt", "new.txt", "--urls", "urls")
    assert (done.code, done.lines) == (0, ["0 rules removed or added, 0 of 3 URLs change their verdict"])
    assert diff("old.txt", "new.txt", "--agent", "zoo").code == 0


def test_a_change_is_a_line_of_json(diff: Callable[..., Done]) -> None:
    """An object in a line for each group and for each URL."""
    done = diff("old.txt", "new.txt", "--agent", "come", "--urls", "-", "--json", stdin="http://e.example/\n")
    group, url = map(json.loads, done.lines)
    assert group == {
        "group": "come",
        "old": "*",
        "new": "come",
        "removed": [{"line": 2, "kind": "Disallow", "pattern": "/"}],
        "added": [{"line": 9, "kind": "Allow", "pattern": "/"}],
        "rewritten": [],
    }
    verdicts = (url["old"]["verdict"], url["new"]["verdict"])
    assert (url["url"], url["agent"], *verdicts) == ("http://e.example/", "come", "disallowed", "allowed")


def test_several_agents_are_compared_one_by_one(diff: Callable[..., Done]) -> None:
    """What changed for each is told, once where it is the same, and whose verdict on a URL it is."""
    agents = ("--agent", "come", "--agent", "zoo", "--agent", "new,come", "--agent", "gone")
    done = diff("old.txt", "new.txt", *agents, "--urls", "urls")
    assert done.code == 1
    assert done.lines == [
        "group for come, new,come: it was that of *, now that of come",
        "  - line 2: Disallow: /",
        "  + line 9: Allow: /",
        "group for gone: it was that of gone, now that of *",
        "  - line 6: Disallow: /a",
        "  - line 7: Disallow: /b",
        "  + line 2: Disallow: /",
        *(
            line
            for path in ("a", "b", "b/c")
            for agent in ("come", "new,come")
            for line in (
                f"disallowed -> allowed  https://e.example/{path}",
                f"  agent {agent}",
                "  - robots.txt line 2: Disallow: /",
                "  + robots.txt line 9: Allow: /",
            )
        ),
        "5 rules removed or added, 3 of 3 URLs change their verdict",
    ]
    found = [json.loads(line) for line in diff("old.txt", "new.txt", *agents, "--urls", "urls", "--json").lines]
    assert [entry["group"] for entry in found if "group" in entry] == ["come", "new,come", "gone"]
    assert [entry["agent"] for entry in found if "url" in entry] == ["come", "new,come"] * 3


def test_rules_that_are_written_differently_are_no_change(diff: Callable[..., Done], folder: Path) -> None:
    """A rule in another spelling is told as that, and is no change: not to the exit code, either."""
    (folder / "spelt.txt").write_text(NEW.replace("Disallow: /b", "Disallow: /b*"))
    done = diff("new.txt", "spelt.txt", "--urls", "urls")
    assert (done.code, done.err) == (0, "")
    assert done.lines == [
        "group for foobot",
        "  = line 6: Disallow: /b",
        "    line 6: Disallow: /b* (says the same)",
        "0 rules removed or added, 1 written differently, 0 of 3 URLs change their verdict",
    ]
    done = diff("new.txt", "spelt.txt", "--json", "--agent", "foobot")
    old, new = ({"line": 6, "kind": "Disallow", "pattern": pattern} for pattern in ("/b", "/b*"))
    assert json.loads(done.out) == {
        "group": "foobot",
        "old": "foobot",
        "new": "foobot",
        "removed": [],
        "added": [],
        "rewritten": [{"old": old, "new": new}],
    }


@pytest.mark.parametrize(
    ("arguments", "stdin", "error"),
    [
        (("-", "-"), OLD, "standard input can be one thing only"),
        (("old.txt", "nowhere"), "", "nowhere cannot be read: No such file or directory"),
    ],
)
def test_what_makes_no_sense_is_refused(
    diff: Callable[..., Done], arguments: tuple[str, ...], stdin: str, error: str
) -> None:
    """What makes no sense is one line on stderr, and exit code 2."""
    done = diff(*arguments, stdin=stdin)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert done.err.startswith(f"scrapy robots diff: {error}")


def test_rules_that_moved_are_no_change(diff: Callable[..., Done], folder: Path) -> None:
    """What says the same to a crawler is no change to it, and a group without a rule that lets one in is one."""
    (folder / "one").write_text("User-agent: *\nDisallow: /\n")
    (folder / "two").write_text("User-agent: foobot\nDisallow: /\nUser-agent: *\nDisallow: /\n")
    (folder / "open").write_text("User-agent: foobot\nDisallow:\n\nUser-agent: *\nDisallow: /\n")
    done = diff("one", "two", "--agent", "foobot")
    assert (done.code, done.lines) == (0, ["0 rules removed or added"])
    done = diff("one", "open")
    assert (done.code, done.lines) == (
        1,
        [
            "group for foobot: it was none, now that of foobot",
            "0 rules removed or added, 1 group without a rule came or went",
        ],
    )
    (folder / "allow").write_text((folder / "open").read_text().replace("Disallow:\n", "Allow:\n"))
    assert (diff("open", "allow").code, diff("open", "allow").lines) == (0, ["0 rules removed or added"])


def test_a_line_that_is_no_url_is_named(diff: Callable[..., Done], folder: Path) -> None:
    """It is named with its number, and all else is compared; as with `check`, nobody knows then: the code is 2."""
    (folder / "urls").write_text(f"{URLS}\n/page\nsftp://me:secret@e.example/\nhttps://e.example/b/c/d\n")
    done = diff("old.txt", "new.txt", "--agent", "foobot", "--urls", "urls")
    assert done.code == 2
    why = "is no absolute URL of http or https or ftp or gemini with a valid authority; write it as SCHEME://HOST/PATH"
    assert done.err.splitlines() == [
        f"scrapy robots diff: urls line 6: /page {why}",
        f"scrapy robots diff: urls line 7: sftp://e.example/ {why}",
    ]
    assert done.lines[:3] == diff("old.txt", "new.txt", "--agent", "foobot").lines[:3]
    assert done.lines[-1] == "2 rules removed or added, 3 of 4 URLs change their verdict"
    done = diff("new.txt", "new.txt", "--urls", "-", "--json", stdin="/page")
    assert (done.code, done.out, done.err) == (2, "", f"scrapy robots diff: standard input line 1: /page {why}\n")


def test_a_site_is_compared_with_a_file(folder: Path) -> None:
    """What a site has now may be either of the two; one that has nothing is an error."""
    with Site({"/robots.txt": file(OLD), "/gone": Reply(404)}) as site:
        done = run("diff", site.url("/robots.txt"), "new.txt", "--agent", "foobot", folder=folder)
        assert (done.code, done.err) == (1, "")
        assert done.lines[-1] == "2 rules removed or added"
        assert site.targets == ["/robots.txt"]
        done = run("diff", "new.txt", site.url("/gone"), folder=folder)
        assert (done.code, done.out) == (2, "")


def test_there_is_colour_on_a_terminal(folder: Path) -> None:
    """On a terminal what went is red, and what came is green."""
    done = on_terminal("diff", "old.txt", "new.txt", folder=folder)
    assert "\x1b[31m  - line 6: Disallow: /a\x1b[0m\n\x1b[32m  + line 5: Allow: /b/c\x1b[0m\n" in done.out


def test_of_many_lines_that_are_no_urls_some_are_told(diff: Callable[..., Done]) -> None:
    """The first ten have a line on stderr, with how many more there are."""
    done = diff("new.txt", "new.txt", "--urls", "-", stdin=b"\xff\x00\n" * 1234)
    assert (done.code, done.err.count(": standard input line ")) == (2, 10)
    assert done.err.splitlines()[10:] == ["scrapy robots diff: and 1,224 more of this kind"]
