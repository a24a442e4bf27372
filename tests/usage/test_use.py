"""ROBOTS_USE in real crawls: declared uses, and sites that refuse them."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

import pytest
import scrapy
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc import Reason, RobotsTxt
from scrapy_robots_rfc.core.decision import Refusal
from scrapy_robots_rfc.core.preferences import LABELS, parse_uses
from scrapy_robots_rfc.core.uses import find_refusal, unknown_labels
from scrapy_robots_rfc.errors import SettingError
from tests.support.case_files import tables
from tests.support.crawling import SETTINGS, USE, Pages, crawl
from tests.support.documents import block, executed, rows, settings
from tests.support.reports import read
from tests.support.site import PAGE, Reply, Site, redirect, robots
from tests.support.timed_site import DELAY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from scrapy.http import Response

FILE = """User-agent: *
Content-Usage: train-ai=y
Content-Usage: /closed train-ai=n, search=y
Content-Signal: ai-input=no
Disallow: /never
"""
HTML = (("Content-Type", "text/html"),)


@pytest.fixture
def site() -> Iterator[Site]:
    """A site that refuses some uses of some pages."""
    with Site(
        {"/robots.txt": robots(FILE), **dict.fromkeys(("/open", "/closed", "/never"), PAGE)}
    ) as running:
        yield running


class Permitted(Pages):
    """Stores the permitted uses of each response."""

    def parse(self, response: Response, **_: Any) -> Any:
        self.permitted = {
            **getattr(self, "permitted", {}),
            response.url: response.meta.get("robots_use"),
        }
        return super().parse(response)


async def outcomes(site: Site, *paths: str, use: Any = None, **others: Any) -> list[Any]:
    """The outcome of each page: a status, or the reason why it was dropped."""
    declared = {} if use is None else {"ROBOTS_USE": use}
    result = await crawl([site.url(path) for path in paths], {**declared, **others})
    return result.verdicts(*map(site.url, paths))


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (None, [200, 200, "rule"]),
        ([], [200, 200, "rule"]),
        (["train-ai"], [200, "use", "rule"]),
        ("noai, TDM", [200, "use", "rule"]),
        (["search"], [200, 200, "rule"]),
        (["ai-input"], ["use", "use", "rule"]),
        (["train-ai", "ai-input"], ["use", "use", "rule"]),
        (["tdm"], [200, 200, "rule"]),
    ],
)
@ensureDeferred
async def test_requests_whose_uses_are_refused(site: Site, use: Any, expected: list[Any]) -> None:
    """A request is not sent if robots.txt disallows it, or refuses any declared use."""
    assert await outcomes(site, "/open", "/closed", "/never", use=use) == expected


@ensureDeferred
async def test_refusal_names_the_line(
    site: Site, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Log, exception, stats and report name the line that refuses."""
    wanted = {"ROBOTS_USE": ["train-ai"], "ROBOTS_REPORT": {tmp_path / "r.jsonl": {}}}
    with caplog.at_level(logging.DEBUG):
        result = await crawl([site.url("/closed")], wanted)
    error = result.dropped(site.url("/closed"))
    assert error.decision.reason is Reason.USE
    source = "Content-Usage: /closed train-ai=n, search=y"
    assert error.why == f"robots.txt line 3: refuses train-ai ({source})"
    assert f"Forbidden by robots.txt: <GET {site.url('/closed')}> ({error.why})" in caplog.text
    assert (result.stat("forbidden/use"), result.stat("use/robots.txt")) == (1, 1)
    [record] = read(tmp_path / "r.jsonl")
    facts = [record[name] for name in ("reason", "why", "line", "rule")]
    assert facts == ["use", error.why, 3, None]


