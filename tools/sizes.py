"""Print the sizes of the project: `python -m tools.sizes`.

For each folder of the package, print lines and statements. Statements are `ast.stmt` nodes without
docstrings, so the width of lines does not change them. The kernel is everything but `COMPONENTS`.
"""

import ast
import re
from collections import defaultdict

from scrapy_robots_rfc._scrapy import PRIVATE
from tools.repository import ROOT

PACKAGE = "scrapy_robots_rfc"
#: The start of the paths that the kernel does not need.
COMPONENTS = (
    "usage/",
    "reporting/",
    "commands/",
    "core/lint",
    "core/near_misses.py",
    "core/response.py",
    "core/uses.py",
    "core/explanation.py",
    "fetching/ftp.py",
    "fetching/offline.py",
    "fetching/overrides.py",
    "middleware/final_url.py",
    "scheduling/scheduler.py",
    "scheduling/shared.py",
)


def statements(source: str) -> int:
    """Count the statements of a file."""
    nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt)]
    expressions = [node.value for node in nodes if isinstance(node, ast.Expr)]
    docstrings = [one for one in expressions if isinstance(getattr(one, "value", None), str)]
    return len(nodes) - len(docstrings)


def main() -> None:
    """Print the tables."""
    sizes: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for file in (ROOT / PACKAGE).rglob("*.py"):
        path, source = file.relative_to(ROOT / PACKAGE).as_posix(), file.read_text("utf-8")
        component = next(
            (component for component in COMPONENTS if path.startswith(component)), None
        )
        folder = component or (path.split("/")[0] + "/" if "/" in path else "top level")
        for name in (folder, "optional" if component else "kernel", "package"):
            sizes[name][0] += source.count("\n")
            sizes[name][1] += statements(source)
    sums = ("optional", "kernel", "package")
    for name in (*sorted(set(sizes) - set(sums)), *sums):
        lines, count = sizes[name]
        print(f"{name:24}{lines:>8,} lines {count:>8,} statements")
    for folder in ("tests", "bench", "tools"):
        files = (ROOT / folder).rglob("*.py")
        count = sum(len(file.read_text("utf-8").splitlines()) for file in files)
        print(f"{folder:24}{count:>8,} lines")
    documents = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    words = sum(len(path.read_text("utf-8").split()) for path in documents)
    print(f"{'documents':24}{words:>8,} words")
    print(f"{'private names of Scrapy':24}{len(PRIVATE):>8,}")
    terms = (ROOT / "ARCHITECTURE.md").read_text("utf-8").split("\n## ")[2]
    rows = re.findall("^[|] ", terms, re.MULTILINE)
    print(f"{'terms of ARCHITECTURE.md':24}{len(rows) - 1:>8,}")


if __name__ == "__main__":
    main()
