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


def test_methods_exist() -> None:
    """Each method that the page names is a method of that class, or of a class of Scrapy."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py"))
    for owner, name in re.findall(r"`([A-Z]\w+)\.(\w+)`", TEXT):
        body = re.search(rf"^class {owner}\b.*?(?=^\S|\Z)", source, re.DOTALL | re.MULTILINE)
        assert body, owner
        assert re.search(rf"^    (?:async )?def {name}\(", body[0], re.MULTILINE), (owner, name)
