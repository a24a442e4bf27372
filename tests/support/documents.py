"""Read documents: their tables, and their fenced blocks, which tests run."""

from __future__ import annotations

import re
import textwrap
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\[[^\]\n]*\]\(<?([^)\s>]+)>?\)")
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def documents() -> list[Path]:
    """Return every document of the project."""
    return sorted(path for pattern in ("*.md", "docs/**/*.md") for path in ROOT.glob(pattern))


def read(path: str) -> str:
    """Return the text of a file of the project."""
    return (ROOT / path).read_text(encoding="utf-8")


def rows(page: str, head: str = "", after: str = "") -> list[list[str]]:
    """Return the rows of a table.

    :param head: how the first row of the table begins.
    :param after: a text before the table.
    """
    text = read(page)
    table = re.search(
        rf"^\| {re.escape(head)}.*\n((?:\|.*\n?)+)", text[text.index(after) :], re.MULTILINE
    )
    assert table is not None, head
    lines = table[1].splitlines()[1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def blocks(page: str, language: str) -> list[str]:
    """Return the blocks of a page in a language, in their order."""
    fences = FENCE.finditer(read(page))
    return [textwrap.dedent(fence[3]) for fence in fences if fence[2] == language]


def block(page: str, language: str, words: str, *, without: str = "\0") -> str:
    """Return the one block that contains some words, and does not contain others."""
    [match] = [text for text in blocks(page, language) if words in text and without not in text]
    return match


def plain(text: str) -> str:
    """Return a text with http instead of https, because the test proxy has no certificates."""
    return text.replace("https://", "http://")


def executed(code: str, **names: Any) -> dict[str, Any]:
    """Run a block of Python with some names defined, and return all names."""
    exec(code, names)
    return names


def imported(code: str, folder: Path) -> Any:
    """Import a block of Python as a module.

    It is a file, because Scrapy reads the source of callbacks.
    """
    file = folder / "block.py"
    file.write_text(code, encoding="utf-8")
    spec = spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def settings(code: str) -> dict[str, Any]:
    """Return the settings that a block of Python defines."""
    return {key: value for key, value in executed(code).items() if key.isupper()}
