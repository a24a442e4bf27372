"""`scrapy robots` in projects with broken parts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.command_line import launch, run
from tests.support.site import Site, robots

if TYPE_CHECKING:
    from pathlib import Path


FILE = "User-agent: *\nDisallow: /x\n\nUser-agent: shopbot\nDisallow: /y\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a project with a downloader middleware, and a spider that cannot be imported."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    for package in (tmp_path / "shop", tmp_path / "shop" / "spiders"):
        package.mkdir()
        (package / "__init__.py").touch()
    (tmp_path / "shop" / "spiders" / "one.py").write_text("import no_such_module\n")
    (tmp_path / "shop" / "settings.py").write_text(
        'SPIDER_MODULES = ["shop.spiders"]\n'
        'ROBOTSTXT_USER_AGENT = "shopbot"\n'
        'DOWNLOADER_MIDDLEWARES = {"shop.middlewares.Signed": 50}\n'
    )
    (tmp_path / "shop" / "middlewares.py").write_text(
        "class Signed:\n"
        "    def process_request(self, request):\n"
        '        request.headers["X-Signed"] = "shop"\n'
        '        print("signed")\n'
    )
    return tmp_path


def test_broken_spider(folder: Path) -> None:
    """Commands work in a project with a broken spider, because they do not load spiders.

    The settings of the project apply.
    """
    with Site({"/robots.txt": robots(FILE)}) as site:
        checked = run("check", site.url("/y"), folder=folder)
        others = [
            run(*topic, site.url("/robots.txt"), folder=folder).code
            for topic in (("show",), ("lint",))
        ]
        assert {asked.headers["X-Signed"] for asked in site.asked} == {"shop"}
    assert (checked.code, checked.err) == (1, "")
    assert "disallowed   " in checked.out
    assert "  group      shopbot, named in the file (lines 4-5)" in checked.lines
    assert others == [0, 0]


def test_process_that_cannot_start(tmp_path: Path) -> None:
    """If the reactor cannot be set up, one line says why, and the exit code is 2."""
    setting = "REACTOR_THREADPOOL_MAXSIZE=x"
    done = launch("check", "https://a.example/", "-s", setting, folder=tmp_path)
    why = "ValueError: invalid literal for int() with base 10: 'x'"
    error = f"scrapy robots check: cannot crawl with these settings: {why}\n"
    assert (done.code, done.out, done.err) == (2, "", error)


def test_log_stdout(folder: Path) -> None:
    """With LOG_STDOUT, stdout has the answer without the project's prints."""
    with Site({"/robots.txt": robots(FILE)}) as site:
        done = run("check", site.url("/x"), "-s", "LOG_STDOUT=1", folder=folder)
    assert (done.code, done.err) == (0, "")
    assert done.lines[0] == f"allowed      {site.url('/x')}"
    assert "signed" not in done.out
