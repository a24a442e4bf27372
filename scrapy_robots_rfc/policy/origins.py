"""Find the origin of a URL, which determines the robots.txt file that applies (RFC 9309, 2.3).

An origin is a scheme, host and port. RFC 9309 covers HTTP and FTP, and Gemini has a companion
specification, "robots.txt for Gemini". Users can add more schemes with ROBOTS_SCHEMES.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit


class Answers(enum.Enum):
    """The kind of statuses that a scheme uses, as named in ROBOTS_SCHEMES."""

    #: The statuses of RFC 9110.
    HTTP = "http"
    #: The statuses that Scrapy's FTP handler returns, which are 200, and 404 for an FTP 550 reply.
    FTP = "ftp"
    #: The two-digit statuses of Gemini. A handler may also use HTTP statuses.
    GEMINI = "gemini"


class Dialect(enum.Enum):
    """The kind of rules that a file contains, as named in ROBOTS_SCHEMES."""

    RFC9309 = "rfc9309"
    #: See `core/gemini.py`.
    GEMINI = "gemini"


class Scheme(NamedTuple):
    """A scheme whose sites may have a robots.txt at ``scheme://authority/robots.txt``.

    :param port: the default port.
    :param answers: the protocol whose statuses the download handler returns.
    :param rules: the kind of rules.
    """

    port: int
    answers: Answers = Answers.HTTP
    rules: Dialect = Dialect.RFC9309

    def http_status(self, status: int) -> int:
        """Convert a status to the HTTP status with the same meaning (RFC 9309, 2.3.1)."""
        if self.answers is Answers.FTP:
            return status if status in (200, 404) else 503
        if self.answers is Answers.GEMINI and status < 100:  # not an HTTP status
            return _GEMINI.get(status // 10, 503)
        return status


# The first digit of a Gemini status -> the HTTP status with the same meaning. All other digits are
# treated like 503.
_GEMINI = {2: 200, 3: 302, 5: 404}

#: The default schemes. For their ports, see RFC 9110, 4.2, RFC 959, 8, and the Gemini protocol.
SCHEMES: Mapping[str, Scheme] = MappingProxyType({
    "http": Scheme(80),
    "https": Scheme(443),
    "ftp": Scheme(21, Answers.FTP),
    "gemini": Scheme(1965, Answers.GEMINI, Dialect.GEMINI),
})  # fmt: skip
#: Describes the values that are accepted in ROBOTS_SCHEMES.
SCHEME_ACCEPTED = (
    "None to disable 'ftp' or 'gemini', or, for any other scheme with a lowercase name, a dict"
    " such as {'port': 8080}, which may also contain 'answers': 'ftp' or 'gemini', and"
    " 'rules': 'gemini'"
)
_SCHEME_NAME = re.compile("[a-z][a-z0-9+.-]*")  # RFC 3986, 3.1
# Schemes that users cannot change. http and https always apply, and the others have no host.
_NOT_CONFIGURABLE = {"http", "https", "data", "file", "mailto"}


def scheme_of(name: object, description: Mapping[str, Any] | None) -> Scheme | None:
    """Parse an entry in ROBOTS_SCHEMES.

    :param description: the scheme's description, or `None` to ignore its robots.txt files.
    :returns: the scheme, or `None` if the description is `None`.
    :raises ValueError: if the name or description is not accepted.
    :raises TypeError: if the description has the wrong type or keys.
    """
    if not isinstance(name, str) or not _SCHEME_NAME.fullmatch(name) or name in _NOT_CONFIGURABLE:
        raise ValueError(name)
    # The default schemes can only be disabled, and all other schemes need a description.
    if (description is None) != (name in SCHEMES):
        raise ValueError(name)
    if description is None:
        return None
    port, answers, rules = Scheme(**description)  # unlike in a `Scheme`, these are not enums yet
    if type(port) is not int or not 0 < port < 65_536:
        raise ValueError(port)
    return Scheme(port, Answers(answers), Dialect(rules))


# A character that we reject in a host, because not all programs interpret it the same way.
_INVALID_IN_HOST = re.compile(r"[\x00-\x20\x7f\"#%/<>?@\[\\\]^`{|}]")


class Origin(NamedTuple):
    """The scheme, host and port of a URL.

    :param scheme: the scheme in lowercase, such as ``https``.
    :param host: the host in lowercase, IDNA-encoded and without a trailing dot. An IPv6 address is
        in its shortest form, without brackets.
    :param port: the port, or the scheme's default port if the URL does not contain one.
    """

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Self | None:
        """Return the origin of an absolute URL.

        :param schemes: the accepted schemes.
        :returns: `None` if the scheme is not accepted or the authority is invalid.
        """
        try:
            parts = urlsplit(url)
        except ValueError:
            return None
        return cls.of_parts(parts, schemes)

    @classmethod
    def of_parts(cls, parts: SplitResult, schemes: Mapping[str, Scheme]) -> Self | None:
        """Return the origin of a URL that is already parsed; see `of`."""
        try:
            port = parts.port
            is_ipv6 = "[" in parts.netloc.rpartition("@")[2]  # not in the password
            host = _normalize_host(parts.hostname or "", is_ipv6=is_ipv6)
        except ValueError:
            return None
        if parts.scheme not in schemes or port == 0:
            return None
        return cls(parts.scheme, host, port or schemes[parts.scheme].port)

    @classmethod
    def of_text(cls, text: str) -> Self:
        """Parse the result of `str(origin)`. This is faster than `of`, but checks nothing."""
        scheme, _, authority = text.partition("://")
        host, separator, port = authority.rpartition(":")
        if separator and not authority.endswith("]"):
            return cls(scheme, host.strip("[]"), int(port))
        return cls(scheme, authority.strip("[]"), SCHEMES[scheme].port)

    @property
    def robots_url(self) -> str:
        """The URL of the origin's robots.txt."""
        return f"{self}/robots.txt"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        # Always include the port if the user added the scheme, because other programs do not know
        # its default port.
        is_default = self.scheme in SCHEMES and self.port == SCHEMES[self.scheme].port
        return f"{self.scheme}://{host}" if is_default else f"{self.scheme}://{host}:{self.port}"


