"""Schemes, origins and their URLs: the robots.txt that a URL belongs to (RFC 9309, 2.3).

An origin is scheme, host and effective port; `Origin.of` reads it from a URL. `SCHEMES` has the
schemes with robots.txt: RFC 9309 names HTTP and FTP, and Gemini has the companion specification
"robots.txt for Gemini". A `Site` is a host or an origin in a setting.
"""

import enum
import re
from collections.abc import Iterable, Mapping
from ipaddress import IPv6Address
from types import MappingProxyType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, unquote, urljoin, urlsplit


class Answers(enum.Enum):
    """The statuses of a scheme. ROBOTS_SCHEMES has the same values."""

    #: RFC 9110.
    HTTP = "http"
    #: The statuses of Scrapy's handler: 200, and 404 for FTP's 550.
    FTP = "ftp"
    #: Two digits. A handler may also use HTTP statuses.
    GEMINI = "gemini"


class Dialect(enum.Enum):
    """The rules of a file. ROBOTS_SCHEMES has the same values."""

    RFC9309 = "rfc9309"
    #: See `core/gemini.py`.
    GEMINI = "gemini"


class Scheme(NamedTuple):
    """A scheme with robots.txt, at ``scheme://authority/robots.txt``.

    :param port: the default port.
    :param answers: its statuses.
    :param rules: the rules of its files.
    """

    port: int
    answers: Answers = Answers.HTTP
    rules: Dialect = Dialect.RFC9309

    def http_status(self, status: int) -> int:
        """Return the HTTP status with the same meaning for a robots.txt (RFC 9309, 2.3.1)."""
        if self.answers is Answers.FTP:
            return status if status in (200, 404) else 503
        if self.answers is Answers.GEMINI and status < 100:
            return _GEMINI.get(status // 10, 503)
        return status


# The first digit of a Gemini status -> the HTTP status with the same meaning. After all others,
# such as 4x and 60, the file is unknown.
_GEMINI = {2: 200, 3: 302, 5: 404}

#: The schemes with robots.txt, without ROBOTS_SCHEMES (RFC 9110, 4.2; RFC 959, 8; Gemini).
SCHEMES: Mapping[str, Scheme] = MappingProxyType({
    "http": Scheme(80),
    "https": Scheme(443),
    "ftp": Scheme(21, Answers.FTP),
    "gemini": Scheme(1965, Answers.GEMINI, Dialect.GEMINI),
})  # fmt: skip
#: The accepted descriptions in ROBOTS_SCHEMES.
SCHEME_ACCEPTED = (
    "None to disable 'ftp' or 'gemini', or, for another scheme with a name in lower case, a dict"
    " such as {'port': 8080}, to which 'answers': 'ftp' or 'gemini' and 'rules': 'gemini' may be"
    " added"
)
_SCHEME_NAME = re.compile("[a-z][a-z0-9+.-]*")  # RFC 3986, 3.1
# Always obeyed, or without a host that could have a robots.txt.
_FIXED = {"http", "https", "data", "file", "mailto"}


def scheme_of(name: object, description: Mapping[str, Any] | None) -> Scheme | None:
    """Return a scheme that the user adds, or `None` for a scheme whose pages all pass.

    :param description: the value in ROBOTS_SCHEMES.
    :raises ValueError: if name or description are not accepted.
    :raises TypeError: if it is not a description.
    """
    if not isinstance(name, str) or not _SCHEME_NAME.fullmatch(name) or name in _FIXED:
        raise ValueError(name)
    if (description is None) is not (name in SCHEMES):
        raise ValueError(name)
    if description is None:
        return None
    port, answers, rules = Scheme(**description)
    if type(port) is not int or not 0 < port < 65_536:
        raise ValueError(port)
    return Scheme(port, Answers(answers), Dialect(rules))


# A host with one of these characters is not accepted: programs could read it differently.
_NO_HOST = re.compile(r"[\x00-\x20\x7f\"#%/<>?@\[\\\]^`{|}]")


class Origin(NamedTuple):
    """An origin: http and https are different origins, and so are two ports.

    :param scheme: in lower case, such as ``https``; see `SCHEMES`.
    :param host: in lower case, IDNA-encoded, without a trailing dot; an IPv6 address in its
        shortest form, without brackets.
    :param port: the port of the connection, also if the URL has the default port.
    """

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Self | None:
        """Return the origin of an absolute URL, or `None` if it has none.

        :param schemes: the schemes with robots.txt.
        :returns: `None` for another scheme or an invalid authority.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
            host = _normal(parts.hostname or "", is_ipv6="[" in parts.netloc)
        except ValueError:
            return None
        if parts.scheme not in schemes or port == 0:
            return None
        return cls(parts.scheme, host, port or schemes[parts.scheme].port)

    @property
    def robots_url(self) -> str:
        """The URL of the origin's robots.txt: ``scheme://authority/robots.txt``."""
        return f"{self}/robots.txt"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        # Another program does not know the default port of a scheme that the user adds.
        default = self.scheme in SCHEMES and self.port == SCHEMES[self.scheme].port
        return f"{self.scheme}://{host}" if default else f"{self.scheme}://{host}:{self.port}"


def _normal(host: str, *, is_ipv6: bool) -> str:
    """Return a host in the form of `Origin.host`.

    :raises ValueError: if it is not a host.
    """
    if is_ipv6:
        address = IPv6Address(host)
        if address.scope_id:  # a zone has no meaning on another machine
            raise ValueError(host)
        return address.compressed
    if not host.isascii():
        # IDNA 2003, as in w3lib, so that a request's URL and its origin name the same host.
        host = host.encode("idna").decode("ascii")
    host = host.lower().removesuffix(".")
    if not host or _NO_HOST.search(host):
        raise ValueError(host)
    return host


def without_userinfo(url: str) -> str:
    """Return a URL without ``user:password@``, for log lines; other text stays as it is."""
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
    """Return a URL as another program may read it, or `None` if all programs read it as it is.

    Some download handlers and servers remove ``.`` and ``..`` from a path (RFC 3986, 5.2.4).
    Scrapy's FTP handler removes parameters and query and decodes the path, in which several slashes
    are one. Callers judge both forms: the page is fetched only if neither is disallowed.
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


def join_url(base: str, reference: str) -> str:
    """Join a URL and a reference as `urljoin` does, also for schemes that it does not know.

    :raises ValueError: if the reference is not a URL.
    """
    scheme = base.partition(":")[0]
    if scheme in ("http", "https") or urlsplit(reference).scheme:
        return urljoin(base, reference)
    return scheme + urljoin(f"http{base[len(scheme) :]}", reference).removeprefix("http")


# A site in a setting: `*.example.com`, `https://example.com:8443`. Compiled on first use.
_NAME = (
    r"(?:(?P<scheme>[a-z][a-z0-9+.-]*)://)?(?P<below>\*\.)?"
    r"(?P<host>\[[0-9a-f:.]+\]|[^\s/?#@:*\[\]\\]+)(?P<port>:[0-9]{1,5})?/?"
)


class Site(NamedTuple):
    """A host, all hosts below a host, or an origin, as a user writes it in a setting.

    :param text: the name as the user wrote it.
    :param host: as in an `Origin`.
    :param below: whether it means all hosts below `host`, at any depth, but not `host` itself.
    :param scheme: its scheme, or `None` for all.
    :param port: its port, or `None` for all.
    """

    text: str
    host: str
    below: bool = False
    scheme: str | None = None
    port: int | None = None

    @classmethod
    def of(cls, text: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Self:
        """Read ``host`` or ``*.host``, each also with a ``:port``, with ``https://``, or both.

        With a scheme and without a port, it means the default port.

        :param schemes: the schemes that an origin may have.
        :raises ValueError: if the text has another form.
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
        """Return whether it covers an origin."""
        if self.scheme not in (None, origin.scheme) or self.port not in (None, origin.port):
            return False
        return origin.host.endswith(f".{self.host}") if self.below else origin.host == self.host


def parse_origin(text: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin:
    """Read an origin: ``https://example.com``, with or without a port.

    :param schemes: the schemes that it may have.
    :raises ValueError: if the text is not an origin.
    """
    site = Site.of(text, schemes)
    if site.scheme is None or site.port is None or site.below:
        raise ValueError(text)
    return Origin(site.scheme, site.host, site.port)


def sitemap_urls(values: Iterable[str], base: str) -> list[str]:
    """Return the absolute URLs of sitemaps, each once.

    Only http, https and the scheme of the file are accepted, not ``file:///etc/passwd``.

    :param values: the values of the Sitemap records, which may be malformed.
    :param base: the URL of the file; relative values are resolved against it.
    """
    urls = dict[str, None]()
    for value in values:
        try:
            url = join_url(base, value)
        except ValueError:  # such as brackets without an IPv6 address
            continue
        origin = Origin.of(url)
        if origin is not None and origin.scheme in ("http", "https", base.partition(":")[0]):
            urls[url] = None
    return list(urls)
