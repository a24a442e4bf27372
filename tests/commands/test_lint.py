"""`scrapy robots lint`: where a file comes from, the formats, the exit codes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import on_terminal, run
from tests.support.site import Reply, Site, redirect, robots

if TYPE_CHECKING:
    from tests.support.command_copies import Done

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
        (NOTICE, 0, "1 finding"),
        (WARNING, 1, "2 findings"),
        (ERROR, 3, "3 findings"),
    ],
)
def test_exit_code_is_that_of_the_worst_finding(
    text: str, code: int, summary: str, tmp_path: Path
) -> None:
    """The exit code is that of the worst finding."""
    (tmp_path / "robots.txt").write_text(text)
    done = lint("robots.txt", folder=tmp_path)
    assert (done.code, done.lines[-1], done.err) == (code, f"robots.txt: {summary}", "")


def test_a_file_is_called_by_its_name(tmp_path: Path) -> None:
    """A file that has an `@` in its name is no URL, and is called by all of it."""
    (tmp_path / "me@home.txt").write_text(GOOD)
    assert lint("me@home.txt", folder=tmp_path).out == "me@home.txt: 0 findings\n"


def test_a_finding_is_a_line_of_json(tmp_path: Path) -> None:
    """With JSON, a finding is an object in one line, and standard input is a file like others."""
    done = lint("-", "--format", "json", folder=tmp_path, stdin=ERROR)
    found = [json.loads(line) for line in done.lines]
    assert [
        (entry["file"], entry["line"], entry["severity"], entry["code"]) for entry in found
    ] == [
        ("-", 3, "notice", "repeated_rule"),
        ("-", 4, "warning", "misspelt_key"),
        ("-", 5, "error", "never_matches"),
    ]
    assert found[1]["text"] == "dissallow: /y"
    assert found[1]["effect"].startswith("read as `Disallow`")
    assert found[1]["meant"] == "Disallow: /y"
    assert found[0]["meant"] is None
    assert done.code == 3


def test_a_finding_is_an_annotation_on_github(tmp_path: Path) -> None:
    """For GitHub, a finding is an annotation of its line.

    Nothing in the file ends or begins a command.
    """
    (tmp_path / "a,b:c.txt").write_bytes(b"User-agent: *\nDisallow: x%0A::error::\x1b[2J\x0b\n")
    done = lint("a,b:c.txt", "--format", "github", folder=tmp_path)
    never, control = sorted(done.lines)
    assert never.startswith("::error file=a%2Cb%3Ac.txt,line=2,title=never_matches::disallow: x")
    assert control.startswith(
        "::warning file=a%2Cb%3Ac.txt,line=2,title=control_octet::disallow: x"
    )
    assert all("x%250A::error::\\x1b[2J" in line for line in done.lines)
    assert "\x1b" not in done.out


def test_no_terminal_acts(tmp_path: Path) -> None:
    """What is in a file does not reach a terminal as it is, in no format."""
    text = "User-agent: *\nDisallow: x\x1b[2J\u202eevil\n\x1b]0;title\x07\n"
    for style in ("text", "json", "github"):
        done = lint("-", "--format", style, folder=tmp_path, stdin=text)
        assert not {"\x1b", "\x07", "\u202e"} & set(done.out)
        assert done.code == 3


def test_a_file_is_fetched_from_a_url(tmp_path: Path) -> None:
    """A file is fetched as a crawl fetches, redirects followed.

    The URL of a site is that of its robots.txt.
    """
    with Site({"/robots.txt": redirect("/there.txt", 301), "/there.txt": robots(ERROR)}) as site:
        done = run("lint", site.url("/"), folder=tmp_path)
        assert site.targets == ["/robots.txt", "/there.txt"]
        assert done.lines[-1] == f"{site.url('/robots.txt')}: 3 findings"
        assert (done.code, done.err) == (3, "")


def test_credentials_of_a_url_are_not_shown(tmp_path: Path) -> None:
    """Credentials of a URL are not printed.

    Neither in the findings nor where something went wrong.
    """
    with Site({"/robots.txt": robots(ERROR)}) as site:
        url = site.url("/page").replace("://", "://me:sec%3Aret@")
        done = lint(url, folder=tmp_path)
        site.replies["/robots.txt"] = Reply(503)
        failed = lint(url, "-s", "RETRY_ENABLED=False", folder=tmp_path)
    assert (done.code, done.lines[-1]) == (
        3,
        f"{site.url('/robots.txt')}: 3 findings",
    )
    assert (failed.code, failed.out) == (2, "")
    assert failed.err.startswith(
        f"scrapy robots lint: {site.url('/robots.txt')} is unreachable (503): "
    )


def test_nothing_stands_in_place_of_the_file_of_a_site(tmp_path: Path) -> None:
    """The file is what its site has now, whatever a crawl of the project would obey, and
    whichever parser it has.
    """
    (tmp_path / "own.txt").write_text(GOOD)
    with Site({"/robots.txt": robots(GOOD)}) as site:
        store = ("-s", "ROBOTS_CACHE=sqlite:///robots.sqlite")
        assert run("check", site.url("/"), *store, folder=tmp_path).code == 0
        site.replies["/robots.txt"] = robots(ERROR)
        override = ("-s", f'ROBOTS_OVERRIDES={{"{site.url("")}": "own.txt"}}')
        protego = ("-s", "ROBOTSTXT_PARSER=scrapy.robotstxt.ProtegoRobotParser")
        assert lint(site.url("/"), *store, *override, folder=tmp_path).code == 3
        assert (
            lint(
                site.url("/"), *protego, "-s", f"ROBOTS_EXEMPT={site.netloc}", folder=tmp_path
            ).code
            == 3
        )


def test_a_url_is_fetched_with_the_settings_of_the_project(tmp_path: Path) -> None:
    """In a project, the fetch has the project's settings, and those of the command line win over
    them.
    """
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "settings.py").write_text('USER_AGENT = "ShopBot/1.0"\n')
    with Site({"/robots.txt": robots(GOOD)}) as site:
        assert lint(site.url(""), folder=tmp_path).code == 0
        assert lint(site.url(""), "-s", "USER_AGENT=FooBot/1.0", folder=tmp_path).code == 0
        assert [asked.headers["User-Agent"] for asked in site.asked] == [
            "ShopBot/1.0",
            "FooBot/1.0",
        ]


@pytest.mark.parametrize("source", ["nothere.txt", ".", "http://", "http://[/robots.txt"])
def test_what_cannot_be_fetched_is_one_line(source: str, tmp_path: Path) -> None:
    """What cannot be read is named in one line on standard error, with what to do.

    The exit code is 2.
    """
    done = lint(source, folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
    assert done.err.startswith("scrapy robots lint: ")
    assert "; " in done.err


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
    """Several files and URLs are read in one call, each site once, with a total at the end.

    If one cannot be read, the others are, and the exit code is 2.
    """
    (tmp_path / "own.txt").write_text(WARNING)
    with Site({"/robots.txt": robots(ERROR)}) as site, Site() as without:
        sources = ["own.txt", site.url("/a"), without.url("/"), site.url("/b")]
        done = lint(*sources, folder=tmp_path)
        partial = lint("nowhere", "own.txt", folder=tmp_path)
    assert site.fetches == 1
    assert [line for line in done.lines if "finding" in line] == [
        "own.txt: 2 findings",
        f"{site.url('/robots.txt')}: 3 findings",
        "5 findings in 2 files",
    ]
    assert (done.code, done.err) == (3, "")
    assert partial.code == 2
    assert "nowhere cannot be read" in partial.err
    assert partial.lines[-1] == "2 findings in 1 file"


def test_an_output_that_is_full_is_no_finding(tmp_path: Path) -> None:
    """Output that cannot be written ends with 2, so that no other code is taken for a verdict on
    the file.
    """
    (tmp_path / "robots.txt").write_text(ERROR)
    with Path("/dev/full").open("wb") as full:
        done = run("lint", "robots.txt", folder=tmp_path, stdout=full.fileno())
    assert done.code == 2
    assert done.err.startswith("scrapy robots lint: the output cannot be written: ")


def test_there_is_colour_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal severities have colours, unless NO_COLOR is set, and nothing is cut off."""
    (tmp_path / "robots.txt").write_text(ERROR + f"Disallow: {'z' * 80}\n")
    coloured, plain = (
        on_terminal("lint", "robots.txt", folder=tmp_path, COLUMNS="50", NO_COLOR=value).out
        for value in ("", "1")
    )
    assert "\x1b[31merror\x1b[0m never_matches" in coloured
    assert "\x1b" not in plain
    assert re.sub("\x1b\\[\\d*m", "", coloured) == plain
    assert f"robots.txt:6: error never_matches: disallow: {'z' * 80}\n" in plain