@ensureDeferred
async def test_refused_requests_take_no_turn() -> None:
    """Requests that are dropped for their use do not use the turns of a paced site."""
    rules = f"User-agent: *\nCrawl-delay: {DELAY}\nContent-Usage: /closed train-ai=n\n"
    with Site({"/robots.txt": robots(rules), "/open": PAGE}) as site:
        pages = [*(site.url(f"/closed/{number}") for number in range(30)), site.url("/open")]
        result = await crawl(pages, {"ROBOTS_USE": ["train-ai"]})
        assert site.pages == ["/.well-known/tdmrep.json", "/open"]
    assert (result.stat("allowed"), result.stat("forbidden/use")) == (2, 30)
    assert result.stat("crawl_delay/added_seconds") < 10 * DELAY


@ensureDeferred
async def test_file_that_expires_after_a_request_was_judged(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Uses are checked by the file that the request was judged by, even if it has expired."""
    monkeypatch.setattr("scrapy_robots_rfc.fetching.reader.MIN_FRESH", 0.01)
    rules = f"User-agent: *\nCrawl-delay: {DELAY}\nContent-Usage: train-ai=n\n"
    expired = Reply(body=rules.encode(), headers=(("Cache-Control", "max-age=0"),))
    files = iter([expired, robots("")])
    site.replies["/robots.txt"] = lambda _: next(files)
    settings = {"ROBOTS_USE": ["train-ai"], "ROBOTS_CACHE_MIN_AGE": 0}
    result = await crawl([site.url("/a")], settings)
    assert (result.verdicts(), site.fetches) == (["use"], 1)


@ensureDeferred
async def test_file_that_is_stale_at_once(site: Site) -> None:
    """A request is also dropped for its use if its file has just expired."""
    file = Reply(200, FILE.encode(), (("Cache-Control", "max-age=0"),))
    site.replies["/robots.txt"] = file
    found = await outcomes(site, "/open", "/closed", use=["train-ai"], ROBOTS_CACHE_MIN_AGE=0)
    assert found == [200, "use"]
    assert "/closed" not in site.pages


@pytest.mark.parametrize("use", [None, []])
@ensureDeferred
async def test_only_requests_declare_uses(
    site: Site, use: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The meta of requests counts if ROBOTS_USE is []; if it is unset, there is a warning."""
    requests = [
        Request(site.url(path), meta={"robots_declared_use": "train-ai"})
        for path in ("/open", "/closed")
    ]
    result = await crawl(requests, {"ROBOTS_USE": use})
    assert result.stat("forbidden/use") == (0 if use is None else 1)
    warning = (
        "The meta key 'robots_declared_use' has no effect unless ROBOTS_USE is set;"
        " set ROBOTS_USE = []"
    )
    assert caplog.messages.count(warning) == (1 if use is None else 0)


@ensureDeferred
async def test_only_the_spider_declares_a_use(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The spider's attribute does not count without the setting, which a warning says."""

    class Trains(Pages):
        robots_use = ("train-ai",)

    result = await crawl([site.url("/closed")], spider=Trains)
    assert result.outcomes == {site.url("/closed"): 200}
    text = "The spider attribute 'robots_use' has no effect unless ROBOTS_USE is set"
    assert f"{text}; set ROBOTS_USE = []" in caplog.messages


@ensureDeferred
async def test_permitted_uses_are_in_meta(site: Site) -> None:
    """The meta of a response says which uses are permitted, with None for unknown ones."""
    site.replies["/closed"] = Reply(200, headers=(("Content-Usage", "search=n"),))
    requests = [
        Request(site.url("/open"), meta={"robots_declared_use": ["search", "tdm"]}),
        Request(site.url("/closed")),
    ]
    result = await crawl(requests, {"ROBOTS_USE": []}, spider=Permitted)
    assert result.spider.permitted == {
        site.url("/open"): {"train-ai": True, "search": None, "tdm": None, "ai-input": False},
        site.url("/closed"): {"train-ai": False, "search": False, "ai-input": False},
    }


class Copying(Permitted):
    """Requests an exempt page with the meta of its first response."""

    def parse(self, response: Response, **_: Any) -> Any:
        super().parse(response)
        if response.url.endswith("/open"):
            meta = {**response.meta, "dont_obey_robotstxt": True}
            yield Request(response.urljoin("/open/1"), self.parse, meta=meta)


@ensureDeferred
async def test_permitted_uses_are_not_copied(site: Site) -> None:
    """An exempt page does not have the permitted uses of a page whose meta was copied."""
    wanted = {"ROBOTS_USE": ["train-ai"]}
    result = await crawl([site.url("/open")], wanted, spider=Copying)
    assert result.spider.permitted[site.url("/open")] is not None
    assert result.spider.permitted[site.url("/open/1")] is None


@pytest.mark.parametrize(
    ("headers", "body", "source"),
    [
        ((("Content-Usage", "train-ai=n"),), "", "header"),
        ((("X-Robots-Tag", "otherbot: noindex, scrapy: noai"),), "", "header"),
        (HTML, '<meta name="robots" content="noml">', "meta"),
        ((*HTML, ("tdm-reservation", "0")), '<meta name="TDM-Reservation" content="1">', "meta"),
    ],
)
@ensureDeferred
async def test_responses_that_refuse(site: Site, headers: Any, body: str, source: str) -> None:
    """A response whose header or meta refuses a declared use is dropped, by source."""
    site.replies["/open"] = Reply(200, body.encode(), headers)
    result = await crawl([site.url("/open")], {"ROBOTS_USE": ["train-ai"]})
    assert result.stat(f"use/{source}") == 1
    error = result.dropped(site.url("/open"))
    assert error.decision.reason is Reason.USE
    assert str(error).startswith("Forbidden by its page (refuses train-ai (")
    assert result.stat("forbidden/use") == 1


@ensureDeferred
async def test_responses_that_permit(site: Site) -> None:
    """Rules for other crawlers, lifted reservations and unreadable values refuse nothing."""
    site.replies["/open"] = Reply(
        200,
        b'<meta name="tdm-reservation" content="0"><body><meta name="robots" content="noai">',
        (
            *HTML,
            ("tdm-reservation", "1"),
            ("X-Robots-Tag", "otherbot: noai"),
            ("Content-Usage", "train-ai=n search"),
        ),
    )
    assert await outcomes(site, "/open", use=["train-ai"]) == [200]


def test_refusals_of_several_uses() -> None:
    """A refusal names each use with its line, and declared uses that are not refused are left out.

    Uses that the same line refuses are named together.
    """
    body = b"User-agent: *\nContent-Signal: search=no,ai-train=no,ai-input=yes\nContent-Usage: x=n"
    preferences = RobotsTxt.parse(body).preferences("/", ["foobot"])
    refusal = find_refusal(("train-ai", "x", "ai-input", "search", "tdm"), preferences)
    signal = "Content-Signal: search=no,ai-train=no,ai-input=yes"
    assert refusal == Refusal(
        f"line 2: refuses train-ai and search ({signal}); line 3: refuses x (Content-Usage: x=n)", 2
    )
    assert find_refusal((), preferences) is None
    assert find_refusal(("ai-input", "tdm"), preferences) is None


@ensureDeferred
async def test_use_of_spider_and_request(site: Site) -> None:
    """A request's meta comes before the spider's attribute, and that before the setting.

    None in meta means that it is not given.
    """

    class Searches(Pages):
        robots_use = ("search",)

    requests = [
        Request(site.url("/closed")),
        Request(site.url("/closed/1"), meta={"robots_declared_use": "train-ai"}),
        Request(site.url("/open/1"), meta={"robots_declared_use": []}),
        Request(site.url("/none"), meta={"robots_declared_use": None}),
    ]
    site.replies["/none"] = Reply(200, headers=(("Content-Usage", "search=n"),))
    result = await crawl(requests, {"ROBOTS_USE": ["train-ai"]}, spider=Searches)
    assert result.verdicts(*requests) == [200, "use", 200, "use"]


@ensureDeferred
async def test_exempt_requests_and_sites(site: Site) -> None:
    """Exempt requests and sites are not checked."""
    site.replies["/open"] = Reply(200, headers=(("X-Robots-Tag", "noai"),))
    pages = [
        Request(site.url(path), meta={"dont_obey_robotstxt": True}) for path in ("/open", "/closed")
    ]
    result = await crawl(pages, {"ROBOTS_USE": ["train-ai"]})
    assert [*result.outcomes.values()] == [200, 200]
    exempt = {"ROBOTS_EXEMPT": [site.url("")]}
    assert await outcomes(site, "/open", "/closed", use=["train-ai"], **exempt) == [200, 200]


@ensureDeferred
async def test_dry_run(site: Site) -> None:
    """A dry run drops nothing, and counts a request for one reason, even if several apply."""
    pages = ("/open", "/closed", "/never")
    for path in pages:
        site.replies[path] = Reply(200, headers=(("X-Robots-Tag", "noai"),))
    settings = {"ROBOTS_USE": "train-ai", "ROBOTS_DRY_RUN": 1}
    result = await crawl(map(site.url, pages), settings)
    assert [*result.outcomes.values()] == [200, 200, 200]
    names = ("allowed", "forbidden", "forbidden/use", "forbidden/rule", "dry_run")
    assert [result.stat(name) for name in names] == [1, 3, 2, 1, 3]  # the tdmrep.json is allowed
    assert (result.stat("use/robots.txt"), result.stat("use/header")) == (1, 1)


@pytest.mark.parametrize(("ours", "position"), [(100, None), (100, 99), (543, 101)])
@ensureDeferred
async def test_without_its_middleware(ours: int, position: int | None) -> None:
    """ROBOTS_USE stops the crawl at start if its middleware is missing or has a wrong position."""
    placed = {
        **SETTINGS["DOWNLOADER_MIDDLEWARES"],
        "scrapy_robots_rfc.RfcRobotsTxtMiddleware": ours,
        USE: position,
    }
    wanted = rf"must be unset, or DOWNLOADER_MIDDLEWARES must have '{USE}' after RfcRobots"
    with pytest.raises(SettingError, match=wanted):
        await crawl(["http://127.0.0.1:1/"], {"ROBOTS_USE": [], "DOWNLOADER_MIDDLEWARES": placed})


@ensureDeferred
async def test_not_obeying(site: Site) -> None:
    """If robots.txt is not obeyed, uses are not, either, and the middleware may be missing."""
    placed = {**SETTINGS["DOWNLOADER_MIDDLEWARES"], USE: None}
    off = {"ROBOTSTXT_OBEY": False, "ROBOTS_USE": ["train-ai"], "DOWNLOADER_MIDDLEWARES": placed}
    assert [*(await crawl([site.url("/closed")], off)).outcomes.values()] == [200]


@pytest.mark.parametrize(("typed", "meant"), tables("preferences")["nicknames"])
def test_nicknames_of_labels(typed: Any, meant: list[str]) -> None:
    """A name that users type for a use declares that use. An unknown name declares all uses."""
    assert [*(parse_uses(typed) or ())] == meant


def test_hints_for_unknown_labels() -> None:
    """A hint names a label only if it is similar, and otherwise all known labels."""
    known = "known: train-ai, search, ai-use, ai-input, tdm"
    assert [*unknown_labels(["genai", "search", "bots"])] == [
        ("genai", "did you mean train-ai?"),
        ("bots", known),
    ]


@ensureDeferred
async def test_summary_has_refused_uses(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """The rules in the summary include refused uses, with the line or only the site."""
    site.replies["/open"] = Reply(200, headers=(("Content-Usage", "search=n"),))
    pages = [site.url(path) for path in ("/open", "/closed", "/closed/1")]
    await crawl(pages, {"ROBOTS_USE": ["train-ai", "search"]})
    assert (
        "    2  refuses train-ai (Content-Usage: /closed train-ai=n, search=y)"
        f" ({site.url('')} line 3)\n"
        f"    1  refuses search (header Content-Usage: search=n) ({site.url('')})"
    ) in caplog.text


@ensureDeferred
async def test_attribute_that_is_not_a_list(site: Site) -> None:
    """A spider with a wrong attribute stops the crawl at start."""

    class Wrong(Pages):
        robots_use = 3

    with pytest.raises(SettingError, match="the spider's robots_use = 3 is not accepted"):
        await crawl([site.url("/open")], {"ROBOTS_USE": []}, spider=Wrong)


@pytest.mark.parametrize(
    ("setting", "meta"), [("trian-ai", None), ("trian-ai", "trian-ai"), ([], "trian-ai")]
)
@ensureDeferred
async def test_unknown_label(
    site: Site, caplog: pytest.LogCaptureFixture, setting: Any, meta: Any
) -> None:
    """An unknown label declares all known ones, too. One warning names it and a similar one."""
    requests = [
        Request(site.url(path), meta={"robots_declared_use": meta})
        for path in ("/closed", "/closed/1")
    ]
    result = await crawl(requests, {"ROBOTS_USE": setting})
    for request in requests:
        assert result.dropped(request.url).why.startswith("robots.txt line 3: refuses train-ai (")
    warning = (
        "The declared use 'trian-ai' is not a known label, so it also declares all known ones;"
        " did you mean train-ai?"
    )
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings.count(warning) == 1


@pytest.mark.parametrize("dry_run", [False, True])
@ensureDeferred
async def test_meta_that_is_not_a_list(site: Site, dry_run: bool) -> None:
    """A request with wrong meta fails and isn't allowed, and the error says what is accepted."""
    pages = [
        Request(site.url(path), meta={"robots_declared_use": 3}) for path in ("/open", "/never")
    ]
    result = await crawl(pages, {"ROBOTS_USE": [], "ROBOTS_DRY_RUN": dry_run})
    assert "robots_declared_use is 3, but it must be a list or a" in str(
        result.outcomes[site.url("/open")]
    )
    assert (result.stat("allowed"), result.stat("forbidden")) == (0, 1)


@ensureDeferred
async def test_as_the_page_shows(site: Site) -> None:
    """Without the add-on, the middleware works at the position in docs/switching_on.md."""
    by_hand = settings(block("docs/switching_on.md", "python", "DOWNLOADER_MIDDLEWARES"))
    [cell] = [row[1] for row in rows("docs/switching_on.md") if USE in row[1]]
    by_hand["DOWNLOADER_MIDDLEWARES"][USE] = int(cell.rpartition(" ")[2])
    assert await outcomes(site, "/closed", use=["train-ai"], **by_hand) == ["use"]


def test_python_on_the_page() -> None:
    """The assertions on docs/preferences.md hold."""
    exec(block("docs/preferences.md", "python", "RobotsTxt.parse"), {})


RECIPES = {
    "train-ai": settings(block("docs/preferences.md", "python", "ROBOTS_REPORT")),
    "search": settings(block("docs/preferences.md", "python", "ROBOTS_TAG_OBEY")),
    "ai-input": settings(block("docs/preferences.md", "python", "ai-input")),
}
#: What each page refuses.
REFUSALS = {
    "/train": (("Content-Signal", "search=yes, ai-train=no"),),
    "/noai": (("X-Robots-Tag", "noai"),),
    "/reserved": (("tdm-reservation", "1"),),
    "/search": (("Content-Usage", "search=n"),),
    "/input": (("Content-Signal", "ai-input=no"),),
    "/use": (("Content-Usage", "ai-use=n"),),
    "/nothing": (),
}


@pytest.mark.parametrize(
    ("use", "dropped"),
    [
        ("train-ai", {"/train", "/noai", "/reserved", "/filed"}),
        ("search", {"/search"}),
        ("ai-input", {"/input", "/use"}),
    ],
)
@ensureDeferred
async def test_recipes(
    use: str, dropped: set[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each recipe on docs/preferences.md drops the pages that refuse its uses, and no others."""
    monkeypatch.chdir(tmp_path)
    recipe = RECIPES[use]
    assert len(recipe) == 5
    reserved = json.dumps([{"location": "/filed", "tdm-reservation": 1}]).encode()
    replies: dict[str, Any] = {
        "/robots.txt": robots("User-agent: examplebot\nAllow: /\n"),
        "/.well-known/tdmrep.json": Reply(200, reserved),
        "/filed": PAGE,
        **{path: Reply(200, headers=headers) for path, headers in REFUSALS.items()},
    }
    with Site(replies) as site:
        paths = [*REFUSALS, "/filed"]
        found = await outcomes(site, *paths, DOWNLOADER_MIDDLEWARES={}, **recipe)
    assert {path for path, one in zip(paths, found, strict=True) if one == "use"} == dropped
    assert set(found) == {200, "use"}


@ensureDeferred
async def test_uses_of_each_request() -> None:
    """Uses in a request's meta count as docs/preferences.md shows, and its callback decides."""
    request = block("docs/preferences.md", "python", "robots_declared_use").removeprefix("yield ")
    callback = executed(block("docs/preferences.md", "python", "def parse"))["parse"]
    found: list[dict[str, Any]] = []

    class Deciding(Pages):
        def parse(self, response: Response, **_: Any) -> Any:
            found.extend(callback(self, response))

    replies: dict[str, Any] = {
        path: Reply(200, headers=headers) for path, headers in REFUSALS.items()
    }
    with Site(replies) as site:
        names = {"scrapy": scrapy, "url": site.url("/search")}
        pages = [eval(request, names), *map(site.url, ("/search/1", "/train", "/nothing"))]
        site.replies["/search/1"] = site.replies["/search"]
        await crawl(pages, {"ROBOTS_USE": []}, spider=Deciding)
    assert {item["url"]: item["may_train"] for item in found} == {
        pages[1]: True,
        pages[2]: False,
        pages[3]: True,
    }


def test_labels_of_the_page() -> None:
    """docs/preferences.md has a row for each known label, with its synonyms."""
    found = {row[0].strip("`"): row[1].strip("`") for row in rows("docs/preferences.md")}
    assert found == {label: ", ".join(synonyms) or "-" for label, synonyms in LABELS.items()}


TDMREP = [{"location": "/open", "tdm-reservation": 1}, {"location": "/*", "tdm-reservation": 0}]


@pytest.mark.parametrize(
    ("use", "expected"),
    [
        (["tdm"], ["use", 200]),
        (["train-ai", "tdm"], ["use", "use"]),
        (["train-ai"], ["use", "use"]),
        (["search"], [200, 200]),
        ([], [200, 200]),
    ],
)
@ensureDeferred
async def test_tdmrep_file(site: Site, use: list[str], expected: list[Any]) -> None:
    """If tdm or train-ai is declared, the site's tdmrep.json is requested once and counts."""
    site.replies["/.well-known/tdmrep.json"] = redirect("/elsewhere.json")
    site.replies["/elsewhere.json"] = Reply(200, json.dumps(TDMREP).encode())
    pages = ("/open", "/open/2", "/closed")
    site.replies["/open/2"] = PAGE
    found = await outcomes(site, *pages, use=use)
    assert [found[0], found[2]] == expected
    assert found[1] == found[0]
    asked = [page for page in site.pages if page.endswith(".json")]
    is_read = "tdm" in use or "train-ai" in use
    assert asked == (["/.well-known/tdmrep.json", "/elsewhere.json"] if is_read else [])


@ensureDeferred
async def test_tdmrep_file_and_what_overrides_it(site: Site) -> None:
    """A header overrides the file, and a disallowed file refuses nothing."""
    name = "/.well-known/tdmrep.json"
    site.replies[name] = Reply(200, json.dumps(TDMREP).encode())
    assert await outcomes(site, "/open", use=["tdm"]) == ["use"]
    site.replies["/open"] = Reply(200, headers=(("tdm-reservation", "0"),))
    assert await outcomes(site, "/open", use=["tdm"]) == [200]
    site.replies["/open"] = PAGE
    site.replies["/robots.txt"] = robots("User-agent: *\nDisallow: /.well-known/\n")
    site.asked.clear()
    assert await outcomes(site, "/open", use=["tdm"]) == [200]
    assert site.pages == ["/open"]
