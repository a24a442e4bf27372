"""The settings for this package, with their defaults and accepted values.

If a value is not accepted, the crawl does not start. docs/settings.md describes each setting.
"""

import json
import math
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypeVar

from scrapy.settings import BaseSettings
from scrapy.utils.python import global_object_name

from scrapy_robots_rfc.core.agents import ACCEPTED, Agent, parse_agent
from scrapy_robots_rfc.core.preferences import parse_uses
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import masked
from scrapy_robots_rfc.errors import MissingPackageError, SettingError
from scrapy_robots_rfc.policy.origins import (
    SCHEME_ACCEPTED,
    SCHEMES,
    Origin,
    Scheme,
    Site,
    parse_origin,
    scheme_of,
)
from scrapy_robots_rfc.policy.pacing import Bound, CrawlDelayOver

_T = TypeVar("_T")

#: A value set by the user, which may have any type.
Value: TypeAlias = Any

# Seconds in a day, which is the maximum for ROBOTS_CACHE_MAX_AGE: "Crawlers SHOULD NOT use the
# cached version for more than 24 hours" (RFC 9309, 2.4).
_DAY = 86_400
CACHE = "ROBOTS_CACHE"
CACHE_ACCEPTED = (
    "'memory:', 'sqlite:///PATH' (four slashes before an absolute path), 'redis://HOST:PORT/DB', "
    "'rediss://...', a subclass of scrapy_robots_rfc.Store or its import path, or None"
)
BACKOFF = "ROBOTS_UNREACHABLE_BACKOFF"
OUR_PARSER = "scrapy_robots_rfc.RfcRobotParser"
PARSER_ACCEPTED = (
    "a subclass of scrapy.robotstxt.RobotParser or its import path, such as"
    " 'scrapy.robotstxt.ProtegoRobotParser'"
)
#: Entry in ROBOTS_TAG_OBEY -> the places where such a rule may appear, as named in stat keys.
PAGE_RULES: dict[str, tuple[str, ...]] = {
    "nofollow": ("header", "meta"),
    "noindex": ("header", "meta"),
    "link-nofollow": ("link",),
}
# An option that is valid in ROBOTS_REPORT but not in FEEDS.
_ALLOWED = "allowed"

# Text used in descriptions of accepted values.
_LIST = "a list or a comma-separated string of"
_DICT = "a dict or a JSON object that maps"
_ORIGIN = "'https://example.com' or 'https://example.com:8443'"
_SITE = f"such as 'example.com', '*.example.com', 'example.com:8443', {_ORIGIN}"
_PAGE_RULE = "'nofollow', 'noindex' or 'link-nofollow'"
_STATUS = "a status from 400 to 499"
#: The accepted places of a report, and its options.
PLACE_ACCEPTED = "a path or URI, such as 'robots.jsonl'"
FEED_ACCEPTED = "a dict of feed options, such as {'format': 'csv'}"
_REPORT = (
    f"{PLACE_ACCEPTED}, or a dict or JSON object with one entry, such as"
    " {'robots.jsonl': {'allowed': True}}"
)
_FEED = f"{FEED_ACCEPTED}; 'allowed' must be True or False"

# Class that Scrapy calls -> the setting where it belongs.
_PLACES = {
    "Addon": "ADDONS",
    "RfcPageRulesMiddleware": "SPIDER_MIDDLEWARES",
    "RfcRobotsTxtMiddleware": "DOWNLOADER_MIDDLEWARES",
    "RfcUseMiddleware": "DOWNLOADER_MIDDLEWARES",
}
_COMPONENTS = (*dict.fromkeys(_PLACES.values()), "EXTENSIONS", "ITEM_PIPELINES")

#: Exceptions that mean a value is not accepted.
_WRONG = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)


class Setting(NamedTuple):
    """The definition of a setting.

    :param key: the name of the setting.
    :param default: the default value.
    :param accepted: a description of the accepted values, for error messages.
    :param read: a function that converts the user's value, or raises an exception in `_WRONG`.
    """

    key: str
    default: object
    accepted: str
    read: Callable[[Any], object]


def _number(
    low: float, high: float = math.inf, *, above: bool = False, whole: bool = False
) -> Callable[[Value], float]:
    """Return a reader for numbers from `low` to `high`.

    :param above: True to reject `low` itself.
    :param whole: True to only accept integers.
    """

    def read(value: Value) -> float:
        number = float(value)
        is_too_low = number <= low if above else number < low
        if isinstance(value, bool) or is_too_low or number > high or not math.isfinite(number):
            raise ValueError(value)
        if whole and not number.is_integer():
            raise ValueError(value)
        return int(value) if whole else number  # `number` may have been rounded

    return read


