"""The rows of `make matrix`: which there are, and which of them may fail."""

from __future__ import annotations

import re

import pytest

from tools import matrix
from tools.check_docs import ROOT

FOUND = {(3, 11): "/bin/python3.11", (3, 99): "/bin/python3.99"}


def test_rows() -> None:
    """One has the oldest of everything, one each other CPython, and the last two the newest of
    everything.
    """
    rows = {row.name: row.python for row in matrix.rows(FOUND)}
    assert next(iter(rows)) == "oldest"
    assert list(rows)[-3:] == ["python3.99", "newest", "development"]
    assert rows["newest"] == rows["development"] == FOUND[3, 99]


def test_rows_of_the_workflow() -> None:
    """The rows that the workflow runs are there."""
    text = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    [listed] = re.findall(r"row: \[(.*?)\]", text)
    assert set(listed.split(", ")) <= {row.name for row in matrix.rows(FOUND)}


@pytest.mark.parametrize(("name", "passes"), [("newest", False), ("development", True)])
def test_only_the_development_version_may_fail(
    name: str, passes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row that fails fails the matrix, unless it is that of Scrapy's development version."""
    monkeypatch.setattr(matrix, "reachable", lambda _: True)
    monkeypatch.setattr(matrix, "passed", lambda _: False)
    [row] = [row for row in matrix.rows(FOUND) if row.name == name]
    assert matrix.run(row) is passes


def test_a_version_that_cannot_be_had_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where Scrapy's repository cannot be reached, that row says so, and runs nothing."""
    monkeypatch.setattr(matrix, "reachable", lambda _: False)
    monkeypatch.setattr(matrix, "passed", lambda _: pytest.fail("it runs"))
    [row] = [row for row in matrix.rows(FOUND) if row.may_fail]
    assert matrix.run(row)
    assert (
        capsys.readouterr().out
        == f"development: skipped, because {matrix.DEVELOPMENT} cannot be reached\n"
    )
