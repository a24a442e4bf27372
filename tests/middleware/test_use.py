"""ROBOTS_USE in real crawls: what a crawl is for, and what follows where a site refuses that."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import Reason, RobotsDisallowed
from scrapy_robots_rfc.core.labels import LABELS
from scrapy_robots_rfc.middleware.page_rules import metas_of
from tests.support.crawling import Pages, crawl
from tests.support.documents import block, settings
from tests.support.site import PAGE, Reply, Site, redirect, robots
from tests.test_reference_pages import rows

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

    from scrapy.http import Response

pytestmark = pytest.mark.reactor

FILE = """User-agent: *
Content-Usage: train-ai=y
Content-Usage: /closed train-ai=n, search=y
Content-Signal: ai-input=no
Disallow: /never
"""
HTML = (("Content-Type", "text/html"),)


@pytest.fixture
def site() -> Iterator[Site]:
    """A site that refuses some uses, of some pages."""
    with Site({"/robots.txt": robots(FILE), **dict.fromkeys(("/open", "/closed", "/never"), PAGE)}) as running:
        yield running


class Permitted(Pages):
    """Keeps what each response says is permitted."""

    def parse(self, response: Response, **_: Any) -> Any:
        """Keep it."""
        self.permitted = {**getattr(self, "permitted", {}), response.url: response.meta.get("robots_use")}
        return super().parse(response)


async def outcomes(site: Site, *paths: str, use: Any = None, **others: Any) -> list[Any]:
    """What becomes of pages in a crawl: a status, or why it was refused."""
    declared = {} if use is None else {"ROBOTS_USE": use}
    result = await crawl([site.url(path) for path in paths], {**declared, **others})
    found = [result.outcomes[site.url(path)] for path in paths]
    return [one.decision.reason.value if isinstance(one, RobotsDisallowed) else one for one in found]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (None, [200, 200, "rule"]),
        ([], [200, 200, "rule"]),
        (["train-ai"], [200, "use", "rule"]),
        ("AI-Train", [200, "use", "rule"]),
        (["train-ai", "search"], [200, 200, "rule"]),
        (["ai-input"], ["use", "use", "rule"]),
        (["train-ai", "ai-input"], [200, "use", "rule"]),
        (["tdm"], [200, 200, "rule"]),
    ],
)
@ensureDeferred
async def test_requests_whose_uses_are_all_refused(site: Site, use: Any, expected: list[Any]) -> None:
    """A request is not sent if robots.txt refuses all declared uses; a page that may not be fetched stays forbidden."""
    assert await outcomes(site, "/open", "/closed", "/never", use=use) == expected


@ensureDeferred
async def test_refusal_names_the_line(site: Site, caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """Log, exception, stats and report say which line refuses."""
    wanted = {"ROBOTS_USE": ["train-ai"], "ROBOTS_REPORT": {tmp_path / "r.jsonl": {}}}
    with caplog.at_level(logging.DEBUG):
        result = await crawl([site.url("/closed")], wanted)
    error = result.outcomes[site.url("/closed")]
    assert isinstance(error, RobotsDisallowed)
    assert error.decision.reason is Reason.USE
    assert error.why == "robots.txt line 3: content-usage: /closed train-ai=n, search=y"
    assert f"Forbidden by robots.txt: <GET {site.url('/closed')}> ({error.why})" in caplog.text
    assert (result.stat("forbidden/use"), result.stat("use/robots.txt")) == (1, 1)
    record = json.loads((tmp_path / "r.jsonl").read_text(encoding="utf-8"))
    assert (record["reason"], record["why"], record["line"], record["rule"]) == ("use", error.why, 3, None)


class Changing(Pages):
    """Says something else of its use when it starts."""

    robots_use: Any = ("search",)

    async def start(self) -> AsyncIterator[Any]:
        """Say so."""
        self.robots_use = ["train-ai"]
        async for request in super().start():
            yield request


@ensureDeferred
async def test_what_a_spider_says_may_change(site: Site) -> None:
    """The attribute of a spider counts as it is when a request is judged."""
    result = await crawl([site.url(f"/closed{number}") for number in range(3)], spider=Changing)
    assert result.stat("forbidden/use") == 3


@pytest.mark.parametrize("use", [None, []])
@ensureDeferred
async def test_only_requests_say_what_they_are_for(site: Site, use: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Meta of requests counts where ROBOTS_USE is []; where it is not set, one warning says that it does not."""
    requests = [Request(site.url(path), meta={"robots_declared_use": "train-ai"}) for path in ("/open", "/closed")]
    result = await crawl(requests, {"ROBOTS_USE": use})
    assert result.stat("forbidden/use") == (0 if use is None else 1)
    told = [text for text in caplog.messages if text.startswith("Meta robots_declared_use of <GET http://")]
    assert len(told) == (1 if use is None else 0)