def _normalize_host(host: str, *, is_ipv6: bool) -> str:
    """Normalize a host as described in `Origin`.

    :raises ValueError: if the host is invalid.
    """
    if is_ipv6:
        address = IPv6Address(host)
        if address.scope_id:  # zones are only meaningful on the local machine
            raise ValueError(host)
        return address.compressed
    if not host.isascii():
        # Use IDNA 2003 like w3lib, so that requests and origins have the same host.
        host = host.encode("idna").decode("ascii")
    host = host.lower().removesuffix(".")
    if not host or _INVALID_IN_HOST.search(host):
        raise ValueError(host)
    return host


def without_userinfo(url: str) -> str:
    """Remove ``user:password@`` from a URL."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    return f"{scheme}://{authority.rpartition('@')[2]}{rest[len(authority) :]}"


# The parts of an absolute URL: `https://a.example`, `/b` and `?c#d`.
_PARTS = re.compile(r"(?P<before>[^/?#]*//[^/?#]*)(?P<path>/[^?#]*)(?P<after>.*)", re.DOTALL)
# A dot segment in a path: `/..`, `/%2e`.
_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?=[/?#]|$)", re.IGNORECASE)
# The scheme of an FTP URL: `ftp:`.
_FTP = re.compile("ftps?:", re.IGNORECASE)
# The parameters of the last path segment: `;type=i`.
_PARAMS = re.compile(";[^/]*$")


def other_reading(url: str) -> str | None:
    """Return the URL that other software may request instead, or `None` if it is the same.

    Some download handlers and servers resolve ``.`` and ``..`` in the path (RFC 3986, 5.2.4).
    Scrapy's FTP handler removes parameters and the query, decodes the path and merges slashes.
    Callers check both URLs, and only fetch the page if both are allowed.
    """
    parts = _PARTS.match(url)
    if parts is None:
        return None
    path, after = parts["path"], parts["after"]
    if _FTP.match(url):
        file_name = re.sub("/+", "/", unquote(_PARAMS.sub("", path)))
        # Twisted encodes paths as Latin-1, and sends nothing if that is impossible.
        path = quote(file_name, encoding="latin-1", errors="replace")
        after = ""
    if _DOT_SEGMENT.search(path):
        path = _without_dot_segments(path)
    reading = f"{parts['before']}{path}{after}"
    return None if reading == url else reading


def _without_dot_segments(path: str) -> str:
    """Resolve ``.`` and ``..``, even if the dots are percent-encoded.

    :param path: a path that begins with a slash.
    """
    segments: list[str] = []
    for segment in path.split("/")[1:]:
        plain = re.sub("%2e", ".", segment, flags=re.IGNORECASE)
        if plain == "..":
            del segments[-1:]
        elif plain != ".":
            segments.append(segment)
    if plain in (".", ".."):  # after the loop, this is the last segment
        segments.append("")  # `/a/b/..` becomes `/a/`, not `/a`
    return f"/{'/'.join(segments)}"


def join_url(base: str, reference: str) -> str:
    """Resolve a reference like `urljoin`, but with support for all schemes.

    :raises ValueError: if the reference is not a URL.
    """
    scheme = base.partition(":")[0]
    if scheme in ("http", "https") or urlsplit(reference).scheme:
        return urljoin(base, reference)
    # If `urljoin` does not know the base's scheme, it returns the reference unchanged. Pretend that
    # the base is an http URL, and restore its scheme in the result.
    return scheme + urljoin(f"http{base[len(scheme) :]}", reference).removeprefix("http")


# A site in a setting: `*.example.com`, `https://example.com:8443`. It is compiled on first use.
_SITE = (
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<wildcard>\*\.)?"
    r"(?P<host>\[[0-9a-f:.]+\]|[^\s/?#@:*\[\]\\]+)(?P<port>:[0-9]{1,5})?/?"
)


class Site(NamedTuple):
    """A host, all subdomains of a host, or an origin, as used in settings.

    :param text: the text in the setting.
    :param host: the host, normalized as in `Origin`.
    :param wildcard: True if it covers all subdomains of `host`, but not `host` itself.
    :param scheme: the scheme, or `None` if it covers all schemes.
    :param port: the port, or `None` if it covers all ports.
    """

    text: str
    host: str
    wildcard: bool = False
    scheme: str | None = None
    port: int | None = None

    @classmethod
    def of(cls, text: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Self:
        """Parse ``host`` or ``*.host``, optionally with a scheme, a port or both.

        If there is a scheme but no port, the site only covers the scheme's default port.

        :param schemes: the accepted schemes.
        :raises ValueError: if the text is malformed.
        """
        text = text.strip()
        match = re.fullmatch(_SITE, text, re.IGNORECASE)
        if match is None:
            raise ValueError(text)
        scheme = None if match["scheme"] is None else match["scheme"].lower()
        # Parse the host and port as part of a URL, so that they are normalized. If the text has no
        # scheme, it does not matter which one the URL has.
        origin = Origin.of(f"{scheme or 'http'}://{match['host']}{match['port'] or ''}/", schemes)
        if origin is None:
            raise ValueError(text)
        labels = origin.host.split(".")
        is_ip_address = ":" in origin.host or labels[-1].isdigit()
        if "" in labels:  # two dots, as in `a..example`
            raise ValueError(text)
        if match["wildcard"] and is_ip_address:  # an address has no subdomains
            raise ValueError(text)
        # `origin` always has a port. If the text has no scheme or port, it does not mean that port.
        port = origin.port if scheme or match["port"] else None
        return cls(text, origin.host, match["wildcard"] is not None, scheme, port)

    def covers(self, origin: Origin) -> bool:
        """Return whether the site covers an origin."""
        if self.scheme not in (None, origin.scheme) or self.port not in (None, origin.port):
            return False
        return origin.host.endswith(f".{self.host}") if self.wildcard else origin.host == self.host


def parse_origin(text: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin:
    """Parse an origin such as ``https://example.com`` or ``https://example.com:8443``.

    :param schemes: the accepted schemes.
    :raises ValueError: if the text is not an origin.
    """
    site = Site.of(text, schemes)
    if site.scheme is None or site.port is None or site.wildcard:  # it covers several origins
        raise ValueError(text)
    return Origin(site.scheme, site.host, site.port)


# Maximum number of Sitemap records to use from a file. In a sample of a thousand real files, the
# most was 130, but a file of 512,000 bytes (RFC 9309, 2.5) can contain 40,000.
_MAX_SITEMAPS = 1_000


def sitemap_urls(
    values: Iterable[str], base: str, schemes: Mapping[str, Scheme] = SCHEMES
) -> list[str]:
    """Return the absolute URLs in the first 1,000 Sitemap records, without duplicates.

    The scheme must be http, https or the scheme of the robots.txt file, so a URL such as
    ``file:///etc/passwd`` is ignored.

    :param values: the values of the Sitemap records, which may be malformed.
    :param base: the URL of the robots.txt file, which relative values are resolved against. If it
        is empty, they are ignored.
    :param schemes: the accepted schemes.
    """
    urls = dict[str, None]()
    for value in islice(values, _MAX_SITEMAPS):
        try:
            url = join_url(base, value)
        except ValueError:  # for example, it has brackets but no IPv6 address
            continue
        origin = Origin.of(url, schemes)
        if origin is not None and origin.scheme in ("http", "https", base.partition(":")[0]):
            urls[url] = None
    return list(urls)
