"""What the documents show is tested: none of their fenced blocks is left out."""

from __future__ import annotations

import ast
import re
import textwrap
from typing import TYPE_CHECKING

from tests.support.documents import block, blocks
from tools.check_docs import FENCE, LINK, ROOT, documents

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def shown() -> Iterator[tuple[str, str]]:
    """Every block of every document, by page."""
    for path in documents():
        for found in FENCE.finditer(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), textwrap.dedent(found[3])


def taken() -> Iterator[tuple[str, str, str]]:
    """The blocks that tests take: file, page, block.

    What they ask `documents.py` for, literally, is asked for once more.
    """
    for file in (ROOT / "tests").rglob("*.py"):
        where = file.relative_to(ROOT / "tests").as_posix()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Name(id="block" | "blocks" as name), args=[ast.Constant(), *_]
                ):
                    page, *others = map(ast.literal_eval, node.args)
                    more = {
                        str(keyword.arg): ast.literal_eval(keyword.value)
                        for keyword in node.keywords
                    }
                    found = (
                        blocks(page, *others)
                        if name == "blocks"
                        else [block(page, *others, **more)]
                    )
                    yield from ((where, page, text) for text in found)


def test_every_block_is_taken() -> None:
    """Each block of a document is one that a test takes.

    A new one needs a test.
    """
    assert sorted(set(shown()) - {(page, text) for _, page, text in taken()}) == []


def test_contributors_find_the_tests_of_a_page() -> None:
    """CONTRIBUTING.md says for each page which files take its blocks."""
    found: dict[str, set[str]] = {}
    for file, page, _ in taken():
        found.setdefault(page, set()).add(file)
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w/]+\.md) \| (.*) \|$", text, re.MULTILINE)
    assert {page: set(files.split(", ")) for page, files in rows} == found


def links(page: Path) -> set[Path]:
    """The documents of the tree to which a document leads."""
    targets = LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8")))
    paths = {(page.parent / target.partition("#")[0]).resolve() for target in targets}
    return {path for path in paths if path.suffix == ".md" and path.exists()}


def test_every_page_is_linked_from_the_readme() -> None:
    """The README leads to every page of docs/, and they are few."""
    pages = set((ROOT / "docs").glob("**/*.md"))
    assert pages - links(ROOT / "README.md") == set()
    assert len(pages) + 2 <= 24  # with the README and the Python API
