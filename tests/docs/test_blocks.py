"""The code and the output in documents are what a crawl does, logs and writes.

docs/cli.md is tested in `commands/test_docs.py`, the README in `example/test_readme.py`, and
docs/upstream.md in `test_upstream.py`.
"""

from __future__ import annotations

import ast
import gc
import json
import logging
import re
import textwrap
import threading
import zlib
from ast import literal_eval
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import redis
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from scrapy.core.engine import ExecutionEngine
from scrapy.downloadermiddlewares.robotstxt import RobotsTxtMiddleware
from scrapy.robotstxt import ProtegoRobotParser
from scrapy.settings import Settings

from demo.certificate import self_signed
from scrapy_robots_rfc import RobotsDisallowed
from scrapy_robots_rfc.cache.entry import decode, encode
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import SCHEMES, Answers, Dialect, Scheme
from scrapy_robots_rfc.settings import read_settings
from tests.support.crawling import Linked, crawl, lines, make_crawler, records
from tests.support.documents import (
    FENCE,
    ROOT,
    block,
    blocks,
    documents,
    executed,
    imported,
    plain,
    read,
    rows,
    settings,
)
from tests.support.redis_server import RedisServer
from tests.support.reports import read as read_records
from tests.support.service_crawls import run
from tests.support.site import Reply, robots
from tests.support.timed_site import fetched

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from scrapy.crawler import Crawler

    from scrapy_robots_rfc import RobotsService
    from scrapy_robots_rfc.cache.stores.redis import RedisStore
    from tests.support.service_crawls import Clock
    from tests.support.site import Site

HOUR = 3600.0


FORBID = robots("User-agent: *\nDisallow: /private\nSitemap: /map.xml\n")

#: Two ways to switch the plugin on.
ADDON: dict[str, Any] = {
    "DOWNLOADER_MIDDLEWARES": {},
    **settings(block("docs/switching_on.md", "python", "ADDONS")),
}
BY_HAND = settings(block("docs/switching_on.md", "python", "DOWNLOADER_MIDDLEWARES"))
PAGE_RULES = "scrapy_robots_rfc.RfcPageRulesMiddleware"
#: The position of the spider middleware, from the table on docs/switching_on.md.
[POSITION] = [
    int(row[1].rpartition(" ")[2]) for row in rows("docs/switching_on.md") if PAGE_RULES in row[1]
]


