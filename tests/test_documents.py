"""Every code and log block of the documents is tested, and every page is linked from the README."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from tests.support.documents import FENCE, LINK, ROOT, block, blocks, documents

if TYPE_CHECKING:
    from collections.abc import Iterator


def documented_blocks() -> Iterator[tuple[str, str]]:
    """Yield the page and the text of every fenced block, but for diagrams in ARCHITECTURE.md."""
    for path in set(documents()) - {ROOT / "ARCHITECTURE.md"}:
        for fence in FENCE.finditer(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), textwrap.dedent(fence[3])


def blocks_in_tests() -> Iterator[tuple[str, str]]:
    """Yield the page and the text of every block that a test reads.

    Tests read blocks by `block(...)` and `blocks(...)` with literal arguments.
    """
    for file in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in {"block", "blocks"} or not isinstance(
                node.args[0], ast.Constant
            ):
                continue
            page, *words = map(ast.literal_eval, node.args)
            options = {
                str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords
            }
            if node.func.id == "blocks":
                texts = blocks(page, *words)
            else:
                texts = [block(page, *words, **options)]
            yield from ((page, text) for text in texts)


def test_every_block_is_tested() -> None:
    """Each fenced block of a document is read by a test."""
    assert sorted(set(documented_blocks()) - set(blocks_in_tests())) == []


def test_every_page_is_linked_from_the_readme() -> None:
    """The README links to every page of docs/."""
    readme = FENCE.sub("", (ROOT / "README.md").read_text(encoding="utf-8"))
    linked = {(ROOT / link.partition("#")[0]).resolve() for link in LINK.findall(readme)}
    assert set((ROOT / "docs").glob("**/*.md")) - linked == set()
