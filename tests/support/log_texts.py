"""The texts that the package logs, as its code has them.

`...` stands for what varies.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tools.check_docs import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = ROOT / "scrapy_robots_rfc"

#: Warnings and errors, and the method of a class that logs an error once.
LOUD = frozenset({"warning", "error", "exception", "critical", "_log_once"})
#: The levels below, and the method `_log` of classes that log at INFO.
QUIET = frozenset({"info", "debug", "_log"})
#: The summary of a crawl is put together from many lines.
SUMMARY = "reporting/summary.py"
_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[sdrgf]")


@dataclass(frozen=True)
class UnclearError(Exception):
    """An argument whose text cannot be seen in the code; this file has to learn how."""

    place: str


def texts(methods: frozenset[str] = LOUD) -> set[str]:
    """Every text that some methods of the package log, its commands and its summary apart.

    What commands print, they print to somebody who waits.
    """
    found: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("commands/") and name != SUMMARY:
            module = ast.parse(path.read_text(encoding="utf-8"))
            found.update(_Module(module, name).texts(methods))
    return {re.sub(r"(?:\.\.\.)+", "...", text) for text in found}


class _Module:
    def __init__(self, module: ast.Module, name: str) -> None:
        self._module, self._name = module, name

    def texts(self, methods: frozenset[str]) -> Iterator[str]:
        """The texts of each function, methods included, that some methods log.

        A `Kind` of the site log has its level and its text.
        """
        for node in ast.walk(self._module):
            match node:
                case ast.Call(
                    func=ast.Name(id="Kind"),
                    args=[ast.Attribute(attr=level), ast.Constant(value=str(text)), *_],
                ) if level.lower() in methods:
                    yield _DIRECTIVE.sub("...", text)
        for node in ast.walk(self._module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield from self._of(node, methods)

    def _of(
        self, scope: ast.FunctionDef | ast.AsyncFunctionDef, methods: frozenset[str]
    ) -> Iterator[str]:
        for node in ast.walk(scope):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="logger"), attr="log"),
                    args=[_, ast.Constant(value=str(text)), *_],
                ) if "info" in methods:
                    yield _DIRECTIVE.sub("...", text)
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="logger" | "self"), attr=attr),
                    args=[text, *_],
                ):
                    if attr in methods:
                        yield from self._rendered(text, scope)
                case ast.Call(func=ast.Name(id="log"), args=[level, text, *_]):
                    names = {
                        name.attr.lower()
                        for name in ast.walk(level)
                        if isinstance(name, ast.Attribute)
                    }
                    if names & methods:
                        yield from self._rendered(text, scope)

    def _rendered(self, node: ast.expr, scope: ast.AST) -> list[str]:
        """What an expression may be: one text for each value that a name of it is given."""
        match node:
            case ast.Constant(value=str(text)):
                return [_DIRECTIVE.sub("...", text)]
            case ast.JoinedStr(values=parts):
                found = [""]
                for part in parts:
                    found = [
                        before + after for before in found for after in self._part(part, scope)
                    ]
                return found
            case ast.Name(id=name):
                return [
                    text
                    for value in self._values(name, scope)
                    for text in self._rendered(value, scope)
                ]
            case ast.IfExp(body=first, orelse=second):
                return [*self._rendered(first, scope), *self._rendered(second, scope)]
        raise UnclearError(f"{self._name}:{node.lineno}")

    def _part(self, part: ast.expr, scope: ast.AST) -> list[str]:
        if isinstance(part, ast.Constant):
            return [str(part.value)]
        value = part.value if isinstance(part, ast.FormattedValue) else part
        known = isinstance(value, ast.Name) and any(
            isinstance(given, ast.Constant | ast.JoinedStr)
            for given in self._values(value.id, scope)
        )
        return self._rendered(value, scope) if known else ["..."]

    def _values(self, name: str, scope: ast.AST) -> list[ast.expr]:
        """All that a name is given in a function, or else at the top of the module."""
        for nodes in (ast.walk(scope), self._module.body):
            given = [
                node.value
                for node in nodes
                if isinstance(node, ast.Assign)
                and any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
            ]
            if given:
                return given
        return []
