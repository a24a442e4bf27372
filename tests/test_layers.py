"""The house's one-way order, and who may import what from outside: read from the source, so that nothing has to run."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "scrapy_robots_rfc"

#: From the roof to the floor: a module imports only from lines below its own, imports for types among them.
ORDER = (
    "__init__",
    "commands.robots",
    "commands.cache",
    "commands.settings",
    "commands.diff",
    "commands.show",
    "commands.check",
    "commands.lint",
    "commands.report",
    "commands.report_sums",
    "commands.report_files",
    "commands.explained",
    "commands.judging",
    "commands.transfer",
    "commands.target",
    "commands.sources",
    "commands.asking",
    "commands.shelf",
    "commands.addresses",
    "commands.output",
    "commands.terminal",
    "commands.__init__",
    "addon",
    "sitemaps",
    "middleware",
    "startup",
    "early",
    "reuse",
    "replay",
    "verdicts",
    "export",
    "naming",
    "progress",
    "pacing",
    "together",
    "turns",
    "parser",
    "download",
    "waiting",
    "service",
    "sharing",
    "leases",
    "copies",
    "peers",
    "fetching",
    "steering",
    "robots",
    "keeper",
    "outages",
    "threads",
    "memory",
    "closing",
    "troubles",
    "inquiries",
    "flights",
    "files",
    "settings",
    "identity",
    "routes",
    "decoding",
    "faults",
    "_scheduling",
    "_httpcache",
    "_endings",
    "components",
    "_unhandled",
    "_compat",
    "stores.__init__",
    "stores.opening",
    "stores.redis",
    "stores.sqlite",
    "stores.guard",
    "stores.memory",
    "stores.dump",
    "stores.codec",
    "stores.base",
    "stores.address",
    "stats",
    "signals",
    "errors",
    "tally",
    "policy.__init__",
    "policy.pacing",
    "policy.backoff",
    "policy.caching",
    "policy.freshness",
    "policy.access",
    "policy.dates",
    "policy.sites",
    "policy.origin",
    "core.__init__",
    "core.difference",
    "core.lint",
    "core.findings",
    "core.explain",
    "core.robotstxt",
    "core.ruleset",
    "core.scan",
    "core.pattern",
    "core.groups",
    "core.extensions",
    "core.lines",
    "core.percent",
    "core.agents",
    "core.decision",
    "core.text",
)

#: Who may know Scrapy, and Twisted; nobody else imports either, not even for types.
SCRAPY = {
    "replay",
    "commands.robots",
    "commands.settings",
    "commands.diff",
    "commands.show",
    "commands.check",
    "commands.lint",
    "commands.judging",
    "commands.asking",
    "addon",
    "sitemaps",
    "middleware",
    "startup",
    "early",
    "reuse",
    "verdicts",
    "export",
    "naming",
    "progress",
    "pacing",
    "parser",
    "download",
    "routes",
    "settings",
    "_scheduling",
    "_httpcache",
    "_endings",
    "components",
    "_compat",
    "errors",
    "stores.opening",
}
TWISTED = {"_compat", "_endings", "_unhandled"}
#: Who may know redis-py, which not everybody has.
REDIS = {"stores.redis"}

#: All that the pure part may have from outside: nothing in here does I/O, reads a clock, or throws dice.
PURE = {
    "__future__",
    "array",
    "bisect",
    "codecs",
    "collections",
    "dataclasses",
    "email",  # reads the dates of HTTP
    "difflib",  # finds the key that a misspelt one is close to
    "datetime",  # the type of a time of day; `test_no_clock` sees to the rest
    "enum",
    "functools",
    "ipaddress",
    "itertools",
    "math",
    "re",
    "string",
    "typing",
    "urllib",
}


def sources() -> dict[str, Path]:
    """Return every module of the package by its name inside the package."""
    root = ROOT / PACKAGE
    return {".".join(path.relative_to(root).with_suffix("").parts): path for path in sorted(root.rglob("*.py"))}


MODULES = sources()


def imported(name: str) -> Iterator[str]:
    """Yield the full name of every module that a module imports, those imported for types or inside a function too."""
    for node in ast.walk(ast.parse(MODULES[name].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} imports relatively"
            assert node.module is not None
            yield from (
                full if inner(full) in MODULES else node.module
                for full in (f"{node.module}.{alias.name}" for alias in node.names)
            )


def inner(full: str) -> str | None:
    """Return a module's name inside the package, or None for a module from outside."""
    if full == PACKAGE:
        return "__init__"
    name = full.removeprefix(f"{PACKAGE}.")
    if name == full:
        return None
    return f"{name}.__init__" if f"{name}.__init__" in MODULES else name


def outside(name: str) -> set[str]:
    """Return the top-level names of what a module imports from outside the package."""
    return {full.partition(".")[0] for full in imported(name) if inner(full) is None}


def test_every_module_has_its_place() -> None:
    """The order names the modules that there are, each once."""
    assert sorted(ORDER) == sorted(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_down(name: str) -> None:
    """A module imports only from below its own place in the order."""
    inside = {module for full in imported(name) if (module := inner(full))}
    above = [module for module in inside if ORDER.index(module) <= ORDER.index(name)]
    assert above == []


@pytest.mark.parametrize("name", MODULES)
def test_who_knows_the_framework(name: str) -> None:
    """Scrapy and Twisted are imported only where the design says so."""
    tables = {"scrapy": SCRAPY, "twisted": TWISTED, "redis": REDIS}
    assert {package for package, allowed in tables.items() if package in outside(name) and name not in allowed} == set()


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(("core.", "policy."))])
def test_the_pure_part_is_pure(name: str) -> None:
    """What reads a file and what decides about a fetch can do no I/O: no framework, log, clock or dice is in reach."""
    assert outside(name) <= PURE


@pytest.mark.parametrize("name", [name for name in MODULES if name.startswith(("core.", "policy."))])
def test_no_clock(name: str) -> None:
    """The pure part asks no class of datetime for the present."""
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    called = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not called & {"now", "utcnow", "today"}


def test_the_tables_name_modules() -> None:
    """Nobody is allowed what no such module needs."""
    assert {name for name in SCRAPY if "scrapy" not in outside(name)} == set()
    assert {name for name in TWISTED if "twisted" not in outside(name)} == set()
    assert {name for name in REDIS if "redis" not in outside(name)} == set()
