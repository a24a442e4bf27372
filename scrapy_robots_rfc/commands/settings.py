"""`scrapy robots settings [SPIDER]`: how a crawl is set up, without running it.

The settings of this package and where each comes from, the middlewares in their order, the product tokens,
and the log lines that the crawl would write at its start, most of which `middleware/startup.py` makes.
"""

from __future__ import annotations

import argparse
import logging
import math
from collections.abc import Mapping
from typing import Any

from scrapy import Spider
from scrapy.crawler import AsyncCrawlerRunner, Crawler
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.settings import SETTINGS_PRIORITIES
from scrapy.settings import Settings as ScrapySettings
from scrapy.utils.log import configure_logging

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc.commands.asking import told
from scrapy_robots_rfc.commands.common import BAD, DOUBT, FAINT, GOOD, NO_ANSWER, STRONG, Console, Failed
from scrapy_robots_rfc.core.text import hidden, printable
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.overrides import announcements
from scrapy_robots_rfc.fetching.parsed import load_parser
from scrapy_robots_rfc.middleware import startup
from scrapy_robots_rfc.middleware.downloader import RfcRobotsTxtMiddleware
from scrapy_robots_rfc.middleware.page_rules import RfcPageRulesMiddleware
from scrapy_robots_rfc.middleware.startup import placed, stands_for
from scrapy_robots_rfc.middleware.user_agent import UserAgents, default_header
from scrapy_robots_rfc.settings import TABLE, Settings, read_row, read_settings, written

HELP = "Show how a crawl is set up: the settings and where each comes from, the middlewares, what is odd about them."

#: Scrapy's priorities, in words.
_SOURCES = {value: name for name, value in SETTINGS_PRIORITIES.items()} | {
    SETTINGS_PRIORITIES["addon"]: "add-on",
    SETTINGS_PRIORITIES["cmdline"]: "command line",
}
_ABSENT = (
    "RfcRobotsTxtMiddleware is not in DOWNLOADER_MIDDLEWARES, so nothing comes of the settings of this package; "
    'set ADDONS = {"scrapy_robots_rfc.Addon": 500}'
)
_LEVELS = {"error": BAD, "warning": DOUBT, "info": FAINT}


def add_arguments(topic: argparse.ArgumentParser) -> None:
    """Add what a command line of this topic may have."""
    topic.add_argument("spider", metavar="SPIDER", nargs="?", help="a spider of the project, whose own settings count")
    topic.add_argument(
        "-a", dest="spider_arguments", metavar="NAME=VALUE", action="append", default=[], help="an argument of it"
    )
    topic.add_argument("--json", action="store_true", help="one object, in one line")


