"""The sources of `scrapy robots`: URLs and files, and how much of them is read."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import run
from tests.support.site import Reply, Site

if TYPE_CHECKING:
    from pathlib import Path

FILE = "User-agent: foobot\nDisallow: /*.pdf$\n\nUser-agent: *\nDisallow: /\n"
SITE = "https://a.example"


def long(size: int) -> str:
    """Return a file of this size, which is mostly comments."""
    comment = "#" * 999 + "\n"
    return f"{(FILE + comment * (size // 1000))[: size - 1]}\n"


@pytest.mark.parametrize("source", ["-", "/dev/fd/{}"])
@pytest.mark.parametrize(
    ("line", "says", "code", "warns"),
    [
        (f"check {SITE}/x.pdf --agent foobot --robots", f"disallowed   {SITE}/x.pdf", 1, True),
        ("lint", "1 finding", 3, False),
    ],
)
def test_endless_file(
    line: str, says: str, code: int, warns: bool, source: str, tmp_path: Path
) -> None:
    """Endless files and endless standard input are read up to the size limit. `check` warns."""
    arguments = f"{line} {source}".split()
    ours, its = os.pipe()
    # The pipe is open until the command has ended.
    with os.fdopen(ours), os.fdopen(its, "wb", 0) as given:
        writer = threading.Thread(target=given.write, args=(long(512_000).encode() + b"\n",))
        writer.start()
        done = run(*(word.format(ours) for word in arguments), folder=tmp_path, stdin=ours)
        writer.join()
    cut = "is longer than ROBOTS_MAX_SIZE, so only its first 512000 bytes are read\n"
    assert (done.code, bool(done.err), done.err.endswith(cut)) == (code, warns, warns)
    assert says in done.out


@pytest.mark.parametrize("size", [600_000, 10**30])
def test_size_limit(size: int, tmp_path: Path) -> None:
    """The size limit is ROBOTS_MAX_SIZE, and a huge limit does not take memory."""
    (tmp_path / "long.txt").write_text(long(550_000))
    done = run("lint", "long.txt", "-s", f"ROBOTS_MAX_SIZE={size}", folder=tmp_path)
    assert (done.code, done.out) == (0, "long.txt: 0 findings\n")


HTML = "<!DOCTYPE html>\n<title>a shop</title>\n"


ADVICE = "not a robots.txt; run `scrapy robots lint` on it for details\n"


def test_web_page(tmp_path: Path) -> None:
    """A web page that is given as robots.txt has a warning; the exit code does not change."""
    (tmp_path / "page").write_text(HTML)
    for name, called in (("page", "page"), ("-", "standard input")):
        done = run("check", f"{SITE}/x", f"{SITE}/y", "--robots", name, folder=tmp_path, stdin=HTML)
        warning = f"scrapy robots check: {called} looks like an HTML page, {ADVICE}"
        assert (done.code, done.err) == (0, warning)


@pytest.mark.parametrize(
    ("body", "kind"), [(HTML.encode(), "an HTML page"), (b"\x7fELF\x00\x01\x00", "a binary file")]
)
@pytest.mark.parametrize("topic", ["check", "show"])
def test_other_files_of_a_site(topic: str, body: bytes, kind: str, tmp_path: Path) -> None:
    """A web page or binary file that a site serves as its robots.txt has a warning."""
    with Site({"/robots.txt": Reply(200, body)}) as site:
        done = run(topic, site.url("/x"), folder=tmp_path)
    warning = f"scrapy robots {topic}: {site.url('/robots.txt')} looks like {kind}, {ADVICE}"
    assert (done.code, done.err) == (0, warning)
