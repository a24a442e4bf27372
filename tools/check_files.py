"""Check what no linter checks: lengths of files, traces of one machine, address and versions.

A file must not name folders of one machine or package registries. The repository's address is only
in pyproject.toml, and CITATION.cff and CHANGELOG.md have the version of the package.
"""

import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tools.repository import ROOT, address

#: Largest number of lines: in the package, and elsewhere.
PACKAGE_LINES, OTHER_LINES = 450, 530
FOREIGN = re.compile(
    r"(?<![\w./])/(?:home|root|Users|work)/[\w.]|\bpypi\.org|\bpythonhosted\.org|index-url|\bnpmjs\."
)
# Paths in tests are paths of URLs; this file names what it looks for.
EXEMPT = ("tests/", "tools/check_files.py")


def tracked() -> list[Path]:
    """Return the files that git tracks, or would track."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


def findings(path: Path) -> Iterator[str]:
    """Yield what is wrong with a file."""
    name = path.relative_to(ROOT).as_posix()
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # a picture
    lines = text.splitlines()
    limit = PACKAGE_LINES if name.startswith("scrapy_robots_rfc/") else OTHER_LINES
    if len(lines) > limit and path.suffix in {".py", ".sh"}:
        yield f"{name}: {len(lines)} lines, the limit is {limit}"
    if name != "pyproject.toml" and address() in text:
        yield f"{name}: has the repository's address, which belongs in pyproject.toml only"
    for number, line in enumerate(lines, 1):
        if FOREIGN.search(line) and not name.startswith(EXEMPT):
            yield f"{name}:{number}: names a machine or a registry: {line.strip()[:80]}"


def versions() -> Iterator[str]:
    """Yield the files that have another version than the package."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = re.escape(project["version"])
    patterns = {"CITATION.cff": rf"^version: {version}$", "CHANGELOG.md": rf"^## {version}\b"}
    for name, pattern in patterns.items():
        if not re.search(pattern, (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE):
            yield f"{name}: does not name version {project['version']}"


def main() -> int:
    """Check every file and return the exit code."""
    found = [finding for path in tracked() for finding in findings(path)] + [*versions()]
    print("\n".join(found) or "files: nothing found")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
