"""The documents of the project as tests read them: their fenced blocks, and the settings that stand in those.

In here: how to find a block. What comes of it is in the tests; that none is left out, in `test_documents.py`.
"""

from __future__ import annotations

import textwrap
from typing import Any

from tools.check_docs import FENCE, ROOT


def blocks(page: str, language: str) -> list[str]:
    """The blocks of a page in a language, in their order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [textwrap.dedent(found[3]) for found in FENCE.finditer(text) if found[2] == language]


def block(page: str, language: str, words: str, *, without: str = "\0") -> str:
    """The one of them that has some words in it, and not some others."""
    [found] = [text for text in blocks(page, language) if words in text and without not in text]
    return found


def plain(text: str) -> str:
    """The same with http in the place of https, as the proxy of the tests has no certificates."""
    return text.replace("https://", "http://")


def settings(code: str) -> dict[str, Any]:
    """The settings that a block of Python makes."""
    found: dict[str, Any] = {}
    exec(code, found)
    return {key: value for key, value in found.items() if key.isupper()}
