"""How tests are dealt out to the workers of pytest-xdist."""

from __future__ import annotations

from tests.support.scheduling import DEAR, RUNTIMES, TESTS, group_of


def test_files_that_are_named_are_there() -> None:
    """A file that was renamed or is gone is named no more."""
    assert [
        name for name in {*DEAR, *RUNTIMES} - {"runtimes"} if not (TESTS / name).is_file()
    ] == []


def test_files_that_share_processes_are_one_group() -> None:
    """The files that wait for the same crawls are run by one worker.

    Any other file is a group of its own.
    """
    assert {group_of(f"tests/{name}::test_x[a::b]") for name in RUNTIMES} == {"runtimes"}
    assert group_of("tests/core/test_lines.py::test_x[a::b]") == "core/test_lines.py"
