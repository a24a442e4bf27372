"""`scrapy crawl gemini`: crawl a Gemini capsule, and show what each kind of crawler may fetch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from scrapy import Request, Spider, signals

from demo.gemini import Capsule
from scrapy_robots_rfc import robots_service

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from scrapy.crawler import Crawler
    from scrapy.http import Response

ROBOTS = """\
User-agent: *
Disallow: /drafts

User-agent: archiver
Disallow: /

User-agent: webproxy
Disallow: /essays
Disallow: /drafts
"""
PAGE = ("20 text/gemini", "# A page\n")
PAGES = {
    "/": PAGE,
    "/essays/trust.gmi": PAGE,
    "/drafts/idea.gmi": PAGE,
    "/robots.txt": ("20 text/plain", ROBOTS),
}
#: Names for the purposes of crawlers. A capsule addresses crawlers by purpose, because Gemini
#: requests have no User-Agent.
PURPOSES = ("archiver", "indexer", "researcher", "webproxy")


class GeminiSpider(Spider):
    """Crawls a capsule as an indexer, and shows what crawlers with other purposes may fetch."""

    name = "gemini"
    handle_httpstatus_list = [20]  # noqa: RUF012 - as Scrapy's spiders declare it; 20 is Gemini's status for a page

    # The name of the crawler, then its purposes. A group for demobot would decide alone. Without
    # one, every purpose must be allowed, by its own group or by the group for *.
    robotstxt_user_agent = ("demobot", "indexer")

    @classmethod
    def from_crawler(cls, crawler: Crawler, *args: Any, **kwargs: Any) -> Self:  # noqa: ANN401 - what the command line gives
        """Create the spider, and a capsule that runs during the crawl."""
        spider = super().from_crawler(crawler, *args, **kwargs)
        spider.capsule, spider.rows = Capsule(PAGES), list[str]()
        crawler.signals.connect(spider.capsule.stop, signals.engine_stopped)
        return spider

    capsule: Capsule
    rows: list[str]

    async def start(self) -> AsyncIterator[Any]:
        """Request all pages, and get the verdicts for the other purposes."""
        robots = await robots_service(self.crawler).robots(self.capsule.url("/"))
        for path in PAGES.keys() - {"/robots.txt"}:
            url = self.capsule.url(path)
            verdicts = [
                "yes" if robots.decide(url, ["demobot", purpose]).allowed else "no"
                for purpose in PURPOSES
            ]
            self.rows.append(
                f"{path:<22}{''.join(f'{verdict:<12}' for verdict in verdicts)}".rstrip()
            )
            yield Request(url)

    def parse(self, response: Response) -> None:
        """Ignore the page; the capsule logs that it was fetched."""

    def closed(self, reason: str) -> None:  # noqa: ARG002 - Scrapy's name
        """Print the file, the verdicts, and the pages that were fetched."""
        print(
            "The robots.txt of the capsule:",
            "",
            *(f"    {line}".rstrip() for line in ROBOTS.splitlines()),
            sep="\n",
        )
        columns = "".join(f"{purpose:<12}" for purpose in PURPOSES)
        print(
            "",
            f"{'May it be fetched by':<22}{columns}".rstrip(),
            sep="\n",
        )
        print(*sorted(self.rows), "", sep="\n")
        fetched = sorted(path for path in self.capsule.log if path != "/robots.txt")
        files = self.capsule.log.count("/robots.txt")
        print(
            f"This crawl is an indexer. The capsule's log: robots.txt {files} time, pages"
            f" {', '.join(fetched)}"
        )