def run(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Print the set-up; the exit code is 0, 1 where a crawl would warn, 2 where none would start."""
    try:
        configure_logging(settings)
        found = _set_up(_crawler(settings, opts), opts.spider)
    except Exception as error:  # what the project's settings name raises what it likes
        raise told(error) from error
    if opts.json:
        console.say_json(found)
    else:
        _show(found, console)
    levels = {line["level"] for line in found["lines"]}
    return NO_ANSWER if "error" in levels else 1 if "warning" in levels else 0


def _crawler(settings: ScrapySettings, opts: argparse.Namespace) -> Crawler:
    """Return a crawler that has the settings of the project and of the spider, as when its crawl starts."""
    if not all("=" in argument for argument in opts.spider_arguments):
        raise Failed("Invalid -a value, use -a NAME=VALUE")
    if opts.spider is None:
        settings.set("SPIDER_LOADER_CLASS", "scrapy.spiderloader.DummySpiderLoader", "cmdline")
        return AsyncCrawlerRunner(settings).create_crawler(Spider)
    runner = AsyncCrawlerRunner(settings)
    try:
        crawler = runner.create_crawler(opts.spider)
    except KeyError:
        known = ", ".join(sorted(runner.spider_loader.list())) or "none"
        raise Failed(f"there is no spider {opts.spider}; those of this project are: {known}") from None
    arguments = dict(argument.split("=", 1) for argument in opts.spider_arguments)
    try:
        crawler.spider = crawler.spidercls.from_crawler(crawler, **arguments)
    except Exception as error:
        text = f"the spider {opts.spider} cannot be made ({type(error).__name__}: {error})"
        raise Failed(f"{text}; give it the arguments that it needs with -a NAME=VALUE") from error
    return crawler


def _set_up(crawler: Crawler, spider: str | None) -> dict[str, Any]:
    """Return all that is shown, as an object of JSON."""
    settings = crawler.settings
    with_addons = _scrapy.apply_addons(crawler)
    read, lines = _read(settings)
    lines += startup.startup_lines(settings, read, RfcRobotsTxtMiddleware)
    downloader = _middlewares(settings, "DOWNLOADER_MIDDLEWARES")
    if not any(row["ours"] for row in downloader):
        lines.append((logging.WARNING, _ABSENT))
    if not with_addons:
        text = "Crawler.addons.load_settings() is missing in this Scrapy, so what add-ons set is not shown here"
        lines.append((logging.WARNING, text))
    tokens = None
    try:
        naming = UserAgents(crawler, None if read is None else read.user_agent)
        if read is not None:
            lines += announcements(read)
            tokens = naming.default().tokens
            if (advice := naming.advice()) is not None:
                lines.append((logging.WARNING, advice))
            startup.check_page_rules(read, settings)
            if read.obey:
                load_parser(read, crawler)
    except SettingError as error:
        lines.append((logging.ERROR, str(error)))
    lines.sort(key=lambda line: -line[0])
    header = default_header(settings, crawler.spider) or ""
    unknown = [_row(key, settings[key], settings) for key in startup.unknown(settings)]
    return {
        "spider": spider,
        "obeyed": _obeyed(settings),
        "tokens": tokens,
        "user_agent": header.decode("utf-8", "replace") if isinstance(header, bytes) else str(header),
        "settings": [_row(row.key, written(row, settings), settings, read) for row in TABLE],
        "unknown": [{**row, "nearest": startup.nearest(row["key"])} for row in unknown],
        "downloader_middlewares": downloader,
        "spider_middlewares": _middlewares(settings, "SPIDER_MIDDLEWARES"),
        "lines": [{"level": logging.getLevelName(level).lower(), "text": text} for level, text in lines],
    }


def _read(settings: ScrapySettings) -> tuple[Settings | None, list[tuple[int, str]]]:
    """Return the settings of this package, or what is wrong with each of them, and not with the first one only."""
    errors: list[tuple[int, str]] = []
    for row in TABLE:
        try:
            read_row(row, settings)
        except SettingError as error:
            if (logging.ERROR, str(error)) not in errors:  # the schemes are read for each setting that may name them
                errors.append((logging.ERROR, str(error)))
    try:
        return read_settings(settings), errors
    except SettingError as error:
        return None, errors or [(logging.ERROR, str(error))]  # each is accepted, but two do not go together


def _row(key: str, value: object, settings: ScrapySettings, read: Settings | None = None) -> dict[str, Any]:
    """Return a setting, and who set it; where nobody did, its value may follow from another setting."""
    priority = settings.getpriority(key) or 0
    source = _SOURCES.get(priority, f"priority {priority}")
    if key == "ROBOTSTXT_CACHE" and read is not None and read.cache is not None and not value:
        value, source = read.cache, "JOBDIR"
    elif key == "ROBOTSTXT_CACHE_MIN_AGE" and read is not None and not priority and read.cache_min_age != value:
        value, source = read.cache_min_age, "ROBOTSTXT_CACHE_MAX_AGE"
    elif isinstance(value, float) and value.is_integer():
        value = int(value)  # as the documents have it
    return {"key": key, "value": _plain(hidden(value)), "source": source}


def _middlewares(settings: ScrapySettings, name: str) -> list[dict[str, Any]]:
    """Return the middlewares that are on, in their order, and whether each is one of this package."""
    ours = (RfcRobotsTxtMiddleware, RfcPageRulesMiddleware)
    return [
        {"position": position, "name": startup.path_of(key), "ours": any(stands_for(key, kind) for kind in ours)}
        for position, key in placed(settings, name)
    ]


def _obeyed(settings: ScrapySettings) -> str:
    """Return whether and by whom robots.txt is obeyed."""
    if not startup.obeys(settings):
        return "no: ROBOTSTXT_OBEY is not True"
    for kind, obeyed in ((RfcRobotsTxtMiddleware, "yes"), (RobotsTxtMiddleware, "by Scrapy's own middleware")):
        if any(stands_for(key, kind) for _, key in placed(settings, "DOWNLOADER_MIDDLEWARES")):
            return obeyed
    return "no: there is no middleware that does it"


def _plain(value: object) -> object:
    """Return a value as JSON has it; what it has no kind for is text."""
    if isinstance(value, Mapping):
        return {startup.path_of(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, (str, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return startup.path_of(value)


def _show(found: dict[str, Any], console: Console) -> None:
    """Print what is found; of this package's middlewares, each is marked."""
    console.fact("spider", found["spider"] or "none is named: the settings of the project alone")
    console.fact("obeyed", found["obeyed"])
    if found["tokens"] is not None:
        console.fact("tokens", ", ".join(found["tokens"]) or "none: only the group for all (*) applies")
    console.fact("User-Agent", found["user_agent"] or "none is sent")
    for title, kind in (("settings", "settings"), ("unknown settings", "unknown")):
        if found[kind]:
            console.say(f"\n{console.paint(title, STRONG)}")
        for row in found[kind]:
            line = printable(f"  {row['key']:<33} {row['source']:<12} {row['value']!r}")
            console.say(console.paint(line, FAINT) if row["source"] == "default" else line)
    for kind in ("downloader", "spider"):
        console.say(f"\n{console.paint(f'{kind} middlewares', STRONG)}")
        for row in found[f"{kind}_middlewares"]:
            line = printable(f"{'>' if row['ours'] else ' '} {row['position']:>5g}  {row['name']}")
            console.say(console.paint(line, GOOD) if row["ours"] else line)
    if found["lines"]:
        console.say()
    for line in found["lines"]:
        console.say(f"{console.paint(line['level'], _LEVELS[line['level']])}: {printable(line['text'])}")
