"""The parsers that are measured: each reads octets and answers "may this URL be fetched?", as it
would under Scrapy.

The peers are Scrapy's own parser classes, so decoding counts for them as it does in a crawl. One
that cannot be imported is absent from the tables, and nothing else happens.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from scrapy.robotstxt import ProtegoRobotParser, PythonRobotParser, RerpRobotParser

from bench.samples import AGENT
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.parser import RfcRobotParser

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scrapy.robotstxt import RobotParser

#: Asks a parsed file: URL and agent to something that has the verdict. A bound method, so that
#: timing adds no call.
Ask = Callable[[str, Any], object]

# The limit on the file's size is lifted: the peers have none, and all are to do the same work.
_NO_LIMIT = 1 << 30

OURS = "ours"
CORE = "ours (core)"
PROTEGO = "Protego"
URLLIB = "urllib"
RERP = "rerp"
REPPY = "reppy"


@dataclass(frozen=True, slots=True)
class Peer:
    """A parser.

    :param name: as the tables show it.
    :param load: a file's octets, and the host whose file it is, to what answers for it.
    :param agent: what it is asked for: a name, or product tokens.
    :param verdict: an answer to whether it allows.
    """

    name: str
    load: Callable[[bytes, str], Ask]
    agent: str | tuple[str, ...] = AGENT
    verdict: Callable[[Any], bool] = bool


def _ours(body: bytes, _host: str) -> Ask:
    return RfcRobotParser(body, max_size=_NO_LIMIT).allowed


def _core(body: bytes, _host: str) -> Ask:
    return RobotsTxt.parse(body, max_size=_NO_LIMIT).decide


def of_scrapy(parser: type[RobotParser]) -> Callable[[bytes, str], Ask]:
    """How Scrapy itself loads one of its parsers."""

    def load(body: bytes, _host: str) -> Ask:
        return parser.from_crawler(None, body).allowed  # type: ignore[arg-type]  # Scrapy's parsers take None too

    return load


def _reppy(body: bytes, host: str) -> Ask:
    robots = importlib.import_module("reppy.robots").OriginPolicy
    ask: Ask = robots.parse(f"https://{host}/robots.txt", body.decode("utf-8", "ignore")).allowed
    return ask


#: A name, the module that it needs, and the parser.
_ALL: Sequence[tuple[str, Peer]] = (
    ("scrapy_robots_rfc", Peer(OURS, _ours)),
    ("scrapy_robots_rfc", Peer(CORE, _core, (AGENT,), attrgetter("allowed"))),
    ("protego", Peer(PROTEGO, of_scrapy(ProtegoRobotParser))),
    ("urllib.robotparser", Peer(URLLIB, of_scrapy(PythonRobotParser))),
    ("robotexclusionrulesparser", Peer(RERP, of_scrapy(RerpRobotParser))),
    ("reppy.robots", Peer(REPPY, _reppy)),
)

#: All names, in the order of the tables.
NAMES = tuple(peer.name for _, peer in _ALL)


def present() -> list[Peer]:
    """The parsers that can be imported here."""
    found = []
    for module, peer in _ALL:
        try:
            importlib.import_module(module)
        except ImportError:
            continue
        found.append(peer)
    return found


def named(name: str) -> Peer:
    """A parser by its name."""
    return next(peer for _, peer in _ALL if peer.name == name)
