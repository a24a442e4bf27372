"""The web of the demo: a few hundred sites, and one server that answers for all of them.

The workers use the server as their proxy, so the hosts of the sites need not exist.
"""

from __future__ import annotations

from dataclasses import dataclass

from demo.server import Reply, Site

PAGES = 4  # linked from the front page, besides a disallowed one
PACED_PAGES = 12
INTERVAL = 0.5  # seconds; the Crawl-delay of the paced sites
SLOW = 3.0  # seconds until the slow site sends its robots.txt

RULES = b"User-agent: *\nDisallow: /private/\n"
CLOSED = b"User-agent: *\nDisallow: /\n"
PACED = b"User-agent: *\nCrawl-delay: %g\nDisallow: /private/\n" % INTERVAL


@dataclass(frozen=True, slots=True)
class Host:
    """One site.

    :param robots: the answer to a request for its robots.txt.
    :param disallowed: the prefix of the paths that it disallows, or ``None``.
    :param pages: how many pages its front page links to.
    :param interval: its Crawl-delay in seconds, or 0.
    """

    name: str
    robots: Reply
    disallowed: str | None = "/private/"
    pages: int = PAGES
    interval: float = 0.0

    @property
    def origin(self) -> str:
        """The scheme and the name."""
        return f"http://{self.name}"

    def url(self, target: str = "/") -> str:
        """Return an absolute URL of this site."""
        return self.origin + target

    @property
    def targets(self) -> tuple[str, ...]:
        """All paths, the front page first."""
        pages = (f"/page-{number}.html" for number in range(1, self.pages + 1))
        return ("/", *pages, "/private/plan.html")

    @property
    def urls(self) -> list[str]:
        """The URLs of all pages."""
        return [self.url(target) for target in self.targets]

    def disallows(self, url: str) -> bool:
        """Whether the site disallows a page of it."""
        return self.disallowed is not None and url.startswith(self.url(self.disallowed))

    @property
    def front(self) -> Reply:
        """The page that links to all others."""
        links = "".join(f'<li><a href="{target}">{target}</a>' for target in self.targets[1:])
        body = f"<!doctype html><title>{self.name}</title><ul>{links}</ul>"
        return Reply(body=body.encode(), content_type="text/html")


#: The demo kills the worker that requests the robots.txt of this site.
SLOW_HOST = Host("slow.example", Reply(body=RULES, delay=SLOW))


def hosts(count: int) -> list[Host]:
    """Return sites: two paced ones, the slow one, and ordinary ones."""
    paced = [
        Host(f"paced-{number}.example", Reply(body=PACED), pages=PACED_PAGES, interval=INTERVAL)
        for number in (1, 2)
    ]
    return [*paced, SLOW_HOST, *(_ordinary(number) for number in range(1, count - len(paced)))]


def _ordinary(number: int) -> Host:
    name = f"site-{number:03}.example"
    if number % 10 == 3:
        return Host(name, Reply(404, b"not found"), disallowed=None)
    if number % 10 == 7:
        return Host(name, Reply(body=CLOSED), disallowed="/")
    return Host(name, Reply(body=RULES, delay=0.1))


def serve(sites: list[Host]) -> Site:
    """Start the server. Its log has absolute URLs, because the workers use it as a proxy."""
    server = Site(
        {host.url("/robots.txt"): host.robots for host in sites}
        | {host.url(): host.front for host in sites}
    )
    server.start()
    return server


def seeds(sites: list[Host]) -> list[str]:
    """Return the start URLs: the front pages, and all pages of the paced sites.

    The pages of a paced site are far from each other, so that several workers take some of them.
    The slow site comes after a third of the front pages.
    """
    urls = [host.url() for host in sites if not host.interval and host is not SLOW_HOST]
    paced = [url for host in sites if host.interval for url in reversed(host.urls)]
    urls.insert(len(urls) // 3, SLOW_HOST.url())
    distance = max(len(urls) // max(len(paced), 1), 1) + 1
    for number, url in enumerate(paced):
        urls.insert(number * distance, url)
    return urls
