"""Every setting, once, in `Settings`: key, type, default, check and one line of text; `read_settings` reads them all.

A value that is not accepted stops the crawl at start. A test checks `docs/settings.md` against the
table.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field, fields, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from scrapy.settings import BaseSettings

from scrapy_robots_rfc.core.agents import ACCEPTED, Agent, agent_of
from scrapy_robots_rfc.core.labels import uses_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import hidden
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.caching import MAX_AGE_24_HOURS
from scrapy_robots_rfc.policy.origins import Origin, Site, named_origin
from scrapy_robots_rfc.policy.pacing import Limit, Over
from scrapy_robots_rfc.policy.schemes import SCHEME_ACCEPTED, SCHEMES, Scheme, with_scheme

_DAY = 86_400
#: What the user wrote, of any type.
Value: TypeAlias = Any

CACHE = "ROBOTS_CACHE"
CACHE_ACCEPTED = (
    "'memory:', 'sqlite:///PATH' (four slashes before an absolute path), 'redis://HOST:PORT/DB', 'rediss://...', "
    "a subclass of scrapy_robots_rfc.Store or the path of one, or None"
)
OUR_PARSER = "scrapy_robots_rfc.RfcRobotParser"
BACKOFF = "ROBOTS_UNREACHABLE_BACKOFF"
_SITE = "'HOST', '*.HOST', 'HOST:PORT', 'https://HOST' or 'https://HOST:PORT'"
_KEY = "a key of %s"
#: What ROBOTS_TAG_OBEY may name -> the sources of such rules, as stat keys have them.
PAGE_RULES: dict[str, tuple[str, ...]] = {
    "nofollow": ("header", "meta"),
    "noindex": ("header", "meta"),
    "link-nofollow": ("link",),
}
_PAGE_RULE = "'nofollow', 'noindex' or 'link-nofollow'"
# The option of ROBOTS_REPORT that FEEDS does not have.
_ALLOWED = "allowed"
PARSER_ACCEPTED = "a class with Scrapy's RobotParser interface, or the path of one"


class Setting(NamedTuple):
    """One row of the table.

    :param key: the name in Scrapy's settings.
    :param type: the type of its values, for people.
    :param default: its value if the user sets none.
    :param accepted: the values that are accepted, for people; a part of the error's text.
    :param read: turns what the user wrote into the checked value; raises ValueError, TypeError or
        OverflowError.
    :param text: what it does, in one line.
    """

    key: str
    type: str
    default: object
    accepted: str
    read: Callable[[Any], object]
    text: str


def _setting(*row: Any, shown: bool = True) -> Any:  # noqa: ANN401 - the type stands beside the field
    """Return a field of `Settings`.

    :param row: what a `Setting` has.
    :param shown: whether the value may stand in a `repr`.
    """
    return field(repr=shown, metadata={"row": Setting(*row)})


def _number(
    low: float, high: float = math.inf, *, above: bool = False, whole: bool = False
) -> Callable[[Any], Any]:
    """Return what reads a number from `low` to `high`.

    :param above: whether `low` itself is not accepted.
    """

    def read(value: Value) -> float:
        if isinstance(value, bool):
            raise TypeError(value)
        number: float = int(value) if whole else float(value)
        cut = isinstance(value, float) and value != number
        if not low <= number <= high or (above and number == low) or number == math.inf or cut:
            raise ValueError(value)
        return number

    return read


def _one_of(*words: str) -> Callable[[Any], str]:
    return lambda value: words[
        words.index(str(value).strip())
    ]  # a ValueError where it is none of them


def _boolean(value: object) -> bool:
    text = str(value).lower()
    if text not in ("true", "1", "false", "0"):
        raise ValueError(value)
    return text in ("true", "1")


class _WrongEntryError(ValueError):
    """One entry of a list or a dict is wrong; the error that the user sees names this entry and not the whole value.

    Its arguments are the name of the entry, with ``%s`` for the key of the setting (``%s[2]``), its
    value, and what is accepted of an entry, for people.
    """


def _each(read: Callable[[Any], object], accepted: str, into: type = tuple) -> Callable[[Any], Any]:
    """Return what reads a list, or a string with a list in JSON or with commas, entry by entry.

    :param accepted: what is accepted of an entry, for people.
    :param into: `frozenset` where the order means nothing: then a set is accepted, too.
    """

    def read_all(value: Value) -> object:
        items = _unpacked(value)
        if isinstance(items, str):
            items = [item for item in items.split(",") if item.strip()]
        numbered = isinstance(items, (list, tuple))  # the entries of a set have no numbers
        if not numbered and not (into is frozenset and isinstance(items, Set)):
            raise TypeError(value)
        found = []
        for number, item in enumerate(items):
            try:
                found.append(read(item))
            except (ValueError, TypeError, OverflowError):
                name = f"%s[{number}]" if numbered else "an entry of %s"
                raise _WrongEntryError(name, item, accepted) from None
        return into(found)

    return read_all


def _unpacked(value: object) -> Value:
    """Return the list that stands in a string as JSON, as Scrapy reads it from the command line.

    Or the value.
    """
    return json.loads(value) if isinstance(value, str) and value.lstrip().startswith("[") else value


def _user_agent(value: object) -> Agent | None:
    value = _unpacked(value)
    if isinstance(value, (list, tuple)):
        _each(_string, "a string")(value)
    return agent_of(value)


def _string(value: Value) -> Value:
    if not isinstance(value, (str, bytes)):
        raise TypeError(value)
    return value


def _dict(value: object) -> Mapping[Any, Any]:
    items = json.loads(value or "{}") if isinstance(value, str) else value
    if not isinstance(items, Mapping):
        raise TypeError(value)
    return items


def _sites(value: object, schemes: Mapping[str, Scheme] = SCHEMES) -> object:
    return _each(lambda entry: Site.of(_string(entry), schemes), _SITE)(value)


def _overrides(value: object, schemes: Mapping[str, Scheme] = SCHEMES) -> dict[Origin, str]:
    paths: dict[Origin, str] = {}
    for key, path in _dict(value).items():
        try:
            origin = named_origin(str(key), schemes)
        except ValueError:
            raise _WrongEntryError(
                _KEY, key, "an origin, 'https://HOST' or 'https://HOST:PORT'"
            ) from None
        if origin in paths:
            raise _WrongEntryError(_KEY, key, f"another origin: {origin} is there twice")
        if not path or not isinstance(path, (str, os.PathLike)):
            raise _WrongEntryError(_entry(key), path, "the path of a file")
        paths[origin] = os.fspath(path)
    return paths


def _schemes(value: object) -> Mapping[str, Scheme]:
    schemes = SCHEMES
    for name, description in _dict(value).items():
        try:
            schemes = with_scheme(schemes, name, description)
        except (ValueError, TypeError):
            raise _WrongEntryError(_entry(name), description, SCHEME_ACCEPTED) from None
    return schemes


def _archive(value: object) -> str | None:
    if value in (None, "", "None"):
        return None
    if not isinstance(value, (str, os.PathLike)) or find_spec("warcio") is None:
        raise ValueError(value)
    return os.fspath(value)


def _entry(key: object) -> str:
    return f"%s[{hidden(key)!r}]"


def _feed(value: object) -> dict[str, Mapping[str, Any]]:
    uris: dict[str, Mapping[str, Any]] = {}
    feeds = _dict(value)
    if len(feeds) > 1:
        raise ValueError(value)
    for key, options in feeds.items():
        if not key or not isinstance(key, (str, Path)):
            raise _WrongEntryError(_KEY, key, "a URI or a path")
        if not isinstance(options, Mapping):
            raise _WrongEntryError(
                _entry(key), options, "a dict of the feed's options, as in FEEDS"
            )
        try:
            _boolean(options.get(_ALLOWED, False))
        except ValueError:
            name = f"{_entry(key)}[{_ALLOWED!r}]"
            raise _WrongEntryError(name, options[_ALLOWED], "True or False") from None
        uris[str(key.absolute()) if isinstance(key, Path) else key] = options
    return uris


def _number_or_none(value: object) -> float | None:
    return None if value is None or value in ("", "None", "none") else _number(0, above=True)(value)


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a crawl, read and checked. Times are seconds, sizes octets."""

    # fmt: off
    obey: bool = _setting(
        "ROBOTSTXT_OBEY", "bool", False, "True or False", _boolean,
        "Whether the crawl obeys robots.txt at all. The add-on turns it on where you say nothing.",
    )
    parser: Any = _setting(
        "ROBOTSTXT_PARSER", "class or path", OUR_PARSER, PARSER_ACCEPTED, lambda value: value,
        "The parser. Another one than ours is used with the fetch policy of this package; its verdicts give no rule.",
    )
    user_agent: Agent | None = _setting(
        "ROBOTSTXT_USER_AGENT", "str, list or None", None, f"{ACCEPTED}, or None", _user_agent,
        "Product tokens in order of preference; commas separate them too. None: those of the User-Agent header.",
    )
    schemes: Mapping[str, Scheme] = _setting(
        "ROBOTS_SCHEMES", "dict", {}, f"a dict, or one in JSON, from schemes to descriptions: {SCHEME_ACCEPTED}",
        _schemes, "Which schemes are obeyed beside http and https: ftp and gemini are, unless they are None here.",
    )
    timeout: float = _setting(
        "ROBOTS_TIMEOUT", "seconds", 30.0, "a number above 0", _number(0, above=True),
        "How long a fetch may take, redirects and retries included; waiting in the downloader's queue does not count.",
    )
    max_size: int = _setting(
        "ROBOTS_MAX_SIZE", "octets", RobotsTxt.MAX_SIZE,
        f"a whole number, at least {RobotsTxt.MAX_SIZE} (RFC 9309, 2.5)", _number(RobotsTxt.MAX_SIZE, whole=True),
        "How much of a file is downloaded and counts, after decompression.",
    )
    cache: Any = _setting(
        CACHE, "str, class or None", None, CACHE_ACCEPTED, lambda value: value or None,
        "Where files are kept beyond the process. None: in JOBDIR where there is one, else nowhere.",
        shown=False,  # may hold credentials
    )
    cache_max_age: float = _setting(
        "ROBOTS_CACHE_MAX_AGE", "seconds", float(MAX_AGE_24_HOURS),
        f"a number above 0, at most {MAX_AGE_24_HOURS} (RFC 9309, 2.4)", _number(0, MAX_AGE_24_HOURS, above=True),
        "How long a file, or the knowledge that there is none, is used at most, and where its site says nothing.",
    )
    cache_min_age: float = _setting(
        "ROBOTS_CACHE_MIN_AGE", "seconds", 600.0,
        "a number, at least 0, at most ROBOTS_CACHE_MAX_AGE", _number(0, MAX_AGE_24_HOURS),
        "How long it is used at least, whatever Cache-Control or Expires say.",
    )
    cache_size: int = _setting(
        "ROBOTS_CACHE_SIZE", "origins", 10_000, "a whole number, at least 1", _number(1, whole=True),
        "How many origins are remembered, 2.5 KiB each on average at most; the one that was not used for longest is "
        "dropped first. 1,000 of them stay parsed.",
    )
    unreachable_ttl: float = _setting(
        "ROBOTS_UNREACHABLE_TTL", "seconds", 300.0, "a number above 0", _number(0, above=True),
        "How long an unreachable file keeps its origin closed before it is asked for again.",
    )
    unreachable_statuses: frozenset[int] = _setting(
        "ROBOTS_UNREACHABLE_STATUSES", "list of int", [429],
        "statuses from 400 to 499, as a list or separated by commas",
        _each(_number(400, 499, whole=True), "a status from 400 to 499", frozenset),
        "Which 4xx statuses count as unreachable (complete disallow) and not as unavailable (all allowed).",
    )
    stale_max_age: float = _setting(
        "ROBOTS_STALE_MAX_AGE", "seconds", float(30 * _DAY), "a number, at least 0", _number(0),
        "A file whose refresh is unreachable is obeyed until it was last confirmed this long ago.",
    )
    unreachable_max_age: float | None = _setting(
        "ROBOTS_UNREACHABLE_MAX_AGE", "seconds or None", float(30 * _DAY),
        "a number above 0, or None", _number_or_none,
        "A file that was unreachable for this long counts as unavailable (all allowed). None: never.",
    )
    crawl_delay_max: float = _setting(
        "ROBOTS_CRAWL_DELAY_MAX", "seconds", 60.0, f"a number, at least 0, at most {_DAY}",
        _number(0, _DAY),
        "The longest interval that is kept because a robots.txt asks for it. 0: none is kept.",
    )
    crawl_delay_over: Over = _setting(
        "ROBOTS_CRAWL_DELAY_OVER", "str", "clamp", "'clamp' or 'forbid'", Over,
        "What becomes of a site that asks for more: the maximum is kept (clamp), or no page is fetched (forbid).",
    )
    unreachable_backoff: tuple[float, ...] = _setting(
        BACKOFF, "list of seconds", [5, 15, 45],
        "a list of numbers, at least 0", _each(_number(0), "a number, at least 0"),
        "When an unreachable file is asked for again while its requests wait. Empty: they are disallowed at once.",
    )
    page_rules: frozenset[str] = _setting(
        "ROBOTS_TAG_OBEY", "list of str", [], f"a list, or a string with commas, of {_PAGE_RULE}",
        _each(_one_of(*PAGE_RULES), _PAGE_RULE, frozenset),
        "Which rules of pages (X-Robots-Tag, robots metas, rel of links) are obeyed: requests or items are dropped.",
    )
    dry_run: bool = _setting(
        "ROBOTS_DRY_RUN", "bool", False, "True or False", _boolean,
        "Whether requests that are forbidden are let through: all is decided and counted, nothing is dropped.",
    )
    exempt: tuple[Site, ...] = _setting(
        "ROBOTS_EXEMPT", "list of str", [],
        f"sites, as a list or separated by commas: {_SITE}",
        _sites,
        "Sites that are not asked for their robots.txt: all of their pages may be fetched.",
    )
    overrides: Mapping[Origin, str] = _setting(
        "ROBOTS_OVERRIDES", "dict", {},
        "a dict, or one in JSON, from origins ('https://HOST' or 'https://HOST:PORT'), each once, to paths of files",
        _overrides, "Local files that decide in place of a site's own robots.txt, which is not asked for.",
    )
    report: Mapping[str, Mapping[str, Any]] = _setting(
        "ROBOTS_REPORT", "dict", {},
        "a dict, or one in JSON, from the URI of one feed to its options, both as in FEEDS", _feed,
        "Where a record of every request that is forbidden is written; with 'allowed', of all.",
        shown=False,  # may hold credentials
    )
    use: tuple[str, ...] | None = _setting(
        "ROBOTS_USE", "list of str or None", None, "a list of labels, or a string with commas, or None",
        lambda value: uses_of(_unpacked(value)),
        "What the crawl is for, such as train-ai. Pages whose site refuses all of it are not fetched.",
    )
    archive: str | None = _setting(
        "ROBOTS_ARCHIVE", "path or None", None,
        "the path of a file, or None; a path needs the package warcio (pip install 'scrapy-robots-rfc[archive]')",
        _archive, "The WARC file in which every exchange for a robots.txt is kept. None: none is.",
    )
    # fmt: on

    @property
    def report_allowed(self) -> bool:
        """Whether the report has a record of every request that is allowed, too."""
        return any(_boolean(options.get(_ALLOWED, False)) for options in self.report.values())

    @property
    def limit(self) -> Limit | None:
        """The longest interval between requests that is kept; ``None``: intervals are not kept."""
        return Limit(self.crawl_delay_max, self.crawl_delay_over) if self.crawl_delay_max else None


