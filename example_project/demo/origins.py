"""The demo's web sites, one for each exhibit and each on its own port.

They are content only: pages, and which pages their owners disallow. The verdicts come from the
crawl.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from demo.server import Reply, Site

if TYPE_CHECKING:
    from collections.abc import Mapping

RULES = b"""\
User-agent: *
Disallow: /private/
Allow: /private/press/
Disallow: /*.pdf$
Disallow: /*?sort=
"""

GROUPS = b"""\
User-agent: *
Disallow: /

User-agent: demobot
Disallow: /drafts/

User-agent: presswatch
Disallow: /
Allow: /drafts/press/
"""

OPEN = b"User-agent: *\nAllow: /\n"
CLOSED = b"User-agent: *\nDisallow: /\n"
HALF = b"User-agent: *\nDisallow: /closed/\n"

# The first 512,000 bytes count (RFC 9309, 2.5: at least 500 KiB). One rule is before that limit,
# one after it. Much of the file is left when the transfer is cut off, so that the connection is
# not reused.
LARGE = (
    b"User-agent: *\nDisallow: /before/\n"
    + b"# A comment to fill the file.\n" * 36_000
    + b"Disallow: /beyond/\n"
)

PACED = b"User-agent: *\nCrawl-delay: 0.3\n"

SLOW_PAGES = 20


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A site, and what it demonstrates.

    :param title: one line that says what the site demonstrates.
    :param site: the web site.
    :param targets: the pages that the demo spider requests.
    :param disallowed: the pages that the owner disallows, by product token. The site's log is
        checked against it.
    :param batch: if set, the label of the one row that all pages share in the table.
    :param paced: whether the site has a Crawl-delay.
    :param follow: whether the demo spider follows the links of the pages.
    """

    title: str
    site: Site
    targets: tuple[str, ...]
    disallowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    batch: str | None = None
    paced: bool = False
    follow: bool = False

    def violations(self, token: str) -> list[str]:
        """Return the requests in the site's log for pages that it disallows to a crawler."""
        return [target for target in self.site.pages if target in self.disallowed.get(token, ())]


def exhibits() -> dict[str, Exhibit]:
    """Start the sites, and return the exhibits by name."""
    elsewhere = Site({"/shared-rules.txt": Reply(body=HALF)}, host="localhost")
    elsewhere.start()
    by_name = {
        **_about_rules(),
        **_about_pages(),
        **_about_pace(),
        **_about_access(elsewhere.url("/shared-rules.txt")),
    }
    for exhibit in by_name.values():
        exhibit.site.start()
    return {**by_name, "elsewhere": Exhibit("The target of a redirect", elsewhere, ())}


def _about_rules() -> dict[str, Exhibit]:
    return {
        "rules": _exhibit(
            "Rules: the longest match wins, wherever it is in the file; * matches anything,"
            " $ the end",
            {"/robots.txt": Reply(body=RULES)},
            allowed=("/", "/private/press/news.html", "/files/plan.pdf.html", "/list?page=2"),
            disallowed=("/private/plan.html", "/files/plan.pdf", "/list?sort=price"),
        ),
        "groups": Exhibit(
            "Groups: the group for demobot counts, and the group for all other crawlers does not",
            Site({"/robots.txt": Reply(body=GROUPS)}),
            ("/", "/news.html", "/drafts/idea.html"),
            {
                "demobot": frozenset({"/drafts/idea.html"}),
                "presswatch": frozenset({"/", "/news.html", "/drafts/idea.html"}),
            },
        ),
        "port": _exhibit(
            "Another port of the same host: it has its own robots.txt, which allows everything",
            {"/robots.txt": Reply(body=OPEN)},
            allowed=("/private/plan.html", "/files/plan.pdf"),
        ),
    }


def _about_pages() -> dict[str, Exhibit]:
    link = b"<!doctype html><title>A page with a link</title>%b<p><a href=%b>another page</a>"
    html = "text/html"
    replies = {
        "/robots.txt": Reply(body=OPEN),
        "/open.html": Reply(body=link % (b"", b"/followed.html"), content_type=html),
        "/header.html": Reply(
            body=link % (b"", b"/a.html"), content_type=html, robots_tag="nofollow"
        ),
        "/meta.html": Reply(
            body=link % (b"<meta name=demobot content=nofollow>", b"/b.html"), content_type=html
        ),
    }
    return {
        "pages": Exhibit(
            "Pages: the links of a page that says nofollow are not followed (ROBOTS_TAG_OBEY)",
            Site(replies),
            ("/open.html", "/header.html", "/meta.html"),
            {"demobot": frozenset({"/a.html", "/b.html"})},
            follow=True,
        ),
        "use": _exhibit(
            "Use: the demo declares that it trains AI models (ROBOTS_USE); the site refuses that"
            " for some pages",
            {
                "/robots.txt": Reply(
                    body=b"User-agent: *\nContent-Usage: /essays/ train-ai=n\nAllow: /\n"
                )
            },
            allowed=("/news.html",),
            disallowed=("/essays/1.html",),
        ),
    }


def _about_pace() -> dict[str, Exhibit]:
    return {
        "paced": Exhibit(
            "Crawl-delay: there are at least 0.3 s between two requests, including robots.txt",
            Site({"/robots.txt": Reply(body=PACED)}),
            ("/a.html", "/b.html", "/c.html"),
            paced=True,
        ),
    }


def _about_access(elsewhere: str) -> dict[str, Exhibit]:
    return {
        "missing": _exhibit(
            "No robots.txt (404): there are no rules, so every page is allowed",
            {"/robots.txt": Reply(404, b"not found")},
            allowed=("/", "/private/plan.html"),
        ),
        "failing": _exhibit(
            "Failing robots.txt (503): the rules are unknown, so no page is fetched",
            {"/robots.txt": Reply(503, b"try again later")},
            disallowed=("/", "/private/plan.html"),
        ),
        "recovering": _exhibit(
            "Recovering robots.txt (503 once): it is retried, and the pages wait until the rules"
            " are known",
            {"/robots.txt": Reply(body=HALF, failures=1)},
            allowed=("/",),
            disallowed=("/closed/plan.html",),
        ),
        "redirected": _exhibit(
            "Redirected robots.txt: the file on the other host has the rules for this site",
            {"/robots.txt": Reply(301, location=elsewhere)},
            allowed=("/open/a.html",),
            disallowed=("/closed/a.html",),
        ),
        "slow": _exhibit(
            f"Slow robots.txt: it is requested once, {SLOW_PAGES} pages wait a second for it,"
            " and all of them obey it",
            {"/robots.txt": Reply(body=CLOSED, delay=1)},
            disallowed=tuple(f"/slow/{number}" for number in range(1, SLOW_PAGES + 1)),
            batch=f"/slow/1 to /slow/{SLOW_PAGES}",
        ),
        "large": _exhibit(
            f"Large robots.txt ({len(LARGE):,} bytes): only the rules in the first 512,000 bytes"
            " count",
            {"/robots.txt": Reply(body=LARGE)},
            allowed=("/beyond/a.html",),
            disallowed=("/before/a.html",),
        ),
    }


def _exhibit(
    title: str,
    replies: dict[str, Reply],
    *,
    allowed: tuple[str, ...] = (),
    disallowed: tuple[str, ...] = (),
    batch: str | None = None,
) -> Exhibit:
    return Exhibit(
        title, Site(replies), (*allowed, *disallowed), {"demobot": frozenset(disallowed)}, batch
    )
