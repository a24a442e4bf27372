"""A parsed robots.txt, whoever parsed it: ours gives rules and reasons, another `RobotParser` gives yes or no.

In here: the two behind one interface. Where the octets come from is the service's business.
"""

from __future__ import annotations

import logging
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.policy.pacing import KEYS, Pace, pace_of, pace_of_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc.core.agents import Agent
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt

logger = logging.getLogger(__name__)

# Agents whose pace is kept with a file; a crawl that makes up a User-Agent for every request must not make it grow.
_KEPT_PACES = 16

# Octets of memory: of a pace that is kept, and of an octet of a file in the hands of another parser, of which nobody
# knows what it makes of it. Protego takes seven to nine for a usual file.
_PACE, _FOREIGN_OCTET = 600, 10


class ParsedRobots(Protocol):
    """What the rest of the package asks of a parsed file."""

    @property
    def parser(self) -> object:
        """The instance of `ROBOTSTXT_PARSER`."""

    @property
    def robots(self) -> RobotsTxt | None:
        """The file as our core reads it; ``None`` with another parser."""

    @property
    def digest(self) -> str | None:
        """``sha256:`` and the digest of the octets that count; ``None`` where nobody reports it."""

    @property
    def weight(self) -> int:
        """About the octets that it takes in memory; grows when it is asked."""

    def decide(self, url: str, agent: Agent) -> Decision:
        """Whether a URL may be fetched; never raises."""

    def crawl_delay(self, agent: Agent) -> float | None:
        """The Crawl-delay for an agent, in seconds."""

    def pace(self, agent: Agent) -> Pace | None:
        """What the file asks of an agent's pace, ``None`` for nothing; never raises."""


class RfcFile:
    """A file in the hands of `RfcRobotParser`.

    :param own_delay: the parser is a subclass with a `crawl_delay()` of its own.
    :param digest: of the octets that count.
    """

    __slots__ = ("_own_delay", "_paces", "digest", "parser", "robots")

    def __init__(
        self,
        parser: Any,  # noqa: ANN401 - as below
        robots: RobotsTxt,
        *,
        own_delay: bool = False,
        digest: str | None = None,
    ) -> None:
        self.parser = parser
        self.digest = digest
        self.robots: RobotsTxt = robots
        self._own_delay = own_delay
        self._paces: dict[Agent, Pace | None] | None = {}

    @property
    def weight(self) -> int:
        """What the core says, and what the paces take."""
        return self.robots.weight + _PACE * len(self._paces or ())

    def decide(self, url: str, agent: Agent) -> Decision:
        """Return the core's decision (RFC 9309, 2.2)."""
        return self.robots.decide(url, agent.tokens)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Return the core's value, or a subclass's own."""
        if self._own_delay:
            return _delay_of(self.parser, agent)
        return self.robots.crawl_delay(agent.tokens)

    def pace(self, agent: Agent) -> Pace | None:
        """Return what the records of the group that applies ask for, or a subclass's own delay."""
        if self._paces is None:
            return None
        if agent in self._paces:
            return self._paces[agent]
        if not self._own_delay and not self.robots.mentions(*KEYS):
            self._paces = None  # as most files: nobody needs to look again
            return None
        return _kept(self._paces, agent, self._pace_of(agent))

    def _pace_of(self, agent: Agent) -> Pace | None:
        if not self._own_delay:
            return pace_of(self.robots.records_for(agent.tokens, *KEYS))
        try:
            return pace_of_number(_delay_of(self.parser, agent))
        except Exception:
            logger.exception(_NO_DELAY, type(self.parser).__name__)
            return None


class ForeignFile:
    """A file in the hands of a parser that the user chose. Its exceptions close the gate.

    :param parser: has `allowed(url, user_agent)`, and perhaps `crawl_delay(user_agent)`.
    :param failed: called for each exception.
    :param size: octets of the file.
    :param digest: of the octets that count.
    """

    __slots__ = ("_failed", "_paces", "_told", "digest", "parser", "weight")

    robots: RobotsTxt | None = None

    def __init__(
        self,
        parser: Any,  # noqa: ANN401 - the user's
        failed: Callable[[], object],
        size: int = 0,
        *,
        digest: str | None = None,
    ) -> None:
        self.parser = parser
        self.digest = digest
        self.weight = _FOREIGN_OCTET * size
        self._failed = failed
        self._told = False
        self._paces: dict[Agent, Pace | None] = {}

    def decide(self, url: str, agent: Agent) -> Decision:
        """Ask the parser, by the first product token, or the whole identification where there is none."""
        try:
            allowed = self.parser.allowed(url, _name(agent))
            if allowed not in (True, False):  # a coroutine, a text: true for Python, and no verdict
                raise TypeError(f"allowed() gave {allowed!r}, not True or False")
            return Decision(bool(allowed), Reason.PARSER)
        except Exception:
            self._failed()
            if not self._told:
                logger.exception("%s.allowed() failed: the page is treated as disallowed", type(self.parser).__name__)
                self._told = True
            return Decision(False, Reason.PARSER)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Ask the parser, if it can tell (Scrapy 2.18 and newer)."""
        return _delay_of(self.parser, agent) if hasattr(self.parser, "crawl_delay") else None

    def pace(self, agent: Agent) -> Pace | None:
        """Return what the parser's Crawl-delay asks for."""
        if agent in self._paces:
            return self._paces[agent]
        try:
            pace = pace_of_number(self.crawl_delay(agent))
        except Exception:
            self._failed()
            logger.exception(_NO_DELAY, type(self.parser).__name__)
            pace = None
        return _kept(self._paces, agent, pace)


def digest_of(octets: bytes) -> str:
    """Return what names a file by what it holds: ``sha256:`` and 64 hexadecimal digits."""
    return f"sha256:{sha256(octets).hexdigest()}"


_NO_DELAY = "%s.crawl_delay() failed: no delay is kept"


def _kept(paces: dict[Agent, Pace | None], agent: Agent, pace: Pace | None) -> Pace | None:
    if len(paces) >= _KEPT_PACES:
        paces.clear()
    paces[agent] = pace
    return pace


def _name(agent: Agent) -> str:
    return agent.tokens[0] if agent.tokens else agent.identification


def _delay_of(parser: Any, agent: Agent) -> float | None:  # noqa: ANN401 - the user's class
    delay: float | None = parser.crawl_delay(_name(agent))
    return delay
