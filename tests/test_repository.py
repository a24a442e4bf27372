"""The files that say something about the repository: links, navigation, a release, extras."""

from __future__ import annotations

import re
import tomllib

from tools import repository

ROOT = repository.ROOT


def test_every_page_is_in_the_navigation() -> None:
    """The navigation of the site has each page of docs/, and nothing that is not a page."""
    site = (ROOT / "mkdocs.yml").read_text("utf-8")
    hooks = (ROOT / "tools" / "site_hooks.py").read_text("utf-8")
    listed = re.findall(r"^      - ([\w/]+\.md)$", site, re.MULTILINE)
    made = {*re.findall(r'"\w+\.md": "(\w+\.md)"', hooks), "api.md"}
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    assert sorted(listed) == sorted(pages | made)


def test_the_readme_names_every_dependency() -> None:
    """The README names Scrapy as the only dependency, and lists each extra with its packages."""

    def name_of(requirement: str) -> str:
        return re.split(r"[^\w.-]", requirement)[0].lower()

    readme = (ROOT / "README.md").read_text("utf-8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    # Scrapy itself needs queuelib.
    assert [name_of(text) for text in project["dependencies"]] == ["scrapy", "queuelib"]
    assert "Scrapy is the only dependency." in readme
    extras = {
        extra: {name_of(text) for text in texts}
        for extra, texts in project["optional-dependencies"].items()
    }
    table = readme[readme.index("| extra | installs |") :].split("\n\n")[0].splitlines()[2:]
    rows = [row.strip("| ").split(" | ") for row in table]
    assert {name.strip("`"): set(packages.split(", ")) for name, packages, _ in rows} == extras
