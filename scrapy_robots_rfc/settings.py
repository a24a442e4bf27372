"""Every setting, once, in `Settings`: key, type, default, and what is accepted.

`read_settings` reads them all; a value that is not accepted stops the crawl at start. What each
does stands in `docs/settings.md`, which a test compares with the table.
"""

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from scrapy.settings import BaseSettings

from scrapy_robots_rfc.core.agents import ACCEPTED, Agent, agent_of
from scrapy_robots_rfc.core.preferences import uses_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import hidden
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.origins import (
    SCHEME_ACCEPTED,
    SCHEMES,
    Origin,
    Scheme,
    Site,
    named_origin,
    scheme_of,
)
from scrapy_robots_rfc.policy.pacing import Bound, Over

#: What the user wrote, of any type.
Value: TypeAlias = Any

#: The 24-hour limit, in seconds: "crawlers SHOULD NOT use the cached version for more than 24
#: hours" (RFC 9309, 2.4). ROBOTS_CACHE_MAX_AGE is never longer.
MAX_AGE_24_HOURS = 24 * 60 * 60
CACHE = "ROBOTS_CACHE"
CACHE_ACCEPTED = (
    "'memory:', 'sqlite:///PATH' (four slashes before an absolute path), 'redis://HOST:PORT/DB', "
    "'rediss://...', a subclass of scrapy_robots_rfc.Store or the path of one, or None"
)
BACKOFF = "ROBOTS_UNREACHABLE_BACKOFF"
OUR_PARSER = "scrapy_robots_rfc.RfcRobotParser"
PARSER_ACCEPTED = "a class with Scrapy's RobotParser interface, or the path of one"
#: What ROBOTS_TAG_OBEY may name -> the sources of such rules, as stat keys have them.
PAGE_RULES: dict[str, tuple[str, ...]] = {
    "nofollow": ("header", "meta"),
    "noindex": ("header", "meta"),
    "link-nofollow": ("link",),
}
# The option of ROBOTS_REPORT that FEEDS does not have.
_ALLOWED = "allowed"

# Parts of what is accepted, for people.
_DICT = "a dict, or one in JSON, from"
_ORIGIN = "'https://HOST' or 'https://HOST:PORT'"
_SITE = f"'HOST', '*.HOST', 'HOST:PORT', {_ORIGIN}"
_PAGE_RULE = "'nofollow', 'noindex' or 'link-nofollow'"
_FILE = f"the path of a file; its key an origin, {_ORIGIN}, that is there once"
_FEED = "a dict of the feed's options, 'allowed' True or False; its key a URI or a path"
_REPORT = f"a path or URI such as 'robots.jsonl', or {_DICT} it to options as in FEEDS"
_ARCHIVE = (
    "the path of a file, or None; a path needs the package warcio "
    "(pip install 'scrapy-robots-rfc[archive]')"
)

#: What the reader of a setting raises where a value is not accepted.
_WRONG = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


class Setting(NamedTuple):
    """One row of the table.

    :param key: the name in Scrapy's settings.
    :param default: its value if the user sets none.
    :param accepted: what is accepted, for people; a part of the error's text.
    :param read: makes the checked value from the user's, or raises one of `_WRONG`.
    """

    key: str
    default: object
    accepted: str
    read: Callable[[Any], object]


def _number(
    low: float, high: float = math.inf, *, above: bool = False, whole: bool = False
) -> Callable[[Value], float]:
    """Accept a number from `low` to `high`; with `above`, `low` itself is not accepted."""

    def read(value: Value) -> float:
        number = float(value)
        inside = low < number <= high if above else low <= number <= high
        if isinstance(value, bool) or not inside or number == math.inf:
            raise ValueError(value)
        if whole and not number.is_integer():
            raise ValueError(value)
        return int(value) if whole else number

    return read


def _or_none(read: Callable[[Value], Any]) -> Callable[[Value], Any]:
    return lambda value: None if value in (None, "", "None") else read(value)


def _boolean(value: object) -> bool:
    return {"true": True, "1": True, "false": False, "0": False}[str(value).lower()]


def _entries(
    items: Iterable[tuple[Any, Any]], read: Callable[[Any, Any], Any], accepted: str
) -> list[Any]:
    """Read the entries of a list or dict; an error shows one, such as ``[2]``, and not the whole.

    :param items: each has its number or key, and its value.
    :param accepted: what is accepted of an entry, for people.
    """
    found = []
    for key, value in items:
        try:
            found.append(read(key, value))
        except _WRONG:
            raise SettingError(f"[{hidden(key)!r}]", hidden(value), accepted) from None
    return found


def _each(
    read: Callable[[Value], object], accepted: str, into: type = tuple
) -> Callable[[Value], Any]:
    """Read a list, or a string with a list in JSON or with commas, entry by entry."""

    def read_all(value: Value) -> object:
        items = _unpacked(value)
        if isinstance(items, str):
            items = [item for item in items.split(",") if item.strip()]
        if not isinstance(items, (list, tuple)):
            raise TypeError(value)
        return into(_entries(enumerate(items), lambda _, item: read(item), accepted))

    return read_all