@ensureDeferred
async def test_what_is_permitted_stands_in_meta(site: Site) -> None:
    """A response says of each label whether that use is permitted; nobody has said: None."""
    site.replies["/closed"] = Reply(200, headers=(("Content-Usage", "search=n"),))
    wanted = {"ROBOTS_USE": ["train-ai", "search", "tdm"]}
    result = await crawl([site.url("/open"), site.url("/closed")], wanted, spider=Permitted)
    assert result.spider.permitted == {
        site.url("/open"): {"train-ai": True, "search": None, "tdm": None, "ai-input": False},
        site.url("/closed"): {"train-ai": False, "search": False, "tdm": None, "ai-input": False},
    }


@pytest.mark.parametrize(
    ("headers", "body", "source"),
    [
        ((("Content-Usage", "train-ai=n"),), "", "header"),
        ((("Content-Signal", "ai-train=no"),), "", "header"),
        ((("X-Robots-Tag", "otherbot: noindex, scrapy: noai"),), "", "header"),
        ((("tdm-reservation", "1"),), "", "header"),
        (HTML, '<meta name="robots" content="noml">', "meta"),
        ((*HTML, ("tdm-reservation", "0")), '<meta name="TDM-Reservation" content="1">', "meta"),
    ],
)
@ensureDeferred
async def test_responses_that_refuse(site: Site, headers: Any, body: str, source: str) -> None:
    """A response whose header or meta refuses all declared uses is dropped, and counted by source."""
    site.replies["/open"] = Reply(200, body.encode(), headers)
    result = await crawl([site.url("/open")], {"ROBOTS_USE": ["train-ai"]})
    assert result.stat(f"use/{source}") == 1
    error = result.outcomes[site.url("/open")]
    assert isinstance(error, RobotsDisallowed)
    assert error.decision.reason is Reason.USE
    assert result.stat("forbidden/use") == 1


@ensureDeferred
async def test_responses_that_permit(site: Site) -> None:
    """Other crawlers' rules, a reservation that is lifted, and what cannot be read refuse nothing."""
    site.replies["/open"] = Reply(
        200,
        b'<meta name="tdm-reservation" content="0"><body><meta name="robots" content="noai">',
        (*HTML, ("tdm-reservation", "1"), ("X-Robots-Tag", "otherbot: noai"), ("Content-Usage", "train-ai=n search")),
    )
    assert await outcomes(site, "/open", use=["train-ai"]) == [200]


@ensureDeferred
async def test_robots_txt_and_header_together(site: Site) -> None:
    """Where robots.txt refuses one declared use and a header the other one, nothing is left."""
    site.replies["/closed"] = Reply(200, headers=(("Content-Usage", "search=n"),))
    assert await outcomes(site, "/closed", use=["train-ai", "search"]) == ["use"]


