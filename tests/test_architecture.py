"""The paths and names in ARCHITECTURE.md exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "scrapy_robots_rfc"
TEXT = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
PATH = re.compile(r"`([\w./-]+\.(?:py|md)|[\w./-]+/)`")


def test_paths_exist() -> None:
    """Each path exists: in the root, in the package, or in one of its folders."""
    folders = [ROOT, PACKAGE, *(path.parent for path in PACKAGE.rglob("__init__.py"))]
    assert [
        path
        for path in PATH.findall(TEXT)
        if not any((folder / path).exists() for folder in folders)
    ] == []


def test_names_exist() -> None:
    """Each name that the page places in a module is in that module."""
    places = re.findall(r"`([A-Za-z_][\w.]*)`\s+in\s+`([\w/]+\.py)`", TEXT)
    assert places
    for name, path in places:
        source = (PACKAGE / path).read_text(encoding="utf-8")
        assert all(re.search(rf"\b{part}\b", source) for part in name.split(".")), (name, path)