def _unpacked(value: Value) -> Value:
    """Return the list that stands in a string as JSON, as on the command line; or the value."""
    return json.loads(value) if isinstance(value, str) and value.lstrip().startswith("[") else value


def _page_rule(value: Value) -> str:
    name = str(value).strip()
    if name not in PAGE_RULES:
        raise ValueError(value)
    return name


def _sites(value: Value, schemes: Mapping[str, Scheme] = SCHEMES) -> object:
    return _each(lambda entry: Site.of(entry, schemes), _SITE)(value)


def _path(value: Value) -> str:
    if not value or not isinstance(value, (str, os.PathLike)):
        raise ValueError(value)
    return os.fspath(value)


def _archive(value: Value) -> str:
    if find_spec("warcio") is None:
        raise ValueError(value)
    return _path(value)


def _dict(value: Value) -> Mapping[Any, Any]:
    items = json.loads(value or "{}") if isinstance(value, str) else value
    if not isinstance(items, Mapping):
        raise TypeError(value)
    return items


def _overrides(value: Value, schemes: Mapping[str, Scheme] = SCHEMES) -> dict[Origin, str]:
    paths: dict[Origin, str] = {}

    def add(key: Value, path: Value) -> None:
        origin = named_origin(str(key), schemes)
        if origin in paths:
            raise ValueError(key)
        paths[origin] = _path(path)

    _entries(_dict(value).items(), add, _FILE)
    return paths


def _schemes(value: Value) -> Mapping[str, Scheme]:
    read = _entries(
        _dict(value).items(),
        lambda name, description: (name, scheme_of(name, description)),
        SCHEME_ACCEPTED,
    )
    schemes = {**SCHEMES, **dict(read)}
    return {name: scheme for name, scheme in schemes.items() if scheme is not None}


def _feed(value: Value) -> dict[str, Mapping[str, Any]]:
    def read(key: Value, options: Value) -> tuple[str, Mapping[str, Any]]:
        _boolean(options.get(_ALLOWED, False))
        return str(key.absolute()) if isinstance(key, Path) else _path(key), options

    if value in (None, "None"):
        return {}
    is_path = isinstance(value, str) and value.strip()[:1] not in ("", "{", "[")
    feeds = {value: {}} if is_path or isinstance(value, os.PathLike) else _dict(value)
    if len(feeds) > 1:
        raise ValueError(value)
    return dict(_entries(feeds.items(), read, _FEED))


# The row of a field of `Settings` stands in the place of its default, whose type is another one.
_setting: Any = Setting


