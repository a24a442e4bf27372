"""The layers of the package: which room may import from which, and who may know Scrapy, Twisted and redis-py."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from scrapy.utils.misc import load_object

from scrapy_robots_rfc.leaves import LEAVES
from scrapy_robots_rfc.settings import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "scrapy_robots_rfc"

#: From the top to the bottom: a room imports from itself, from the rooms below it, and from the tables.
LAYERS = ("commands", "addon", "reporting", "middleware", "scheduling", "fetching", "cache", "policy", "core")
#: Every room above `policy` may import these tables; they import each other, and what is pure.
TABLES = ("settings", "stats", "signals", "errors", "leaves", "_runtime", "_scrapy")
#: What is no part of the kernel, which every request passes: rooms, and modules of others.
OUTSIDE = (
    "reporting",
    "commands",
    "core.lint",
    "core.findings",
    "fetching.ftp",
    "fetching.overrides",
    "usage.page_rules",
    "usage.tdmrep",
    "usage.use",
)
#: The parser works alone, under Scrapy's own middleware.
PARSER = ("core", *TABLES)

#: The rooms in which no module imports these packages; Twisted is imported only where it is wrapped.
WITHOUT = {"scrapy": {"core", "policy"}, "redis": {"core", "policy"}}
TWISTED = {"_runtime", "_scrapy", "fetching.download", "fetching.ftp"}
REDIS = {"cache.stores.redis"}

#: All that `core` and `policy` import from outside: nothing of it does I/O, reads a clock, or is random.
PURE = {
    "__future__",
    "array",
    "bisect",
    "codecs",
    "collections",
    "dataclasses",
    "email",  # reads the dates of HTTP
    "difflib",  # finds the key that a misspelt one is close to
    "datetime",  # the type of a time of day; see `test_no_clock`
    "enum",
    "functools",
    "ipaddress",
    "itertools",
    "json",  # the format of tdmrep.json
    "math",
    "operator",
    "re",
    "string",
    "types",  # a mapping that is read only
    "typing",
    "urllib",
}


def sources() -> dict[str, Path]:
    """Return every module of the package by its name inside the package."""
    root = ROOT / PACKAGE
    return {".".join(path.relative_to(root).with_suffix("").parts): path for path in sorted(root.rglob("*.py"))}


MODULES = sources()


@cache
def nodes(name: str) -> list[ast.AST]:
    """Return all nodes of a module's syntax tree."""
    return list(ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))))


def imported(name: str) -> Iterator[str]:
    """Yield the full name of every module that a module imports, those for types or inside a function too."""
    for node in nodes(name):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            assert node.module is not None
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield full if full.removeprefix(f"{PACKAGE}.") in MODULES else node.module


def room(name: str) -> str:
    """Return the room of a module: its folder, or the module itself at the top."""
    return name.partition(".")[0]


def allowed(name: str) -> tuple[str, ...]:
    """Return the rooms from which a room may import, itself among them."""
    if name == "parser":
        return PARSER
    if name in TABLES:
        return ("policy", "core", *TABLES)
    if name == "policy":
        return ("policy", "core", "settings")  # the limits that the user sets
    return ("core",) if name == "core" else (*LAYERS[LAYERS.index(name) :], *TABLES, "parser")


def inside(name: str) -> set[str]:
    """Return the rooms from which a module imports."""
    return {room(full.removeprefix(f"{PACKAGE}.")) for full in imported(name) if full.startswith(f"{PACKAGE}.")}


def outside(name: str) -> set[str]:
    """Return the top-level names of what a module imports from outside the package."""
    return {full.partition(".")[0] for full in imported(name)} - {PACKAGE}


@pytest.mark.parametrize("name", sorted({room(name) for name in MODULES} - {"__init__"}))
def test_imports_go_down(name: str) -> None:
    """A room imports only from the rooms below it and from the tables."""
    found = {module: inside(module) - set(allowed(name)) for module in MODULES if room(module) == name}
    assert {module: rooms for module, rooms in found.items() if rooms} == {}


def test_the_kernel_imports_no_report() -> None:
    """To take out report, archive or summary is to delete its files and its row: the kernel imports none of them."""
    kernel = [name for name in MODULES if not name.startswith(OUTSIDE)]
    assert "middleware.downloader" in kernel
    assert {name for name in kernel if "reporting" in inside(name)} == set()


def test_the_leaves_of_the_table_exist() -> None:
    """Each row names a setting and a class of a room that the kernel does not import."""
    for key, path in LEAVES.items():
        assert key in {row.key for row in TABLE}
        assert path.removeprefix(f"{PACKAGE}.").startswith(OUTSIDE)
        assert isinstance(load_object(path), type)


def test_who_knows_the_framework() -> None:
    """The pure rooms know neither Scrapy nor redis-py, and Twisted stands behind the tables."""
    for package, rooms in WITHOUT.items():
        assert [name for name in MODULES if room(name) in rooms and package in outside(name)] == []
    assert {name for name in MODULES if "twisted" in outside(name)} <= TWISTED
    assert {name for name in MODULES if "redis" in outside(name)} == REDIS


def test_the_pure_rooms_are_pure() -> None:
    """What reads a file and what decides about a fetch does no I/O: no framework, log, clock or randomness."""
    pure = [name for name in MODULES if room(name) in ("core", "policy")]
    assert {name: extra for name in pure if (extra := outside(name) - PURE)} == {}


@pytest.mark.parametrize("name", [name for name in MODULES if room(name) in ("core", "policy")])
def test_no_clock(name: str) -> None:
    """The pure rooms ask no class of datetime for the present."""
    called = {node.attr for node in nodes(name) if isinstance(node, ast.Attribute)}
    assert not called & {"now", "utcnow", "today"}
