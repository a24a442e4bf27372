"""Reuse: a spider's own request for a robots.txt, answered with the file that the crawl goes by, without another fetch.

In here: which requests these are, and what the answer looks like. Where the file comes from is the service's business,
and who waits for it the middleware's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy.http import TextResponse

if TYPE_CHECKING:
    from urllib.parse import ParseResult

    from scrapy import Request

#: Request meta that asks for it.
KEY = "robotstxt_reuse"


def is_robots_txt(parts: ParseResult) -> bool:
    """Whether a URL is that of an origin's robots.txt (RFC 9309, 2.3)."""
    return parts.path == "/robots.txt" and not parts.query and not parts.params


def is_wanted(request: Request) -> bool:
    """Whether a request for a robots.txt asks to be answered from memory."""
    return request.method == "GET" and bool(request.meta.get(KEY))


def answer(request: Request, body: bytes) -> TextResponse:
    """Return the answer to such a request: it looks fetched, and its flags say that it was not."""
    return TextResponse(
        request.url,
        headers={"Content-Type": "text/plain; charset=utf-8"},
        body=body,
        # So Scrapy's HTTP cache, which sees all answers, knows that there is nothing to keep.
        flags=["cached", "robotstxt"],
        request=request,
    )
