"""Read from the code of the package which lines it can log. `...` stands for what varies."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.support.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = ROOT / "scrapy_robots_rfc"

#: Methods of loggers, and our own methods that only log; each has the text as its first argument.
METHODS = frozenset({"debug", "info", "warning", "error", "exception", "_log", "_log_once"})
#: The closing summary consists of many lines, of which only the heading is in the documents.
SUMMARY = "reporting/summary.py"
_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[sdrgf]")


class UnclearError(Exception):
    """The text of a log line is not found by this file, which has to learn how."""


def texts() -> set[str]:
    """Return every text that the package logs, without its commands and its summary."""
    found: set[str] = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("commands/") and name != SUMMARY:
            found.update(_Module(path.read_text(encoding="utf-8"), name).texts())
    return {re.sub(r"(?:\.\.\.)+", "...", text) for text in found}


class _Module:
    def __init__(self, code: str, name: str) -> None:
        self._module = ast.parse(code)
        self._name = name

    def texts(self) -> Iterator[str]:
        """Yield the texts that the functions of the module log, and the texts of its `Kind`s."""
        for node in ast.walk(self._module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in ast.walk(node):
                    if isinstance(call, ast.Call):
                        yield from self._logged(call, node)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Kind":
                yield from self._rendered(node.args[1], self._module)

    def _logged(self, call: ast.Call, scope: ast.AST) -> list[str]:
        """Return the texts that a call may log."""
        owner, _, method = ast.unparse(call.func).rpartition(".")
        if owner in ("logger", "self") and method in METHODS:
            return self._rendered(call.args[0], scope)
        if (owner, method) in (("logger", "log"), ("", "log")):
            text = call.args[1]
            # The lines of a `Kind` are read from its definition.
            return [] if ast.unparse(text) == "kind.text" else self._rendered(text, scope)
        return []

    def _rendered(self, node: ast.expr, scope: ast.AST) -> list[str]:
        """Return the possible texts of an expression: a name has one for each of its values."""
        match node:
            case ast.Constant(value=str(text)):
                return [_DIRECTIVE.sub("...", text)]
            case ast.JoinedStr(values=parts):
                rendered = [""]
                for part in parts:
                    ends = self._part(part, scope)
                    rendered = [start + end for start in rendered for end in ends]
                return rendered
            case ast.Name(id=name):
                values = self._values(name, scope)
                return [text for value in values for text in self._rendered(value, scope)]
            case ast.IfExp(body=first, orelse=second):
                return [*self._rendered(first, scope), *self._rendered(second, scope)]
        raise UnclearError(f"{self._name}:{node.lineno}")

    def _part(self, part: ast.expr, scope: ast.AST) -> list[str]:
        """Return the possible texts of a part of an f-string."""
        if isinstance(part, ast.Constant):
            return [str(part.value)]
        if isinstance(part, ast.FormattedValue) and isinstance(part.value, ast.Name):
            values = self._values(part.value.id, scope)
            if any(isinstance(value, ast.Constant | ast.JoinedStr) for value in values):
                return self._rendered(part.value, scope)
        return ["..."]

    def _values(self, name: str, scope: ast.AST) -> list[ast.expr]:
        """Return the values that a name has in a function, or else in the module."""
        for nodes in (ast.walk(scope), self._module.body):
            values = [
                node.value
                for node in nodes
                if isinstance(node, ast.Assign) and name in map(ast.unparse, node.targets)
            ]
            if values:
                return values
        return []
