"""The settings: accepted values, refused values, and errors."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import MissingPackageError, SettingError, StoreError
from scrapy_robots_rfc.policy import origins
from scrapy_robots_rfc.policy.origins import (
    SCHEME_ACCEPTED,
    SCHEMES,
    Answers,
    Dialect,
    Origin,
    Scheme,
)
from scrapy_robots_rfc.policy.pacing import CrawlDelayOver
from scrapy_robots_rfc.settings import OUR_PARSER, TABLE, Settings, read_settings
from tests.support.crawling import crawl
from tests.support.stores import MemoryStore

if TYPE_CHECKING:
    from tests.support.site import Site

A = Origin("https", "a.example", 443)
PROTEGO = "scrapy.robotstxt.ProtegoRobotParser"
SITES = tuple(map(origins.Site.of, ("a.example", "*.b.example")))
TITAN = {"port": 8, "answers": "gemini", "rules": "gemini"}
TITANS = {**SCHEMES, "titan": Scheme(8, Answers.GEMINI, Dialect.GEMINI)}


def without(name: str) -> dict[str, Scheme]:
    """Return the table of schemes without one."""
    return {other: scheme for other, scheme in SCHEMES.items() if other != name}


def test_defaults() -> None:
    """If the user sets nothing, every value is the documented default."""
    assert read_settings(ScrapySettings()) == Settings(
        obey=False,
        parser=OUR_PARSER,
        user_agent=None,
        schemes=SCHEMES,
        timeout=30,
        max_size=512_000,
        cache=None,
        cache_max_age=86_400,
        cache_min_age=600,
        cache_size=10_000,
        unreachable_ttl=300,
        same_host_only=False,
        unreachable_statuses=frozenset({429}),
        stale_max_age=2_592_000,
        unreachable_max_age=2_592_000,
        crawl_delay_max=60,
        crawl_delay_over=CrawlDelayOver.CLAMP,
        unreachable_backoff=(5, 15, 45),
        page_rules=frozenset(),
        dry_run=False,
        exempt=(),
        overrides={},
        report={},
        use=None,
        archive=None,
    )


@pytest.mark.parametrize(
    ("key", "value", "field", "expected"),
    [
        ("ROBOTSTXT_OBEY", "1", "obey", True),
        ("ROBOTSTXT_OBEY", "false", "obey", False),
        ("ROBOTSTXT_PARSER", PROTEGO, "parser", PROTEGO),
        ("ROBOTS_TAG_OBEY", "nofollow, noindex", "page_rules", {"nofollow", "noindex"}),
        ("ROBOTS_TAG_OBEY", ["noindex", "noindex"], "page_rules", frozenset({"noindex"})),
        ("ROBOTSTXT_USER_AGENT", "FooBot", "user_agent", Agent(("FooBot",), "FooBot")),
        ("ROBOTSTXT_USER_AGENT", ["A", "B", "A"], "user_agent", Agent(("A", "B"), "A")),
        ("ROBOTSTXT_USER_AGENT", "A-news, A", "user_agent", Agent(("A-news", "A"), "A-news")),
        ("ROBOTSTXT_USER_AGENT", "Foo/1.0 (a, b)", "user_agent", Agent(("Foo",), "Foo/1.0 (a, b)")),
        ("ROBOTSTXT_USER_AGENT", "", "user_agent", None),
        ("ROBOTS_TIMEOUT", "2.5", "timeout", 2.5),
        ("ROBOTS_MAX_SIZE", "1000000", "max_size", 1_000_000),
        ("ROBOTS_CACHE", "memory:", "cache", "memory:"),
        ("ROBOTS_CACHE_MAX_AGE", 60, "cache_min_age", 60),
        ("ROBOTS_CACHE_MIN_AGE", "0", "cache_min_age", 0),
        ("JOBDIR", "jobs/1", "cache", "sqlite:///jobs/1/robots.sqlite"),
        ("JOBDIR", "/jobs/1/", "cache", "sqlite:////jobs/1/robots.sqlite"),
        ("ROBOTS_UNREACHABLE_STATUSES", "401, 403", "unreachable_statuses", frozenset({401, 403})),
        ("ROBOTS_UNREACHABLE_STATUSES", "[401, 403]", "unreachable_statuses", {401, 403}),
        ("ROBOTS_UNREACHABLE_BACKOFF", " [1, 2.5]", "unreachable_backoff", (1, 2.5)),
        ("ROBOTS_EXEMPT", '["a.example"]', "exempt", SITES[:1]),
        ("ROBOTSTXT_USER_AGENT", '["A-news", "A"]', "user_agent", Agent(("A-news", "A"), "A-news")),
        ("ROBOTS_USE", '["train-ai"]', "use", ("train-ai",)),
        ("ROBOTS_TAG_OBEY", '["noindex"]', "page_rules", frozenset({"noindex"})),
        ("ROBOTS_REDIRECTS", "any", "same_host_only", False),
        ("ROBOTS_REDIRECTS", "same-host", "same_host_only", True),
        ("ROBOTS_UNREACHABLE_STATUSES", [], "unreachable_statuses", frozenset()),
        ("ROBOTS_STALE_MAX_AGE", 0, "stale_max_age", 0),
        ("ROBOTS_UNREACHABLE_MAX_AGE", None, "unreachable_max_age", None),
        ("ROBOTS_UNREACHABLE_MAX_AGE", "None", "unreachable_max_age", None),
        ("ROBOTS_CACHE", "None", "cache", None),
        ("ROBOTS_USE", "None", "use", None),
        ("ROBOTS_CRAWL_DELAY_MAX", "0.5", "crawl_delay_max", 0.5),
        ("ROBOTS_CRAWL_DELAY_OVER", "forbid", "crawl_delay_over", CrawlDelayOver.FORBID),
        ("ROBOTS_UNREACHABLE_BACKOFF", "", "unreachable_backoff", ()),
        ("ROBOTS_UNREACHABLE_BACKOFF", "1, 2.5", "unreachable_backoff", (1, 2.5)),
        ("ROBOTS_DRY_RUN", "1", "dry_run", True),
        ("ROBOTS_EXEMPT", "a.example, *.b.example", "exempt", SITES),
        ("ROBOTS_EXEMPT", "", "exempt", ()),
        ("ROBOTS_OVERRIDES", {"https://a.example/": Path("a.txt")}, "overrides", {A: "a.txt"}),
        ("ROBOTS_OVERRIDES", '{"https://A.example:443": "a.txt"}', "overrides", {A: "a.txt"}),
        ("ROBOTS_OVERRIDES", "", "overrides", {}),
        ("ROBOTS_SCHEMES", '{"ftp": null}', "schemes", without("ftp")),
        ("ROBOTS_SCHEMES", {"web": {"port": 8}}, "schemes", {**SCHEMES, "web": Scheme(8)}),
        ("ROBOTS_SCHEMES", {"titan": TITAN}, "schemes", TITANS),
    ],
)
def test_accepted(key: str, value: Any, field: str, expected: object) -> None:
    """A value may also be a string from the command line."""
    assert getattr(read_settings(ScrapySettings({key: value})), field) == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("ROBOTSTXT_OBEY", "perhaps"),
        ("ROBOTSTXT_OBEY", []),
        ("ROBOTSTXT_USER_AGENT", 7),
        ("ROBOTSTXT_USER_AGENT", ["a", 7]),
        ("ROBOTS_TIMEOUT", 0),
        ("ROBOTS_TIMEOUT", "soon"),
        ("ROBOTS_TIMEOUT", True),
        ("ROBOTS_TIMEOUT", float("inf")),
        ("ROBOTS_TIMEOUT", float("nan")),
        ("ROBOTS_MAX_SIZE", 511_999),
        ("ROBOTS_MAX_SIZE", 600_000.5),
        ("ROBOTS_CACHE_MAX_AGE", 86_401),
        ("ROBOTS_CACHE_MAX_AGE", 0),
        ("ROBOTS_CACHE_MIN_AGE", -1),
        ("ROBOTS_CACHE_MIN_AGE", 86_401),
        ("ROBOTS_CACHE_SIZE", 0),
        ("ROBOTS_UNREACHABLE_TTL", 0),
        ("ROBOTS_UNREACHABLE_STATUSES", 429),
        ("ROBOTS_UNREACHABLE_STATUSES", {429}),
        ("ROBOTS_REDIRECTS", "same-site"),
        ("ROBOTS_REDIRECTS", ["any"]),
        ("ROBOTS_STALE_MAX_AGE", -1),
        ("ROBOTS_UNREACHABLE_MAX_AGE", 0),
        ("ROBOTS_CRAWL_DELAY_MAX", 86_401),
        ("ROBOTS_CRAWL_DELAY_MAX", None),
        ("ROBOTS_CRAWL_DELAY_OVER", "drop"),
        ("ROBOTS_CRAWL_DELAY_OVER", None),
        ("ROBOTS_DRY_RUN", "perhaps"),
        ("ROBOTS_EXEMPT", 7),
        ("ROBOTS_EXEMPT", "[" * 5000),
        ("ROBOTS_OVERRIDES", "a.txt"),
        ("ROBOTS_SCHEMES", ["ftp"]),
        ("ROBOTS_OVERRIDES", ["https://a.example"]),
        ("ROBOTS_REPORT", {"a.jsonl": {}, "b.jsonl": {}}),
        ("ROBOTS_ARCHIVE", "https://h.example/robots.warc.gz"),
    ],
)
def test_refused(key: str, value: Any) -> None:
    """A wrong value is an error with the setting, the value, and what is accepted."""
    with pytest.raises(SettingError) as caught:
        read_settings(ScrapySettings({key: value}))
    [row] = [row for row in TABLE if row.key == key]
    assert str(caught.value) == f"{key} = {value!r} is not accepted. It must be {row.accepted}"


ORIGIN = "'https://example.com' or 'https://example.com:8443'"
SITE = (
    f"a site without a path, such as 'example.com', '*.example.com', 'example.com:8443', {ORIGIN}"
)
STATUS = "a status from 400 to 499"
KEY = f"an origin, such as {ORIGIN}"
FILE = "the path of a robots.txt file"
FEED = "a dict of feed options, such as {'format': 'csv'}; 'allowed' must be True or False"
TWICE = {"https://a.example": "a.txt", "https://A.example:443/": "b.txt"}


@pytest.mark.parametrize(
    ("key", "value", "entry", "accepted"),
    [
        ("ROBOTS_UNREACHABLE_STATUSES", [429, 399], "{}[1] = 399", STATUS),
        ("ROBOTS_UNREACHABLE_STATUSES", "429,many", "{}[1] = 'many'", STATUS),
        ("ROBOTS_UNREACHABLE_BACKOFF", [5, -1], "{}[1] = -1", "a number, at least 0"),
        ("ROBOTS_EXEMPT", "*", "{}[0] = '*'", SITE),
        (
            "ROBOTS_EXEMPT",
            ["a.example", "https://b.example/path"],
            "{}[1] = 'https://b.example/path'",
            SITE,
        ),
        ("ROBOTS_EXEMPT", [7], "{}[0] = 7", SITE),
        ("ROBOTS_EXEMPT", ["https://me:secret@a.example"], "{}[0] = 'https://***@a.example'", SITE),
        ("ROBOTS_SCHEMES", {"https": None}, "{}['https'] = None", SCHEME_ACCEPTED),
        ("ROBOTS_SCHEMES", {"ftp": {"port": 21}}, "{}['ftp'] = {{'port': 21}}", SCHEME_ACCEPTED),
        ("ROBOTS_SCHEMES", {"web": {}}, "{}['web'] = {{}}", SCHEME_ACCEPTED),
        ("ROBOTS_SCHEMES", {"web": {"port": 0}}, "{}['web'] = {{'port': 0}}", SCHEME_ACCEPTED),
        (
            "ROBOTS_SCHEMES",
            {"web": {"port": 8, "like": 1}},
            "{}['web'] = {{'port': 8, 'like': 1}}",
            SCHEME_ACCEPTED,
        ),
        ("ROBOTS_SCHEMES", {"Web": {"port": 8}}, "{}['Web'] = {{'port': 8}}", SCHEME_ACCEPTED),
        ("ROBOTS_SCHEMES", {"nope": None}, "{}['nope'] = None", SCHEME_ACCEPTED),
        ("ROBOTS_SCHEMES", {"data": {"port": 8}}, "{}['data'] = {{'port': 8}}", SCHEME_ACCEPTED),
        ("ROBOTS_SCHEMES", {7: None}, "{}[7] = None", SCHEME_ACCEPTED),
        ("ROBOTS_OVERRIDES", {"a.example": "a.txt"}, "{} key = 'a.example'", KEY),
        ("ROBOTS_OVERRIDES", {"https://*.a.b": "a.txt"}, "{} key = 'https://*.a.b'", KEY),
        ("ROBOTS_OVERRIDES", {"https://me:pw@a.b": "r"}, "{} key = 'https://***@a.b'", KEY),
        ("ROBOTS_OVERRIDES", {7: "a.txt"}, "{} key = 7", KEY),
        ("ROBOTS_OVERRIDES", {"https://a.b": ""}, "{}['https://a.b'] = ''", FILE),
        ("ROBOTS_OVERRIDES", {"https://a.b": None}, "{}['https://a.b'] = None", FILE),
        (
            "ROBOTS_OVERRIDES",
            TWICE,
            "{} key = 'https://A.example:443/'",
            "removed, because https://a.example has another entry",
        ),
        ("ROBOTS_REPORT", {"": {}}, "{} key = ''", "a path or URI, such as 'robots.jsonl'"),
        ("ROBOTS_REPORT", {"a%s": 7}, "{}['a%s'] = 7", FEED),
        ("ROBOTS_REPORT", {"a": {"allowed": 2}}, "{}['a'] = {{'allowed': 2}}", FEED),
    ],
)
def test_refused_entry(key: str, value: Any, entry: str, accepted: str) -> None:
    """The error about a list or dict shows the wrong entry, without userinfo."""
    with pytest.raises(SettingError) as caught:
        read_settings(ScrapySettings({key: value}))
    assert str(caught.value) == f"{entry.format(key)} is not accepted. It must be {accepted}"


def test_sites_of_own_schemes() -> None:
    """ROBOTS_EXEMPT and ROBOTS_OVERRIDES may use schemes that the user added, or disabled."""
    schemes = {"ftps": {"port": 990, "answers": "ftp"}, "gemini": None}
    sites = {"ROBOTS_EXEMPT": "ftps://a.example", "ROBOTS_OVERRIDES": {"ftps://b.example": "b.txt"}}
    read = read_settings(ScrapySettings({"ROBOTS_SCHEMES": schemes, **sites}))
    assert [site.covers(Origin("ftps", "a.example", 990)) for site in read.exempt] == [True]
    assert read.overrides == {Origin("ftps", "b.example", 990): "b.txt"}
    read_settings(
        ScrapySettings({"ROBOTS_SCHEMES": schemes, "ROBOTS_EXEMPT": "gemini://a.example"})
    )
    for key, value in sites.items():
        with pytest.raises(SettingError, match=rf"^{key}.*'ftps://\w\.example'.* is not accepted"):
            read_settings(ScrapySettings({key: value}))


@pytest.mark.parametrize(
    ("key", "value", "module", "package"),
    [
        ("ROBOTS_ARCHIVE", "robots.warc.gz", "warcio", "warcio"),
        ("ROBOTS_CACHE", "redis://:secret@127.0.0.1", "redis", "redis"),
        ("ROBOTS_REPORT", "s3://me:secret@bucket/r.jsonl", "boto3", "boto3"),
        ("ROBOTS_REPORT", "gs://bucket/r.jsonl", "google", "google-cloud-storage"),
        (
            "ROBOTSTXT_PARSER",
            "scrapy.robotstxt.RerpRobotParser",
            "robotexclusionrulesparser",
            "robotexclusionrulesparser",
        ),
    ],
)
@ensureDeferred
async def test_missing_package(
    monkeypatch: pytest.MonkeyPatch, key: str, value: str, module: str, package: str
) -> None:
    """If a setting needs a package that is not installed, the error says this first."""
    monkeypatch.delitem(sys.modules, "scrapy_robots_rfc.cache.stores.redis", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SettingError) as caught:
        await crawl(["http://127.0.0.1:1/"], {key: value})
    assert str(caught.value) == (
        f"{key} needs the package {package}, which is not installed: pip install {package}"
    )
    # Twisted 21 stores a traceback in an exception that it has passed on.
    error = MissingPackageError(key, value, package)
    assert str(pickle.loads(pickle.dumps(error))) == str(caught.value)


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("ROBOTS_SCHEMES", {"web": {"port": 10**5000}}, "ROBOTS_SCHEMES['web'] = a value "),
        ("ROBOTS_TIMEOUT", 10**5000, "ROBOTS_TIMEOUT = a value "),
    ],
    ids=["inside", "alone"],
)
def test_huge_integer(key: str, value: Any, shown: str) -> None:
    """An integer with thousands of digits is refused without being shown."""
    with pytest.raises(SettingError) as caught:
        read_settings(ScrapySettings({key: value}))
    assert str(caught.value).startswith(f"{shown}too long to be shown is not accepted. It must be ")


def test_ages_that_cross() -> None:
    """A minimum age above the maximum is an error; the default minimum is lowered."""
    with pytest.raises(
        SettingError, match=r"^ROBOTS_CACHE_MIN_AGE = 90 is not accepted. It must be .* 60$"
    ):
        read_settings(ScrapySettings({"ROBOTS_CACHE_MAX_AGE": 60, "ROBOTS_CACHE_MIN_AGE": 90}))


def test_store_and_jobdir() -> None:
    """A store that the user sets is used instead of JOBDIR, and its address is not shown."""
    read = read_settings(
        ScrapySettings({"JOBDIR": "jobs/1", "ROBOTS_CACHE": "redis://:secret@a.example"})
    )
    assert read.cache == "redis://:secret@a.example"
    assert "secret" not in repr(read)


class Unavailable(MemoryStore):
    """A store that cannot be created."""

    def __init__(self) -> None:
        raise StoreError("no disk")


PAGE_RULES_ALONE = {
    "DOWNLOADER_MIDDLEWARES": {},
    "SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcPageRulesMiddleware": 1000},
    "ROBOTS_TAG_OBEY": "sometimes",
}


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"ROBOTS_TIMEOUT": "soon"}, "ROBOTS_TIMEOUT = 'soon'"),
        ({"ROBOTSTXT_PARSER": "no.such.Parser"}, "ROBOTSTXT_PARSER = 'no.such.Parser'"),
        ({"ROBOTSTXT_PARSER": "tests.support.site.Site"}, "ROBOTSTXT_PARSER = "),
        ({"ROBOTSTXT_PARSER": None}, "ROBOTSTXT_PARSER = None"),
        ({"ROBOTS_CACHE": Unavailable}, "ROBOTS_CACHE = .* cannot be used: no disk"),
        (PAGE_RULES_ALONE, r"ROBOTS_TAG_OBEY\[0\] = 'sometimes'"),
    ],
)
@ensureDeferred
async def test_crawl_does_not_start(site: Site, settings: dict[str, Any], error: str) -> None:
    """With a wrong value, nothing is requested."""
    with pytest.raises((SettingError, StoreError), match=f"^{error}"):
        await crawl([site.url("/x")], settings)
    assert site.targets == []
