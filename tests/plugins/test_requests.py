"""Plugins that make or change requests.

Scrapy-poet, rotating proxies, random User-Agents, media pipelines.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request
from scrapy_poet import DummyResponse

from tests.support.crawling import Pages, records
from tests.support.documents import block, executed, imported, settings
from tests.support.recipes import crawl_by, ruled, verdicts
from tests.support.site import MISSING, Reply, Site, redirect

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from scrapy.http import Response

POET = settings(block("docs/plugins.md", "python", "scrapy_poet"))
PAGE_OBJECT = block("docs/plugins.md", "python", "class ReviewedPage")
POLICY = executed(block("docs/plugins.md", "python", "class PagesOnly"))["PagesOnly"]
ROTATING = settings(block("docs/plugins.md", "python", "ROTATING_PROXY_LIST"))
RANDOM = settings(block("docs/plugins.md", "python", "scrapy_user_agents"))
BEHIND = [f"http://shop.example/{page}" for page in ("robots.txt", "open", "private")]
MEDIA = settings(block("docs/plugins.md", "python", "FilesPipeline"))


@ensureDeferred
async def test_scrapy_poet(tmp_path: Path) -> None:
    """Pages with page objects are judged, and so is what these ask for."""
    module = imported(PAGE_OBJECT, tmp_path)
    items: list[Any] = []

    class Poet(Pages):
        async def parse(self, response: Response, page: module.ReviewedPage) -> None:  # type: ignore[override, name-defined]
            self.outcomes[response.url] = response.status
            items.append(await page.to_item())

    Poet.parse.__annotations__["page"] = module.ReviewedPage  # scrapy-poet looks at annotations
    Poet.parse.__annotations__.pop("response")
    with ruled() as site:
        result = await crawl_by(POET, [site.url("/open"), site.url("/private")], spider=Poet)
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt", "/open"]
        assert items == [{"page": "page", "reviews": None}]
        assert result.stat("forbidden/rule") == 2


@ensureDeferred
async def test_scrapy_poet_without_a_download() -> None:
    """A page whose callback needs no response is not downloaded, and is judged all the same."""

    class Dummy(Pages):
        def parse(self, response: DummyResponse) -> None:  # type: ignore[override]
            self.outcomes[response.url] = response.status

    Dummy.parse.__annotations__["response"] = DummyResponse  # scrapy-poet looks at annotations
    with ruled() as site:
        result = await crawl_by(POET, [site.url("/open"), site.url("/private")], spider=Dummy)
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["/robots.txt"]


@pytest.mark.parametrize(
    "policy", [True, False], ids=["policy of the page", "policy of the plugin"]
)
@ensureDeferred
async def test_rotating_proxies(monkeypatch: pytest.MonkeyPatch, policy: bool) -> None:
    """robots.txt goes through the proxies, and a missing one is no ban where the page's policy
    says so.
    """
    module = ModuleType("myproject.policy")
    module.PagesOnly = POLICY  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "myproject", ModuleType("myproject"))
    monkeypatch.setitem(sys.modules, "myproject.policy", module)
    recipe = dict(ROTATING)
    if not policy:
        del recipe["ROTATING_PROXY_BAN_POLICY"]
    with Site({"http://shop.example/robots.txt": MISSING}) as proxy:
        result = await crawl_by(
            recipe, ["http://shop.example/open"], ROTATING_PROXY_LIST=[proxy.url("")]
        )
        assert verdicts(result) == {"open": "fetched"}
        asked = proxy.targets.count("http://shop.example/robots.txt")
        assert asked == (1 if policy else 6)
        assert result.stats.get("bans/status/404", 0) == (0 if policy else 6)


@ensureDeferred
async def test_rotating_proxies_obey() -> None:
    """What the file says through a proxy counts."""
    recipe = {key: value for key, value in ROTATING.items() if key != "ROTATING_PROXY_BAN_POLICY"}
    with ruled() as site:
        rules = site.replies["/robots.txt"]
        site.replies["http://shop.example/robots.txt"] = rules
        pages = ["http://shop.example/open", "http://shop.example/private"]
        result = await crawl_by(recipe, pages, ROTATING_PROXY_LIST=[site.url("")])
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert site.targets == ["http://shop.example/robots.txt", "http://shop.example/open"]


@ensureDeferred
async def test_rotating_proxies_leave_one_that_fails() -> None:
    """A proxy that breaks the connection for robots.txt is left for another one."""
    recipe = {key: value for key, value in ROTATING.items() if key != "ROTATING_PROXY_BAN_POLICY"}
    with ruled() as site, Site({target: Reply(reset=True) for target in BEHIND}) as broken:
        site.replies[BEHIND[0]] = site.replies["/robots.txt"]
        result = await crawl_by(
            recipe, BEHIND[1:], ROTATING_PROXY_LIST=[broken.url(""), site.url("")]
        )
        assert verdicts(result) == {"open": "fetched", "private": "rule"}


@ensureDeferred
async def test_random_user_agents(caplog: pytest.LogCaptureFixture) -> None:
    """The token of the setting is judged whatever header is sent.

    One warning says that they differ.
    """
    with ruled() as site:
        result = await crawl_by(RANDOM, [site.url("/open"), site.url("/private")])
        assert verdicts(result) == {"open": "fetched", "private": "rule"}
        assert {"Mozilla" in asked.headers["User-Agent"] for asked in site.asked} == {True}
    assert sum("User-Agent" in record for record in records(caplog)) == 1


class Media(Pages):
    """Yields an item with two files."""

    site: Site
    files: list[list[str]]

    async def start(self) -> AsyncIterator[Any]:
        """Ask for one page."""
        yield Request(self.site.url("/open"))

    def parse(self, response: Response, **_: Any) -> Any:
        """Yield what the page has."""
        targets = ("/file", "/private/file", "/moved")
        yield {"file_urls": [self.site.url(target) for target in targets], "files": []}


@ensureDeferred
async def test_media_pipeline(tmp_path: Path) -> None:
    """A file that is forbidden is not asked for, nor one that is moved to there.

    Both are missing in the item.
    """
    stored: list[list[str]] = []

    class Collect:
        def process_item(self, item: dict[str, Any]) -> dict[str, Any]:
            stored.append([file["url"] for file in item["files"]])
            return item

    with ruled() as site:

        class OfSite(Media):
            pass

        OfSite.site = site
        pipelines = {**MEDIA["ITEM_PIPELINES"], Collect: 2}
        recipe = {**MEDIA, "FILES_STORE": str(tmp_path), "ITEM_PIPELINES": pipelines}
        site.replies["/moved"] = redirect("/private/moved")
        result = await crawl_by(recipe, spider=OfSite, MEDIA_ALLOW_REDIRECTS=True)
        assert stored == [[site.url("/file")]]
        assert sorted(site.targets) == ["/file", "/moved", "/open", "/robots.txt"]
        assert result.stat("forbidden/rule") == 2
