"""The documents of the project as tests read them: their fenced blocks, and the settings that stand
in those.

The tests say what must come of a block; `test_documents.py` says that none is left out.
"""

from __future__ import annotations

import textwrap
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

from tools.check_docs import FENCE, ROOT

if TYPE_CHECKING:
    from pathlib import Path


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


def executed(code: str, **names: Any) -> dict[str, Any]:
    """Run a block of Python, given some names; return all that it leaves."""
    exec(code, names)
    return names


def imported(code: str, folder: Path) -> Any:
    """A block of Python as a module.

    Scrapy looks at the source of callbacks, so there has to be a file.
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
    """The settings that a block of Python makes."""
    return {key: value for key, value in executed(code).items() if key.isupper()}
