"""Lines and statements of the package by room: ``python -m tools.sizes``, or ``python -m
tools.sizes REVISION``.

Statements are `ast.stmt` nodes without docstrings: no width of lines changes them. The kernel is
all but `LEAVES`.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

PACKAGE = "scrapy_robots_rfc"
#: What hangs on the kernel: rooms and files.
LEAVES = (
    "usage/",
    "reporting/",
    "commands/",
    "core/lint.py",
    "core/findings.py",
    "fetching/ftp.py",
    "fetching/overrides.py",
    "scheduling/shared.py",
)


def statements(source: str) -> int:
    """Count the statements of a file, without docstrings."""
    return sum(
        isinstance(node, ast.stmt)
        and not (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        )
        for node in ast.walk(ast.parse(source))
    )


def sources(revision: str | None = None) -> dict[str, str]:
    """Return the files of the package by their paths below it, in the working tree or at a
    revision.
    """
    root = Path(__file__).parent.parent
    if revision is None:
        return {
            path.relative_to(root / PACKAGE).as_posix(): path.read_text("utf-8")
            for path in sorted((root / PACKAGE).rglob("*.py"))
        }
    listed = _git(root, "ls-tree", "-r", "--name-only", revision, "--", PACKAGE).splitlines()
    paths = [path for path in listed if path.endswith(".py")]
    return {
        path.removeprefix(f"{PACKAGE}/"): _git(root, "show", f"{revision}:{path}") for path in paths
    }


def main(arguments: list[str]) -> None:
    """Print a table: room, lines, statements; then the leaves, the kernel and the whole."""
    sizes: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, source in sources(*arguments[:1]).items():
        leaf = next((leaf for leaf in LEAVES if path.startswith(leaf)), None)
        room = leaf or (path.split("/")[0] + "/" if "/" in path else "tables and ways in")
        for name in (room, "leaves" if leaf else "kernel", "package"):
            sizes[name][0] += source.count("\n")
            sizes[name][1] += statements(source)
    last = ("leaves", "kernel", "package")
    for name in (*sorted(set(sizes) - set(last)), *last):
        lines, count = sizes[name]
        print(f"{name:24}{lines:>8,} lines {count:>8,} statements")


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=root, check=True, capture_output=True, text=True
    ).stdout


if __name__ == "__main__":
    main(sys.argv[1:])
