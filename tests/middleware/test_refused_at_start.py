"""How a crawl with a wrong setting ends: under Scrapy's commands in one line, in a script with the exception."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.commands.running import TIMEOUT, environment

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
    """A project with one spider, which would ask the site."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    package = tmp_path / "shop"
    (package / "spiders").mkdir(parents=True)
    for module in ("__init__.py", "spiders/__init__.py"):
        (package / module).touch()
    (package / "settings.py").write_text('SPIDER_MODULES = ["shop.spiders"]\n')
    (package / "spiders" / "refused.py").write_text(SPIDER.format(port=site.port))
    return tmp_path


def python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run Python to its end."""
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def errors(log: str) -> list[str]:
    """The lines of a log at ERROR, without their time, and all lines that continue one.

    Scrapy leaves two sessions of aiohttp open whenever a downloader cannot be made, and aiohttp says so.
    """
    lines = [line for line in log.splitlines() if " INFO: " not in line and " WARNING: " not in line]
    own = [line for line in lines if "Unclosed client session" not in line and "client_session: " not in line]
    return [line.partition(" [")[2] for line in own]


@pytest.mark.parametrize(
    ("command", "runtime"),
    [("crawl refused", ASYNCIO), ("runspider shop/spiders/refused.py", SELECT), ("crawl refused", NONE)],
)
def test_command(site: Site, project: Path, command: str, runtime: str) -> None:
    """Under Scrapy's commands the log has one line on it, the exit code is 1, and nothing is requested."""
    wrong = ("-s", "ROBOTSTXT_UNREACHABLE_STATUSES=429,500", "-s", "LOG_LEVEL=WARNING")
    done = python("-m", "scrapy", *command.split(), "-s", runtime, *wrong, folder=project)
    error = "ROBOTSTXT_UNREACHABLE_STATUSES[1] = '500' is not accepted; it must be a status from 400 to 499"
    assert errors(done.stderr) == [f"scrapy_robots_rfc._runtime] ERROR: The crawl does not start: {error}"]
    assert done.returncode == 1
    assert site.targets == []


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("ROBOTSTXT_PARSER=no.such.Parser", "ModuleNotFoundError: No module named 'no'"),
        ("ROBOTSTXT_CACHE=no.such.Store", "ModuleNotFoundError: No module named 'no'"),
        ("ROBOTSTXT_CACHE=shop.store.Broken", "The crawl does not start: no disk"),
    ],
)
def test_what_is_behind(site: Site, project: Path, setting: str, says: str) -> None:
    """A class that cannot be loaded is told with the reason, and a store that cannot work in its own words."""
    (project / "shop" / "store.py").write_text(
        "from scrapy_robots_rfc.errors import StoreError\n"
        "from tests.support.memory_store import MemoryStore\n"
        "class Broken(MemoryStore):\n"
        "    def __init__(self):\n"
        '        raise StoreError("no disk")\n'
    )
    done = python("-m", "scrapy", "crawl", "refused", "-s", setting, "-s", "LOG_LEVEL=WARNING", folder=project)
    [line] = errors(done.stderr)
    assert says in line
    assert (done.returncode, site.targets) == (1, [])


OTHER_PARTS = {
    "the parser alone": (
        '{"ROBOTSTXT_OBEY": True, "ROBOTSTXT_PARSER": "scrapy_robots_rfc.RfcRobotParser", "ROBOTSTXT_MAX_SIZE": 5}',
        "ROBOTSTXT_MAX_SIZE = 5 is not accepted; it must be a whole number, at least 512000 (RFC 9309, 2.5)",
    ),
    "the spider middleware alone": (
        '{"SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcEarlyMiddleware": 10}, "ROBOTSTXT_EARLY": 7}',
        "ROBOTSTXT_EARLY = 7 is not accepted; it must be True or False",
    ),
}


