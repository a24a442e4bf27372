"""`scrapy robots report`: what it refuses, in one line with what to do, and the exit code 2."""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
from typing import TYPE_CHECKING, Any

import pytest
from scrapy.exporters import CsvItemExporter, JsonItemExporter, XmlItemExporter

from tests.support.command_line import run
from tests.support.reports import FEW, exported, record

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.once

ADVICE = (
    "most of its lines are not records; expected an uncompressed JSON Lines file written by"
    " ROBOTS_REPORT, each line with one of the fields dry_run, reason, robots_url, rule, token,"
    " why\n"
)


def written(exporter_class: Any, **options: Any) -> bytes:
    """Two records in another format of Scrapy."""
    file = io.BytesIO()
    exporter = exporter_class(file, **options)
    exporter.start_exporting()
    for _ in range(2):
        exporter.export_item(record())
    exporter.finish_exporting()
    return file.getvalue()


OTHERS = {
    "XML": written(XmlItemExporter),
    "CSV": written(CsvItemExporter),
    "JSON array": written(JsonItemExporter, indent=0),
    "JSON array in one line": json.dumps([record(), record()]).encode(),
    "packed": gzip.compress(b"", mtime=0),
    "robots.txt": b"User-agent: *\nDisallow: /\n",
    "other objects": b'{"title": "a"}\n',
    "binary": b"\0\1\2\3" * 100,
    "deep": b'{"a":' * 100_000,
    "UTF-16": "{}".encode("utf-16"),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_other_files_are_refused(kind: str, tmp_path: Path) -> None:
    """A file that is not a report in JSON lines is refused."""
    (tmp_path / "r").write_bytes(OTHERS[kind])
    done = run("report", "r", folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err == f"scrapy robots report: r is not a report, because {ADVICE}"
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


@pytest.mark.parametrize("name", ["empty", "-"])
def test_empty_input(name: str, tmp_path: Path) -> None:
    """A report without records, such as the output of a failed command, is refused."""
    (tmp_path / "empty").touch()
    done = run("report", name, folder=tmp_path)
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith(" contains no records; expected a file written by ROBOTS_REPORT\n")


# The file that `--html` writes.


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
    """The page is not written to a pipe, a folder or the output of the command."""
    os.mkfifo(folder / "pipe")
    (folder / "link").symlink_to("pipe")
    before, (reading, writing) = contents(folder), os.pipe()
    for name in ("pipe", "link", "sub", "/dev/stdout"):
        done = run(*filled(name), folder=folder, stdout=writing)
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert f": refusing to write to {name}, because it is not a regular file" in done.err
        assert contents(folder) == before
    os.close(reading)
    os.close(writing)


def test_the_report_is_not_overwritten(folder: Path) -> None:
    """The command does not overwrite the report, under any of its names."""
    own = "robots.jsonl"
    (folder / "link").symlink_to(own)
    (folder / "again").hardlink_to(folder / own)
    before = contents(folder)
    for name in (own, f"sub/../{own}", "link", "again", str(folder / own)):
        done = run(*filled(name), folder=folder)
        assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
        assert f": refusing to overwrite {name}, because this command did not write" in done.err
        assert contents(folder) == before


def test_another_file_is_not_overwritten(folder: Path) -> None:
    """The command overwrites only earlier pages and empty files."""
    index = folder / "index.html"
    for text in ("User-agent: *\n", "<!DOCTYPE html>\n<title>my site</title>\n"):
        index.write_text(text)
        done = run(*filled(index.name), folder=folder)
        assert (done.code, done.out, index.read_text()) == (2, "", text)
        assert "refusing to overwrite index.html, because this command did not" in done.err
    index.write_text("")
    assert [run(*filled(index.name), folder=folder).code for _ in range(2)] == [0, 0]


def test_a_link_is_followed(folder: Path) -> None:
    """The page is written to the target of a link, and the link stays a link."""
    (folder / "link").symlink_to("sub/new")
    for _ in range(2):
        assert run(*filled("link"), folder=folder).code == 0
        assert (folder / "link").is_symlink()
        assert (folder / "sub" / "new").read_bytes().startswith(b"<!DOCTYPE html>")
        assert [path.name for path in (folder / "sub").iterdir()] == ["new"]


def test_a_new_file_has_the_usual_permissions(folder: Path) -> None:
    """The page has the usual permissions of a new file, even with a name of maximum length."""
    name = "\N{GRINNING FACE}" * 63
    assert run(*filled(name), folder=folder).code == 0
    (folder / "touched").touch()
    modes = [stat.S_IMODE((folder / each).stat().st_mode) for each in (name, "touched")]
    assert modes[0] == modes[1]
