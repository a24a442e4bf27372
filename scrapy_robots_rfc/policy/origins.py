"""The origin that a robots.txt belongs to: scheme, host and effective port (RFC 9309, 2.3).

`Origin.of` reads it from a URL, without userinfo. A `Site` is what a user names in a setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from ipaddress import AddressValueError, IPv6Address
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from scrapy_robots_rfc.policy.schemes import SCHEMES, Scheme, joined

# A host with one of these characters is refused: two programs could read it as different hosts.
_NO_HOST = re.compile(r"[\x00-\x20\x7f\"#%/<>?@\[\\\]^`{|}]")


class Origin(NamedTuple):
    """One origin: http and https are different origins, and so are two ports.

    :param scheme: in lower case, such as ``https``; see `policy/schemes.py`.
    :param host: lower-case, IDNA-encoded, without a trailing dot; an IPv6 address in its shortest
        form, no brackets.
    :param port: the port of the connection: the scheme's default where the URL has none.
    """

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin | None:
        """Return the origin of an absolute URL.

        :param schemes: those that have origins; of a crawl, see ROBOTS_SCHEMES.
        :returns: ``None`` where the scheme is not one of these, or the authority is not valid.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            return None
        if parts.scheme not in schemes or not host:
            return None
        port = schemes[parts.scheme].port if port is None else port
        normal = _normal_ipv6(host) if "[" in parts.netloc else _normal_host(host)
        if normal is None or port == 0:
            return None
        return cls(parts.scheme, normal, port)

    @property
    def robots_url(self) -> str:
        """The URL of the origin's robots.txt: ``scheme://authority/robots.txt``."""
        return f"{self}/robots.txt"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        # The port of a scheme that the user adds is always written: another program does not know
        # its default.
        default = self.scheme in SCHEMES and self.port == SCHEMES[self.scheme].port
        return f"{self.scheme}://{host}" if default else f"{self.scheme}://{host}:{self.port}"


def _normal_ipv6(host: str) -> str | None:
    try:
        address = IPv6Address(host)
    except AddressValueError:
        return None
    # A zone has a meaning on one machine only.
    return None if address.scope_id else address.compressed


def _normal_host(host: str) -> str | None:
    if not host.isascii():
        try:
            # IDNA 2003, as in w3lib: a request's URL and its origin have to name the same host.
            host = host.encode("idna").decode("ascii")
        except UnicodeError:
            return None
    host = host.lower().removesuffix(".")
    return None if not host or _NO_HOST.search(host) else host


def without_userinfo(url: str) -> str:
    """Return a URL without ``user:password@``, for log lines; a text that is no URL unchanged."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    end = min((i for i in map(rest.find, "/?#") if i >= 0), default=len(rest))
    return f"{scheme}://{rest[:end].rpartition('@')[2]}{rest[end:]}"


_PARTS = re.compile(r"(?P<before>[^/?#]*//[^/?#]*)(?P<path>/[^?#]*)(?P<after>.*)", re.DOTALL)
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?=[/?#]|$)", re.IGNORECASE)
_FTP = re.compile("ftps?:", re.IGNORECASE)
_PARAMS = re.compile(";[^/]*$")


def other_reading(url: str) -> str | None:
    """Return a URL as another program may read it; ``None`` where all read it alike.

    Some download handlers and servers remove ``.`` and ``..`` from a path (RFC 3986, 5.2.4).
    Scrapy's handler for FTP leaves out params and query, and decodes the path; several slashes are
    one there. Callers judge both forms: the page is fetched only if neither is disallowed.
    """
    parts = _PARTS.match(url)
    if parts is None:
        return None
    path, after = parts["path"], parts["after"]
    if _FTP.match(url):
        name = re.sub("/+", "/", unquote(_PARAMS.sub("", path)))
        path = quote(name, encoding="latin-1", errors="replace")  # as Twisted sends it
        after = ""
    if _DOT_SEGMENT.search(path):
        path = _without_dot_segments(path)
    reading = f"{parts['before']}{path}{after}"
    return None if reading == url else reading


def _without_dot_segments(path: str) -> str:
    left: list[str] = []
    for segment in path.split("/")[1:]:
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == "..":
            del left[-1:]
        elif plain != ".":
            left.append(segment)
    if plain in (".", ".."):
        left.append("")  # a path that ends in a dot segment names a folder
    return f"/{'/'.join(left)}"


# Compiled when it is used: most users name no site.
_NAME = (
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<below>\*\.)?"
    r"(?P<host>\[[0-9a-f:.]+\]|[^\s/?#@:*\[\]\\]+)(?P<port>:[0-9]{1,5})?/?"
)


class Site(NamedTuple):
    """A host, all hosts below a host, or an origin, as a user names it in a setting.

    :param text: the name as the user wrote it.
    :param host: as in an `Origin`.
    :param below: whether all hosts below `host` are meant, at any depth, and not `host` itself.
    :param scheme: ``None``: all schemes.
    :param port: ``None``: every port.
    """

    text: str
    host: str
    below: bool = False
    scheme: str | None = None
    port: int | None = None

    @classmethod
    def of(cls, text: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Site:
        """Read ``host`` or ``*.host``, each also with a ``:port``, with ``https://``, or both.

        With a scheme and without a port, its default port is meant.

        :param schemes: those that an origin may have.
        :raises ValueError: the text is not one of these.
        """
        text = text.strip()
        match = re.fullmatch(_NAME, text, re.IGNORECASE)
        if match is None or (match["below"] and match["host"].startswith("[")):
            raise ValueError(text)
        scheme = None if match["scheme"] is None else match["scheme"].lower()
        origin = Origin.of(f"{scheme or 'http'}://{match['host']}{match['port'] or ''}/", schemes)
        # No label is empty, and no host is below an IPv4 address.
        labels = [] if origin is None else origin.host.split(".")
        if origin is None or "" in labels or (match["below"] and labels[-1].isdigit()):
            raise ValueError(text)
        port = origin.port if scheme or match["port"] else None
        return cls(text, origin.host, match["below"] is not None, scheme, port)

    def covers(self, origin: Origin) -> bool:
        """Whether the name covers an origin."""
        if self.scheme not in (None, origin.scheme) or self.port not in (None, origin.port):
            return False
        return origin.host.endswith(f".{self.host}") if self.below else origin.host == self.host


def named_origin(text: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin:
    """Read one origin: ``https://example.com``, with or without a port.

    :param schemes: those that it may have.
    :raises ValueError: the text is no origin.
    """
    site = Site.of(text, schemes)
    if site.scheme is None or site.port is None or site.below:
        raise ValueError(text)
    return Origin(site.scheme, site.host, site.port)


def sitemap_urls(values: Iterable[str], base: str) -> list[str]:
    """Return the absolute URLs of sitemaps, each once: with http, https or the file's scheme.

    A site may name ``file:///etc/passwd``.

    :param values: of the Sitemap records; they may be malformed.
    :param base: the URL of the file, against which relative values are resolved.
    """
    urls = dict[str, None]()
    for value in values:
        try:
            url = joined(base, value)
        except ValueError:  # such as brackets without an IPv6 address
            continue
        origin = Origin.of(url)
        if origin is not None and origin.scheme in ("http", "https", base.partition(":")[0]):
            urls[url] = None
    return list(urls)
