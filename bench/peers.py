"""The parsers that benchmarks compare. Each reads bytes and decides about URLs.

Protego, urllib and rerp are loaded by Scrapy's classes for them, which decode the file.
"""

import importlib
import platform
import signal
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import FrameType

from scrapy.robotstxt import ProtegoRobotParser, PythonRobotParser, RerpRobotParser, RobotParser

from bench.files import AGENT
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.parser import RfcRobotParser

#: Decides whether a crawler may fetch a URL; see `allows`.
Ask = Callable[[str, str], object]
Load = Callable[[bytes], Ask]

OURS = "ours"
CORE = "ours (core)"
PROTEGO = "Protego"
GOOGLE = "fast-robotstxt"
URLLIB = "urllib"
ROBOTSPY = "robotspy"
RERP = "rerp"
AI_CRAWLERS = "ai-crawler-robots"

# The other parsers read files of any size, so ours must do the same work.
_NO_LIMIT = 1 << 30


@dataclass(frozen=True, slots=True)
class Peer:
    """A parser.

    :param package: its name on the package index, or an empty string.
    :param load: reads a file and returns the function that decides.
    """

    name: str
    package: str
    load: Load

    @property
    def version(self) -> str:
        """The installed version, or the version of CPython."""
        return metadata.version(self.package) if self.package else platform.python_version()


def of_scrapy(parser: type[RobotParser]) -> Load:
    """Return the function that loads a parser as Scrapy does."""
    # Scrapy's parsers also accept `None` as the crawler.
    return lambda body: parser.from_crawler(None, body).allowed  # type: ignore[arg-type]


def _ours(body: bytes) -> Ask:
    return RfcRobotParser(body, max_size=_NO_LIMIT).allowed


def _core(body: bytes) -> Ask:
    return RobotsTxt.parse(body, max_size=_NO_LIMIT).decide


def _google(body: bytes) -> Ask:
    matcher = importlib.import_module("robotstxt").RobotsMatcher()
    text = body.decode("utf-8", "ignore")
    return lambda url, agent: matcher.is_allowed(text, agent, url)


def _robotspy(body: bytes) -> Ask:
    with tempfile.NamedTemporaryFile() as file:  # robotspy decodes only files that it opens
        file.write(body)
        file.flush()
        parser = importlib.import_module("robots").RobotsParser.from_uri(Path(file.name).as_uri())
    return lambda url, agent: parser.can_fetch(agent, url)


def _ai_crawlers(body: bytes) -> Ask:
    module = importlib.import_module("ai_crawler_robots")
    parsed = module.parse(body.decode("utf-8", "ignore"))

    def ask(url: str, agent: str) -> object:
        path = url.partition("://")[2].partition("/")[2]
        return module.is_allowed(parsed, agent, f"/{path}")["allowed"]

    return ask


#: All parsers, by name.
PEERS = {
    peer.name: peer
    for peer in (
        Peer(OURS, "", _ours),
        Peer(CORE, "", _core),
        Peer(PROTEGO, "protego", of_scrapy(ProtegoRobotParser)),
        Peer(GOOGLE, "fast-robotstxt", _google),
        Peer(URLLIB, "", of_scrapy(PythonRobotParser)),
        Peer(ROBOTSPY, "robotspy", _robotspy),
        Peer(RERP, "robotexclusionrulesparser", of_scrapy(RerpRobotParser)),
        Peer(AI_CRAWLERS, "ai-crawler-robots", _ai_crawlers),
    )
}


def allows(answer: object) -> bool:
    """Return whether the answer of a parser is that the URL is allowed."""
    return bool(getattr(answer, "allowed", answer))


def answer(load: Load, body: bytes, url: str, agent: str, limit: float = 60) -> str:
    """Return "allows" or "disallows", or how a parser failed.

    :param limit: seconds; some parsers take hours for a pattern with many stars.
    """
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        return "allows" if allows(load(body)(url, agent)) else "disallows"
    except TimeoutError:
        return f"takes more than {limit:g} s"
    except Exception as error:  # noqa: BLE001 - parsers raise all kinds of exceptions
        return f"raises {type(error).__name__}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError


def installed(*names: str) -> list[Peer]:
    """Return the parsers that are installed."""
    peers = []
    for name in names:
        try:
            PEERS[name].load(b"")("https://site.example/", AGENT)
        except ImportError:
            continue
        peers.append(PEERS[name])
    return peers