def _or_none(read: Callable[[Value], Any]) -> Callable[[Value], Any]:
    """Return a reader that also accepts None."""

    def read_optional(value: Value) -> object:
        return None if value in (None, "", "None") else read(value)

    return read_optional


def _boolean(value: object) -> bool:
    """Read a boolean as on the command line, where it may be ``1`` or ``true``."""
    return {"true": True, "1": True, "false": False, "0": False}[str(value).lower()]


def _entry(key: object, value: Value, accepted: str, read: Callable[[], _T]) -> _T:
    """Read an entry in a list or dict, so that error messages only show this entry.

    :param key: the index or key of the entry.
    :param read: reads the entry, or raises an exception in `_WRONG`.
    """
    try:
        return read()
    except _WRONG:
        raise SettingError(f"[{masked(key)!r}]", masked(value), accepted) from None


def _each(
    read: Callable[[Value], object], accepted: str, into: type = tuple
) -> Callable[[Value], Any]:
    """Return a reader for lists, which may also be JSON or comma-separated strings.

    :param read: the reader for an entry.
    :param accepted: a description of the accepted entries.
    :param into: the type to convert the result to.
    """

    def read_all(value: Value) -> object:
        items = _from_json(value)
        if isinstance(items, str):
            items = [item.strip() for item in items.split(",") if item.strip()]
        if not isinstance(items, (list, tuple)):
            raise TypeError(value)
        return into(
            _entry(index, item, accepted, partial(read, item)) for index, item in enumerate(items)
        )

    return read_all


