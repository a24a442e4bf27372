"""Check the limits of shape that no linter has: lengths of files and functions, and nothing of one
machine in a file.

Looks at what git tracks. Prints a line a finding and exits with 1 when there is any.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: Of the package, and of the rest: a file of tests is read one test at a time.
FILE_LINES = (450, 530)
#: The same, signature and docstring included: a sequence reads better whole than cut into helpers.
FUNCTION_LINES = (50, 80)

# Where people's and machines' own folders are, and package registries: both mean something on one
# machine only.
FOREIGN = re.compile(
    r"(?<![\w./])/(?:home|root|Users|work)/[\w.]|\bpypi\.org|\bpythonhosted\.org|index-url|\bnpmjs\."
)

# Paths in cases are paths of URLs; this file names what it looks for.
EXEMPT = ("tests/", "tools/check_shape.py")


def tracked() -> list[Path]:
    """Return the files that git tracks and that exist."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def findings(path: Path) -> Iterator[str]:
    """Yield what is wrong with a file."""
    name = path.relative_to(ROOT).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # a picture or the like
    lines = text.splitlines()
    limit = FILE_LINES[not name.startswith("scrapy_robots_rfc/")]
    # Tables of cases are data, looked up and not read.
    if len(lines) > limit and path.suffix in {".py", ".sh"}:
        yield f"{name}: {len(lines)} lines, {limit} are the limit"
    if not name.startswith(EXEMPT):
        for number, line in enumerate(lines, 1):
            if FOREIGN.search(line):
                yield (
                    f"{name}:{number}: a path of one machine, or a registry's address:"
                    f" {line.strip()[:80]}"
                )
    if path.suffix == ".py":
        yield from long_functions(name, text)


def long_functions(name: str, text: str) -> Iterator[str]:
    """Yield the functions that are too long."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None:
            length = node.end_lineno - node.lineno + 1
            limit = FUNCTION_LINES[not name.startswith("scrapy_robots_rfc/")]
            if length > limit:
                yield f"{name}:{node.lineno}: {node.name} has {length} lines, {limit} are the limit"


def main() -> int:
    """Check every file and return the exit code."""
    found = [finding for path in tracked() for finding in findings(path)]
    print("\n".join(found) or "shape: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
