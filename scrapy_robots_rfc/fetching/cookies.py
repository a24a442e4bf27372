"""The cookies of one fetch: kept along its redirects, sent to no other request.

Some sites answer `/robots.txt` with a redirect to itself that sets a cookie, and send the file
only to a request that has the cookie.
"""

import re

from scrapy.http import Request, Response
from scrapy.http.cookies import CookieJar

# Maximum Set-Cookie lines of one answer and bytes of a line (RFC 6265, 6.1), and maximum bytes of
# these lines and of a Cookie header. Common servers accept headers of 8 KiB, and the jar reads them
# in some milliseconds.
_MAX_LINES = 50
_MAX_LINE = 4096
_MAX_HEADER = 8192

_has_control_characters = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]").search


class FetchCookies:
    """A cookie jar that follows RFC 6265, as Scrapy's own does."""

    def __init__(self) -> None:
        self._jar: CookieJar | None = None  # created when an answer sets a cookie: few do

    def keep(self, response: Response) -> None:
        """Store the cookies that a redirect sets. No other answer is followed by a request."""
        if b"Set-Cookie" not in response.headers or b"Location" not in response.headers:
            return
        lines: list[bytes] = []
        left = _MAX_HEADER
        for line in response.headers.getlist(b"Set-Cookie")[:_MAX_LINES]:
            left -= len(line)
            if left < 0:
                break
            if len(line) <= _MAX_LINE and not _has_control_characters(line):
                lines.append(line)
        if self._jar is None:
            self._jar = CookieJar()
        answer = Response(response.url, headers={b"Set-Cookie": lines})
        self._jar.extract_cookies(answer, Request(response.url))

    def header_for(self, url: str) -> bytes:
        """Return the Cookie header of a request for a URL, empty if no cookie is for that URL."""
        if self._jar is None:
            return b""
        request = Request(url)
        self._jar.add_cookie_header(request)
        header = request.headers.get(b"Cookie") or b""
        return header if len(header) <= _MAX_HEADER else b""
