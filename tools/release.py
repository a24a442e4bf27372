"""Print what has to be done before a release; with --publish, fail if it is not done.

The environment variable RELEASE_TAG has the tag of the release.
"""

import os
import re
import sys
from collections.abc import Iterator

from tools.repository import ADDRESS, PROJECT, ROOT


def unfinished() -> Iterator[str]:
    """Yield what has to be done before a release."""
    version = PROJECT["version"]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    if "/OWNER/" in ADDRESS:
        yield f"the address of the repository is a placeholder: {ADDRESS} (pyproject.toml)"
    if not re.search(rf"^## {re.escape(version)}, (?!not released)", changes, re.MULTILINE):
        yield f"CHANGELOG.md has no date for version {version}"
    if f"version: {version}\n" not in citation:
        yield f"CITATION.cff has another version than {version}"
    if "not on PyPI yet" in (ROOT / "README.md").read_text(encoding="utf-8"):
        yield "README.md says how to install from a clone"
    tag = os.environ.get("RELEASE_TAG", f"v{version}")
    if tag != f"v{version}":
        yield f"the tag is {tag}, but the version is {version}"


if __name__ == "__main__":
    found = list(unfinished())
    print(*(f"to do: {text}" for text in found), sep="\n")
    sys.exit(bool(found) and "--publish" in sys.argv)
