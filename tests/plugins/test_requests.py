"""Plugins that make or change requests: page objects, proxies, User-Agents, media pipelines."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from pytest_twisted import ensureDeferred
from scrapy_poet import DummyResponse
from web_poet import HttpClient, WebPage
from web_poet.exceptions import HttpError

from tests.support.crawling import Pages, records
from tests.support.documents import block, executed, settings
from tests.support.recipes import crawl_by, ruled, verdicts
from tests.support.site import MISSING, Reply, Site, redirect

if TYPE_CHECKING:
    from pathlib import Path

    from scrapy.http import Response

POET = settings(block("docs/plugins.md", "python", "scrapy_poet"))
POLICY = executed(block("docs/plugins.md", "python", "class PagesOnly"))["PagesOnly"]
ROTATING = settings(block("docs/plugins.md", "python", "ROTATING_PROXY_LIST"))
RANDOM = settings(block("docs/plugins.md", "python", "scrapy_user_agents"))
MEDIA = settings(block("docs/plugins.md", "python", "FilesPipeline"))

SHOP = "http://shop.example"


@attrs.define
class ReviewedPage(WebPage):  # type: ignore[misc]  # web-poet is not installed for mypy
    """A page, and its reviews, which are on a disallowed page."""

    http: HttpClient

    async def to_item(self) -> dict[str, Any]:
        """Return the text of the page, and `None` instead of the reviews."""
        try:
            reviews = (await self.http.get(self.urljoin("/private/reviews"))).text
        except HttpError:
            reviews = None
        return {"page": self.css("p::text").get(), "reviews": reviews}


@ensureDeferred
async def test_scrapy_poet() -> None:
    """Pages with page objects are judged, and so are the requests of page objects."""
    items: list[Any] = []

    class Poet(Pages):
        async def parse(self, response: Response, page: ReviewedPage) -> None:  # type: ignore[override]
            self.outcomes[response.url] = response.status
            items.append(await page.to_item())

    Poet.parse.__annotations__["page"] = ReviewedPage  # scrapy-poet reads annotations
    Poet.parse.__annotations__.pop("response")
    with ruled() as site:
        result = await crawl_by(POET, [site.url("/open"), site.url("/private")], spider=Poet)
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt", "/open"]
        assert items == [{"page": "page", "reviews": None}]
        assert result.stat("forbidden/rule") == 2


@ensureDeferred
async def test_scrapy_poet_without_a_download() -> None:
    """A page whose callback needs no response is judged, although it is not downloaded."""

    class Dummy(Pages):
        def parse(self, response: DummyResponse) -> None:  # type: ignore[override]
            self.outcomes[response.url] = response.status

    Dummy.parse.__annotations__["response"] = DummyResponse  # scrapy-poet reads annotations
    with ruled() as site:
        result = await crawl_by(POET, [site.url("/open"), site.url("/private")], spider=Dummy)
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt"]


@pytest.fixture
def rotating(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The recipe for rotating proxies, with its policy in a project."""
    module = ModuleType("myproject.policy")
    module.PagesOnly = POLICY  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "myproject", ModuleType("myproject"))
    monkeypatch.setitem(sys.modules, "myproject.policy", module)
    return ROTATING


@ensureDeferred
async def test_rotating_proxies(rotating: dict[str, Any]) -> None:
    """robots.txt is requested through another proxy if one fails, and its rules are obeyed."""
    pages = [f"{SHOP}/open", f"{SHOP}/private"]
    targets = [f"{SHOP}/robots.txt", *pages]
    with ruled() as site, Site({target: Reply(reset=True) for target in targets}) as broken:
        site.replies[f"{SHOP}/robots.txt"] = site.replies["/robots.txt"]
        proxies = [broken.url(""), site.url("")]
        result = await crawl_by(rotating, pages, ROTATING_PROXY_LIST=proxies)
        assert verdicts(result) == {"open": "fetched", "private": "rule"}


@pytest.mark.parametrize(("policy", "attempts"), [(True, 1), (False, 6)])
@ensureDeferred
async def test_missing_robots_txt_behind_a_rotating_proxy(
    rotating: dict[str, Any], policy: bool, attempts: int
) -> None:
    """A missing robots.txt counts as a ban, unless the recipe's policy excludes it."""
    recipe = dict(rotating)
    if not policy:
        del recipe["ROTATING_PROXY_BAN_POLICY"]
    with Site({f"{SHOP}/robots.txt": MISSING}) as proxy:
        proxies = [proxy.url("")]
        result = await crawl_by(recipe, [f"{SHOP}/open"], ROTATING_PROXY_LIST=proxies)
        assert verdicts(result) == {"open": "fetched"}
        assert proxy.targets.count(f"{SHOP}/robots.txt") == attempts


@ensureDeferred
async def test_random_user_agents(caplog: pytest.LogCaptureFixture) -> None:
    """Pages are judged by the setting's token, and one warning says that the header differs."""
    with ruled() as site:
        result = await crawl_by(RANDOM, [site.url("/open"), site.url("/private")])
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert all("Mozilla" in asked.headers["User-Agent"] for asked in site.asked)
    assert sum("User-Agent" in record for record in records(caplog)) == 1


@ensureDeferred
async def test_media_pipeline(tmp_path: Path) -> None:
    """A disallowed file, and a file that was moved to a disallowed URL, are missing in the item."""
    items: list[Any] = []

    class Media(Pages):
        def parse(self, response: Response, **_: Any) -> Any:
            targets = ("/file", "/private/file", "/moved")
            items.append({"file_urls": [response.urljoin(target) for target in targets]})
            yield items[0]

    with ruled() as site:
        site.replies["/moved"] = redirect("/private/moved")
        recipe = {**MEDIA, "FILES_STORE": str(tmp_path), "MEDIA_ALLOW_REDIRECTS": True}
        result = await crawl_by(recipe, [site.url("/open")], spider=Media)
        assert [file["url"] for file in items[0]["files"]] == [site.url("/file")]
        assert sorted(site.targets) == ["/file", "/moved", "/open", "/robots.txt"]
        assert result.stat("forbidden/rule") == 2
