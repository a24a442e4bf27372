"""Log lines at the start of a crawl about its set-up: misspelt settings, two middlewares for one task, another parser.

`scrapy robots settings` prints the same lines. Values that are not accepted are errors; see `Settings`.
"""

from __future__ import annotations

import logging
from difflib import get_close_matches
from typing import TYPE_CHECKING

from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware

from scrapy_robots_rfc.components import loaded, placed, stands_for
from scrapy_robots_rfc.parser import RfcRobotParser
from scrapy_robots_rfc.settings import BY_FIELD, TABLE, written

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy.settings import BaseSettings

    from scrapy_robots_rfc.settings import Settings

_PREFIXES = ("ROBOTSTXT_", "ROBOTSTAG_")
_MIDDLEWARES = "DOWNLOADER_MIDDLEWARES"


def startup_lines(settings: BaseSettings, read: Settings | None, ours: type) -> Iterator[tuple[int, str]]:
    """Yield the lines, each after its logging level.

    :param settings: of the crawl, with those of its spider and its add-ons.
    :param read: the same settings, checked; ``None``: one of them is wrong.
    :param ours: the class `RfcRobotsTxtMiddleware`.
    """
    for key in unknown(settings):
        text = f"{key} is no setting of Scrapy or of scrapy-robots-rfc, so nothing comes of it"
        yield logging.WARNING, f"{text}; the nearest name of one is {nearest(key)}"
    middlewares = [key for _, key in placed(settings, _MIDDLEWARES)]
    if not any(stands_for(key, ours) for key in middlewares):
        return
    if obeys(settings):
        yield from _beside(middlewares, ours)
        yield from _parser(settings)
    else:
        yield _off(settings)
        if read is not None and read.unheeded:
            yield logging.WARNING, f"{read.unheeded}: nothing comes of it, because ROBOTSTXT_OBEY is not True"


def unknown(settings: BaseSettings) -> list[str]:
    """Return the user's settings that are named like one of ours, and that nothing reads."""
    known = {row.key for row in TABLE}
    return sorted(
        key for key in settings if str(key).startswith(_PREFIXES) and key not in known and settings.getpriority(key)
    )


def nearest(key: str) -> str:
    """Return the setting whose name, without the common prefix, is most like that of an unknown one."""
    names = {row.key.partition("_")[2]: row.key for row in TABLE}
    (name,) = get_close_matches(key.partition("_")[2], names, n=1, cutoff=0)
    return names[name]


def obeys(settings: BaseSettings) -> bool:
    """Whether ROBOTSTXT_OBEY is on; a value that is not accepted is not."""
    try:
        return settings.getbool("ROBOTSTXT_OBEY")
    except ValueError:
        return False


def _beside(middlewares: list[str | type], ours: type) -> Iterator[tuple[int, str]]:
    stock = [key for key in middlewares if stands_for(key, RobotsTxtMiddleware) and not stands_for(key, ours)]
    if stock:
        text = f"{', '.join(map(named, stock))} works beside RfcRobotsTxtMiddleware: each robots.txt is asked for twice"
        yield logging.WARNING, f"{text}, and a request needs the leave of both; set it to None in {_MIDDLEWARES}"


def _off(settings: BaseSettings) -> tuple[int, str]:
    text = f"RfcRobotsTxtMiddleware is in {_MIDDLEWARES}, but ROBOTSTXT_OBEY is not True: robots.txt is not obeyed"
    if settings.getpriority("ROBOTSTXT_OBEY"):  # it is not Scrapy's default, so somebody has set it
        return logging.INFO, text
    return logging.WARNING, f"{text}; set ROBOTSTXT_OBEY = True, or take the middleware out"


def _parser(settings: BaseSettings) -> Iterator[tuple[int, str]]:
    key = written(BY_FIELD["parser"], settings)
    found = loaded(key)
    ours = isinstance(found, type) and issubclass(found, RfcRobotParser) and found.allowed is RfcRobotParser.allowed
    if not ours:
        text = f"ROBOTSTXT_PARSER is {named(key)}, which decides alone: verdicts name no rule and no line"
        yield logging.INFO, text


def named(key: object) -> str:
    """Return the path of a class; anything else as text."""
    return f"{key.__module__}.{key.__qualname__}" if isinstance(key, type) else str(key)
