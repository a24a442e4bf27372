"""`scrapy robots lint`: sources, formats and exit codes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import run
from tests.support.site import Reply, Site, redirect, robots

if TYPE_CHECKING:
    from tests.support.command_line import Done

GOOD = "User-agent: *\nDisallow: /x\n"
NOTICE = GOOD + "Disallow: /x\n"
WARNING = NOTICE + "Dissallow: /y\n"
ERROR = WARNING + "Disallow: z\n"


def lint(*arguments: str, folder: Path, stdin: str = "") -> Done:
    """Run ``scrapy robots lint``."""
    return run("lint", *arguments, folder=folder, stdin=stdin)


@pytest.mark.parametrize(
    ("text", "code", "summary"),
    [
        (GOOD, 0, "0 findings"),
        (NOTICE, 0, "1 finding (1 notice)"),
        (WARNING, 1, "2 findings (1 warning, 1 notice)"),
        (ERROR, 3, "3 findings (1 error, 1 warning, 1 notice)"),
    ],
)
def test_exit_code(text: str, code: int, summary: str, tmp_path: Path) -> None:
    """The worst finding determines the exit code."""
    (tmp_path / "robots.txt").write_text(text)
    done = lint("robots.txt", folder=tmp_path)
    assert (done.code, done.lines[-1], done.err) == (code, f"robots.txt: {summary}", "")


def test_json(tmp_path: Path) -> None:
    """With --format json, each finding is an object on one line."""
    done = lint("-", "--format", "json", folder=tmp_path, stdin=ERROR)
    found = done.records
    facts = ("file", "line", "severity", "code")
    assert [[entry[name] for name in facts] for entry in found] == [
        ["-", 3, "notice", "repeated_rule"],
        ["-", 4, "warning", "misspelt_key"],
        ["-", 5, "error", "never_matches"],
    ]
    assert found[1]["text"] == "Dissallow: /y"
    assert (found[1]["column"], found[1]["end_column"]) == (1, 10)
    assert found[1]["effect"].endswith("read it as `Disallow`, but some ignore it")
    assert found[1]["meant"] == "Disallow: /y"
    assert found[0]["meant"] is None
    assert done.code == 3


def test_github(tmp_path: Path) -> None:
    """With --format github, each finding is an annotation, and the file cannot inject others."""
    (tmp_path / "a,b:c.txt").write_bytes(b"User-agent: *\nDisallow: x%0A::error::\x1b[2J\x0b\n")
    done = lint("a,b:c.txt", "--format", "github", folder=tmp_path)
    never, control = sorted(done.lines)
    assert never.startswith(
        "::error file=a%2Cb%3Ac.txt,line=2,col=11,endColumn=28,title=never_matches::Disallow: x"
    )
    assert control.startswith(
        "::warning file=a%2Cb%3Ac.txt,line=2,col=24,endColumn=24,title=control_octet::Disallow: x"
    )
    assert all("x%250A::error::\\x1b[2J" in line for line in done.lines)
    assert "\x1b" not in done.out


def test_url(tmp_path: Path) -> None:
    """For a URL, the command fetches the robots.txt of its site and follows redirects."""
    with Site({"/robots.txt": redirect("/there.txt", 301), "/there.txt": robots(ERROR)}) as site:
        done = run("lint", site.url("/"), folder=tmp_path)
        assert site.targets == ["/robots.txt", "/there.txt"]
        total = "3 findings (1 error, 1 warning, 1 notice)"
        assert done.lines[-1] == f"{site.url('/robots.txt')}: {total}"
        assert (done.code, done.err) == (3, "")


def test_file_comes_from_the_site(tmp_path: Path) -> None:
    """The file is fetched from the site, even if the project has a store, override or parser."""
    (tmp_path / "own.txt").write_text(GOOD)
    with Site({"/robots.txt": robots(GOOD)}) as site:
        store = ("-s", "ROBOTS_CACHE=sqlite:///robots.sqlite")
        assert run("check", site.url("/"), *store, folder=tmp_path).code == 0
        site.replies["/robots.txt"] = robots(ERROR)
        override = ("-s", f'ROBOTS_OVERRIDES={{"{site.url("")}": "own.txt"}}')
        protego = ("-s", "ROBOTSTXT_PARSER=scrapy.robotstxt.ProtegoRobotParser")
        assert lint(site.url("/"), *store, *override, folder=tmp_path).code == 3
        exempt = ("-s", f"ROBOTS_EXEMPT={site.netloc}")
        assert lint(site.url("/"), *protego, *exempt, folder=tmp_path).code == 3


def test_a_site_without_a_file(tmp_path: Path) -> None:
    """If a site answers 404, the command says that everything is allowed, and exits with 0."""
    with Site({"/robots.txt": Reply(404)}) as site:
        text = lint(site.url("/"), folder=tmp_path)
        objects = lint(site.url("/"), "--json", folder=tmp_path)
    line = f"{site.url('/robots.txt')}: no robots.txt (404), so everything is allowed\n"
    assert (text.code, text.out, text.err) == (0, line, "")
    assert (objects.code, objects.out) == (0, "")
    assert objects.err == f"scrapy robots lint: {line}"


def test_several_sources_have_a_total(tmp_path: Path) -> None:
    """The command reads several files and URLs, each site once, and prints a total.

    If one cannot be read, the others are, and the exit code is 2.
    """
    (tmp_path / "own.txt").write_text(WARNING)
    with Site({"/robots.txt": robots(ERROR)}) as site, Site() as without:
        sources = ["own.txt", site.url("/a"), without.url("/"), site.url("/b")]
        done = lint(*sources, folder=tmp_path)
        partial = lint("nowhere", "own.txt", folder=tmp_path)
    assert site.fetches == 1
    assert [line for line in done.lines if "finding" in line] == [
        "own.txt: 2 findings (1 warning, 1 notice)",
        f"{site.url('/robots.txt')}: 3 findings (1 error, 1 warning, 1 notice)",
        "2 files: 5 findings (1 error, 2 warnings, 2 notices); 1 site without robots.txt",
    ]
    assert (done.code, done.err) == (3, "")
    assert partial.code == 2
    assert "nowhere cannot be read" in partial.err
    assert partial.lines[-1] == "1 file: 2 findings (1 warning, 1 notice); 1 could not be read"


def test_lines_as_in_the_file(tmp_path: Path) -> None:
    """Each finding shows the line as it is in the file, with a mark under its place."""
    body = "User-agent: *\n\tDISSALLOW:/caf\u00e9\x1b \u200bx\n"
    done = lint("-", folder=tmp_path, stdin=body)
    assert [line for line in done.lines if "|" in line] == [
        *("    2 | \\tDISSALLOW:/caf\u00e9\\x1b \\u200bx", "      | " + " " * 17 + "^^^^"),
        *("    2 | \\tDISSALLOW:/caf\u00e9\\x1b \\u200bx", "      |   ^^^^^^^^^"),
        *("    2 | \\tDISSALLOW:/caf\u00e9\\x1b \\u200bx", "      | " + " " * 21 + "^"),
        *("    2 | \\tDISSALLOW:/caf\u00e9\\x1b \\u200bx", "      | " + " " * 22 + "^^^^^^"),
    ]
    places = [line.partition("warning")[0] for line in done.lines if line.startswith("-:2")]
    assert places == ["-:2:17: ", "-:2:2: ", "-:2:18: ", "-:2:19: "]


def test_select_and_ignore(tmp_path: Path) -> None:
    """Only the selected findings are shown, and only they determine the exit code.

    Repeated options add up.
    """
    only = ("--select", "never_matches", "--select", "no_rules, repeated_rule")
    selected = lint("-", *only, folder=tmp_path, stdin=ERROR)
    assert selected.lines[-1] == "-: 2 findings (1 error, 1 notice)"
    without = ("--ignore", "never_matches", "--ignore", "no_rules")
    ignored = lint("-", *only, *without, folder=tmp_path, stdin=ERROR)
    assert (ignored.code, ignored.lines[-1]) == (0, "-: 1 finding (1 notice)")
