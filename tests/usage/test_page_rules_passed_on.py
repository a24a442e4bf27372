"""Rules of pages do not apply to errbacks, exempt pages, and copied meta."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request, signals
from scrapy.http import HtmlResponse
from scrapy.spidermiddlewares.httperror import HttpError

from tests.support.crawling import Linked, Pages
from tests.usage.test_page_rules import META, counted, obeying, page, run

if TYPE_CHECKING:
    from collections.abc import Iterable

    from scrapy.http import Response
    from twisted.python.failure import Failure

    from tests.support.site import Site


class WithErrback(Pages):
    """Yields a request and an item for each error page, in its errback."""

    def failed(self, failure: Failure) -> Any:
        super().failed(failure)
        assert isinstance(failure.value, HttpError)
        response = failure.value.response
        yield {"page": response.status}
        yield Request(response.urljoin("/next"), callback=self.parse)


@ensureDeferred
async def test_requests_of_an_errback_pass(site: Site) -> None:
    """Requests and items of an errback pass, although its page has nofollow and noindex."""
    site.replies["/gone"] = replace(page(META, "none"), status=404)
    result = await run([site.url("/gone")], obeying("nofollow", "noindex"), spider=WithErrback)
    assert result.outcomes == {site.url("/gone"): 404, site.url("/next"): 200}
    assert result.stats["item_scraped_count"] == 1
    assert counted(result) == {}


class Empty(Pages):
    """Yields None and an item."""

    def parse(self, response: Response, **_: Any) -> Any:
        yield None
        yield {"page": response.status}


@ensureDeferred
async def test_nothing_is_no_item(site: Site) -> None:
    """A callback may yield None, which is not an item, so no rule drops it."""
    site.replies["/"] = page("", "noindex")
    result = await run([site.url()], obeying("noindex"), spider=Empty)
    assert counted(result) == {"noindex/header": 1}


class Copying(Pages):
    """Copies the meta of the first response to thirty requests, and sums up their stored sizes."""

    size = 0

    def parse(self, response: Response, **_: Any) -> Any:
        if "first" not in response.url:
            return
        self.crawler.signals.connect(self.scheduled, signals.request_scheduled)
        for number in range(30):
            yield Request(response.urljoin(f"/{number}"), meta=response.meta, callback=self.parse)

    def scheduled(self, request: Request) -> None:
        self.size += len(pickle.dumps(request.to_dict(spider=self), protocol=4))


@ensureDeferred
async def test_meta_that_callbacks_pass_on(site: Site) -> None:
    """With the meta of a hostile page, thirty requests take at most 100 KB more of JOBDIR."""
    tags = [", ".join(f"{number}-{line}-{'x' * 40}" for number in range(100)) for line in range(12)]
    labels = [", ".join(f"{number}{'é' * size}=yes" for number in range(50)) for size in (61, 31)]
    reply = page(f"<meta name=robots content='{', '.join(tags)}'>", *tags)
    reply = replace(reply, headers=(*reply.headers, *(("Content-Signal", one) for one in labels)))
    sizes = []
    for first in (page(""), reply):
        site.replies["/first"] = first
        settings = obeying("nofollow", ROBOTS_USE=["search"])
        result = await run([site.url("/first")], settings, spider=Copying)
        sizes.append(result.spider.size)
    assert 0 < sizes[1] - sizes[0] < 100_000


class AsksItself(Linked):
    """Yields the request of its response."""

    def first(self, response: Response) -> Iterable[Any]:
        yield response.request
        self.in_meta = response.meta.get("robots_tag")


@ensureDeferred
async def test_the_request_of_the_response_keeps_its_rules(site: Site) -> None:
    """The rules stay in the meta of a response whose request the callback yields."""
    site.replies["/"] = page("", "nofollow")
    result = await run([site.url()], obeying("nofollow"), spider=AsksItself)
    assert dict(result.spider.in_meta.directives) == {"nofollow": None}


@ensureDeferred
async def test_exempt_pages(site: Site, other: Site) -> None:
    """Exempt sites, pages and requests are not subject to rules of pages."""
    for each in (site, other):
        each.replies["/"] = page("", "none")
    says_so = {"dont_obey_robots_tag": True}
    settings = obeying("nofollow", "noindex", ROBOTS_EXEMPT=[other.url("")])
    for first in (Request(site.url(), meta=says_so), Request(other.url())):
        result = await run([first, site.url("/a")], settings)
        assert (counted(result), result.stats["item_scraped_count"]) == ({}, 1)
    requests = [site.url(), Request(site.url("/b"), meta=says_so), site.url("/c")]
    await run(requests, settings)
    assert site.pages == ["/", "/", "/a", "/a", "/b"]


class Handler:
    """Answers requests with a scheme that the user added."""

    lazy = False

    async def download_request(self, request: Request) -> Response:
        return HtmlResponse(request.url, headers={"X-Robots-Tag": "none"}, request=request)

    async def close(self) -> None:
        pass


@pytest.mark.parametrize(("exempt", "dropped"), [([], {"nofollow/header": 1}), (["a.example"], {})])
@ensureDeferred
async def test_exempt_site_with_a_scheme_that_a_user_added(
    exempt: list[str], dropped: dict[str, int]
) -> None:
    """ROBOTS_EXEMPT applies to sites with a scheme from ROBOTS_SCHEMES, too."""
    handlers = {"foo": Handler}
    schemes = {"foo": {"port": 7070, "answers": "http", "rules": "rfc9309"}}
    more = {"DOWNLOAD_HANDLERS": handlers, "ROBOTS_SCHEMES": schemes, "ROBOTS_EXEMPT": exempt}
    pages = ["foo://a.example/", "foo://a.example/next"]
    result = await run(pages, obeying("nofollow", **more))
    assert counted(result) == dropped
