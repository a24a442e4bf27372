"""docs/upstream.md says the truth about plain Scrapy: its scripts, quoted lines and changes."""

from __future__ import annotations

import json
import re
import shutil
import sysconfig
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.support.documents import ROOT
from tests.support.processes import python

FOLDER = ROOT / "docs" / "upstream"
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

#: What each script prints with plain Scrapy, and with the changes.
OUTPUTS = re.findall(
    r"^- \[`(\S+)`\]\(upstream/\1\) prints `(.+)` instead of `(.+)`\.$", PAGE, re.MULTILINE
)
SCRIPTS = [(FOLDER / name).read_text(encoding="utf-8") for name, _, _ in OUTPUTS]
CHANGES = [
    (FOLDER / name).read_text(encoding="utf-8")
    for name in re.findall(r"^- \[`\S+`\]\(upstream/(\S+\.diff)\) fixes it\.$", PAGE, re.MULTILINE)
]
#: The module that the scripts import, and how.
HEAD = (FOLDER / "local_site.py").read_text(encoding="utf-8")
IMPORT = re.compile(r"^from local_site import .*\n", re.MULTILINE)
CASES = re.findall(r"^## ([\w ]+):", PAGE, re.MULTILINE)
QUOTES = re.findall(r"^- Line (\d+) of `(\S+)`, in `(\w+)`: `(.+)`$", PAGE, re.MULTILINE)
LIBRARY = Path(sysconfig.get_paths()["purelib"])

#: Runs all scripts of its standard input in one process, which can start a reactor only once: each
#: script up to its crawl, then all crawls, then the rest of each script.
TOGETHER = r"""
import io, json, re, sys
from contextlib import redirect_stdout
from scrapy.crawler import CrawlerProcess
from twisted.internet.defer import DeferredList

processes = []
CrawlerProcess.start, start = lambda self: processes.append(self), CrawlerProcess.start
parts = [re.split(r"(?<=\n)(?=print\(.*fetched)", script) for script in json.load(sys.stdin)]
names, outputs = [{} for _ in parts], [io.StringIO() for _ in parts]

def run(which):
    for part, own, output in zip(parts, names, outputs):
        with redirect_stdout(output):
            exec("".join(part[which]), own)

run(slice(0, 1))
from twisted.internet import reactor
DeferredList([process.join() for process in processes]).addCallback(lambda _: reactor.stop())
start(processes[0], stop_after_crawl=False)
run(slice(1, None))
json.dump([output.getvalue() for output in outputs], sys.stdout)
"""


def whole(script: str) -> str:
    """Return a script with its own copy of the module that it imports."""
    return IMPORT.sub(lambda _: HEAD, script)


def printed(script: str, given: str = "", library: Path | None = None) -> str:
    """Run a script in another process, and return what it prints.

    :param given: its standard input.
    :param library: where packages are imported from first.
    """
    done = python("-c", script, given=given, PYTHONPATH=str(library or ""))
    assert done.returncode == 0, done.stderr
    return done.stdout


def all_printed(library: Path | None = None) -> list[str]:
    """Return what each script prints."""
    outputs = json.loads(printed(TOGETHER, json.dumps([*map(whole, SCRIPTS)]), library))
    return [re.sub(r"\b[1-9]\d* of 20", "some of 20", output) for output in outputs]  # timing


STOCK = [re.sub(r"\b[1-9]\d* of 20", "some of 20", f"{stock}\n") for _, stock, _ in OUTPUTS]


def test_scripts_print_what_the_page_says() -> None:
    """Each script runs with plain Scrapy, and prints what the page says."""
    assert "scrapy_robots_rfc" not in "".join([HEAD, *SCRIPTS])
    assert len(SCRIPTS) == len(OUTPUTS) == len(CASES)
    assert dict(zip(CASES, all_printed(), strict=True)) == dict(zip(CASES, STOCK, strict=True))
    assert all(stock != expected for _, stock, expected in OUTPUTS)
    files = {path.name for path in FOLDER.iterdir() if path.suffix == ".diff"}
    assert files == set(re.findall(r"upstream/(\S+\.diff)", PAGE))


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


def test_the_changes_work(tmp_path: Path) -> None:
    """With all changes of the page together, each script prints what is expected."""
    for package in ("scrapy", "protego", "queuelib"):
        shutil.copytree(LIBRARY / package, tmp_path / package)  # with its bytecode
    for change in CHANGES:
        apply(change, tmp_path)
    expected = [f"{expected}\n" for _, _, expected in OUTPUTS]
    assert dict(zip(CASES, all_printed(tmp_path), strict=True)) == dict(
        zip(CASES, expected, strict=True)
    )