def _from_json(value: Value) -> Value:
    """Parse a JSON list from the command line, or return any other value unchanged."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        return json.loads(value)
    return value


def _page_rule(value: Value) -> str:
    """Read an entry in ROBOTS_TAG_OBEY."""
    name = str(value).strip()
    if name not in PAGE_RULES:
        raise ValueError(value)
    return name


def _sites(value: Value, schemes: Mapping[str, Scheme] = SCHEMES) -> object:
    """Read ROBOTS_EXEMPT, a list of sites."""
    return _each(lambda entry: Site.of(entry, schemes), f"a site without a path, {_SITE}")(value)


def _uses(value: Value) -> tuple[str, ...] | None:
    """Read ROBOTS_USE, a list of labels or None. An empty string is an empty list."""
    return None if value == "None" else parse_uses(_from_json(value))


def _path(value: Value) -> str:
    """Read a path, which must not be empty."""
    if not value or not isinstance(value, (str, os.PathLike)):
        raise ValueError(value)
    return os.fspath(value)


def _archive(value: Value) -> str:
    """Read ROBOTS_ARCHIVE, the path of a local file, which is written with warcio."""
    path = _path(value)
    if "://" in path:
        raise ValueError(value)
    if find_spec("warcio") is None:
        raise MissingPackageError("ROBOTS_ARCHIVE", value, "warcio")
    return path


def _dict(value: Value) -> Mapping[Any, Any]:
    """Read a dict, or a JSON object from the command line. An empty string is an empty dict."""
    items = json.loads(value or "{}") if isinstance(value, str) else value
    if not isinstance(items, Mapping):
        raise TypeError(value)
    return items


def _overrides(value: Value, schemes: Mapping[str, Scheme] = SCHEMES) -> dict[Origin, str]:
    """Read ROBOTS_OVERRIDES, a dict from origins to paths."""
    # In the errors, " key" follows the name of the setting: "ROBOTS_OVERRIDES key = ...".
    paths: dict[Origin, str] = {}
    for key, path in _dict(value).items():
        try:
            origin = parse_origin(str(key), schemes)
        except _WRONG:
            raise SettingError(" key", masked(key), f"an origin, such as {_ORIGIN}") from None
        if origin in paths:
            raise SettingError(" key", masked(key), f"removed, because {origin} has another entry")
        paths[origin] = _entry(key, path, "the path of a robots.txt file", partial(_path, path))
    return paths


def _schemes(value: Value) -> Mapping[str, Scheme]:
    """Read ROBOTS_SCHEMES, and return its schemes together with the default ones."""
    schemes: dict[str, Scheme] = dict(SCHEMES)
    for name, description in _dict(value).items():
        read = partial(scheme_of, name, description)
        scheme = _entry(name, description, SCHEME_ACCEPTED, read)
        if scheme is None:  # only accepted for the default schemes
            del schemes[name]
        else:
            schemes[name] = scheme
    return schemes


def _feed(value: Value) -> dict[str, Mapping[str, Any]]:
    """Read ROBOTS_REPORT, which is either a path or a dict with a single entry.

    :returns: a dict from the path or URI to the feed options. It is empty if there is no report.
    """
    if value in (None, "None"):
        return {}
    # A string is a path, unless it is empty or looks like JSON. `_dict` reads those.
    is_for_dict = isinstance(value, str) and value.strip()[:1] in ("", "{", "[")
    is_path = isinstance(value, (str, os.PathLike)) and not is_for_dict
    feeds = {value: {}} if is_path else _dict(value)
    if len(feeds) > 1:
        raise ValueError(value)
    options_by_place = {}
    for key, options in feeds.items():
        try:
            # Make a `Path` absolute, as Scrapy does in FEEDS.
            place = str(key.absolute()) if isinstance(key, Path) else _path(key)
        except _WRONG:  # " key" follows the name of the setting
            raise SettingError(" key", masked(key), PLACE_ACCEPTED) from None
        options_by_place[place] = _entry(key, options, _FEED, partial(_feed_options, options))
    return options_by_place


def _feed_options(options: Value) -> Mapping[str, Any]:
    """Read the feed options in ROBOTS_REPORT."""
    _boolean(options.get(_ALLOWED, False))  # only for its error; `report_allowed` reads it again
    return dict(options)


# The default of each field in `Settings` is its definition. `Any` hides that the types differ.
_setting: Any = Setting


class Settings(NamedTuple):
    """A crawl's validated settings. Times are in seconds, and sizes in bytes."""

    # fmt: off
    obey: bool = _setting("ROBOTSTXT_OBEY", False, "True or False", _boolean)
    parser: Any = _setting("ROBOTSTXT_PARSER", OUR_PARSER, PARSER_ACCEPTED, lambda value: value)
    user_agent: Agent | None = _setting(
        "ROBOTSTXT_USER_AGENT", None,
        f"{ACCEPTED}, such as 'foobot', or None",
        _or_none(lambda value: parse_agent(_from_json(value))),
    )
    schemes: Mapping[str, Scheme] = _setting(
        "ROBOTS_SCHEMES", {},
        f"{_DICT} schemes to descriptions, such as {{'gemini': None, 'web': {{'port': 8080}}}}",
        _schemes,
    )
    timeout: float = _setting("ROBOTS_TIMEOUT", 30.0, "a number above 0", _number(0, above=True))
    max_size: int = _setting(
        "ROBOTS_MAX_SIZE", RobotsTxt.MAX_SIZE,
        "a whole number, at least 512000 (RFC 9309, 2.5)", _number(RobotsTxt.MAX_SIZE, whole=True),
    )
    cache: Any = _setting(CACHE, None, CACHE_ACCEPTED, _or_none(lambda value: value))
    cache_max_age: float = _setting(
        "ROBOTS_CACHE_MAX_AGE", float(_DAY),
        "a number above 0, at most 86400 (RFC 9309, 2.4)", _number(0, _DAY, above=True),
    )
    cache_min_age: float = _setting(
        "ROBOTS_CACHE_MIN_AGE", 600.0,
        "a number, at least 0, at most ROBOTS_CACHE_MAX_AGE", _number(0, _DAY),
    )
    cache_size: int = _setting(
        "ROBOTS_CACHE_SIZE", 10_000, "a whole number, at least 1", _number(1, whole=True),
    )
    unreachable_ttl: float = _setting(
        "ROBOTS_UNREACHABLE_TTL", 300.0, "a number above 0", _number(0, above=True),
    )
    same_host_only: bool = _setting(
        "ROBOTS_REDIRECTS", "any", "'any' or 'same-host'",
        lambda value: {"any": False, "same-host": True}[value],
    )
    unreachable_statuses: frozenset[int] = _setting(
        "ROBOTS_UNREACHABLE_STATUSES", [429],
        f"{_LIST} statuses from 400 to 499, such as [403, 429]",
        _each(_number(400, 499, whole=True), _STATUS, frozenset),
    )
    stale_max_age: float = _setting(
        "ROBOTS_STALE_MAX_AGE", float(30 * _DAY), "a number, at least 0", _number(0),
    )
    unreachable_max_age: float | None = _setting(
        "ROBOTS_UNREACHABLE_MAX_AGE", float(30 * _DAY),
        "a number above 0, or None", _or_none(_number(0, above=True)),
    )
    crawl_delay_max: float = _setting(
        "ROBOTS_CRAWL_DELAY_MAX", 60.0,
        "a number, at least 0, at most 86400", _number(0, 86_400),
    )
    crawl_delay_over: CrawlDelayOver = _setting(
        "ROBOTS_CRAWL_DELAY_OVER", "clamp", "'clamp' or 'forbid'", CrawlDelayOver,
    )
    unreachable_backoff: tuple[float, ...] = _setting(
        BACKOFF, [5, 15, 45],
        f"{_LIST} numbers, at least 0, such as [5, 15, 45]",
        _each(_number(0), "a number, at least 0"),
    )
    page_rules: frozenset[str] = _setting(
        "ROBOTS_TAG_OBEY", [],
        f"{_LIST} {_PAGE_RULE}, such as ['nofollow']",
        _each(_page_rule, _PAGE_RULE, frozenset),
    )
    dry_run: bool = _setting("ROBOTS_DRY_RUN", False, "True or False", _boolean)
    exempt: tuple[Site, ...] = _setting(
        "ROBOTS_EXEMPT", [], f"{_LIST} sites, {_SITE}", _sites,
    )
    overrides: Mapping[Origin, str] = _setting(
        "ROBOTS_OVERRIDES", {},
        f"{_DICT} origins to paths, such as {{'https://example.com': 'example.txt'}}", _overrides,
    )
    report: Mapping[str, Mapping[str, Any]] = _setting(
        "ROBOTS_REPORT", {},
        _REPORT, _feed,
    )
    use: tuple[str, ...] | None = _setting(
        "ROBOTS_USE", None,
        f"{_LIST} labels, such as ['train-ai'], or None",
        _uses,
    )
    archive: str | None = _setting(
        "ROBOTS_ARCHIVE", None, "the path of a local file, such as 'robots.warc.gz', or None",
        _or_none(_archive),
    )
    # fmt: on

    def __repr__(self) -> str:
        return "Settings(...)"  # store and report addresses may contain passwords

    @property
    def report_allowed(self) -> bool:
        """True if the report should also contain allowed requests."""
        return any(_boolean(options.get(_ALLOWED, False)) for options in self.report.values())

    def forbids(self, bound: Bound) -> bool:
        """Return whether a site is disallowed because the interval it asks for is too long."""
        too_long = 0 < self.crawl_delay_max < bound.seconds  # 0 means that intervals are ignored
        return too_long and self.crawl_delay_over is CrawlDelayOver.FORBID


