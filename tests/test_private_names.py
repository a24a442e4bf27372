"""Undocumented names of Scrapy and its libraries are used only in `_scrapy.py`."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_robots_rfc import _scrapy

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(_scrapy.__file__).parent
MODULES = {path.relative_to(PACKAGE).as_posix(): path for path in sorted(PACKAGE.rglob("*.py"))}

#: Documented names of namedtuples and loggers.
DOCUMENTED = {"_asdict", "_field_defaults", "_replace", "log"}
#: The documented attributes of a crawler's engine, which leads to everything else.
ENGINE = {"download_async"}
#: The private names, without their owners.
PRIVATE = {key.partition(".")[2] for key in _scrapy.PRIVATE}


@cache
def tree_of(name: str) -> ast.Module:
    """Return the syntax tree of a module."""
    return ast.parse(MODULES[name].read_text(encoding="utf-8"))


@cache
def own_names() -> set[str]:
    """Return the attributes and methods of the package's own objects."""
    found: set[str] = set()
    for name in MODULES.keys() - {"_scrapy.py"}:
        for node in ast.walk(tree_of(name)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(node.target.id)
            elif isinstance(node, ast.Assign):
                found.update(target.id for target in node.targets if isinstance(target, ast.Name))
            elif (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Store)
                and owner(node) in OWN
            ):
                found.add(node.attr)
    return found


OWN = ("self", "cls")


def owner(node: ast.Attribute) -> str:
    """Return the expression before an attribute."""
    return ast.unparse(node.value)


def used(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line, owner and name of each attribute, also of those looked up by a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.lineno, owner(node), node.attr
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("getattr", "hasattr")
        ):
            of, name = node.args[:2]
            if isinstance(name, ast.Constant):
                yield node.lineno, ast.unparse(of), str(name.value)


def is_private(of: str, name: str) -> bool:
    """Return whether a name is not documented for its owner."""
    if of.endswith("engine"):
        return name not in ENGINE
    if (
        of in OWN
        or of.startswith("super(")
        or name.endswith("__")
        or name in DOCUMENTED | own_names()
    ):
        return False
    return name.startswith("_") or name in PRIVATE


def test_private_names_are_in_one_module() -> None:
    """No other module uses a private attribute, a name of the table, or one of the engine."""
    found = [
        f"{name}:{line}: {of}.{attribute}"
        for name in MODULES.keys() - {"_scrapy.py"}
        for line, of, attribute in used(tree_of(name))
        if is_private(of, attribute)
    ]
    assert found == []


def test_every_private_name_is_in_the_table() -> None:
    """The table has the names that `_scrapy.py` looks up. Crawls look up each of them
    (`test_missing_names.py`).
    """
    names = {
        attribute for _, of, attribute in used(tree_of("_scrapy.py")) if is_private(of, attribute)
    }
    assert names - ENGINE <= PRIVATE