@pytest.mark.parametrize(
    "shown",
    [
        {**ADDON, **settings(block("docs/page_rules.md", "python", "link-nofollow"))},
        {**BY_HAND, "ROBOTS_TAG_OBEY": ["nofollow"], "SPIDER_MIDDLEWARES": {PAGE_RULES: POSITION}},
    ],
    ids=["add-on", "by hand"],
)
@ensureDeferred
async def test_obeyed_rules_of_pages(
    site: Site, shown: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With the add-on and by hand, what a page forbids is dropped, and each drop is logged."""
    site.replies["/"] = Reply(headers=(("X-Robots-Tag", "none"),))
    await crawl([site.url("/"), site.url("/a")], shown, spider=Linked)
    assert site.pages == ["/"]
    where = f"of {site.url('/')}, X-Robots-Tag: none"
    forbidden = {f"Forbidden by its page: <GET {site.url('/a')}> (nofollow {where})"}
    if "noindex" in shown["ROBOTS_TAG_OBEY"]:
        forbidden.add(f"Forbidden by its page: an item (noindex {where})")
    assert {line for line in lines(caplog) if line.startswith("Forbidden")} == forbidden


@ensureDeferred
async def test_rules_that_spiders_read(
    proxy: Site, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The spider in docs/page_rules.md reads the rules of its pages."""
    proxy.replies["http://example.com/"] = Reply(headers=(("X-Robots-Tag", "noindex, noarchive"),))
    page = imported(plain(block("docs/page_rules.md", "python", "class Articles")), tmp_path)
    items: list[Any] = []
    crawler = make_crawler(page.Articles)

    def scraped(item: Any) -> None:
        items.append(item)

    crawler.signals.connect(scraped, signals.item_scraped)
    await crawler.crawl()
    rules = {"noarchive": None, "noindex": None}
    assert items == [{"url": "http://example.com/", "indexed": False, "rules": rules}]
    assert "http://example.com/ must not be stored: X-Robots-Tag: noindex, noarchive" in caplog.text


@ensureDeferred
async def test_signal(site: Site) -> None:
    """A handler that is connected as in docs/spiders.md is called for a dropped request."""
    site.replies["/robots.txt"] = FORBID
    code = block("docs/spiders.md", "python", "signals.connect")
    received = []

    def on_disallowed(request: Request, decision: Any) -> None:
        received.append((request.url, str(decision.rule)))

    def connect(crawler: Crawler) -> None:
        executed(code, crawler=crawler, self=SimpleNamespace(on_disallowed=on_disallowed))

    await crawl([site.url("/"), site.url("/private")], prepare=connect)
    assert received == [(site.url("/private"), "Disallow: /private")]


@ensureDeferred
async def test_sitemaps(proxy: Site, tmp_path: Path) -> None:
    """The spider requests the sitemaps that robots.txt allows, and fetches robots.txt once."""
    shop = "http://shop.example"
    proxy.replies[f"{shop}/robots.txt"] = robots(
        "User-agent: *\nDisallow: /private\nSitemap: /a.xml\nSitemap: /private.xml\n"
    )
    locations = "".join(
        f"<url><loc>{shop}{path}</loc></url>" for path in ("/page", "/private/page")
    )
    proxy.replies[f"{shop}/a.xml"] = Reply(body=f"<urlset>{locations}</urlset>".encode())
    page = imported(plain(block("docs/spiders.md", "python", "class ShopSpider")), tmp_path)
    crawler = make_crawler(page.ShopSpider)
    await crawler.crawl()
    assert proxy.targets == [f"{shop}{path}" for path in ("/robots.txt", "/a.xml", "/page")]
    assert crawler.stats.get_value("item_scraped_count") == 1


@contextmanager
def redis_with_user() -> Iterator[tuple[RedisServer, redis.Redis]]:
    """Run a Redis server with the user of the documents."""
    with RedisServer() as server, redis.Redis(port=server.port) as client:
        rights = {"keys": ["*"], "categories": ["+@all"]}
        client.acl_setuser("user", enabled=True, passwords=["+password"], **rights)
        yield server, client


@pytest.mark.usefixtures("redis_installed")
@ensureDeferred
async def test_worker(site: Site) -> None:
    """With the settings in docs/scaling.md, a worker stores robots.txt files in Redis, with the
    prefix of its fleet.
    """
    site.replies["/robots.txt"] = FORBID
    with redis_with_user() as (server, client):
        code = block("docs/scaling.md", "python", "prefix=news")
        shown = settings(code.replace("host:6379", f"127.0.0.1:{server.port}"))
        result = await crawl(
            [site.url("/"), site.url("/private")], {"DOWNLOADER_MIDDLEWARES": {}, **shown}
        )
        stored = client.exists(f"news:copy:{site.url('')}")
    assert (fetched(result), result.stat("forbidden"), stored) == (1, 1, 1)
    assert result.stat("cache/store_errors") == 0


def test_purpose_of_a_gemini_crawl() -> None:
    """The purpose of a crawl comes after its name, as docs/schemes.md shows."""
    shown = settings(block("docs/schemes.md", "python", "ROBOTSTXT_USER_AGENT"))
    assert read_settings(Settings(shown)).user_agent == Agent(("foobot", "indexer"), "foobot")


def test_schemes() -> None:
    """The setting in docs/schemes.md adds two schemes and removes Gemini."""
    shown = settings(block("docs/schemes.md", "python", "ROBOTS_SCHEMES"))
    assert read_settings(Settings(shown)).schemes == {
        **{name: SCHEMES[name] for name in ("http", "https", "ftp")},
        "ftps": Scheme(990, Answers.FTP, Dialect.RFC9309),
        "titan": Scheme(1965, Answers.GEMINI, Dialect.GEMINI),
    }


def documented_blocks() -> Iterator[tuple[str, str]]:
    """Yield the page and the text of every fenced block, but for diagrams in ARCHITECTURE.md."""
    for path in set(documents()) - {ROOT / "ARCHITECTURE.md"}:
        for fence in FENCE.finditer(path.read_text(encoding="utf-8")):
            yield path.relative_to(ROOT).as_posix(), textwrap.dedent(fence[3])


def blocks_in_tests() -> Iterator[tuple[str, str]]:
    """Yield the page and the text of every block that a test reads.

    Tests read blocks by `block(...)` and `blocks(...)` with literal arguments.
    """
    for file in (ROOT / "tests").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
                continue
            if node.func.id not in {"block", "blocks"} or not isinstance(
                node.args[0], ast.Constant
            ):
                continue
            page, *words = map(ast.literal_eval, node.args)
            options = {
                str(keyword.arg): ast.literal_eval(keyword.value) for keyword in node.keywords
            }
            if node.func.id == "blocks":
                texts = blocks(page, *words)
            else:
                texts = [block(page, *words, **options)]
            yield from ((page, text) for text in texts)


def test_every_block_is_tested() -> None:
    """Each fenced block of a document is read by a test."""
    assert sorted(set(documented_blocks()) - set(blocks_in_tests())) == []


# Log lines.


@pytest.mark.usefixtures("hurried")
@ensureDeferred
async def test_failing_file(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """docs/failing.md shows the lines about a site that does not recover."""
    proxy.replies["http://b.example/robots.txt"] = Reply(500)
    settings = {"ROBOTS_UNREACHABLE_BACKOFF": [5, 15, 45], "ROBOTS_TIMEOUT": 3000}
    await crawl(["http://b.example/"], {**settings, "LOGSTATS_INTERVAL": 0})
    shown = block("docs/failing.md", "text", "is unreachable").splitlines()
    logged = [timeless(line) for line in lines(caplog, logging.INFO)]
    assert logged[1:3] == [timeless(line) for line in shown]


def timeless(line: str) -> str:
    """Return a line without times that this test shortens, or that a busy machine changes."""
    return re.sub(r"\(\d+ s at most\)|is in \d+ s", "", line)


@ensureDeferred
async def test_forbidden(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The README shows the line about a dropped page."""
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private/\n")
    await crawl(["http://example.com/private/plan.html"])
    shown = block("README.md", "text", "Forbidden by robots.txt")
    assert lines(caplog)[1:2] == plain(shown).splitlines()


# docs/steering.md.


@ensureDeferred
async def test_dry_run(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """With the setting in docs/steering.md, disallowed pages are fetched, and the log says so."""
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private\n")
    pages = ["http://example.com/", "http://example.com/private"]
    result = await crawl(pages, settings(block("docs/steering.md", "python", "ROBOTS_DRY_RUN")))
    assert result.outcomes == dict.fromkeys(pages, 200)
    assert {
        "ROBOTS_DRY_RUN is on, so requests are sent even if robots.txt disallows them",
        "  dry run: 1 sent although disallowed",
    } <= set(lines(caplog))


@ensureDeferred
async def test_exempt_sites(proxy: Site) -> None:
    """With the setting in docs/steering.md, no robots.txt is requested, and pages are counted."""
    pages = ["http://intranet.example/", "http://a.staging.example/"]
    shown = settings(plain(block("docs/steering.md", "python", "ROBOTS_EXEMPT")))
    result = await crawl(pages, shown)
    assert sorted(proxy.targets) == sorted(pages)
    assert result.stat("exempted/*.staging.example") == result.stat("exempted") - 1 == 1


@ensureDeferred
async def test_local_files(proxy: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting in docs/steering.md needs its file, which then decides."""
    monkeypatch.chdir(tmp_path)
    pages = ["http://example.com/drafts/1"]
    agreed = settings(plain(block("docs/steering.md", "python", "ROBOTS_OVERRIDES")))
    with pytest.raises(SettingError):
        await crawl(pages, agreed)
    file = tmp_path / "agreed" / "example.com.txt"
    file.parent.mkdir()
    file.write_text("User-agent: *\nDisallow: /drafts/\n", encoding="utf-8")
    why = "local file agreed/example.com.txt line 2: Disallow: /drafts/"
    assert (await crawl(pages, agreed)).dropped(pages[0]).why == why
    assert proxy.targets == []


# docs/report.md.


@ensureDeferred
async def test_record(proxy: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The setting on the page writes the record on the page, except for its times."""
    monkeypatch.chdir(tmp_path)
    proxy.replies["http://example.com/robots.txt"] = robots("User-agent: *\nDisallow: /private/\n")
    page = Request(
        "http://example.com/private/plan.html", headers={"Referer": "http://example.com/"}
    )
    shown_settings = settings(block("docs/report.md", "python", "ROBOTS_REPORT"))
    await crawl([page], {**shown_settings, "ROBOTSTXT_USER_AGENT": "foobot"})
    [written] = read_records(tmp_path / "robots.jsonl")
    shown = json.loads(plain(block("docs/report.md", "json", "digest")))
    assert list(written) == list(shown)
    times = {"time": "", "run": "", "fetched": "", "fresh_until": ""}
    assert {**written, **times} == {**shown, **times}


@ensureDeferred
async def test_end_of_the_log(proxy: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A crawl of three sites logs the lines on the page, except for measured seconds."""
    shop = "User-agent: *\nDisallow: /cart/\nDisallow: /search\nCrawl-delay: 0.5\n"
    proxy.replies.update(
        {
            "http://shop.example/robots.txt": robots(shop),
            "http://news.example/robots.txt": Reply(503),
        }
    )
    targets = {
        "shop": ["/", "/a", "/b", "/cart/1", "/cart/2", "/cart/3", "/cart/4", "/search"],
        "news": ["/", "/a"],
        "intranet": ["/", "/a"],
    }
    pages = [f"http://{host}.example{path}" for host, paths in targets.items() for path in paths]
    result = await crawl(pages, {"ROBOTS_EXEMPT": ["intranet.example"]})
    shown = block("docs/report.md", "text", "robots.txt summary")
    assert unmeasured(records(caplog, logging.INFO)[-1]) == unmeasured(plain(shown).rstrip())
    assert result.stat("crawl_delay/added_seconds") > 0.9


def unmeasured(text: str) -> str:
    """Return lines without measured seconds."""
    return re.sub(r"\d+(\.\d+)? s added", "... added", text)


# docs/caching.md.

KEY, LONG = "https://example.com", 1000.0


def test_value_of_a_store() -> None:
    """The value in docs/caching.md is what is written today, and can be read."""
    value = block("docs/caching.md", "text", '{"version"').encode()
    copy = decode(zlib.compress(value))
    assert zlib.decompress(encode(copy)) == value
    assert (copy.validity.outcome, copy.body) == (
        Outcome.SUCCESSFUL,
        b"User-agent: *\nDisallow: /x\n",
    )


def test_addresses_of_stores(
    redis_installed: None, open_redis: Callable[..., RedisStore], tmp_path: Path
) -> None:
    """Both addresses in docs/caching.md work, with a user and with TLS."""
    plain, encrypted = block("docs/caching.md", "text", "rediss://").splitlines()
    with redis_with_user() as (server, client):
        open_redis(plain.replace("host:6379", f"127.0.0.1:{server.port}")).put(KEY, b"value", LONG)
        assert client.exists(f"news:copy:{KEY}")
    file = tmp_path / "redis.pem"
    file.write_bytes(self_signed())
    with RedisServer(
        tls_cert_file=file, tls_key_file=file, tls_auth_clients="no", requirepass="password"
    ) as server:
        address = encrypted.replace("host", f"127.0.0.1:{server.port}").replace(
            "/etc/ssl/redis.pem", str(file)
        )
        store = open_redis(address)
        store.put(KEY, b"value", LONG)
        assert store.get(KEY) == b"value"


# docs/scaling.md.

LAZY = block("docs/scaling.md", "python", "class BroadSpider")


@pytest.mark.skipif(not hasattr(ExecutionEngine, "scheduler"), reason="Scrapy 2.19 has it")
@ensureDeferred
async def test_lazy_start(site: Site, tmp_path: Path) -> None:
    """The spider does not fill the queue while a robots.txt is fetched, and requests all pages."""
    gate = threading.Event()
    site.replies["/robots.txt"] = robots("", gate=gate)
    module = imported(LAZY, tmp_path)
    module.MAX_QUEUED = 20
    module.BroadSpider.urls = [site.url(f"/{number}") for number in range(100)]
    crawler = make_crawler(module.BroadSpider)
    lengths = []

    def measure() -> None:
        scheduler: Any = crawler.engine.scheduler
        lengths.append(len(scheduler))
        if lengths[-1] >= module.MAX_QUEUED - 1:
            gate.set()

    crawler.signals.connect(measure, signals.request_scheduled)
    await crawler.crawl()
    assert crawler.stats.get_value("item_scraped_count") == 100
    assert max(lengths) < module.MAX_QUEUED


@ensureDeferred
async def test_settings_of_a_broad_crawl(site: Site) -> None:
    """With the settings, allowed pages are fetched, and each connection is closed afterwards."""
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /b\n")
    recipe = settings(block("docs/scaling.md", "python", "ROBOTS_CACHE_SIZE"))
    pages = [site.url("/a"), site.url("/b")]
    result = await crawl(pages, {**recipe, "DOWNLOADER_MIDDLEWARES": {}})
    assert site.pages == ["/a"]
    assert isinstance(result.outcomes[site.url("/b")], RobotsDisallowed)
    assert [asked.headers["Connection"] for asked in site.asked] == ["close", "close"]


# docs/migration.md.

OWN = settings(block("docs/migration.md", "python", "ProtegoRobotParser"))


#: Heading in docs/migration.md -> the settings that undo the change.
UNDO = {
    heading: {key: literal_eval(value) for key, value in re.findall(r"`(\w+) = ([^`]+)`", text)}
    for heading, text in re.findall(
        r"^### (.*)\n\n- Before: .*\n- Now: .*\n(?:  .*\n)*- To undo it: (.*(?:\n  .*)*)\n",
        read("docs/migration.md"),
        re.MULTILINE,
    )
}


@pytest.mark.parametrize(
    ("heading", "status", "backoff"),
    [
        ("robots.txt cannot be fetched: timeout, refused...", 503, [0]),
        ("robots.txt answers 429 or 5xx", 429, []),
    ],
)
@ensureDeferred
async def test_undo_unreachable(site: Site, heading: str, status: int, backoff: list[int]) -> None:
    """Everything is allowed if robots.txt cannot be fetched, after as many attempts."""
    site.replies["/robots.txt"] = Reply(status)
    for changed, expected in (
        ({"ROBOTS_UNREACHABLE_BACKOFF": backoff}, "unreachable"),
        (UNDO[heading], 200),
    ):
        site.asked.clear()
        result = await crawl([site.url("/")], {**ADDON, **changed})
        assert result.verdicts() == [expected]
        assert site.fetches == len(backoff) + 1


@ensureDeferred
async def test_undo_freshness(site: Site, clock: Clock) -> None:
    """A file is used for longer than its site says."""
    site.replies["/robots.txt"] = Reply(headers=(("Cache-Control", "max-age=60"),))

    async def script(service: RobotsService) -> None:
        await service.robots(site.url("/"))
        clock.now += HOUR
        await service.robots(site.url("/"))

    for changed, fetches in (({}, 2), (UNDO["How long it is used"], 1)):
        site.asked.clear()
        await run(script, {**ADDON, **changed})
        assert site.fetches == fetches


@ensureDeferred
async def test_undo_jobdir(site: Site, tmp_path: Path) -> None:
    """Nothing is stored in JOBDIR."""
    for name, changed in (("stored", {}), ("not stored", UNDO["With `JOBDIR`"])):
        folder = tmp_path / name
        await crawl([site.url("/")], {**ADDON, **changed, "JOBDIR": str(folder)})
        assert (folder / "robots.sqlite").exists() is (name == "stored")


# Scrapy's own queue leaves a file open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@ensureDeferred
async def test_undo_requests_in_jobdir(site: Site, tmp_path: Path) -> None:
    """Requests are stored by Scrapy's own queue."""
    states: list[Any] = []
    for changed in ({}, UNDO["Requests in `JOBDIR`"]):
        folder = tmp_path / str(len(states))
        settings = {**ADDON, **changed, "JOBDIR": str(folder), "CLOSESPIDER_PAGECOUNT": 1}
        await crawl([site.url(f"/{number}") for number in range(9)], settings)
        states.append(json.loads((folder / "requests.queue" / "active.json").read_text()))
    assert [type(state) for state in states] == [int, dict]
    gc.collect()


@ensureDeferred
async def test_undo_retries(site: Site) -> None:
    """Scrapy's retry middleware retries robots.txt."""
    site.replies["/robots.txt"] = Reply(503)
    retries = {**ADDON, "RETRY_ENABLED": True, "RETRY_TIMES": 2}
    undo = UNDO["Retries of robots.txt"]
    for changed, retried in (({"ROBOTS_UNREACHABLE_BACKOFF": [0]}, None), (undo, 2)):
        result = await crawl([site.url("/")], {**retries, **changed})
        assert result.stats.get("retry/count") == retried


@ensureDeferred
async def test_undo_all(site: Site) -> None:
    """Scrapy's own middleware and parser are used again."""
    site.replies["/robots.txt"] = Reply(503)
    result = await crawl([site.url("/")], {**ADDON, **OWN})
    assert result.outcomes == {site.url("/"): 200}
    assert result.crawler.engine is not None
    kinds = [type(each) for each in result.crawler.engine.downloader.middleware.middlewares]
    assert RobotsTxtMiddleware in kinds
    assert not any("scrapy_robots" in kind.__module__ for kind in kinds)
    parser = f"{ProtegoRobotParser.__module__}.ProtegoRobotParser"
    assert result.crawler.settings["ROBOTSTXT_PARSER"] == parser
