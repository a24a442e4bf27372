"""`scrapy crawl site -a url=https://example.com/`: show what may be fetched on a site, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

from scrapy.http import Response, TextResponse

from demo.reporting import ReportingSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy import Request


class SiteSpider(ReportingSpider):
    """Follows the links of one site, one page per second, up to a few pages.

    :param url: the first page.
    :param pages: the maximum number of pages, including disallowed ones.
    """

    name = "site"
    custom_settings = {  # noqa: RUF012 - as Scrapy's spiders declare it
        "DOWNLOAD_DELAY": 1,  # seconds; `-s DOWNLOAD_DELAY=...` on the command line wins
        "CONCURRENT_REQUESTS_PER_DOMAIN": 1,
        "DOWNLOAD_TIMEOUT": 30,
        "ROBOTS_TIMEOUT": 30,
        "ROBOTS_UNREACHABLE_BACKOFF": [5, 15, 45],
    }

    def __init__(self, url: str = "", pages: str = "20", **kwargs: Any) -> None:  # noqa: ANN401 - Scrapy's own
        super().__init__(**kwargs)
        self.url, self.pages = url, int(pages)
        # A page may redirect to another port or scheme of the same host, but not to another host.
        self.allowed_domains = [urlsplit(url).hostname or ""]
        self.seen: set[str] = set()

    async def start(self) -> AsyncIterator[Any]:
        """Request the first page."""
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).netloc:
            self.logger.error(
                "No site to crawl. Try: scrapy crawl site -a url=https://example.com/"
            )
            return
        for request in self.new_requests([self.url]):
            yield request

    async def parse(self, response: Response) -> Any:  # noqa: ANN401 - an asynchronous generator
        """Record the page, and follow its links."""
        await self.record_fetched(response)
        if response.meta["position"] == 0:
            # http://example.com/ may redirect to https://www.example.com/: crawl that site.
            self.url = response.url
        if isinstance(response, TextResponse):
            links = response.xpath("//a/@href").getall()
            for request in self.new_requests([_joined(response, link) for link in links]):
                yield request

    def new_requests(self, urls: list[str]) -> Iterator[Request]:
        """Yield requests for the new URLs of this origin, up to the maximum number of pages."""
        for url in urls:
            page = urldefrag(url).url
            if (
                _origin(page) == _origin(self.url)
                and page not in self.seen
                and len(self.seen) < self.pages
            ):
                self.seen.add(page)
                yield self.request(page)


def _joined(response: TextResponse, link: str) -> str:
    try:
        return response.urljoin(link.strip())
    except ValueError:  # the link is not a URL
        return ""


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