@ensureDeferred
async def test_use_of_spider_and_request(site: Site) -> None:
    """The spider's attribute counts before the setting, and a request's meta before both."""

    class Searches(Pages):
        robots_use = ("search",)

    requests = [
        Request(site.url("/closed")),
        Request(site.url("/closed/1"), meta={"robots_declared_use": "train-ai"}),
        Request(site.url("/open/1"), meta={"robots_declared_use": []}),
    ]
    result = await crawl(requests, {"ROBOTS_USE": ["train-ai"]}, spider=Searches)
    assert [isinstance(one, RobotsDisallowed) for one in result.outcomes.values()].count(True) == 1
    assert isinstance(result.outcomes[site.url("/closed/1")], RobotsDisallowed)


@ensureDeferred
async def test_exempt_requests_sites_and_dry_runs(site: Site) -> None:
    """Exempt requests and sites are not asked; a dry run counts, and lets through."""
    site.replies["/open"] = Reply(200, headers=(("X-Robots-Tag", "noai"),))
    pages = [Request(site.url(path), meta={"dont_obey_robotstxt": True}) for path in ("/open", "/closed")]
    result = await crawl(pages, {"ROBOTS_USE": ["train-ai"]})
    assert [*result.outcomes.values()] == [200, 200]
    assert await outcomes(site, "/open", "/closed", use=["train-ai"], ROBOTS_EXEMPT=[site.url("")]) == [200, 200]
    result = await crawl([site.url("/open"), site.url("/closed")], {"ROBOTS_USE": "train-ai", "ROBOTS_DRY_RUN": 1})
    assert [*result.outcomes.values()] == [200, 200]
    assert (result.stat("forbidden/use"), result.stat("dry_run")) == (2, 2)


