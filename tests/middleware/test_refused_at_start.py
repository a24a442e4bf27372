"""A crawl with a wrong setting ends with an exception whose last line says what is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.support.processes import python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.site import Site

ASYNCIO = "TWISTED_REACTOR=twisted.internet.asyncioreactor.AsyncioSelectorReactor"
SELECT = "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"
NONE = "TWISTED_REACTOR_ENABLED=False"
SPIDER = """\
import scrapy

class Refused(scrapy.Spider):
    name = "refused"
    start_urls = ["http://127.0.0.1:{port}/x"]
    custom_settings = {{
        "ADDONS": {{"scrapy_robots_rfc.Addon": 500}},
        "REMOTE_CONTROL_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
    }}
"""


@pytest.fixture
def project(site: Site, tmp_path: Path) -> Path:
    """Return a project with one spider, which would request the site."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    package = tmp_path / "shop"
    (package / "spiders").mkdir(parents=True)
    for module in ("__init__.py", "spiders/__init__.py"):
        (package / module).touch()
    (package / "settings.py").write_text('SPIDER_MODULES = ["shop.spiders"]\n')
    (package / "spiders" / "refused.py").write_text(SPIDER.format(port=site.port))
    return tmp_path


def printed(log: str) -> list[str]:
    """Return the lines of a log without empty ones, and without noise.

    Scrapy leaves two sessions of aiohttp open if a downloader cannot be made, and aiohttp logs
    that. Twisted before 22.8 passes a traceback to logging that Python 3.11 cannot read.
    """
    log = log.partition("--- Logging error ---")[0]
    noise = ("Unclosed client session", "client_session: ")
    return [line for line in log.splitlines() if line and not any(words in line for words in noise)]


@pytest.mark.parametrize(
    ("command", "runtime"),
    [
        ("crawl refused", ASYNCIO),
        ("runspider shop/spiders/refused.py", SELECT),
        ("crawl refused", NONE),
    ],
)
def test_refused_command_ends_with_the_error(
    site: Site, project: Path, command: str, runtime: str
) -> None:
    """The last line of a Scrapy command names the setting, the value and what is accepted.

    A few lines of Scrapy's own precede it, and nothing is requested.
    """
    wrong = ("-s", "ROBOTS_UNREACHABLE_STATUSES=429,500", "-s", "LOG_LEVEL=WARNING")
    done = python("-m", "scrapy", *command.split(), "-s", runtime, *wrong, folder=project)
    error = (
        "ROBOTS_UNREACHABLE_STATUSES[1] = '500' is not accepted. It must be a status from 400"
        " to 499"
    )
    assert printed(done.stderr)[-1] == f"scrapy_robots_rfc.errors.SettingError: {error}"
    assert done.returncode == 1
    assert site.targets == []
    if runtime != SELECT:  # Twisted logs a traceback twice
        logged = done.stderr.partition("[asyncio] ERROR: ")[2].splitlines()
        # Newer versions of Python mark the place in a line of its own.
        assert len([line for line in logged if line.strip(" ^~")]) <= 20


BEGINNING = """\
from scrapy.crawler import *
from shop.spiders.refused import Refused

class Soon(Refused):
    custom_settings = {**Refused.custom_settings, "ROBOTS_TIMEOUT": "soon"}

class Unwatched(Refused):
    custom_settings = {**Refused.custom_settings, "ROBOTS_TIMEOUT": "never"}
"""
#: Each runs a crawl with a wrong setting and prints its exception. The first two also run one whose
#: result is ignored.
SCRIPTS = {
    "CrawlerProcess": """
process = CrawlerProcess({"LOG_LEVEL": "WARNING"})
process.crawl(Soon).addErrback(lambda failure: print(repr(failure.value)))
process.crawl(Unwatched)
process.start()
""",
    "AsyncCrawlerProcess": """
process = AsyncCrawlerProcess({"LOG_LEVEL": "WARNING"})
task = process.crawl(Soon)
process.crawl(Unwatched)
process.start()
print(repr(task.exception()))
""",
    "AsyncCrawlerProcess without a reactor": """
process = AsyncCrawlerProcess({"TWISTED_REACTOR_ENABLED": False, "LOG_LEVEL": "WARNING"})
task = process.crawl(Soon)
process.start()
print(repr(task.exception()))
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_exception_reaches_the_caller_of_a_script(site: Site, project: Path, name: str) -> None:
    """In a script, the exception reaches the caller.

    If the caller ignores it, the log has its traceback.
    """
    done = python("-c", BEGINNING + SCRIPTS[name], folder=project)
    text = "ROBOTS_TIMEOUT = 'soon' is not accepted. It must be a number above 0"
    assert done.stdout == f'SettingError("{text}")\n'
    assert (done.returncode, site.targets) == (0, [])
    logged = re.findall(
        r"^scrapy_robots_rfc\.errors\.SettingError: (.*)", done.stderr, re.MULTILINE
    )
    assert {*logged} == ({text.replace("soon", "never")} if "Unwatched" in SCRIPTS[name] else set())
