"""Check the documents: a relative link or picture leads to a file (and heading) that is there,
Python in them compiles, and no sentence is too long.

What the tables in docs/ say of settings, stats and signals is compared with the code by tests, not
here.
"""

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\[[^\]\n]*\]\(<?([^)\s>]+)>?\)")
FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)
#: Readers whose first language is another one follow a sentence of so many words; code does not
#: count.
MAX_WORDS = 30
_BLOCK_END = re.compile(r"\n\s*\n|\n(?= *(?:[-*]|\d+\.) |\|)|^#.*$", re.MULTILINE)
_SENTENCE_END = re.compile(r"(?<=[.!?;:])\)?\s+")


def documents() -> list[Path]:
    """Return every document of the project."""
    return sorted(
        [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("example_project/*.md")]
    )


def anchors(path: Path) -> set[str]:
    """Return the anchors of a document's headings, spelt as the usual viewers spell them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        for heading in HEADING.findall(text)
    }


def broken_links(path: Path, text: str) -> Iterator[str]:
    """Yield the relative links that lead nowhere."""
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # a page of another site
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            yield f"links to {link}, which is not there"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"links to {link}, a heading that is not there"


def long_sentences(text: str) -> Iterator[str]:
    """Yield the sentences with too many words; each cell of a table is read alone."""
    text = re.sub(r"`[^`]*`", "", FENCE.sub("\n\n", text))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    for block in _BLOCK_END.split(text):
        for part in block.split(" | ") if block.startswith("|") else [block]:
            for sentence in _SENTENCE_END.split(part):
                words = re.findall(r"[^\W_][^\s]*", sentence)
                if len(words) > MAX_WORDS:
                    yield f"a sentence of {len(words)} words: {' '.join(sentence.split())[:70]}..."


def broken_code(text: str) -> Iterator[str]:
    """Yield the blocks marked as Python that do not compile.

    `await` at the top is let through, as in a notebook.
    """
    for block in FENCE.finditer(text):
        if block[2] not in {"python", "py"}:
            continue
        try:
            compile(textwrap.dedent(block[3]), "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        except SyntaxError as error:
            line = text.count("\n", 0, block.start()) + 1
            yield f"the Python at line {line} does not compile: {error}"


def main() -> int:
    """Check every document and return the exit code."""
    found = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        found += [
            f"{path.relative_to(ROOT)}: {finding}"
            for finding in (*broken_links(path, text), *broken_code(text), *long_sentences(text))
        ]
    print("\n".join(found) or f"documents: nothing found in {len(documents())}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
