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
    """What is in a folder: files, and the kinds of all else."""
    return {
        path.name: path.read_bytes() if path.is_file() else stat.S_IFMT(path.lstat().st_mode)
        for path in folder.iterdir()
    }


def test_what_is_no_file_stays(folder: Path) -> None:
    """What is there and is no file stays: a pipe, a folder, the output of the command itself."""
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    before, (reading, writing) = contents(folder), os.pipe()
    for name in ("pipe", "link", "sub", "/dev/stdout"):
        done = run(*filled(name), folder=folder, stdout=writing)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert f": {name} cannot be written over" in done.err
        assert contents(folder) == before
    os.close(reading)
    os.close(writing)


def test_what_is_read_is_not_written_over(folder: Path) -> None:
    """A command does not write over what it reads, whatever name that goes by."""
    own = "robots.jsonl"
    (folder / "link").symlink_to(own)
    (folder / "again").hardlink_to(folder / own)
    before = contents(folder)
    for name in (own, f"sub/../{own}", "link", "again", str(folder / own)):
        done = run(*filled(name), folder=folder)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert (
            f": {name} cannot be written over, since it is no file, or one that is read; name"
            " another" in done.err
        )
        assert contents(folder) == before


def test_a_link_is_followed(folder: Path) -> None:
    """A link stays one; what it leads to is written, be it new or not."""
    (folder / "link").symlink_to("sub/new")
    for earlier in (None, b"earlier"):
        if earlier is not None:
            (folder / "sub" / "new").write_bytes(earlier)
        assert run(*filled("link"), folder=folder).code == 0
        assert (folder / "link").is_symlink()
        assert (folder / "sub" / "new").read_bytes().startswith(b"<!DOCTYPE html>")
        assert [path.name for path in (folder / "sub").iterdir()] == ["new"]


def test_a_new_file_has_the_usual_permissions(folder: Path) -> None:
    """The file has the permissions of any other new file, and a name may be as long as names can
    be.
    """
    name = "\N{GRINNING FACE}" * 63
    assert run(*filled(name), folder=folder).code == 0
    (folder / "touched").touch()
    modes = [stat.S_IMODE((folder / each).stat().st_mode) for each in (name, "touched")]
    assert modes[0] == modes[1]


def test_a_folder_that_is_not_there_is_one_line(folder: Path) -> None:
    """Where no file can be made, one line says what to do."""
    done = run(*filled("no/such/file"), folder=folder)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert (
        "cannot be written: No such file or directory; name a file in a folder of yours" in done.err
    )
