"""docs/upstream.md says the truth about plain Scrapy.

Its scripts, the lines that it quotes, the changes in it.
"""

from __future__ import annotations

import json
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
VERSIONS = (
    f"Scrapy {version('Scrapy')}, Protego {version('Protego')} and queuelib {version('queuelib')}"
)

pytestmark = [
    pytest.mark.once,
    pytest.mark.skipif(
        VERSIONS not in PAGE, reason=f"the page is about other versions than {VERSIONS}"
    ),
]

SCRIPTS = blocks("docs/upstream.md", "python")
OUTPUTS = [
    re.split(r"^\w+ +", text, flags=re.MULTILINE)[1:] for text in blocks("docs/upstream.md", "text")
]
CHANGES = blocks("docs/upstream.md", "diff")
CASES = re.findall(r"^## ([\w ]+):", PAGE, re.MULTILINE)
#: Line, file, function and words of what each case quotes.
QUOTES = re.findall(r"^- Line (\d+) of `(\S+)`, in `(\w+)`: `(.+)`$", PAGE, re.MULTILINE)
#: Case, projects, kind and number, as the table has them, and as the sections do.
TABLE = re.findall(r"^\| ([\w ]+) \| ([\w, ]+) \| (\w+) \| (\w+) \|$", PAGE, re.MULTILINE)[1:]
FACTS = re.findall(r"^- For ([\w ]+): a (\w+)\. Number: .*?(none|\d+)\b", PAGE, re.MULTILINE)
LIBRARY = Path(sysconfig.get_paths()["purelib"])

each = pytest.mark.parametrize(
    ("script", "outputs"), list(zip_longest(SCRIPTS, OUTPUTS)), ids=CASES
)


#: Runs all scripts of its standard input in one process, since only one start of a reactor is had
#: in each: every script up to its start, then one start for the crawls of all, then what follows it
#: in every script.
TOGETHER = """
import io, json, sys
from contextlib import redirect_stdout
from twisted.internet.defer import DeferredList

parts = [script.partition("process.start()\\n") for script in json.load(sys.stdin)]
names, outputs = [{} for _ in parts], [io.StringIO() for _ in parts]

def run(which):
    for part, own, output in zip(parts, names, outputs):
        with redirect_stdout(output):
            exec(part[which], own)

run(0)
from twisted.internet import reactor
processes = [own["process"] for own in names if "process" in own]
DeferredList([process.join() for process in processes]).addCallback(lambda _: reactor.stop())
processes[0].start(stop_after_crawl=False)
run(2)
json.dump([output.getvalue() for output in outputs], sys.stdout)
"""


def printed(script: str, given: str = "", library: Path | None = None) -> str:
    """Run a script in a process of its own, and return what it prints.

    :param given: its standard input.
    :param library: where packages are looked for first.
    """
    environment = {
        key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")
    }
    environment["PYTHONPATH"] = str(library or "")
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        input=given,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    return done.stdout


def all_printed(library: Path | None = None) -> dict[str, str]:
    """Return what each script prints."""
    return dict(
        zip(SCRIPTS, json.loads(printed(TOGETHER, json.dumps(SCRIPTS), library)), strict=True)
    )


@pytest.fixture(scope="module")
def plain() -> dict[str, str]:
    """What the scripts print with plain Scrapy."""
    return all_printed()


@each
def test_script_of_the_report(plain: dict[str, str], script: str, outputs: list[str]) -> None:
    """A script prints with plain Scrapy what the page says."""
    assert "scrapy_robots_rfc" not in script
    stock, expected = outputs
    assert without_number(plain[script]) == without_number(stock)
    assert stock != expected
    assert plain[script] != expected


def without_number(output: str) -> str:
    """Return an output without how many of the 20 slip through, if any do, which depends on
    timing.
    """
    return re.sub(r"\b[1-9]\d* of 20", "some of 20", output)


def test_script_alone() -> None:
    """A script that is run as a reader runs it, alone in a process, prints the same and ends."""
    script, (stock, _) = SCRIPTS[0], OUTPUTS[0]
    assert "process.start()" in script
    assert without_number(printed(script)) == without_number(stock)


def test_every_row_has_a_section() -> None:
    """The cases are those of docs/demo.md, without the one of comparison, and one more."""
    rows = (ROOT / "docs" / "demo.md").read_text(encoding="utf-8")
    assert ["plain", *CASES] == [*re.findall(r"^\| `([\w ]+)` \|", rows, re.MULTILINE), "killed"]


def test_table_says_what_the_sections_say() -> None:
    """A row has the projects, the kind and the number of its section, which is filed alone."""
    sections = zip(CASES, FACTS, strict=True)
    facts = [(case, who.replace(" and ", ", "), *others) for case, (who, *others) in sections]
    assert facts == TABLE


def test_number_is_that_of_its_link() -> None:
    """A link to the tracker leads to the number that it shows."""
    links = re.findall(r"\[[\w ]*?(\d+)\]\(\S+/(?:issues|pull)/(\d+)\)", PAGE)
    assert {shown for shown, _ in links} == {"892", "2014", "2443", "3969", "6931", "7830", "7873"}
    assert [link for link in links if link[0] != link[1]] == []


def test_what_goes_is_there() -> None:
    """Each file of ours that would go is a file of the package."""
    named = re.findall(r"`(scrapy_robots_rfc/\S+\.py)`", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("quote", QUOTES, ids=CASES)
def test_quoted_line(quote: tuple[str, ...]) -> None:
    """A line of Scrapy that the page quotes is that line, in that function."""
    number, file, function, quoted = quote
    lines = (LIBRARY / file).read_text(encoding="utf-8").splitlines()
    assert lines[int(number) - 1].strip() == quoted
    defined = (re.match(r" +(?:async )?def (\w+)", line) for line in lines[: int(number)])
    assert [found[1] for found in defined if found][-1] == function


def apply(change: str, library: Path) -> None:
    """Apply a change to the packages in a folder. Each of its parts has to fit one place."""
    head, *parts = re.split(r"^@@.*\n", change, flags=re.MULTILINE)
    file = library / re.findall(r"^\+\+\+ b/(\S+)$", head, re.MULTILINE)[0]
    text = file.read_text(encoding="utf-8")
    for part in parts:
        lines = part.splitlines(keepends=True)
        old, new = (
            "".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +")
        )
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def mended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the scripts print with packages that have all changes of the page."""
    library = tmp_path_factory.mktemp("mended")
    for package in ("scrapy", "protego", "queuelib"):
        shutil.copytree(LIBRARY / package, library / package)  # with its bytecode
    for change in CHANGES:
        apply(change, library)
    return all_printed(library)


@each
def test_script_with_the_changes(mended: dict[str, str], script: str, outputs: list[str]) -> None:
    """With the changes of the page, all of them together, each script prints what is expected."""
    assert mended[script] == outputs[1]
