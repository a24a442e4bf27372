"""Crawl the same sites with Scrapy's own robots.txt middleware and with scrapy_robots_rfc, and
compare which pages are fetched.

    python stock.py

Each row is a site on this machine. Its robots.txt disallows the requested pages, or cannot be
fetched. The settings are Scrapy's defaults, unless the row says otherwise. The numbers are pages
that were fetched although they should not be, counted in the sites' own logs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import scrapy
from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess, Crawler

from demo.certificate import tls_context
from demo.server import Reply, Site

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Iterator

    from scrapy.http import Response

CLOSED = b"User-agent: *\nDisallow: /\n"
OPEN = b"User-agent: *\nAllow: /\n"
BROWSER_LIKE = "Mozilla/5.0 (compatible; FooBot/2.1; +https://foo.example/bot)"

STOCK: dict[str, Any] = {"ROBOTSTXT_OBEY": True}
# Without retries, because the failing sites never recover.
OURS: dict[str, Any] = {
    "ADDONS": {"scrapy_robots_rfc.Addon": 500},
    "ROBOTS_UNREACHABLE_BACKOFF": [],
}
QUIET: dict[str, Any] = {
    "LOG_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "HTTPPROXY_ENABLED": False,
}


@dataclass(frozen=True, slots=True)
class Case:
    """A row of the table.

    :param name: the name of the row in the table and in docs/demo.md.
    :param description: what the site does.
    :param robots: the reply to a request for robots.txt.
    :param pages: how many pages are requested.
    :param settings: the settings that differ from Scrapy's defaults.
    :param https: the reply for robots.txt over https. The crawl then requests a page over http,
        which is allowed, and after it one over https.
    """

    name: str
    description: str
    robots: Reply
    pages: int = 1
    settings: dict[str, Any] = field(default_factory=dict)
    https: Reply | None = None

    def start(self, context: ssl.SSLContext) -> Running:
        """Start the site of this row."""
        secure = {"/robots.txt": self.https} if self.https else {}
        site = Site(
            {"/robots.txt": self.robots}, tls=context if self.https else None, secure_replies=secure
        )
        site.start()
        return Running(self, site)


def cases(elsewhere: str) -> Iterator[Case]:
    """Yield the rows.

    :param elsewhere: the URL of a file on another host that disallows everything.
    """
    yield Case("plain", "for comparison: `Disallow: /`, one page", Reply(body=CLOSED))
    yield Case(
        "waiting",
        "the same, but robots.txt is slow, and 20 pages wait for it",
        Reply(body=CLOSED, delay=0.5),
        pages=20,
    )
    yield Case("503", "robots.txt answers 503", Reply(503, b"try again later"))
    yield Case("dropped", "the connection breaks during the robots.txt request", Reply(drop=True))
    moved = Reply(301, location=elsewhere)
    yield Case(
        "redirect", "it redirects robots.txt to another host; the spider has allowed_domains", moved
    )
    yield Case(
        "https",
        "robots.txt allows everything for http, nothing for https",
        Reply(body=OPEN),
        https=Reply(body=CLOSED),
    )
    large = Reply(body=CLOSED + b"# A comment.\n" * 100_000)
    yield Case(
        "large",
        "robots.txt is larger than DOWNLOAD_MAXSIZE",
        large,
        settings={"DOWNLOAD_MAXSIZE": 1_000_000},
    )
    split = b"User-agent: scrapy\nCrawl-delay: 0\nUser-agent: otherbot\nDisallow: /\n"
    yield Case(
        "record",
        "Crawl-delay between two User-agent lines splits their group",
        Reply(body=split),
    )
    word = Reply(body=CLOSED + b"User-agent: https\nAllow: /\n")
    yield Case(
        "url word", "allows only a crawler named `https`; Scrapy's User-Agent contains a URL", word
    )
    browsers = Reply(body=b"User-agent: foobot\nDisallow: /\n\nUser-agent: mozilla\nAllow: /\n")
    agent = {"USER_AGENT": BROWSER_LIKE}
    yield Case(
        "mozilla",
        "disallows FooBot, allows `mozilla`; the User-Agent looks like a browser's",
        browsers,
        settings=agent,
    )


@dataclass(slots=True)
class Running:
    """A case and its running site."""

    case: Case
    site: Site

    def __str__(self) -> str:
        fetched = sum(target != "/open" for target in self.site.pages)
        return f"{fetched} of {self.case.pages}"


class Pages(Spider):
    """Requests the pages of one case."""

    name = "pages"
    allowed_domains = ["127.0.0.1"]  # noqa: RUF012 - as Scrapy's spiders declare it

    def __init__(self, running: Running, **kwargs: Any) -> None:  # noqa: ANN401 - Scrapy's own
        super().__init__(**kwargs)
        self.running = running

    async def start(self) -> AsyncIterator[Any]:
        """Request all pages at once."""
        case, url = self.running.case, self.running.site.url
        for number in range(case.pages):
            yield Request(url("/open" if case.https else f"/{number}"))

    def parse(self, response: Response, **_: Any) -> Iterator[Request]:  # noqa: ANN401 - Scrapy's signature
        """Request the page over https after the page over http, whose robots.txt is known."""
        if self.running.case.https and response.url.startswith("http:"):
            yield Request(self.running.site.url("/secure", scheme="https"))


def crawl(crawls: list[tuple[dict[str, Any], Running]]) -> None:
    """Run the crawls at once, each with its own settings, until all have ended."""
    process = AsyncCrawlerProcess(QUIET)
    for settings, running in crawls:
        process.crawl(
            Crawler(Pages, {**QUIET, **running.case.settings, **settings}), running=running
        )
    process.start()
    for _, running in crawls:
        running.site.stop()


def main() -> None:
    """Crawl the sites with both middlewares, and print the table."""
    elsewhere = Site({"/rules.txt": Reply(body=CLOSED)}, host="localhost")
    elsewhere.start()
    rows, context = list(cases(elsewhere.url("/rules.txt"))), tls_context()
    stock, ours = [row.start(context) for row in rows], [row.start(context) for row in rows]
    crawl([(STOCK, running) for running in stock] + [(OURS, running) for running in ours])
    print("Pages that were fetched although they should not be\n")
    cells = [
        ("row", "what the site does", f"Scrapy {scrapy.__version__} alone", "with this plugin")
    ]
    cells += [
        (row.name, row.description, str(left), str(right))
        for row, left, right in zip(rows, stock, ours, strict=True)
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for line in cells:
        print("  ".join(map(str.ljust, line, widths)).rstrip())


if __name__ == "__main__":
    main()
