"""A parsed robots.txt, whoever parsed it: ours gives rules and reasons, another `RobotParser` gives yes or no.

In here: the two behind one interface. Where the octets come from is the service's business.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.policy.pacing import KEYS, Pace, pace_of, pace_of_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from scrapy_robots_rfc.core.robotstxt import RobotsTxt
    from scrapy_robots_rfc.identity import Agent

logger = logging.getLogger(__name__)

# Agents whose pace is kept with a file; a crawl that makes up a User-Agent for every request must not make it grow.
_KEPT_PACES = 16


class RobotsFile(Protocol):
    """What the rest of the package asks of a parsed file."""

    @property
    def parser(self) -> object:
        """The instance of `ROBOTSTXT_PARSER`."""

    @property
    def robots(self) -> RobotsTxt | None:
        """The file as our core reads it; ``None`` with another parser."""

    def decide(self, url: str, agent: Agent) -> Decision:
        """Whether a URL may be fetched; never raises."""

    def crawl_delay(self, agent: Agent) -> float | None:
        """The Crawl-delay for an agent, in seconds."""

    def pace(self, agent: Agent) -> Pace | None:
        """What the file asks of an agent's pace, ``None`` for nothing; never raises."""


class RfcFile:
    """A file in the hands of `RfcRobotParser`."""

    __slots__ = ("_paces", "parser", "robots")

    def __init__(self, parser: object, robots: RobotsTxt) -> None:
        self.parser = parser
        self.robots: RobotsTxt = robots
        self._paces: dict[tuple[str, ...], Pace | None] | None = {}

    def decide(self, url: str, agent: Agent) -> Decision:
        """Return the core's decision (RFC 9309, 2.2)."""
        return self.robots.decide(url, agent.tokens)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Return the core's value."""
        return self.robots.crawl_delay(agent.tokens)

    def pace(self, agent: Agent) -> Pace | None:
        """Return what the records of the group that applies ask for."""
        if self._paces is None:
            return None
        if agent.tokens in self._paces:
            return self._paces[agent.tokens]
        if not self.robots.mentions(*KEYS):
            self._paces = None  # as most files: nobody needs to look again
            return None
        if len(self._paces) >= _KEPT_PACES:
            self._paces.clear()
        pace = self._paces[agent.tokens] = pace_of(self.robots.records_for(agent.tokens, *KEYS))
        return pace


class ForeignFile:
    """A file in the hands of a parser that the user chose. Its exceptions close the gate.

    :param parser: has `allowed(url, user_agent)`, and perhaps `crawl_delay(user_agent)`.
    :param failed: called for each exception.
    """

    __slots__ = ("_failed", "_told", "parser")

    robots: RobotsTxt | None = None

    def __init__(self, parser: Any, failed: Callable[[], object]) -> None:  # noqa: ANN401 - the user's class
        self.parser = parser
        self._failed = failed
        self._told: set[str] = set()

    def decide(self, url: str, agent: Agent) -> Decision:
        """Ask the parser, by the first product token, or the whole identification where there is none."""
        name = agent.tokens[0] if agent.tokens else agent.identification
        try:
            return Decision(bool(self.parser.allowed(url, name)), Reason.PARSER)
        except Exception as error:  # noqa: BLE001 - whatever the user's class raises; it is logged
            self._tell("allowed", error, "the page is treated as disallowed")
            return Decision(False, Reason.PARSER)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Ask the parser, if it can tell (Scrapy 2.18 and newer)."""
        if not hasattr(self.parser, "crawl_delay"):
            return None
        delay: float | None = self.parser.crawl_delay(agent.tokens[0] if agent.tokens else agent.identification)
        return delay

    def pace(self, agent: Agent) -> Pace | None:
        """Return what the parser's Crawl-delay asks for."""
        try:
            return pace_of_number(self.crawl_delay(agent))
        except Exception as error:  # noqa: BLE001 - whatever the user's class raises; it is logged
            self._tell("crawl_delay", error, "no delay is kept")
            return None

    def _tell(self, method: str, error: Exception, follows: str) -> None:
        self._failed()
        if method not in self._told:
            logger.error("%s.%s() failed: %s", type(self.parser).__name__, method, follows, exc_info=error)
            self._told.add(method)
