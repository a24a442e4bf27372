"""ARCHITECTURE.md is true to the tree.

Its paths exist, its names stand where it says, no module is left out.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "scrapy_robots_rfc"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")

#: Room -> what the page says of it: an item of the list of rooms.
ROOMS: dict[str, str] = dict(
    re.findall(r"^- \*\*`(\w+)/`\*\*((?:.|\n(?!- |\n))*)", TEXT, re.MULTILINE)
)

#: The page without the items of rooms, whose paths begin at the room.
REST = TEXT[: TEXT.index("## Rooms")] + TEXT[TEXT.index("## Tables") :]

_PATH = re.compile(r"`([\w./-]+\.(?:py|md)|[\w./-]+/)`")


def test_rooms() -> None:
    """Every folder of the package is a room of the page."""
    assert set(ROOMS) == {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_modules_of_a_room(room: str) -> None:
    """The page names every module of a room, and no other."""
    modules = {
        path.relative_to(PACKAGE / room).as_posix() for path in (PACKAGE / room).rglob("*.py")
    }
    assert set(_PATH.findall(ROOMS[room])) == {
        name for name in modules if not name.endswith("__init__.py")
    }


def test_paths() -> None:
    """Every other path of the page exists, in the package or at the root.

    Each module at the top is among them.
    """
    paths = set(_PATH.findall(REST))
    assert {
        path for path in paths if not ((PACKAGE / path).exists() or (ROOT / path).exists())
    } == set()
    assert {path.name for path in PACKAGE.glob("*.py")} - paths == set()


def test_names() -> None:
    """A name that the page finds in a module is there."""
    found = re.findall(r"`([A-Za-z_][\w.]*)`\s+in\s+`([\w/]+\.py)`", TEXT)
    assert found
    for name, path in found:
        source = (PACKAGE / path).read_text(encoding="utf-8")
        assert all(re.search(rf"\b{part}\b", source) for part in name.split(".")), (name, path)


def test_where_things_are() -> None:
    """Each item of the last list names something in a module, which the test above looks for."""
    _, _, text = TEXT.partition("## Where things are\n")
    items = re.findall(r"^- (?:.|\n(?!- ))*", text, re.MULTILINE)
    assert len(items) > 8
    for item in items:
        assert re.search(r"`[A-Za-z_][\w.]*`(?: and `\w+`)?\s+in\s+`[\w/]+\.py`", item), item


@pytest.mark.parametrize("way", ["request", "fetch"])
def test_ways(way: str) -> None:
    """Each way is read in a minute."""
    _, _, text = TEXT.partition(f"## The way of a {way}\n")
    lines = [line for line in text.partition("\n## ")[0].splitlines() if line]
    assert 8 <= len(lines) <= 15


def test_one_page() -> None:
    """The page stays one page."""
    assert TEXT.count("\n") <= 110
