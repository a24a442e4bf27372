"""Sites as a user names them in a setting: a host, all hosts below one, or an origin.

In here: how such a name is read, and which of several an origin falls under. What follows from it is `steering.py`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_NAME = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<below>\*\.)?(?P<host>\[[0-9a-f:.]+\]|[^\s/?#@:*\[\]\\]+)(?P<port>:[0-9]{1,5})?/?",
    re.IGNORECASE,
)

# Octets of the longest name in DNS (RFC 1035, 2.3.4). A longer host is compared as a whole only: who makes up hosts of
# a thousand labels must not cost the crawl a thousand look-ups.
_LONGEST = 253


@dataclass(frozen=True, slots=True)
class Site:
    """What one name stands for.

    :param text: the name as the user writes it.
    :param host: as in an `Origin`.
    :param below: whether it stands for all hosts below that one, at any depth, and not for itself.
    :param scheme: ``None``: both.
    :param port: ``None``: every one.
    """

    text: str
    host: str
    below: bool = False
    scheme: str | None = None
    port: int | None = None

    @classmethod
    def of(cls, text: str) -> Site:
        """Read ``host``, ``*.host``, each also with a ``:port``, or an origin, ``https://host`` or ``https://*.host:port``.

        An origin without a port has the default one of its scheme, as everywhere.

        :raises ValueError: it is none of these.
        """
        text = text.strip()
        match = _NAME.fullmatch(text)
        if match is None or (match["below"] and match["host"].startswith("[")):
            raise ValueError(text)
        scheme = None if match["scheme"] is None else match["scheme"].lower()
        origin = Origin.of(f"{scheme or 'http'}://{match['host']}{match['port'] or ''}/")
        if origin is None or not _may_be(origin.host, below=match["below"] is not None):
            raise ValueError(text)
        port = origin.port if scheme or match["port"] else None
        return cls(text, origin.host, match["below"] is not None, scheme, port)

    def covers(self, origin: Origin) -> bool:
        """Whether an origin is one of those that are meant."""
        if self.scheme not in (None, origin.scheme) or self.port not in (None, origin.port):
            return False
        return origin.host.endswith(f".{self.host}") if self.below else origin.host == self.host


def _may_be(host: str, *, below: bool) -> bool:
    """Whether there can be such hosts: no label is empty (``.host`` is no ``*.host``), and none is below an IPv4."""
    labels = host.split(".")
    return "" not in labels and not (below and labels[-1].isdigit())


def origin_of(text: str) -> Origin:
    """Read one origin: ``https://example.com``, with or without a port.

    :raises ValueError: it is none.
    """
    site = Site.of(text)
    if site.scheme is None or site.port is None or site.below:
        raise ValueError(text)
    return Origin(site.scheme, site.host, site.port)


class Sites:
    """Several of them, as many as there may be.

    :param sites: where several cover an origin, the first one counts.
    """

    def __init__(self, sites: Iterable[Site]) -> None:
        self._found: dict[tuple[str, bool], list[tuple[int, Site]]] = {}
        for place, site in enumerate(sites):
            self._found.setdefault((site.host, site.below), []).append((place, site))

    def first(self, origin: Origin) -> Site | None:
        """Return the first one that covers an origin."""
        covering = [
            (place, site)
            for key in _keys(origin.host)
            for place, site in self._found.get(key, ())
            if site.covers(origin)
        ]
        return min(covering, key=lambda pair: pair[0])[1] if covering else None


def _keys(host: str) -> Iterator[tuple[str, bool]]:
    yield host, False
    if len(host) <= _LONGEST:
        dot = host.find(".")
        while dot >= 0:
            yield host[dot + 1 :], True
            dot = host.find(".", dot + 1)
