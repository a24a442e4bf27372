"""The root of the project, and links into its repository. It needs only the standard library."""

import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BRANCH = "main"


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
#: The address of the repository, without a slash at the end.
ADDRESS = PROJECT["urls"]["Repository"].rstrip("/")


def link_to(path: str, anchor: str = "") -> str:
    """Return the address of a file or folder.

    :param path: relative to the root of the repository.
    :param anchor: a heading in it, or an empty string.
    """
    kind = "raw" if path.endswith((".png", ".svg")) else "blob"
    page = f"{ADDRESS}/{kind}/{BRANCH}/{path}"
    return f"{page}#{anchor}" if anchor else page