@pytest.mark.parametrize("name", OTHER_PARTS)
def test_other_parts(site: Site, project: Path, name: str) -> None:
    """The same goes for the parts of this package that work under Scrapy's own middleware."""
    custom, error = OTHER_PARTS[name]
    spider = SPIDER.format(port=site.port).partition("    custom_settings")[0] + f"    custom_settings = {custom}\n"
    (project / "shop" / "spiders" / "refused.py").write_text(spider)
    done = python("-m", "scrapy", "crawl", "refused", "-s", "LOG_LEVEL=WARNING", folder=project)
    assert errors(done.stderr) == [f"scrapy_robots_rfc._runtime] ERROR: The crawl does not start: {error}"]
    assert (done.returncode, site.targets) == (1, [])


#: Each runs a crawl that is refused, and prints what reaches the caller.
SCRIPTS = {
    "CrawlerProcess": """
process = CrawlerProcess({"ROBOTSTXT_TIMEOUT": "soon", "LOG_LEVEL": "WARNING"})
process.crawl(Refused).addErrback(lambda failure: print(repr(failure.value)))
process.start()
""",
    "AsyncCrawlerProcess": """
process = AsyncCrawlerProcess({"ROBOTSTXT_TIMEOUT": "soon", "LOG_LEVEL": "WARNING"})
task = process.crawl(Refused)
process.start()
print(repr(task.exception()))
""",
    "AsyncCrawlerProcess without a reactor": """
settings = {"TWISTED_REACTOR_ENABLED": False, "ROBOTSTXT_TIMEOUT": "soon", "LOG_LEVEL": "WARNING"}
process = AsyncCrawlerProcess(settings)
task = process.crawl(Refused)
process.start()
print(repr(task.exception()))
""",
    "CrawlerRunner": """
from scrapy.utils.reactor import install_reactor
install_reactor("twisted.internet.selectreactor.SelectReactor")
crawled = CrawlerRunner({"ROBOTSTXT_TIMEOUT": "soon", "TWISTED_REACTOR": None}).crawl(Refused)
crawled.addErrback(lambda failure: print(repr(failure.value)))
""",
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_script(site: Site, project: Path, name: str) -> None:
    """In a script the exception reaches the caller, who alone says what is said of it; nothing is requested."""
    script = f"from scrapy.crawler import *\nfrom shop.spiders.refused import Refused\n{SCRIPTS[name]}"
    done = python("-c", script, folder=project)
    expected = "SettingError(\"ROBOTSTXT_TIMEOUT = 'soon' is not accepted; it must be a number above 0\")\n"
    assert done.stdout == expected
    assert errors(done.stderr) == []
    assert (done.returncode, site.targets) == (0, [])


OTHERS = """
from scrapy.crawler import *
from shop.spiders.refused import Refused

class Odd:
    def __init__(self):
        raise ZeroDivisionError("odd")

class Other(Refused):
    custom_settings = {"DOWNLOADER_MIDDLEWARES": {Odd: 1}, "TELNETCONSOLE_ENABLED": False}

process = PROCESS({"ROBOTSTXT_TIMEOUT": "soon", "LOG_LEVEL": "WARNING"})
process.crawl(Refused)
process.crawl(Other)
process.start()
"""


@pytest.mark.parametrize(
    ("kind", "headline"),
    [("CrawlerProcess", "Unhandled error in Deferred:"), ("AsyncCrawlerProcess", "Task exception was never retrieved")],
)
def test_other_errors(project: Path, kind: str, headline: str) -> None:
    """What else stops a crawl at start is logged with its traceback, as without this package."""
    done = python("-c", OTHERS.replace("PROCESS", kind), folder=project)
    assert done.stderr.count("The crawl does not start: ROBOTSTXT_TIMEOUT = 'soon'") == 1
    assert f": {headline}" in done.stderr
    assert "SettingError" not in done.stderr
    assert "ZeroDivisionError: odd" in done.stderr
    assert "Traceback (most recent call last):" in done.stderr
