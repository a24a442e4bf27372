"""Shared behaviour of the topics of `scrapy robots`: errors, colours and JSON."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.cache.stores.sqlite import SqliteStore
from tests.support.case_files import tables
from tests.support.command_line import (
    CLOSED,
    COMMAND,
    MISSING,
    OPEN,
    TIMEOUT,
    fill,
    on_terminal,
    run,
)
from tests.support.processes import environment
from tests.support.reports import exported, record

if TYPE_CHECKING:
    pass

FILE = f"User-agent: *\nDisallow: /x\nDisallow: /{'long' * 30}\nDisallow: /caf\xe9\nDisallow: z\n"
STORE = "sqlite:///robots.sqlite"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with files and a store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "robots.txt").write_text(FILE, encoding="utf-8")
    (tmp_path / "page.html").write_text(
        f"<meta name=robots content='noindex, caf\xe9 {'long ' * 30}, x'>", "utf-8"
    )
    (tmp_path / "packed.gz").write_bytes(gzip.compress(FILE.encode()))
    (tmp_path / "robots.jsonl").write_bytes(
        exported([record(rule=f"Disallow: /{'long' * 30}", spider="caf\xe9")])
    )
    store = SqliteStore(tmp_path / "robots.sqlite")
    store.open()
    fill(store, a=OPEN._replace(body=FILE.encode()), b=MISSING, c=CLOSED)
    store.close()
    return tmp_path


#: Command lines that take a URL, with its place.
TAKE_A_URL = (
    ("check", "{}", "--robots", "robots.txt"),
    ("check", "{}"),
    ("show", "{}"),
    ("cache", "show", "{}", "--store", STORE),
    ("cache", "purge", "{}", "--store", STORE),
)
#: Those that take a file, or a URL.
TAKE_A_FILE = (("check", "http://a.example/", "--robots", "{}"), ("lint", "{}"), ("page", "{}"))
#: A text that is not a URL -> how it is shown.
NOT_URLS = {
    "sftp://me:secret@a.example/": "sftp://a.example/",
    "me:secret@a.example/x": "a.example/x",
    "mailto:a@b.example": "mailto:a@b.example",
    "localhost:8000/x": "localhost:8000/x",
    "http://": "http://",
    "https://me:secret@[::1/": "https://[::1/",
    "http://me:secret@a.example:99999/\x1b[2J": "http://a.example:99999/\\x1b[2J",
}


@pytest.mark.parametrize("arguments", [*TAKE_A_URL, *TAKE_A_FILE], ids=" ".join)
def test_not_a_url(folder: Path, arguments: tuple[str, ...]) -> None:
    """Every topic prints the same error for text that is not a URL, without passwords."""
    for url, shown in NOT_URLS.items():
        if arguments in TAKE_A_FILE and ("--robots" in arguments or not url.startswith("http")):
            continue  # it names a file
        if arguments[0] == "check" and url.startswith("sftp") and "{}" in arguments[1]:
            continue  # a URL without a robots.txt
        filled = [argument.format(url) for argument in arguments]
        done = run(*filled, stdin=url)
        assert (done.code, done.err.count("\n")) == (2, 1)
        error = (
            f"scrapy robots {arguments[0]}: {shown} is not an absolute http, https, ftp or gemini"
            " URL; write it as SCHEME://HOST/PATH\n"
        )
        text = done.err.replace(" is undecided: not ", " is not ")
        assert text == error
        assert "secret" not in done.out


@pytest.mark.parametrize(("line", "error"), tables("command_lines")["wrong"])
def test_wrong_command_line(folder: Path, line: str, error: str) -> None:
    """A command line that cannot work prints one line that says why, without passwords, and changes
    no file.
    """
    before = sorted(folder.iterdir())
    done = run(*shlex.split(line), folder=folder)
    assert (done.code, done.out) == (2, "")
    expected = ".*".join(map(re.escape, f"scrapy robots{error}\n".split("...")))
    assert re.fullmatch(expected, done.err)
    assert sorted(folder.iterdir()) == before


#: What is shown on a terminal, and what is red there.
ON_A_TERMINAL = (
    (("check", "http://a.example/x", "--robots", "robots.txt"), "disallowed"),
    (("lint", "robots.txt"), "error"),
)


def seen(text: str) -> str:
    """Return what a terminal shows of a text."""
    return re.sub(r"\x1b\[[\d;]*m", "", text)


@pytest.mark.parametrize(("arguments", "red"), ON_A_TERMINAL, ids=lambda value: value[0])
def test_colours(folder: Path, arguments: tuple[str, ...], red: str) -> None:
    """There are colours on a terminal, unless NO_COLOR or TERM=dumb is set, and nowhere else."""
    wide = on_terminal(*arguments, folder=folder, COLUMNS="300")
    assert re.search(rf"\x1b\[(1;)?31m{re.escape(red)} *\x1b\[0m", wide.out)
    no_colour = on_terminal(*arguments, folder=folder, COLUMNS="300", NO_COLOR="1")
    dumb = on_terminal(*arguments, folder=folder, COLUMNS="300", TERM="dumb")
    assert no_colour == dumb == replace(wide, out=seen(wide.out))
    piped = run(*arguments, folder=folder)
    assert (piped.code, piped.out, piped.err) == (wide.code, seen(wide.out), "")


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "http://a.example/café", "--robots", "robots.txt", "--json"),
        ("page", "page.html", "--json"),
        ("report", "robots.jsonl", "--json"),
        ("cache", "ls", "--json", "--store", STORE),
        ("cache", "show", "http://a.example/", "--json", "--store", STORE),
    ],
    ids=" ".join,
)
def test_json(folder: Path, arguments: tuple[str, ...]) -> None:
    """With --json, the output is one object per line, in ASCII, also on a terminal."""
    piped = run(*arguments, folder=folder)
    assert [type(json.loads(line)) for line in piped.lines] == [dict] * len(piped.lines)
    assert piped.out.isascii()
    assert on_terminal(*arguments, folder=folder, COLUMNS="64").out == piped.out


def test_closed_or_full_streams(folder: Path) -> None:
    """The exit code is not a verdict if a stream is closed or full."""
    command = f"{shlex.join(COMMAND)} check http://a.example/ --robots robots.txt <&- >&- 2>&-"
    closed = subprocess.run(
        command, shell=True, cwd=folder, env=environment(), timeout=TIMEOUT, check=False
    )
    assert closed.returncode == 0
    with Path("/dev/full").open("wb") as full:
        stream = full.fileno()
        assert run("check", "/x", "--robots", "robots.txt", folder=folder, stderr=stream).code == 2
        asked = ("check", "http://a.example/", "--robots", "robots.txt")
        assert run(*asked, folder=folder, stdout=stream, stderr=stream).code == 2