class Settings(NamedTuple):
    """The settings of a crawl, read and checked. Times are seconds, sizes octets."""

    # fmt: off
    obey: bool = _setting("ROBOTSTXT_OBEY", False, "True or False", _boolean)
    parser: Any = _setting("ROBOTSTXT_PARSER", OUR_PARSER, PARSER_ACCEPTED, lambda value: value)
    user_agent: Agent | None = _setting(
        "ROBOTSTXT_USER_AGENT", None,
        f"{ACCEPTED}, or None", _or_none(lambda value: agent_of(_unpacked(value))),
    )
    schemes: Mapping[str, Scheme] = _setting(
        "ROBOTS_SCHEMES", {}, f"{_DICT} schemes to descriptions: {SCHEME_ACCEPTED}", _schemes,
    )
    timeout: float = _setting("ROBOTS_TIMEOUT", 30.0, "a number above 0", _number(0, above=True))
    max_size: int = _setting(
        "ROBOTS_MAX_SIZE", RobotsTxt.MAX_SIZE,
        "a whole number, at least 512000 (RFC 9309, 2.5)", _number(RobotsTxt.MAX_SIZE, whole=True),
    )
    cache: Any = _setting(CACHE, None, CACHE_ACCEPTED, _or_none(lambda value: value))
    cache_max_age: float = _setting(
        "ROBOTS_CACHE_MAX_AGE", float(MAX_AGE_24_HOURS),
        "a number above 0, at most 86400 (RFC 9309, 2.4)", _number(0, MAX_AGE_24_HOURS, above=True),
    )
    cache_min_age: float = _setting(
        "ROBOTS_CACHE_MIN_AGE", 600.0,
        "a number, at least 0, at most ROBOTS_CACHE_MAX_AGE", _number(0, MAX_AGE_24_HOURS),
    )
    cache_size: int = _setting(
        "ROBOTS_CACHE_SIZE", 10_000, "a whole number, at least 1", _number(1, whole=True),
    )
    unreachable_ttl: float = _setting(
        "ROBOTS_UNREACHABLE_TTL", 300.0, "a number above 0", _number(0, above=True),
    )
    unreachable_statuses: frozenset[int] = _setting(
        "ROBOTS_UNREACHABLE_STATUSES", [429],
        "statuses from 400 to 499, as a list or separated by commas",
        _each(_number(400, 499, whole=True), "a status from 400 to 499", frozenset),
    )
    stale_max_age: float = _setting(
        "ROBOTS_STALE_MAX_AGE", float(30 * MAX_AGE_24_HOURS), "a number, at least 0", _number(0),
    )
    unreachable_max_age: float | None = _setting(
        "ROBOTS_UNREACHABLE_MAX_AGE", float(30 * MAX_AGE_24_HOURS),
        "a number above 0, or None", _or_none(_number(0, above=True)),
    )
    crawl_delay_max: float = _setting(
        "ROBOTS_CRAWL_DELAY_MAX", 60.0,
        "a number, at least 0, at most 86400", _number(0, 86_400),
    )
    crawl_delay_over: Over = _setting(
        "ROBOTS_CRAWL_DELAY_OVER", "clamp", "'clamp' or 'forbid'", Over,
    )
    unreachable_backoff: tuple[float, ...] = _setting(
        BACKOFF, [5, 15, 45],
        "a list of numbers, at least 0", _each(_number(0), "a number, at least 0"),
    )
    page_rules: frozenset[str] = _setting(
        "ROBOTS_TAG_OBEY", [],
        f"a list, or a string with commas, of {_PAGE_RULE}",
        _each(_page_rule, _PAGE_RULE, frozenset),
    )
    dry_run: bool = _setting("ROBOTS_DRY_RUN", False, "True or False", _boolean)
    exempt: tuple[Site, ...] = _setting(
        "ROBOTS_EXEMPT", [], f"sites, as a list or separated by commas: {_SITE}", _sites,
    )
    overrides: Mapping[Origin, str] = _setting(
        "ROBOTS_OVERRIDES", {},
        f"{_DICT} origins ({_ORIGIN}), each once, to paths of files", _overrides,
    )
    report: Mapping[str, Mapping[str, Any]] = _setting(
        "ROBOTS_REPORT", {},
        _REPORT, _feed,
    )
    use: tuple[str, ...] | None = _setting(
        "ROBOTS_USE", None,
        "a list of labels, or a string with commas, or None",
        lambda value: None if value == "None" else uses_of(_unpacked(value)),
    )
    archive: str | None = _setting("ROBOTS_ARCHIVE", None, _ARCHIVE, _or_none(_archive))
    # fmt: on

    def __repr__(self) -> str:
        return "Settings(...)"  # the addresses of a store and of a report may have passwords

    @property
    def report_allowed(self) -> bool:
        """Whether the report has a record of every request that is allowed, too."""
        return any(_boolean(options.get(_ALLOWED, False)) for options in self.report.values())

    def forbids(self, bound: Bound) -> bool:
        """Whether pages of a site are forbidden because of the interval that it asks for."""
        too_long = 0 < self.crawl_delay_max < bound.seconds
        return too_long and self.crawl_delay_over is Over.FORBID


#: Name of a field -> its row.
BY_FIELD: dict[str, Setting] = Settings._field_defaults
#: The rows, in the order of the reference page.
TABLE = tuple(BY_FIELD.values())


def read_settings(settings: BaseSettings) -> Settings:
    """Read and check the settings of a crawl.

    :raises SettingError: a value is not accepted; the error names key, value and what is accepted.
    """
    read = Settings(**{name: read_row(row, settings) for name, row in BY_FIELD.items()})
    if read.cache is None and settings["JOBDIR"]:
        read = read._replace(cache=f"sqlite:///{Path(settings['JOBDIR']) / 'robots.sqlite'}")
    if read.cache_min_age > read.cache_max_age:
        row = BY_FIELD["cache_min_age"]
        if settings.getpriority(row.key):
            accepted = f"{row.accepted}, {read.cache_max_age:g}"
            raise SettingError(row.key, settings[row.key], accepted)
        # The user's largest age is below the default smallest one.
        read = read._replace(cache_min_age=read.cache_max_age)
    return read


def read_row(row: Setting, settings: BaseSettings) -> Any:  # noqa: ANN401 - the type stands beside the field
    """Read and check one setting.

    :raises SettingError: its value is not accepted.
    """
    # Scrapy's default of ROBOTSTXT_PARSER is no choice of the user's.
    value = settings[row.key] if settings.getpriority(row.key) else row.default
    read = row.read
    if read in (_sites, _overrides):  # they may name sites of the user's own schemes
        read = partial(read, schemes={**SCHEMES, **read_row(BY_FIELD["schemes"], settings)})
    try:
        return read(value)
    except SettingError as entry:
        raise SettingError(row.key + entry.key, entry.value, entry.accepted) from None
    except _WRONG:
        raise SettingError(row.key, hidden(value), row.accepted) from None
