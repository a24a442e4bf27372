"""Cookies for a single fetch. They are kept across its redirects and not used anywhere else.

Some sites respond to `/robots.txt` with a redirect to the same URL that sets a cookie, and only
serve the file if the next request sends that cookie.
"""

import re

from scrapy.http import Request, Response
from scrapy.http.cookies import CookieJar

# Maximum Set-Cookie lines per response and bytes per line (RFC 6265, 6.1), and maximum total bytes
# for these lines and for a Cookie header. Common servers accept headers up to 8 KiB, and the jar
# parses those in a few milliseconds.
_MAX_LINES = 50
_MAX_LINE = 4096
_MAX_HEADER = 8192

# Control characters except the tab, for example in `a=1\x00`.
_has_control_characters = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").search


class FetchCookies:
    """A cookie jar that follows RFC 6265, like Scrapy's own."""

    def __init__(self) -> None:
        self._jar: CookieJar | None = None  # created on demand, because few responses set cookies

    def keep(self, response: Response) -> None:
        """Store a redirect's cookies. Other responses don't lead to another request."""
        if b"Set-Cookie" not in response.headers or b"Location" not in response.headers:
            return
        lines: list[bytes] = []
        total_size = 0
        for line in response.headers.getlist(b"Set-Cookie")[:_MAX_LINES]:
            total_size += len(line)
            if total_size > _MAX_HEADER:
                break
            if len(line) <= _MAX_LINE and not _has_control_characters(line):
                lines.append(line)
        if self._jar is None:
            self._jar = CookieJar()
        checked = Response(response.url, headers={b"Set-Cookie": lines})
        self._jar.extract_cookies(checked, Request(response.url))

    def header_for(self, url: str) -> bytes:
        """Return the Cookie header to send to a URL, which is empty if no cookies match it."""
        if self._jar is None:
            return b""
        request = Request(url)
        self._jar.add_cookie_header(request)
        header = request.headers.get(b"Cookie") or b""
        return header if len(header) <= _MAX_HEADER else b""
