"""The demo's web: a few hundred sites with names of their own, and one server that answers for all
of them.

The workers reach it as their proxy, so that the names need not exist: it is asked for whole URLs.
This file has what the sites say, and what their owners close. The server is the demo's,
`demo/server.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from demo.server import Reply, Site

PAGES = 4  # that a front page links to, beside one that most sites close
PACED_PAGES = 12
INTERVAL = 0.5  # seconds that a paced site asks for
SLOW = 3.0  # seconds that the slow site takes for its robots.txt

RULES = b"User-agent: *\nDisallow: /private/\n"
CLOSED = b"User-agent: *\nDisallow: /\n"
PACED = b"User-agent: *\nCrawl-delay: %g\nDisallow: /private/\n" % INTERVAL


@dataclass(frozen=True, slots=True)
class Home:
    """One site of the web.

    :param name: its host.
    :param robots: what it answers to robots.txt.
    :param closed: its owner closes all pages whose path begins so; ``None``: nothing.
    :param pages: how many pages the front page links to.
    :param interval: seconds that it wants between two requests.
    """

    name: str
    robots: Reply
    closed: str | None = "/private/"
    pages: int = PAGES
    interval: float = 0.0

    @property
    def origin(self) -> str:
        """Scheme and host."""
        return f"http://{self.name}"

    def url(self, target: str = "/") -> str:
        """Return an absolute URL of this site."""
        return self.origin + target

    @property
    def targets(self) -> tuple[str, ...]:
        """All paths that there are, the front page first."""
        return (
            "/",
            *(f"/page-{number}.html" for number in range(1, self.pages + 1)),
            "/private/plan.html",
        )

    def closes(self, url: str) -> bool:
        """Whether the owner wants a page of this site left alone."""
        return self.closed is not None and url.startswith(self.url(self.closed))

    @property
    def front(self) -> Reply:
        """The page that links to all others."""
        links = "".join(f'<li><a href="{target}">{target}</a>' for target in self.targets[1:])
        body = f"<!doctype html><title>{self.name}</title><ul>{links}</ul>"
        return Reply(body=body.encode(), content_type="text/html")


#: The site whose first worker is killed.
SLOW_SITE = Home("slow.example", Reply(body=RULES, delay=SLOW))


def homes(count: int) -> list[Home]:
    """Return so many sites, the paced ones and the slow one among them."""
    paced = [
        Home(f"paced-{n}.example", Reply(body=PACED), pages=PACED_PAGES, interval=INTERVAL)
        for n in (1, 2)
    ]
    return [*paced, SLOW_SITE, *(_home(number) for number in range(1, count - len(paced)))]


def _home(number: int) -> Home:
    name = f"site-{number:03}.example"
    if number % 10 == 3:
        return Home(name, Reply(404, b"not found"), closed=None)
    if number % 10 == 7:
        return Home(name, Reply(body=CLOSED), closed="/")
    return Home(name, Reply(body=RULES, delay=0.1))


def serve(sites: list[Home]) -> Site:
    """Start the server that answers for all of them; its log has whole URLs."""
    replies = {home.url("/robots.txt"): home.robots for home in sites} | {
        home.url(): home.front for home in sites
    }
    server = Site(replies)
    server.start()
    return server


def seeds(sites: list[Home]) -> list[str]:
    """Return the URLs that the crawl begins with: front pages, the slow site's after a third of
    them.

    The pages of paced sites stand among them one by one, each before the one that links to it, so
    that several workers have some of one site in their hands.
    """
    fronts = [home.url() for home in sites if not home.interval and home is not SLOW_SITE]
    paced = [
        home.url(target) for home in sites if home.interval for target in reversed(home.targets)
    ]
    fronts.insert(len(fronts) // 3, SLOW_SITE.url())
    every = max(len(fronts) // max(len(paced), 1), 1)
    for number, url in enumerate(paced):
        fronts.insert(number * (every + 1), url)
    return fronts
