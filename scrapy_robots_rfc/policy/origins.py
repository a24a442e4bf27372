"""The service that a robots.txt file belongs to: scheme, host and effective port (RFC 9309, 2.3).

In here: how a URL becomes an origin, and an origin the URL of its file. Userinfo never gets past this module.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv6Address
from urllib.parse import urlsplit

#: The schemes whose files are asked for, with their default ports (RFC 9110, 4.2.1 and 4.2.2).
DEFAULT_PORTS = {"http": 80, "https": 443}

# What no host can hold: a host with one of these is refused, as two programs could read it as two hosts.
_NO_HOST = re.compile(r"[\x00-\x20\x7f\"#%/<>?@\[\\\]^`{|}]")


@dataclass(frozen=True, slots=True)
class Origin:
    """One service on the web. http and https, and two ports, are different services.

    :param scheme: ``http`` or ``https``.
    :param host: lower-case, IDNA-encoded, without a trailing dot; an IPv6 address without brackets, shortest form.
    :param port: the port that is connected to, also where the URL leaves it out.
    """

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin | None:
        """Return the origin of an absolute URL.

        :returns: ``None`` where the scheme is neither http nor https, or where there is no valid authority.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return None
        if parts.scheme not in DEFAULT_PORTS or not host:
            return None
        normal = _normal_ipv6(host) if "[" in parts.netloc else _normal_host(host)
        if normal is None or port == 0:
            return None
        return cls(parts.scheme, normal, DEFAULT_PORTS[parts.scheme] if port is None else port)

    @classmethod
    def written(cls, text: str) -> Origin | None:
        """Return the origin that is spelt just so: ``scheme://host``, with the port where it is not the default."""
        origin = cls.of(text)
        return origin if str(origin) == text else None

    @property
    def robots_url(self) -> str:
        """The URL of the file: ``scheme://authority/robots.txt``."""
        return f"{self}/robots.txt"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}"


def _normal_ipv6(host: str) -> str | None:
    try:
        address = IPv6Address(host)
    except AddressValueError:
        return None
    return None if address.scope_id else address.compressed  # a zone means something to one machine only


def _normal_host(host: str) -> str | None:
    if not host.isascii():
        try:
            # The same IDNA (2003) as w3lib uses for the URL of a request, so that both name one host.
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    host = host.lower().removesuffix(".")
    return None if not host or _NO_HOST.search(host) else host


def without_userinfo(url: str) -> str:
    """Return the URL without ``user:password@``, for log lines; text that is no URL comes back as it is."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    end = min((i for i in map(rest.find, "/?#") if i >= 0), default=len(rest))
    return f"{scheme}://{rest[:end].rpartition('@')[2]}{rest[end:]}"


_PARTS = re.compile(r"(?P<before>[^/?#]*//[^/?#]*)(?P<path>/[^?#]*)(?P<after>.*)", re.DOTALL)
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?=[/?#]|$)", re.IGNORECASE)


def without_dot_segments(url: str) -> str | None:
    """Return a URL without ``.`` and ``..`` in its path (RFC 3986, 5.2.4); ``None`` where it has none.

    What a page with them is depends on who removes them: some download handlers do before they ask, some servers do
    afterwards. So both forms are judged, and a page is fetched where neither is disallowed.
    """
    if "/." not in url and "%2" not in url:  # nearly all
        return None
    parts = _PARTS.match(url)
    if parts is None or not _DOT_SEGMENT.search(parts["path"]):
        return None
    kept: list[str] = []
    for segment in parts["path"].split("/")[1:]:
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == "..":
            del kept[-1:]
        elif plain != ".":
            kept.append(segment)
    if plain in (".", ".."):
        kept.append("")  # what a dot segment ends in is a folder
    return f"{parts['before']}/{'/'.join(kept)}{parts['after']}"
