"""`scrapy robots settings [SPIDER]`: what a crawl would have, and what it would say."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command_line import run, scrapy
from tests.support.documents import block
from tests.support.site import Site

if TYPE_CHECKING:
    from pathlib import Path

OURS = "scrapy_robots_rfc.RfcRobotsTxtMiddleware"
STOCK = "scrapy.downloadermiddlewares.robotstxt.RobotsTxtMiddleware"
ADDON = ("-s", 'ADDONS={"scrapy_robots_rfc.Addon": 500}')
NONE = "TWISTED_REACTOR_ENABLED=False"
SELECT = "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project as the document has it: with the add-on, a store, a typing error, and two spiders."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = shop.settings\n")
    package = tmp_path / "shop"
    (package / "spiders").mkdir(parents=True)
    for module in ("__init__.py", "spiders/__init__.py"):
        (package / module).touch()
    (package / "settings.py").write_text(block("docs/cli.md", "python", "ADDONS"))
    (package / "spiders" / "news.py").write_text(block("docs/cli.md", "python", "class News"))
    (package / "spiders" / "fussy.py").write_text(
        "import scrapy\n"
        "class Fussy(scrapy.Spider):\n"
        '    name = "fussy"\n'
        "    @classmethod\n"
        "    def from_crawler(cls, crawler, site, **others):\n"
        '        crawler.settings.set("ROBOTSTXT_TIMEOUT", 7, "spider")\n'
        "        return super().from_crawler(crawler, **others)\n"
    )
    return tmp_path


def asked(*arguments: str, folder: Path) -> dict[str, Any]:
    """Return the object that the command prints."""
    done = run("settings", *arguments, "--json", folder=folder)
    assert done.err == ""
    found: dict[str, Any] = json.loads(done.out)
    return {**found, "code": done.code}


def setting(found: dict[str, Any], key: str) -> tuple[Any, str]:
    """Return the value of a setting, and where it comes from."""
    (row,) = [row for row in found["settings"] if row["key"] == f"ROBOTSTXT_{key}"]
    return row["value"], row["source"]


def lines(found: dict[str, Any], level: str) -> list[str]:
    """What is said at a level."""
    return [line["text"] for line in found["lines"] if line["level"] == level]


def test_the_document_shows_what_is_printed(folder: Path) -> None:
    """The document shows what is printed, but for what it leaves out; nothing is written, and nobody is asked."""
    before = sorted(folder.rglob("*"))
    done = run("settings", "news", folder=folder)
    shown = block("docs/cli.md", "text", "$ scrapy robots settings news").splitlines()[1:]
    rest = iter(done.lines)
    assert [line for line in shown if line.strip() != "..." and line not in rest] == []
    assert (done.code, done.err) == (1, "")
    assert [path for path in sorted(folder.rglob("*")) if "__pycache__" not in str(path)] == before


@pytest.mark.parametrize("runtime", [SELECT, NONE])
def test_every_runtime_says_the_same(folder: Path, runtime: str) -> None:
    """With another reactor, and with none, the same is said."""
    plain, other = asked("news", folder=folder), asked("news", "-s", runtime, folder=folder)
    assert {**plain, "spider_middlewares": 0} == {**other, "spider_middlewares": 0}


def test_it_says_who_set_a_setting(folder: Path) -> None:
    """Each setting has the value that the crawl has, and who gave it, whoever that is."""
    found = asked("news", "-s", "ROBOTSTXT_TIMEOUT=5", "-s", "ROBOTSTXT_CACHE_MAX_AGE=60", folder=folder)
    assert setting(found, "OBEY") == (True, "add-on")
    assert setting(found, "MAX_SIZE") == (512_000, "default")
    assert setting(found, "CACHE") == ("redis://***@cache.example:6379/0", "project")
    assert setting(found, "CRAWL_DELAY_MAX") == (10, "spider")
    assert setting(found, "TIMEOUT") == ("5", "command line")
    assert setting(found, "CACHE_MIN_AGE") == (60, "ROBOTSTXT_CACHE_MAX_AGE")
    job = asked("-s", "ROBOTSTXT_CACHE=", "-s", "JOBDIR=jobs/1", folder=folder)
    assert setting(job, "CACHE") == ("sqlite:///jobs/1/robots.sqlite", "JOBDIR")
    assert setting(job, "CRAWL_DELAY_MAX") == (60, "default")  # no spider is named
    assert not (folder / "jobs").exists()


def test_a_spider_gets_its_arguments(folder: Path) -> None:
    """A spider that needs arguments gets them, and what it sets as it is made counts; without them one line says so."""
    assert setting(asked("fussy", "-a", "site=x", folder=folder), "TIMEOUT") == (7, "spider")
    done = run("settings", "fussy", folder=folder)
    assert (done.code, done.out) == (2, "")
    assert re.fullmatch(
        r"scrapy robots settings: the spider fussy cannot be made \(TypeError: .*'site'\); "
        r"give it the arguments that it needs with -a NAME=VALUE\n",
        done.err,
    )


def test_without_a_way_to_addons_there_is_a_warning(folder: Path) -> None:
    """Where Scrapy has no way to apply add-ons, a warning says that they are left out."""
    (folder / "shop" / "spiders" / "other.py").write_text(
        "import scrapy\n"
        "class Other(scrapy.Spider):\n"
        '    name = "other"\n'
        "    @classmethod\n"
        "    def from_crawler(cls, crawler):\n"
        "        del crawler.addons\n"
        "        return super().from_crawler(crawler)\n"
    )
    found = asked("other", folder=folder)
    assert any("what add-ons set is not shown here" in line for line in lines(found, "warning"))
    assert setting(found, "OBEY") == (False, "default")


def test_tokens_and_user_agent_are_shown(folder: Path) -> None:
    """Tokens and User-Agent are those of the crawl; a token that site owners cannot know is warned about."""
    found = asked("news", folder=folder)
    assert (found["tokens"], found["user_agent"]) == (["newsbot"], "newsbot/1.0 (+https://news.example/bot)")
    other = asked("news", "-s", "USER_AGENT=Mozilla/5.0", folder=folder)
    assert other["tokens"] == ["newsbot"]  # the spider's own
    assert any("'newsbot' is not in the User-Agent header 'Mozilla/5.0'" in line for line in lines(other, "warning"))


def test_middlewares_stand_in_their_order(folder: Path) -> None:
    """The middlewares stand in their order, ours are marked, and Scrapy's own beside ours is warned about."""
    found = asked(folder=folder)
    positions = [row["position"] for row in found["downloader_middlewares"]]
    assert positions == sorted(positions)
    marked = [row["name"] for kind in ("downloader", "spider") for row in found[f"{kind}_middlewares"] if row["ours"]]
    assert marked == [OURS]
    both = json.dumps({OURS: 100})
    by_hand = asked("-s", "ADDONS={}", "-s", f"DOWNLOADER_MIDDLEWARES={both}", "-s", "ROBOTSTXT_OBEY=1", folder=folder)
    assert (by_hand["obeyed"], by_hand["code"]) == ("yes", 1)
    assert any(line.startswith(f"{STOCK} works beside RfcRobotsTxtMiddleware") for line in lines(by_hand, "warning"))


