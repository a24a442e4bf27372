"""What the demo's web sites say: one exhibit an origin, each on a port of its own.

It has the sites' pages, and what their owner closes to whom. It has no verdicts: these come
from the crawl.
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

# 512,000 octets count (RFC 9309, 2.5: at least 500 KiB). One rule stands before that, one beyond
# it. The file is long enough for its end to be far away when the transfer is cut off, so that the
# connection cannot be taken for a free one.
LARGE = (
    b"User-agent: *\nDisallow: /before/\n"
    + b"# A comment to fill the file.\n" * 36_000
    + b"Disallow: /beyond/\n"
)

PACED = b"User-agent: *\nCrawl-delay: 0.3\n"

SLOW_PAGES = 20


@dataclass(frozen=True, slots=True)
class Exhibit:
    """One origin, and what it shows.

    :param title: one line for the visitor.
    :param site: who answers.
    :param asks: what the demo spider asks for.
    :param closed: what the owner closes, by product token. The site's log is checked against it.
    :param batch: where set, all pages are one row of the table, under this name.
    :param paced: the site asks for a pace: the table shows the shortest gap between two requests.
    :param follow: the demo spider follows the links of these pages.
    """

    title: str
    site: Site
    asks: tuple[str, ...]
    closed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    batch: str | None = None
    paced: bool = False
    follow: bool = False

    def trespasses(self, token: str) -> list[str]:
        """Return what was asked for, by the site's own log, although it is closed to a crawler."""
        return [target for target in self.site.pages if target in self.closed.get(token, ())]


def exhibits() -> dict[str, Exhibit]:
    """Return the demo's origins by name; their sites have started."""
    elsewhere = Site({"/shared-rules.txt": Reply(body=HALF)}, host="localhost")
    elsewhere.start()
    found = {
        **_about_rules(),
        **_about_pages(),
        **_about_pace(),
        **_about_access(elsewhere.url("/shared-rules.txt")),
    }
    for exhibit in found.values():
        exhibit.site.start()
    return {**found, "elsewhere": Exhibit("The host that is redirected to", elsewhere, ())}


def _about_rules() -> dict[str, Exhibit]:
    return {
        "rules": _exhibit(
            "Rules: the longest match decides, wherever it stands; * is any text, $ is the end",
            {"/robots.txt": Reply(body=RULES)},
            allowed=("/", "/private/press/news.html", "/files/plan.pdf.html", "/list?page=2"),
            closed=("/private/plan.html", "/files/plan.pdf", "/list?sort=price"),
        ),
        "groups": Exhibit(
            "Groups: the site is closed to all, but has a group for demobot, and only that one"
            " counts for it",
            Site({"/robots.txt": Reply(body=GROUPS)}),
            ("/", "/news.html", "/drafts/idea.html"),
            {
                "demobot": frozenset({"/drafts/idea.html"}),
                "presswatch": frozenset({"/", "/news.html", "/drafts/idea.html"}),
            },
        ),
        "port": _exhibit(
            "Another port of the same host: another robots.txt, and nothing is closed here",
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
            "Pages with rules of their own: the links of one that says nofollow are not followed"
            " (ROBOTS_TAG_OBEY)",
            Site(replies),
            ("/open.html", "/header.html", "/meta.html"),
            {"demobot": frozenset({"/a.html", "/b.html"})},
            follow=True,
        ),
        "use": _exhibit(
            "Uses: the demo says that it trains models (ROBOTS_USE), and this site refuses that for"
            " some pages",
            {
                "/robots.txt": Reply(
                    body=b"User-agent: *\nContent-Usage: /essays/ train-ai=n\nAllow: /\n"
                )
            },
            allowed=("/news.html",),
            closed=("/essays/1.html",),
        ),
    }


def _about_pace() -> dict[str, Exhibit]:
    return {
        "paced": Exhibit(
            "Paced: the site asks for 0.3 s between two requests, and gets them, from"
            " robots.txt on",
            Site({"/robots.txt": Reply(body=PACED)}),
            ("/a.html", "/b.html", "/c.html"),
            paced=True,
        ),
    }


def _about_access(elsewhere: str) -> dict[str, Exhibit]:
    return {
        "missing": _exhibit(
            "No robots.txt (404): there are no rules, so every page may be fetched",
            {"/robots.txt": Reply(404, b"not found")},
            allowed=("/", "/private/plan.html"),
        ),
        "failing": _exhibit(
            "Failing robots.txt (503): its rules are unknown, so no page is fetched",
            {"/robots.txt": Reply(503, b"try again later")},
            closed=("/", "/private/plan.html"),
        ),
        "recovering": _exhibit(
            "Recovering robots.txt (503 at first): it is asked for again, and its pages wait until"
            " the rules are there",
            {"/robots.txt": Reply(body=HALF, failures=1)},
            allowed=("/",),
            closed=("/closed/plan.html",),
        ),
        "redirected": _exhibit(
            "robots.txt redirects to another host: what stands there are the rules here",
            {"/robots.txt": Reply(301, location=elsewhere)},
            allowed=("/open/a.html",),
            closed=("/closed/a.html",),
        ),
        "slow": _exhibit(
            f"Slow robots.txt: {SLOW_PAGES} pages wait a second for it, it is asked for once, and"
            " all of them obey it",
            {"/robots.txt": Reply(body=CLOSED, delay=1)},
            closed=tuple(f"/slow/{number}" for number in range(1, SLOW_PAGES + 1)),
            batch=f"/slow/1 to /slow/{SLOW_PAGES}",
        ),
        "large": _exhibit(
            f"Large robots.txt ({len(LARGE):,} octets): the first 512,000 count, what comes later"
            " does not",
            {"/robots.txt": Reply(body=LARGE)},
            allowed=("/beyond/a.html",),
            closed=("/before/a.html",),
        ),
    }


def _exhibit(
    title: str,
    replies: dict[str, Reply],
    *,
    allowed: tuple[str, ...] = (),
    closed: tuple[str, ...] = (),
    batch: str | None = None,
) -> Exhibit:
    return Exhibit(title, Site(replies), (*allowed, *closed), {"demobot": frozenset(closed)}, batch)
