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

SLOW_PAGES = 3


@dataclass(frozen=True, slots=True)
class Exhibit:
    """A site, and what it demonstrates.

    :param title: one line that says what the site demonstrates.
    :param site: the web site.
    :param targets: the pages that the demo spider requests.
    :param disallowed: the pages that the owner disallows, by product token. The site's log is
        checked against it.
    :param paced: whether the site has a Crawl-delay.
    """

    title: str
    site: Site
    targets: tuple[str, ...]
    disallowed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    paced: bool = False

    def violations(self, token: str) -> list[str]:
        """Return the requests in the site's log for pages that it disallows to a crawler."""
        return [target for target in self.site.pages if target in self.disallowed.get(token, ())]


def exhibits() -> dict[str, Exhibit]:
    """Start the sites, and return the exhibits by name."""
    elsewhere = Site({"/shared-rules.txt": Reply(body=HALF)}, host="localhost")
    elsewhere.start()
    by_name = {
        **_about_rules(),
        **_about_pace(),
        **_about_access(elsewhere.url("/shared-rules.txt")),
    }
    for exhibit in by_name.values():
        exhibit.site.start()
    return {**by_name, "elsewhere": Exhibit("The target of a redirect", elsewhere, ())}


def _about_rules() -> dict[str, Exhibit]:
    return {
        "rules": _exhibit(
            "the longest matching rule wins; * matches anything, $ the end",
            {"/robots.txt": Reply(body=RULES)},
            allowed=("/", "/private/press/news.html", "/files/plan.pdf.html", "/list?page=2"),
            disallowed=("/private/plan.html", "/files/plan.pdf", "/list?sort=price"),
        ),
        "groups": Exhibit(
            "the group for demobot applies, and the group for all others does not",
            Site({"/robots.txt": Reply(body=GROUPS)}),
            ("/", "/news.html", "/drafts/idea.html"),
            {
                "demobot": frozenset({"/drafts/idea.html"}),
                "presswatch": frozenset({"/", "/news.html", "/drafts/idea.html"}),
            },
        ),
    }


def _about_pace() -> dict[str, Exhibit]:
    return {
        "paced": Exhibit(
            "Crawl-delay: at least 0.3 s between two requests",
            Site({"/robots.txt": Reply(body=PACED)}),
            ("/a.html", "/b.html", "/c.html"),
            paced=True,
        ),
    }


def _about_access(elsewhere: str) -> dict[str, Exhibit]:
    return {
        "missing": _exhibit(
            "robots.txt is missing (404), so everything is allowed",
            {"/robots.txt": Reply(404, b"not found")},
            allowed=("/", "/private/plan.html"),
        ),
        "failing": _exhibit(
            "robots.txt answers 503, so nothing is allowed",
            {"/robots.txt": Reply(503, b"try again later")},
            disallowed=("/", "/private/plan.html"),
        ),
        "recovering": _exhibit(
            "robots.txt answers 503 once, and the pages wait for the retry",
            {"/robots.txt": Reply(body=HALF, failures=1)},
            allowed=("/",),
            disallowed=("/closed/plan.html",),
        ),
        "redirected": _exhibit(
            "robots.txt is redirected to another host",
            {"/robots.txt": Reply(301, location=elsewhere)},
            allowed=("/open/a.html",),
            disallowed=("/closed/a.html",),
        ),
        "slow": _exhibit(
            "robots.txt takes a second, and the pages wait for it",
            {"/robots.txt": Reply(body=CLOSED, delay=1)},
            disallowed=tuple(f"/slow/{number}" for number in range(1, SLOW_PAGES + 1)),
        ),
        "large": _exhibit(
            "only the first 512,000 bytes of a large robots.txt count",
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
) -> Exhibit:
    return Exhibit(
        title, Site(replies), (*allowed, *disallowed), {"demobot": frozenset(disallowed)}
    )
