"""The address of the repository, which only pyproject.toml has, and links into it.

hatchling loads this file when it builds the package, and mkdocs when it builds the site, so it
needs the standard library only.
"""

import re
import tomllib
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parent.parent
BRANCH = "main"

#: Code, which is skipped, or the target of a link.
_LINK = re.compile(
    r"^ *```.*?^ *```$|`[^`\n]*`|(?<=\]\()(<?)(?P<target>[^)\s>]+)(>?)(?=\))",
    re.MULTILINE | re.DOTALL,
)
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:|//")


def address() -> str:
    """Return the address of the repository, without a slash at its end."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return str(project["urls"]["Repository"]).rstrip("/")


def is_placeholder() -> bool:
    """Return whether the address is still a placeholder."""
    return "/OWNER/" in address()


def link_to(path: str, anchor: str = "") -> str:
    """Return the address of a file or folder; `.` is the README.

    :param path: relative to the root of the repository.
    :param anchor: a heading in it, or an empty string.
    """
    kind = "raw" if path.endswith((".png", ".svg")) else "blob"
    if (ROOT / path).is_dir():
        kind = "tree"
    page = address() if path == "." else f"{address()}/{kind}/{BRANCH}/{path}"
    return f"{page}#{anchor}" if anchor else page


def absolute(text: str) -> str:
    """Return a document of the root with absolute links."""

    def replaced(found: re.Match[str]) -> str:
        target = found["target"]
        if target is None or _ABSOLUTE.match(target):
            return found[0]
        path, _, anchor = target.partition("#")
        return link_to(PurePosixPath(path).as_posix(), anchor)

    return _LINK.sub(replaced, text)