@pytest.mark.parametrize(
    ("obey", "obeyed"), [("1", "by Scrapy's own middleware"), ("0", "no: ROBOTSTXT_OBEY is not True")]
)
def test_without_our_middleware_there_is_a_warning(tmp_path: Path, obey: str, obeyed: str) -> None:
    """Where the package is installed and not switched on, that is said."""
    found = asked("-s", f"ROBOTSTXT_OBEY={obey}", folder=tmp_path)
    assert (found["obeyed"], found["code"]) == (obeyed, 1)
    assert [line.partition(",")[0] for line in lines(found, "warning")] == [
        "RfcRobotsTxtMiddleware is not in DOWNLOADER_MIDDLEWARES"
    ]


def test_exit_code_is_0_where_nothing_is_odd(tmp_path: Path) -> None:
    """A set-up in which nothing is odd has the exit code 0; what is no warning is said as well."""
    found = asked(*ADDON, "-s", "ROBOTSTXT_EXEMPT=a.example", folder=tmp_path)
    assert (found["code"], lines(found, "warning"), lines(found, "error")) == (0, [], [])
    assert lines(found, "info") == ["ROBOTSTXT_EXEMPT: not asked for their robots.txt are a.example"]


def test_all_that_is_wrong_is_told_at_once(folder: Path) -> None:
    """All that is wrong is told at once, in the words of the error that stops the crawl, with the exit code 2."""
    wrong = ("-s", "ROBOTSTXT_TIMEOUT=x", "-s", "ROBOTSTXT_EXEMPT=a,:")
    found = asked("news", *wrong, folder=folder)
    assert found["code"] == 2
    first, second = lines(found, "error")
    assert first == "ROBOTSTXT_TIMEOUT = 'x' is not accepted; it must be a number above 0"
    assert second.startswith("ROBOTSTXT_EXEMPT[1] = ':' is not accepted; ")
    parser = asked("-s", "ROBOTSTXT_PARSER=no.such.Parser", folder=folder)
    assert parser["code"] == 2
    assert "ModuleNotFoundError: No module named 'no'" in lines(parser, "error")[0]
    [schemes] = lines(asked("-s", 'ROBOTSTXT_SCHEMES={"nope": null}', folder=folder), "error")
    assert schemes.startswith("ROBOTSTXT_SCHEMES['nope'] = None is not accepted; ")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("absent",), "there is no spider absent; those of this project are: fussy, news"),
        (("-s", "LOG_LEVEL=FOO"), "no crawl is possible with these settings: ValueError: Unknown level: 'FOO'"),
        (
            ("-s", 'DOWNLOADER_MIDDLEWARES={"no.such.Part": 5}'),
            "no crawl is possible with these settings: ModuleNotFoundError: No module named 'no'",
        ),
    ],
)
def test_what_cannot_be_shown_is_one_line(folder: Path, arguments: tuple[str, ...], says: str) -> None:
    """What makes no crawl at all is one line, with the exit code 2."""
    done = run("settings", *arguments, folder=folder)
    assert (done.code, done.out, done.err) == (2, "", f"scrapy robots settings: {says}\n")