#: Name of a field -> its row.
BY_FIELD: dict[str, Setting] = {each.name: each.metadata["row"] for each in fields(Settings)}
#: The rows, in the order of the reference page.
TABLE = tuple(BY_FIELD.values())


def read_settings(settings: BaseSettings) -> Settings:
    """Read and check the settings of a crawl.

    :raises SettingError: a value is not accepted; the error names key, value and what is accepted.
    """
    read = Settings(**{name: read_row(row, settings) for name, row in BY_FIELD.items()})
    if read.cache is None and settings["JOBDIR"]:
        read = replace(read, cache=f"sqlite:///{Path(settings['JOBDIR']) / 'robots.sqlite'}")
    if read.cache_min_age <= read.cache_max_age:
        return read
    if settings.getpriority("ROBOTS_CACHE_MIN_AGE"):
        row = BY_FIELD["cache_min_age"]
        raise SettingError(row.key, settings[row.key], f"{row.accepted}, {read.cache_max_age:g}")
    return replace(
        read, cache_min_age=read.cache_max_age
    )  # the user set a longest age below the default smallest one


def read_row(row: Setting, settings: BaseSettings) -> Any:  # noqa: ANN401 - the type stands beside the field
    """Read and check one setting.

    :raises SettingError: its value is not accepted.
    """
    value, read = written(row, settings), row.read
    if read in (_sites, _overrides):  # they may name sites of the user's own schemes
        read = partial(read, schemes={**SCHEMES, **read_row(BY_FIELD["schemes"], settings)})
    try:
        return read(value)
    except _WrongEntryError as wrong:
        name, value, accepted = wrong.args
        raise SettingError(name.replace("%s", row.key, 1), hidden(value), accepted) from None
    except (ValueError, TypeError, OverflowError):
        raise SettingError(row.key, hidden(value), row.accepted) from None


def written(row: Setting, settings: BaseSettings) -> Value:
    """Return what the user wrote, not checked, or the default."""
    if row.key == "ROBOTSTXT_PARSER" and not settings.getpriority(row.key):
        return row.default  # only Scrapy's default stands there: the user did not choose a parser
    if row.key not in settings:
        return row.default
    return settings[row.key]  # settings.get() would take a None of the user's for "not set"
