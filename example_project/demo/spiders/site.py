"""`scrapy crawl site -a url=https://example.com/`.

What this crawler may fetch on a real site, and why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urlsplit

from scrapy.http import Response, TextResponse

from demo.reporting import ReportingSpider

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from scrapy import Request


class SiteSpider(ReportingSpider):
    """Follows the links of one site, politely: that origin only, one page a second, a few pages.

    :param url: where to begin.
    :param pages: how many pages are asked for at most, those that turn out to be disallowed
        included.
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
        # A page may redirect to another origin of the same host; other hosts are not asked.
        self.allowed_domains = [urlsplit(url).hostname or ""]
        self.seen: set[str] = set()

    async def start(self) -> AsyncIterator[Any]:
        """Ask for the first page."""
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).netloc:
            self.logger.error(
                "Name the site to crawl: scrapy crawl site -a url=https://example.com/"
            )
            return
        for request in self.new([self.url]):
            yield request

    async def parse(self, response: Response) -> Any:  # noqa: ANN401 - an asynchronous generator
        """Note the page, and follow its links."""
        await self.keep_fetched(response)
        if response.meta["position"] == 0:
            self.url = (
                response.url
            )  # http://example.com/ may lead to https://www.example.com/, and there is the site
        if isinstance(response, TextResponse):
            links = response.xpath("//a/@href").getall()
            for request in self.new([_joined(response, link) for link in links]):
                yield request

    def new(self, urls: list[str]) -> Iterator[Request]:
        """Yield requests for URLs of this origin that were not asked for yet, while there is
        room.
        """
        for url in urls:
            page = urldefrag(url).url
            if (
                _origin(page) == _origin(self.url)
                and page not in self.seen
                and len(self.seen) < self.pages
            ):
                self.seen.add(page)
                yield self.ask(page)


def _joined(response: TextResponse, link: str) -> str:
    try:
        return response.urljoin(link.strip())
    except ValueError:  # a link that is no URL leads nowhere
        return ""


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc
