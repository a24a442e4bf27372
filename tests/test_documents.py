"""What the documents show is held by tests: none of their fenced blocks is left out."""

from __future__ import annotations

import ast
import textwrap
from typing import TYPE_CHECKING

from tests.support.documents import block, blocks
from tools.check_docs import FENCE, ROOT, documents

if TYPE_CHECKING:
    from collections.abc import Iterator


def shown() -> Iterator[tuple[str, str]]:
    """Every block of every document, by page."""
    for path in documents():
        for found in FENCE.finditer(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), textwrap.dedent(found[3])


def taken() -> Iterator[tuple[str, str]]:
    """The blocks that tests take.

    What they ask `documents.py` for, literally, is asked for once more.
    """
    for file in (ROOT / "tests").rglob("*.py"):
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
                    yield from ((page, text) for text in found)


def test_every_block_is_taken() -> None:
    """Each block of a document is one that a test takes.

    Whoever writes a new one writes a test with it.
    """
    assert sorted(set(shown()) - set(taken())) == []
