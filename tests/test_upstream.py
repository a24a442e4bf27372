"""docs/upstream.md says the truth about plain Scrapy: its scripts, the lines that it quotes, the changes in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import version
from itertools import zip_longest
from pathlib import Path

import pytest

from tests.support.documents import blocks
from tools.check_docs import ROOT

PAGE = (ROOT / "docs" / "upstream.md").read_text(encoding="utf-8")
VERSIONS = f"Scrapy {version('Scrapy')} and Protego {version('Protego')}"

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(VERSIONS not in PAGE, reason=f"the page is about other versions than {VERSIONS}"),
]

SCRIPTS = blocks("docs/upstream.md", "python")
OUTPUTS = [re.split(r"^\w+ +", text, flags=re.MULTILINE)[1:] for text in blocks("docs/upstream.md", "text")]
CHANGES = blocks("docs/upstream.md", "diff")
CASES = re.findall(r"^## ([\w ]+):", PAGE, re.MULTILINE)
ROWS = [
    tuple(cell.strip(" `") for cell in row.split(" | "))
    for row in re.findall(r"^\| (\w[^|]* \| `.*) \|$", PAGE, re.MULTILINE)
]
LIBRARY = Path(sysconfig.get_paths()["purelib"])

each = pytest.mark.parametrize(("script", "outputs"), list(zip_longest(SCRIPTS, OUTPUTS)), ids=CASES)


def printed(script: str, library: Path | None = None) -> str:
    """Run a script in a process of its own, and return what it prints.

    :param library: where packages are looked for first.
    """
    environment = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    environment["PYTHONPATH"] = str(library or "")
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


@each
def test_script_of_the_report(script: str, outputs: list[str]) -> None:
    """A script prints with plain Scrapy what the page says; how many of the 20 slip through depends on timing."""
    assert "scrapy_robots_rfc" not in script
    stock, expected = outputs
    if " of 20" in stock:
        found = re.fullmatch(r"fetched: (\d+) of 20\n", printed(script))
        assert found is not None
        assert int(found[1]) > 0
    else:
        assert printed(script) == stock
    assert stock != expected


def test_every_row_has_a_section() -> None:
    """The table and the sections name the same cases, which are those of docs/why.md but for the one of comparison."""
    why = (ROOT / "docs" / "why.md").read_text(encoding="utf-8")
    assert [row[0] for row in ROWS] == CASES
    assert ["plain", *CASES] == re.findall(r"^\| `([\w ]+)` \|", why, re.MULTILINE)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_quoted_line(row: tuple[str, ...]) -> None:
    """A line of Scrapy that the page quotes is that line, in that function."""
    _, file, function, number, quoted, _ = row
    lines = (LIBRARY / file).read_text(encoding="utf-8").splitlines()
    assert lines[int(number) - 1].strip() == quoted
    before = [found[1] for line in lines[: int(number)] if (found := re.match(r" +(?:async )?def (\w+)", line))]
    assert before[-1] == function


def apply(change: str, library: Path) -> None:
    """Apply a change to the packages in a folder. Each of its parts has to fit one place."""
    head, *parts = re.split(r"^@@.*\n", change, flags=re.MULTILINE)
    file = library / re.findall(r"^\+\+\+ b/(\S+)$", head, re.MULTILINE)[0]
    text = file.read_text(encoding="utf-8")
    for part in parts:
        lines = part.splitlines(keepends=True)
        old, new = ("".join(line[1:] for line in lines if line[0] in kept) for kept in (" -", " +"))
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Scrapy and Protego with all changes of the page."""
    library = tmp_path_factory.mktemp("mended")
    for package in ("scrapy", "protego"):
        shutil.copytree(LIBRARY / package, library / package)  # with its bytecode
    for change in CHANGES:
        apply(change, library)
    return library


@each
def test_script_with_the_changes(mended: Path, script: str, outputs: list[str]) -> None:
    """With the changes of the page, all of them together, each script prints what is expected."""
    assert printed(script, mended) == outputs[1]