def test_the_crawl_says_the_same(folder: Path) -> None:
    """What the command warns of is what the crawl logs at its start."""
    with Site() as site:
        warned = lines(asked("news", "-s", "ROBOTSTXT_CACHE=", folder=folder), "warning")
        (folder / "shop" / "spiders" / "news.py").write_text(
            block("docs/cli.md", "python", "class News") + f"    start_urls = [{site.url('/x')!r}]\n"
        )
        options = ("-s", "ROBOTSTXT_CACHE=", "-s", "TELNETCONSOLE_ENABLED=0", "-s", "LOG_ENABLED=True")
        done = scrapy("crawl", "news", *options, folder=folder)
        assert "/x" in site.targets
    logged = re.findall(r"\[scrapy_robots_rfc\.[\w.]+\] WARNING: (.*)", done.err)
    assert logged == warned


@pytest.mark.parametrize("spider", [(), ("news",)])
def test_an_argument_without_a_value_is_refused(spider: tuple[str, ...], folder: Path) -> None:
    """It is refused in the words of `scrapy crawl`; a value may be empty, or have another sign of that kind."""
    done = run("settings", *spider, "-a", "site", folder=folder)
    assert (done.code, done.out) == (2, "")
    assert done.err == "scrapy robots settings: Invalid -a value, use -a NAME=VALUE\n"
    assert "Invalid -a value, use -a NAME=VALUE" in scrapy("crawl", "news", "-a", "site", folder=folder).err
    assert run("settings", *spider, "-a", "site=", "-a", "more=a=b", folder=folder).err == ""
