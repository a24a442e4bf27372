"""The file that `report --html FILE` writes."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import run
from tests.support.reports import FEW, exported

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a report."""
    (tmp_path / "robots.jsonl").write_bytes(exported(FEW))
    (tmp_path / "sub").mkdir()
    return tmp_path


def filled(name: str) -> list[str]:
    """A command line that writes a file."""
    return ["report", "robots.jsonl", "--html", name]


def contents(folder: Path) -> dict[str, bytes | int]:
    """The contents of a folder: files, and the types of everything else."""
    return {
        path.name: path.read_bytes() if path.is_file() else stat.S_IFMT(path.lstat().st_mode)
        for path in folder.iterdir()
    }


def test_what_is_not_a_file_stays(folder: Path) -> None:
    """What is not a file stays: a pipe, a folder, the output of the command itself."""
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    before, (reading, writing) = contents(folder), os.pipe()
    for name in ("pipe", "link", "sub", "/dev/stdout"):
        done = run(*filled(name), folder=folder, stdout=writing)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert f": refusing to write to {name}: it is not a file" in done.err
        assert contents(folder) == before
    os.close(reading)
    os.close(writing)


def test_the_report_is_not_overwritten(folder: Path) -> None:
    """The command does not overwrite the report, whatever name it is given for it."""
    own = "robots.jsonl"
    (folder / "link").symlink_to(own)
    (folder / "again").hardlink_to(folder / own)
    before = contents(folder)
    for name in (own, f"sub/../{own}", "link", "again", str(folder / own)):
        done = run(*filled(name), folder=folder)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert f": refusing to overwrite {name}: it is the report itself\n" in done.err
        assert contents(folder) == before


def test_another_file_is_not_overwritten(folder: Path) -> None:
    """Of existing files, only an earlier page and an empty file are overwritten."""
    index = folder / "index.html"
    for text in ("User-agent: *\n", "<!DOCTYPE html>\n<title>my site</title>\n"):
        index.write_text(text)
        done = run(*filled(index.name), folder=folder)
        assert (done.code, done.out, index.read_text()) == (2, "", text)
        assert "refusing to overwrite index.html: it is not an earlier page" in done.err
    index.write_text("")
    assert [run(*filled(index.name), folder=folder).code for _ in range(2)] == [0, 0]


def test_a_link_is_followed(folder: Path) -> None:
    """A link stays a link; the file that it leads to is written, new or not."""
    (folder / "link").symlink_to("sub/new")
    for _ in range(2):
        assert run(*filled("link"), folder=folder).code == 0
        assert (folder / "link").is_symlink()
        assert (folder / "sub" / "new").read_bytes().startswith(b"<!DOCTYPE html>")
        assert [path.name for path in (folder / "sub").iterdir()] == ["new"]


def test_a_new_file_has_the_usual_permissions(folder: Path) -> None:
    """The page has the permissions of any new file; its name may have the maximum length."""
    name = "\N{GRINNING FACE}" * 63
    assert run(*filled(name), folder=folder).code == 0
    (folder / "touched").touch()
    modes = [stat.S_IMODE((folder / each).stat().st_mode) for each in (name, "touched")]
    assert modes[0] == modes[1]


def test_a_folder_that_is_not_there_is_one_line(folder: Path) -> None:
    """If the file cannot be written, one line says what to do."""
    done = run(*filled("no/such/file"), folder=folder)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "cannot be written: No such file or directory; name a file in a folder" in done.err
