"""URLs that people write on a command line: whose they are, how they are shown, and what is wrong with them.

In here: text. What is fetched from a URL is `asking.py`.
"""

from __future__ import annotations

import re
from base64 import b64encode
from urllib.parse import unquote_to_bytes, urlsplit

from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo

#: What a text is that has no origin, and what to do about it.
NO_URL = "no absolute http or https URL with a valid authority"
ADVICE = "write it as http://HOST/PATH or https://HOST/PATH"

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*")  # RFC 3986, 3.1


def origin_of(url: str) -> Origin:
    """Return the origin of a URL.

    :raises Failed: it has none.
    """
    origin = Origin.of(url)
    if origin is None:
        raise Failed(f"{shown(url)} is {NO_URL}; {ADVICE}", 2)
    return origin


def file_url(url: str) -> str:
    """Return the URL of the robots.txt that a URL stands for: that of a site stands for its file, any other for itself.

    :raises Failed: it has no origin.
    """
    origin_of(url)
    parts = urlsplit(url)
    if parts.path not in ("", "/") or parts.query:
        return url
    return parts._replace(path="/robots.txt", fragment="").geturl()


def authorization_of(url: str) -> bytes | None:
    """Return the value of the Authorization header that the userinfo of a URL stands for; ``None`` without userinfo."""
    userinfo, at, _ = urlsplit(url).netloc.rpartition("@")
    if not at:
        return None
    user, _, password = userinfo.partition(":")
    return b"Basic " + b64encode(unquote_to_bytes(user) + b":" + unquote_to_bytes(password))


def shown(url: str) -> str:
    """Return a URL for people: as `stripped`, and what a terminal acts on is escaped."""
    return printable(stripped(url))


def stripped(url: str) -> str:
    """Return a URL without userinfo.

    Of what is no URL nobody knows where its userinfo ends: all goes that stands before the last ``@``.
    """
    if Origin.of(url) is not None:
        return without_userinfo(url)
    scheme, separator, rest = url.partition("://")
    if separator and _SCHEME.fullmatch(scheme):
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return url.rpartition("@")[2]