#: Field of `Settings` -> its definition.
BY_FIELD: dict[str, Setting] = Settings._field_defaults
#: The definitions, in the same order as in docs/settings.md.
TABLE = tuple(BY_FIELD.values())


def read_settings(settings: BaseSettings) -> Settings:
    """Read and validate a crawl's settings.

    With JOBDIR, files are stored there unless ROBOTS_CACHE is set. The default minimum age is never
    above the maximum.

    :raises SettingError: if a value is not accepted, or one of our classes is in a wrong setting.
    """
    try:
        refuse_wrong_places(settings)
        read = Settings(**{name: read_row(row, settings) for name, row in BY_FIELD.items()})
    except SettingError as error:
        raise error.with_traceback(None) from None  # our stack frames would not help the user
    if read.cache is None and settings["JOBDIR"]:
        read = read._replace(cache=f"sqlite:///{Path(settings['JOBDIR']) / 'robots.sqlite'}")
    if read.cache_min_age > read.cache_max_age:
        row = BY_FIELD["cache_min_age"]
        if _is_set(row, settings):
            # For example "a number, at most ROBOTS_CACHE_MAX_AGE, 600".
            accepted = f"{row.accepted}, {read.cache_max_age:g}"
            raise SettingError(row.key, settings[row.key], accepted)
        # The user only set the maximum, and it is below the default minimum.
        read = read._replace(cache_min_age=read.cache_max_age)
    return read


def refuse_wrong_places(settings: BaseSettings) -> None:
    """Check that our classes are in the right settings. Otherwise Scrapy would never call them.

    :raises SettingError: if one of them is in another setting.
    """
    for name in _COMPONENTS:
        for key, position in settings.getdict(name).items():
            path = key if isinstance(key, str) else global_object_name(key)
            place = _PLACES.get(path.rpartition(".")[2], name)
            if position is not None and place != name and path.startswith("scrapy_robots_rfc."):
                raise SettingError(name, path, f"in {place}")


def read_row(row: Setting, settings: BaseSettings) -> Any:  # noqa: ANN401 - depends on the row
    """Read and validate a setting.

    :raises SettingError: if its value is not accepted.
    """
    value = settings[row.key] if _is_set(row, settings) else row.default
    read = row.read
    # These accept schemes that the user has added, and also disabled ones, so that an entry doesn't
    # become an error when its scheme is disabled.
    if read in (_sites, _overrides):
        read = partial(read, schemes={**SCHEMES, **read_row(BY_FIELD["schemes"], settings)})
    try:
        return read(value)
    except MissingPackageError:  # its message is complete
        raise
    except SettingError as entry:
        # It only names the entry, such as "[0]", so add the name of the setting.
        raise SettingError(row.key + entry.key, entry.value, entry.accepted) from None
    except _WRONG:
        raise SettingError(row.key, masked(value), row.accepted) from None


def _is_set(row: Setting, settings: BaseSettings) -> bool:
    """Return whether the user has set a setting.

    Scrapy's own defaults have the priority 0, for example the one for ROBOTSTXT_PARSER.
    """
    return bool(settings.getpriority(row.key))
