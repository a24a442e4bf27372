"""Links into the repository are built from the one address, and what tells other services of it
has its form.
"""

from __future__ import annotations

import re
import shutil
import tomllib
from typing import TYPE_CHECKING

import pytest

from tools import check_forms, release, repository, sizes

if TYPE_CHECKING:
    from pathlib import Path

HERE = "https://github.com/somebody/robots"


@pytest.fixture(autouse=True)
def _address(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an address in the place of the project's."""
    monkeypatch.setattr(repository, "address", lambda: HERE)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("[a](docs/cli.md)", f"[a]({HERE}/blob/main/docs/cli.md)"),
        ("[a](docs/cli.md#lint)", f"[a]({HERE}/blob/main/docs/cli.md#lint)"),
        ("[a](docs)", f"[a]({HERE}/tree/main/docs)"),
        ("![a](docs/assets/check.png)", f"![a]({HERE}/raw/main/docs/assets/check.png)"),
        ("[a](#install)", f"[a]({HERE}#install)"),
        ("[a](https://scrapy.org)", "[a](https://scrapy.org)"),
        ("`[a](docs/cli.md)`", "`[a](docs/cli.md)`"),
        ("```text\n[a](docs/cli.md)\n```", "```text\n[a](docs/cli.md)\n```"),
    ],
)
def test_absolute(written: str, expected: str) -> None:
    """Relative links become absolute; other sites' pages and code stay as they are."""
    assert repository.absolute(written) == expected


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files that are checked, which a test may spoil."""
    for name in ("CITATION.cff", "CHANGELOG.md", "Makefile", "pyproject.toml", ".readthedocs.yaml"):
        shutil.copy(repository.ROOT / name, tmp_path / name)
    shutil.copytree(repository.ROOT / ".github", tmp_path / ".github")
    monkeypatch.setattr(check_forms, "ROOT", tmp_path)
    return tmp_path


def spoil(path: Path, found: str, put: str) -> None:
    """Put one text in the place of another."""
    text = path.read_text(encoding="utf-8")
    assert re.search(found, text, re.MULTILINE)
    path.write_text(re.sub(found, put, text, count=1, flags=re.MULTILINE), encoding="utf-8")


@pytest.mark.parametrize("put", ["run: make cheque", "run: pytest", "run: make test && rm -r ."])
def test_workflows_run_targets_of_the_makefile(tree: Path, put: str) -> None:
    """A workflow runs targets that are there, and nothing else."""
    assert list(check_forms.commands()) == []
    spoil(tree / ".github/workflows/checks.yml", "run: make check$", put)
    assert len(list(check_forms.commands())) == 1


def test_a_workflow_has_its_form(tree: Path) -> None:
    """A key that GitHub does not know is found."""
    pytest.importorskip("check_jsonschema")
    workflow = ("github-workflows", ".github/workflows/docs.yml")
    assert check_forms.form(workflow) == ""
    spoil(tree / ".github/workflows/docs.yml", "runs-on:", "runs-of:")
    assert "docs.yml" in check_forms.form(workflow)


def test_versions_agree(tree: Path) -> None:
    """The citation has the version of the package."""
    assert list(check_forms.versions()) == []
    spoil(tree / "CITATION.cff", r"^version: .*$", "version: 9.9.9")
    assert list(check_forms.versions()) == ["CITATION.cff: does not name version 0.1.0"]


def test_every_page_stands_in_the_navigation() -> None:
    """Each page of docs/ stands in the site's navigation, and each entry is a page."""
    listed = re.findall(
        r"^      - ([\w/]+\.md)$", (repository.ROOT / "mkdocs.yml").read_text("utf-8"), re.MULTILINE
    )
    source = (repository.ROOT / "tools" / "site_hooks.py").read_text("utf-8")
    made = {*re.findall(r'^    "\w+\.md": "(\w+\.md)"', source, re.MULTILINE), "api.md"}
    pages = {
        path.relative_to(repository.ROOT / "docs").as_posix()
        for path in repository.ROOT.glob("docs/**/*.md")
    }
    assert sorted(listed) == sorted(pages | made)


@pytest.mark.parametrize(
    ("heading", "tag", "where", "found"),
    [
        (
            "0.1.0, not released yet",
            "v0.1.0",
            HERE,
            ["CHANGELOG.md says that 0.1.0 is not released yet"],
        ),
        ("0.1.0, 24 November 2026", "v0.2.0", HERE, ["the tag is v0.2.0, and the version 0.1.0"]),
        (
            "0.1.0, 24 November 2026",
            "v0.1.0",
            "https://github.com/OWNER/x",
            [
                (
                    "the repository's address is a placeholder: https://github.com/OWNER/x"
                    " (pyproject.toml)"
                )
            ],
        ),
        ("0.1.0, 24 November 2026", "v0.1.0", HERE, []),
    ],
)
def test_what_is_to_be_done_before_a_release(
    heading: str,
    tag: str,
    where: str,
    found: list[str],
    tree: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A placeholder, a version that is not released yet, and a tag of another version each stop
    a release.
    """
    for module in (repository, release):
        monkeypatch.setattr(module, "address", lambda: where)
    monkeypatch.setattr(release, "ROOT", tree)
    monkeypatch.setenv("RELEASE_TAG", tag)
    spoil(tree / "CHANGELOG.md", "^## 0.1.0.*$", f"## {heading}")
    assert list(release.publishable()) == found


README = (repository.ROOT / "README.md").read_text("utf-8")


def test_shape_of_the_readme() -> None:
    """The README has at most 130 lines and 1,000 words, in the order in which a new user needs
    them.
    """
    assert README.count("\n") <= 130
    assert len(README.split()) <= 1000
    assert re.findall(r"^## (.*)$", README, re.MULTILINE) == [
        "Install",
        "Switch it on",
        "Three changes that you will notice",
        "Compared with Scrapy alone",
        "Use the parser in a script",
        "What do you want to do?",
        "Licence",
    ]


def test_the_readme_names_every_dependency() -> None:
    """The README names Scrapy as the only dependency, and lists each extra with its packages."""
    project = tomllib.loads((repository.ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert [name_of(text) for text in project["dependencies"]] == ["scrapy"]
    assert "Scrapy is the only dependency." in README
    extras = {
        extra: {name_of(text) for text in texts}
        for extra, texts in project["optional-dependencies"].items()
    }
    extras["fleet"] = extras["fleet"] - {"scrapy-robots-rfc"} | extras["redis"]
    table = README[README.index("| extra | installs |") :].split("\n\n")[0].splitlines()[2:]
    rows = [row.strip("| ").split(" | ") for row in table]
    assert {name.strip("`"): set(packages.split(", ")) for name, packages, _ in rows} == extras


def name_of(requirement: str) -> str:
    """Return the package that a requirement names."""
    found = re.match(r"[\w.-]+", requirement)
    assert found is not None
    return found[0].lower()


def test_the_command_line_stays_small() -> None:
    """The command line is a leaf, and takes no more of a reader's time than it is
    worth.
    """
    ours = {path: text for path, text in sizes.sources().items() if path.startswith("commands/")}
    assert sum(text.count("\n") for text in ours.values()) <= 2000
    assert sum(sizes.statements(text) for text in ours.values()) <= 1200
