"""Read from the code of the package which lines it can log. `...` stands for what varies."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from tests.support.documents import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = ROOT / "scrapy_robots_rfc"

#: Methods of loggers -> the level of their lines.
LEVELS = {
    "debug": "DEBUG",
    "info": "INFO",
    "warning": "WARNING",
    "error": "ERROR",
    "exception": "ERROR",
}
#: Our own methods that only log.
OWN_METHODS = frozenset({"_log", "_log_once"})
#: The closing summary consists of many lines, of which only the heading is in the documents.
SUMMARY = "summary"
_DIRECTIVE = re.compile(r"%[-+ #0]*\d*(?:\.\d+)?[sdrgf]")


def texts() -> dict[str, set[str]]:
    """Return every text that the package logs, without its commands and its summary.

    Each text has the levels at which it may be logged.
    """
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if not name.startswith("commands/"):
            for text, levels in _Module(path.read_text(encoding="utf-8"), name).texts():
                found.setdefault(re.sub(r"(?:\.\.\.)+", "...", text), set()).update(levels)
    return found


class _Module:
    def __init__(self, code: str, name: str) -> None:
        self._module = ast.parse(code)
        self._name = name

    def texts(self) -> Iterator[tuple[str, set[str]]]:
        """Yield the texts that the module logs, and the texts of its `Kind`s, with their levels."""
        for node in ast.walk(self._module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in ast.walk(node):
                    if isinstance(call, ast.Call):
                        yield from self._logged(call, node)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "Kind":
                yield from self._with_level(node.args[1], node.args[0], self._module)

    def _logged(self, call: ast.Call, scope: ast.AST) -> list[tuple[str, set[str]]]:
        owner, _, method = ast.unparse(call.func).rpartition(".")
        if call.args and ast.unparse(call.args[0]) == SUMMARY:
            return []
        if owner == "logger" and method in LEVELS:
            return [(text, {LEVELS[method]}) for text in self._rendered(call.args[0], scope)]
        if (owner, method) == ("", "log_once"):
            return self._with_level(call.args[3], call.args[2], scope)
        if (owner, method) in (("logger", "log"), ("", "log")):
            # The lines of a `Kind` are read from its definition.
            is_kind = ast.unparse(call.args[1]) == "kind.text"
            return [] if is_kind else self._with_level(call.args[1], call.args[0], scope)
        if owner != "self" or method not in OWN_METHODS:
            return []
        level = self._level_of_method(method)
        return [(text, {level}) for text in self._rendered(call.args[0], scope)]

    def _level_of_method(self, name: str) -> str:
        """Return the level at which a method of the module logs the text that it takes."""
        [method] = [
            node
            for node in ast.walk(self._module)
            if isinstance(node, ast.FunctionDef) and node.name == name
        ]
        called = r"\b(?:logger\.|_log\(logging\.|logger, logging\.)(\w+)\W+text"
        used = re.findall(called, ast.unparse(method))
        [level] = {LEVELS[call.lower()] for call in used}
        return level

    def _with_level(
        self, text: ast.expr, level: ast.expr, scope: ast.AST
    ) -> list[tuple[str, set[str]]]:
        """Return the possible texts of an expression with the possible levels of another."""
        levels = set(re.findall(r"logging\.([A-Z]+)", ast.unparse(level)))
        if isinstance(level, ast.Name):
            for value in self._values(level.id, scope):
                levels.update(re.findall(r"logging\.([A-Z]+)", ast.unparse(value)))
        elif ast.unparse(level) == "kind.level":
            levels = {"ERROR", "WARNING", "INFO"}
        return [(each, levels) for each in self._rendered(text, scope)]

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
        raise AssertionError(f"learn how to read the text in {self._name}:{node.lineno}")

    def _part(self, part: ast.expr, scope: ast.AST) -> list[str]:
        """Return the possible texts of a part of an f-string."""
        if isinstance(part, ast.Constant):
            return [_DIRECTIVE.sub("...", str(part.value))]
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
