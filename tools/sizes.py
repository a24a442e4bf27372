"""Print lines and statements of the package by folder: `python -m tools.sizes [REVISION]`.

Statements are `ast.stmt` nodes without docstrings, so the width of lines does not change them. The
kernel is everything that is not one of the `LEAVES`. Below are the lines of the rest and the words
of the documents.
"""

import ast
import subprocess
import sys
from collections import defaultdict

from tools.repository import ROOT

PACKAGE = "scrapy_robots_rfc"
#: Folders and files that the kernel does not need.
LEAVES = (
    "usage/",
    "reporting/",
    "commands/",
    "core/lint.py",
    "core/lint_codes.py",
    "core/findings.py",
    "fetching/ftp.py",
    "fetching/overrides.py",
    "scheduling/shared.py",
)


def statements(source: str) -> int:
    """Count the statements of a file."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    return sum(not _is_docstring(node) for node in nodes)


def _is_docstring(node: ast.stmt) -> bool:
    is_constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return is_constant and isinstance(ast.literal_eval(node.value), str)  # type: ignore[attr-defined]  # an Expr


def sources(revision: str | None = None) -> dict[str, str]:
    """Return the files of the package by their paths in it, now or at a revision."""
    if revision is None:
        folder = ROOT / PACKAGE
        paths = sorted(folder.rglob("*.py"))
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in paths}
    names = _git("ls-tree", "-r", "--name-only", revision, "--", PACKAGE).splitlines()
    return {
        name.removeprefix(f"{PACKAGE}/"): _git("show", f"{revision}:{name}")
        for name in names
        if name.endswith(".py")
    }


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def main(revision: str | None = None) -> None:
    """Print the tables."""
    sizes: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, source in sources(revision).items():
        leaf = next((leaf for leaf in LEAVES if path.startswith(leaf)), None)
        folder = leaf or (path.split("/")[0] + "/" if "/" in path else "top level")
        for name in (folder, "leaves" if leaf else "kernel", "package"):
            sizes[name][0] += source.count("\n")
            sizes[name][1] += statements(source)
    sums = ("leaves", "kernel", "package")
    for name in (*sorted(set(sizes) - set(sums)), *sums):
        lines, count = sizes[name]
        print(f"{name:24}{lines:>8,} lines {count:>8,} statements")
    for name, pattern in (("tests", "*.py"), ("bench", "*.py"), ("tools", "*.py")):
        count = sum(path.read_text("utf-8").count("\n") for path in (ROOT / name).rglob(pattern))
        print(f"{name:24}{count:>8,} lines")
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    words = sum(len(path.read_text("utf-8").split()) for path in documents)
    print(f"{'documents':24}{words:>8,} words")


if __name__ == "__main__":
    main(*sys.argv[1:2])