@ensureDeferred
async def test_unknown_label_is_warned_of(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """A label that nobody knows is warned of with the nearest one, since a typo refuses nothing."""
    assert await outcomes(site, "/closed", use=["trian-ai"]) == [200]
    warning = "Declared use 'trian-ai' is no known label: only a site that names it refuses it. Nearest known one:"
    assert [record.message for record in caplog.records if record.levelno == logging.WARNING].count(
        f"{warning} 'train-ai'"
    ) == 1


@ensureDeferred
async def test_wrong_setting() -> None:
    """A wrong setting stops the crawl at start, and says what is accepted."""
    with pytest.raises(ValueError, match="ROBOTS_USE = 3 is not accepted; it must be a list of labels"):
        await crawl(["http://127.0.0.1:1/"], {"ROBOTS_USE": 3})


@ensureDeferred
async def test_meta_that_is_no_list(site: Site) -> None:
    """A request whose meta is something else fails, and says so."""
    page = Request(site.url("/open"), meta={"robots_declared_use": 3})
    result = await crawl([page], {"ROBOTS_USE": []})
    assert "robots_declared_use is 3; it must be a list of labels" in str(result.outcomes[site.url("/open")])


@ensureDeferred
async def test_a_crawl_that_declares_nothing_has_no_step_for_responses(site: Site) -> None:
    """Without a declared use, responses do not pass the middleware at all."""
    result = await crawl([site.url("/open")], {}, spider=Permitted)
    assert result.spider.permitted == {site.url("/open"): None}


@ensureDeferred
async def test_as_the_page_shows(site: Site) -> None:
    """The setting and the lines of Python on docs/preferences.md do what the page says."""
    assert await outcomes(site, "/closed", **settings(block("docs/preferences.md", "python", "ROBOTS_USE"))) == ["use"]
    exec(block("docs/preferences.md", "python", "RobotsTxt"), {})  # its assertions hold


def test_labels_of_the_page() -> None:
    """docs/preferences.md has a row for each label that is known, with its synonyms."""
    found = {row[0].strip("`"): row[1].strip("`") for row in rows("preferences.md")}
    assert found == {label: ", ".join(synonyms) or "-" for label, synonyms in LABELS.items()}


@pytest.mark.parametrize(
    ("reply", "count"),
    [
        (Reply(402), 2),
        (Reply(401, headers=(("WWW-Authenticate", "Basic"), ("WWW-Authenticate", "License error=x"))), 2),
        (Reply(401, headers=(("WWW-Authenticate", "Basic realm=License"),)), 0),
        (Reply(403), 0),
    ],
)
@ensureDeferred
async def test_pages_that_ask_for_payment(
    site: Site, reply: Reply, count: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A page that asks for payment is counted, and told once a site; it is not asked for again."""
    site.replies["/open"] = site.replies["/closed"] = reply
    with caplog.at_level(logging.INFO):
        wanted = {"ROBOTS_USE": ["search"], "RETRY_ENABLED": True}
        result = await crawl([site.url("/open"), site.url("/closed")], wanted)
    assert result.stat("payment") == count
    assert sum("asks for payment" in record.message for record in caplog.records) == bool(count)
    assert sorted(site.pages) == ["/closed", "/open"]


TDMREP = [{"location": "/open", "tdm-reservation": 1}, {"location": "/*", "tdm-reservation": 0}]


@pytest.mark.parametrize(
    ("use", "expected"),
    [(["tdm"], ["use", 200]), (["train-ai", "tdm"], ["use", 200]), (["train-ai"], [200, "use"]), ([], [200, 200])],
)
@ensureDeferred
async def test_tdmrep_file(site: Site, use: list[str], expected: list[Any]) -> None:
    """With the label tdm, the site's tdmrep.json counts: asked for once; the first location that matches decides."""
    site.replies["/.well-known/tdmrep.json"] = redirect("/elsewhere.json")
    site.replies["/elsewhere.json"] = Reply(200, json.dumps(TDMREP).encode())
    pages = ("/open", "/open/2", "/closed")
    site.replies["/open/2"] = PAGE
    found = await outcomes(site, *pages, use=use)
    assert [found[0], found[2]] == expected
    assert found[1] == found[0]
    asked = [page for page in site.pages if page.endswith(".json")]
    assert asked == (["/.well-known/tdmrep.json", "/elsewhere.json"] if "tdm" in use else [])


@ensureDeferred
async def test_tdmrep_file_and_what_overrides_it(site: Site) -> None:
    """A header overrides the file; one that is missing, broken, or forbidden keeps no page back."""
    name = "/.well-known/tdmrep.json"
    site.replies[name] = Reply(200, json.dumps(TDMREP).encode())
    site.replies["/open"] = Reply(200, headers=(("tdm-reservation", "0"),))
    assert await outcomes(site, "/open", use=["tdm"]) == [200]
    site.replies["/open"] = PAGE
    for reply in (Reply(404), Reply(200, b"{"), Reply(reset=True), redirect(name)):
        site.replies[name] = reply
        assert await outcomes(site, "/open", use=["tdm"]) == [200]
    site.replies[name] = Reply(200, json.dumps(TDMREP).encode())
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /.well-known/\n")
    site.asked.clear()
    assert await outcomes(site, "/open", use=["tdm"]) == [200]
    assert site.pages == ["/open"]
    site.replies["/robots.txt"] = robots("User-agent: *\nAllow: /\n")
    assert await outcomes(site, "/open", use=["tdm"]) == ["use"]
    assert await outcomes(site, "/open", use=["train-ai"]) == [200]


@ensureDeferred
async def test_page_is_parsed_once(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page whose rules and uses are both obeyed is parsed once for the two of them."""
    parsed: list[str] = []

    def counted(response: Response, **named: Any) -> list[tuple[str, str]]:
        parsed.append(response.url)
        return metas_of(response, **named)

    monkeypatch.setattr("scrapy_robots_rfc.middleware.page_rules.metas_of", counted)
    site.replies["/open"] = Reply(200, b"<meta name=robots content=nofollow>", HTML)
    both = {
        "ROBOTS_USE": ["train-ai"],
        "ROBOTS_TAG_OBEY": ["nofollow"],
        "SPIDER_MIDDLEWARES": {"scrapy_robots_rfc.RfcPageRulesMiddleware": 1000},
    }
    assert await outcomes(site, "/open", **both) == [200]
    assert parsed == [site.url("/open")]
