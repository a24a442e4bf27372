"""Check the documents: relative links lead to files and headings, and Python in them compiles."""

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


def documents() -> list[Path]:
    """Return every document of the project."""
    patterns = ("*.md", "docs/**/*.md", "example_project/*.md")
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern))


def anchors(path: Path) -> set[str]:
    """Return the anchors of the headings, as GitHub spells them."""
    headings = HEADING.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()).strip() for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


def broken_links(path: Path, text: str) -> Iterator[str]:
    """Yield the relative links that lead nowhere."""
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue  # a page of another site
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve() if name else path
        if not target.exists():
            yield f"links to {link}, which does not exist"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target):
            yield f"links to {link}, a heading that does not exist"


def broken_code(text: str) -> Iterator[str]:
    """Yield the Python blocks that do not compile; they may have `await` at the top."""
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
    findings = []
    for path in documents():
        text = path.read_text(encoding="utf-8")
        found = (*broken_links(path, text), *broken_code(text))
        findings += [f"{path.relative_to(ROOT)}: {finding}" for finding in found]
    print("\n".join(findings) or f"documents: nothing found in {len(documents())}")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
