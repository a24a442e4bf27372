"""A parsed robots.txt, and all that is known of an origin: whether a URL may be fetched, and why.

`FileReader` makes both, from a file or from a cache entry. `fetch.py` says how a file is got.
"""

import contextlib
import logging
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from scrapy.crawler import Crawler
from scrapy.utils.misc import build_from_crawler, load_object

from scrapy_robots_rfc import _scrapy
from scrapy_robots_rfc._runtime import Runtime, Threads
from scrapy_robots_rfc.cache.entry import CacheEntry
from scrapy_robots_rfc.cache.memory import LARGE
from scrapy_robots_rfc.core.agents import NOBODY, Agent, GroupKey, agent_of
from scrapy_robots_rfc.core.decision import Decision, Reason
from scrapy_robots_rfc.core.percent import request_target
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.ruleset import ROBOTS_TXT
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.parser import RfcRobotParser, settled
from scrapy_robots_rfc.policy.access import Outcome, Validity
from scrapy_robots_rfc.policy.origins import Dialect, Origin, other_reading
from scrapy_robots_rfc.policy.pacing import KEYS, Bound, Over, Pace, pace_of_number, paces_of
from scrapy_robots_rfc.settings import PARSER_ACCEPTED, Settings

logger: logging.Logger = logging.getLogger(__name__)

# Seconds to wait for the thread; it takes a second at most for a file, and many may come at once.
_PATIENCE = 60.0


@dataclass(eq=False, repr=False, slots=True)
class ParsedRobots:
    """A file that a parser has read. Where a parser of the user's raises, the page is disallowed.

    :param parser: has `allowed(url, user_agent)`, and perhaps `crawl_delay(user_agent)`.
    :param robots: the file as the core reads it; ``None``: the parser is not ours, and only says
        yes or no.
    :param own_delay: whether the parser's `crawl_delay()` counts, and not the core's.
    :param size: octets of the file.
    :param large: whether the core reads it on a thread, because its first questions take long.
    :param digest: ``sha256:`` and the digest of the octets that count; empty in a crawl without
        report and archive.
    :param unpaced: whether it is known that no group asks for a pace.
    """

    parser: Any
    robots: RobotsTxt | None
    own_delay: bool = False
    size: int = 0
    large: bool = False
    digest: str = ""
    unpaced: bool = False
    # What was logged of the parser.
    _logged: frozenset[str] = frozenset()
    # By token, where the core reads them; ``None`` until one is asked for.
    _paces: dict[GroupKey, Pace] | None = None

    def decide(self, url: str, agent: Agent) -> Decision:
        """Return the core's decision (RFC 9309, 2.2), or that of the user's parser; never raises.

        A user's parser is asked about the first product token, or else about the whole User-Agent.
        """
        if self.robots is not None:
            return self.robots.decide(url, agent.tokens)
        try:
            allowed = self.parser.allowed(url, _name(agent))
            # Python takes a coroutine or a text for true, though it is no verdict.
            if allowed not in (True, False):
                raise TypeError(f"allowed() gave {allowed!r}, not True or False")
            return Decision(bool(allowed), Reason.PARSER)
        except Exception as error:  # noqa: BLE001 - the parser is the user's
            self._log_once("%s.allowed() failed, so the page is disallowed", error)
            return Decision(False, Reason.PARSER)

    def prepare(self, agent: Agent) -> None:
        """Do what takes long for the questions of an agent, if the core reads the file.

        May be called on any thread.
        """
        if self.robots is not None:
            if not self.own_delay:
                self.pace(agent)
            self.robots.prepare(agent.tokens)  # last: then `unread` is false

    def unread(self, agent: Agent) -> bool:
        """Whether the core has not read it for an agent."""
        return self.robots is not None and not self.robots.prepared(agent.tokens)

    def crawl_delay(self, agent: Agent) -> float | None:
        """Return the Crawl-delay in seconds: the core's, or that of the user's parser."""
        if self.robots is not None and not self.own_delay:
            return self.robots.crawl_delay(agent.tokens)
        ask = getattr(self.parser, "crawl_delay", None)  # parsers of Scrapy 2.18 and newer have it
        delay: float | None = None if ask is None else ask(_name(agent))
        return delay

    def pace(self, agent: Agent) -> Pace | None:
        """Return the pace that the file, or the parser's Crawl-delay, asks for; never raises."""
        if self.robots is None or self.own_delay:
            try:
                return pace_of_number(self.crawl_delay(agent))
            except Exception as error:  # noqa: BLE001 - as above
                self._log_once("%s.crawl_delay() failed, so its interval is ignored", error)
                return None
        if self._paces is None:
            # For all agents at once: a hostile file would take a third of a second for each, on the
            # event loop.
            self._paces = paces_of(self.robots.records_by_group(*KEYS))
            self.unpaced = not self._paces
        chosen = self.robots.choose(agent.tokens) if self._paces else None
        return None if chosen is None else self._paces.get(chosen[1])

    def _log_once(self, text: str, error: Exception) -> None:
        if text not in self._logged:
            self._logged |= {text}
            logger.error(text, type(self.parser).__name__, exc_info=error)


def _name(agent: Agent) -> str:
    return agent.tokens[0] if agent.tokens else agent.identification


@dataclass(frozen=True, slots=True, eq=False)
class OriginPolicy:
    """What is known of an origin's robots.txt, and what follows from it for a URL.

    :param origin: of the file.
    :param validity: what governs the origin, and until when.
    :param status: of the last answer, as the download handler gives it; ``None`` without an answer.
    :param cause: how the last fetch ended, in a word or two: ``200``, ``404``, ``no answer in 30
        s``.
    :param file: the parsed file that is obeyed; ``None`` if there is none.
    :param fetched: when the last fetch ended, on `Runtime.clock`; minus infinity if there was
        none.
    :param for_all: whether it governs every route, as `CacheEntry.for_all` says.
    :param override: the path of the local file (ROBOTS_OVERRIDES) that decides in place of the
        site's.
    :param exempt: the entry of ROBOTS_EXEMPT because of which the site is not asked.
    """

    origin: Origin
    validity: Validity
    status: int | None
    cause: str
    file: ParsedRobots | None = field(repr=False)
    _agent: Callable[[], Agent] = field(repr=False)
    fetched: float = -math.inf
    for_all: bool = True
    override: str | None = None
    exempt: str | None = None

    @property
    def outcome(self) -> Outcome:
        """What governs the decisions: a file, that there is none, or that it is unreachable."""
        return self.validity.outcome

    @property
    def stale(self) -> bool:
        """Whether the file is an earlier one, obeyed because its refresh was unreachable."""
        return self.validity.stale

    @property
    def robots(self) -> RobotsTxt | None:
        """The file: groups, rules, records; ``None`` without one, or if another parser read it."""
        return None if self.file is None else self.file.robots

    @property
    def sitemaps(self) -> tuple[str, ...]:
        """The URLs of all Sitemap records."""
        return () if self.robots is None else self.robots.sitemaps

    @property
    def source(self) -> str:
        """What log lines and errors call the file: ``robots.txt``, or the path of the local one."""
        return "robots.txt" if self.override is None else f"local file {self.override}"

    def cited(self, text: str) -> str:
        """Return a text that names robots.txt; if a local file decides, it names that one."""
        return text.replace("robots.txt", self.source, 1)

    def crawl_delay(self, agent: Agent | str | list[str] | None = None) -> float | None:
        """The Crawl-delay, in seconds; ``None`` if there is none.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return None if self.file is None else self.file.crawl_delay(self._agent_of(agent))

    def pace(self, agent: Agent | str | list[str] | None = None) -> Pace | None:
        """What Crawl-delay and Request-rate ask for; ``None`` if they ask for nothing.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        return None if self.file is None else self.file.pace(self._agent_of(agent))

    def bound(self, agent: Agent) -> Bound | None:
        """The longest interval that the file asks for at this time of day; ``None``: none."""
        pace = self.pace(agent)
        return None if pace is None else pace.bound(Runtime().utc())

    def decide(self, url: str, agent: Agent | str | list[str] | None = None) -> Decision:
        """Whether a URL of this origin may be fetched, and why. Nothing is counted, no signal sent.

        :param agent: product tokens or a User-Agent header; ``None``: the crawl's own.
        """
        decision, _ = self.verdict(url, self._agent_of(agent))
        return decision._replace(origin=str(self.origin))

    def verdict(
        self, url: str, agent: Agent, settings: Settings | None = None
    ) -> tuple[Decision, str | None]:
        """Do what `decide` does, and forbid pages of sites that ask for too long an interval.

        The decision has no origin. Beside it, return why the URL may not be fetched; ``None``: it
        may.

        :param settings: of the crawl; ``None``: intervals are not considered.
        """
        if self.file is None:
            decision = self._without_file(url)
        else:
            decision = self.file.decide(url, agent)
            # Nearly all pages are of http, and have no such text in them: they are not looked at
            # any closer. The last is true of "ftp:".
            doubtful = "/." in url or "%2" in url or url < "g"
            if doubtful and decision.allowed and (other := other_reading(url)) is not None:
                decision = self.file.decide(other, agent)
            if self.override is not None:
                decision = decision._replace(override=self.override)
            elif self.validity.unreachable_since is not None:
                decision = decision._replace(stale=True)
        if not decision.allowed:
            return decision, self.why(decision)
        if settings is None or settings.crawl_delay_over is not Over.FORBID:
            return decision, None
        why = self.refused(url, self.bound(agent), settings)
        if why is not None:
            decision = decision._replace(allowed=False, reason=Reason.CRAWL_DELAY, rule=None)
        return decision, why

    def _without_file(self, url: str) -> Decision:
        if self.exempt is not None:
            return _EXEMPT
        decision = _WITHOUT_FILE[self.validity.outcome]
        if not decision.allowed and request_target(url) == ROBOTS_TXT:  # RFC 9309, 2.2.2
            return _ROBOTS_TXT
        return decision

    def refused(self, url: str, bound: Bound | None, settings: Settings) -> str | None:
        """Why a page is forbidden because of the interval of its site; ``None``: it is not.

        :param bound: the interval that the site asks for.
        """
        # A robots.txt is always allowed (RFC 9309, 2.2.2).
        if bound is None or not settings.forbids(bound) or request_target(url) == ROBOTS_TXT:
            return None
        longest = f"ROBOTS_CRAWL_DELAY_MAX, {settings.crawl_delay_max:g} s"
        return f"{self.cited(bound.text)} is more than {longest}"

    def why(self, decision: Decision) -> str:
        """What a decision rests on, for log lines, errors and people."""
        if decision.rule is not None:
            why = f"{self.source} line {decision.rule.line}: {decision.rule}"
        else:
            why = _WHY[decision.reason].format(
                source=self.source, token=decision.token, cause=self.cause, exempt=self.exempt
            )
        return f"{why}; stale copy, its refresh failed: {self.cause}" if decision.stale else why

    def _agent_of(self, agent: Agent | str | list[str] | None) -> Agent:
        return agent if isinstance(agent, Agent) else agent_of(agent) or self._agent()


#: Begins the reason of each page whose robots.txt is unreachable; the cause follows.
UNREACHABLE = "robots.txt unreachable: "
#: The reason of each page whose site is not asked, because of an entry of ROBOTS_EXEMPT.
EXEMPT = "exempt: `{exempt}` of ROBOTS_EXEMPT"

#: Reason -> why a decision was made that rests on no rule.
_WHY = {
    Reason.RULE: "{source}: a rule",
    Reason.NO_RULE: "{source}: no rule of the group `{token}` matches",
    Reason.NO_GROUP: "{source}: the file has no group for this crawler",
    Reason.ROBOTS_TXT: "robots.txt itself is always allowed",
    Reason.UNAVAILABLE: "robots.txt unavailable ({cause}): everything is allowed",
    Reason.UNREACHABLE: f"{UNREACHABLE}{{cause}}",
    Reason.LOCAL: "robots.txt not requested because the crawl itself failed: {cause}",
    Reason.PARSER: "{source}: ROBOTSTXT_PARSER decided",
    Reason.CRAWL_DELAY: "{source} asks for a longer interval than ROBOTS_CRAWL_DELAY_MAX",
    Reason.USE: "{source} refuses the declared uses",
    Reason.EXEMPT: EXEMPT,
}

_EXEMPT = Decision(True, Reason.EXEMPT)
_ROBOTS_TXT = Decision(True, Reason.ROBOTS_TXT, None, "*")
_WITHOUT_FILE = {
    Outcome.UNAVAILABLE: Decision(True, Reason.UNAVAILABLE),
    Outcome.UNREACHABLE: Decision(False, Reason.UNREACHABLE),
    Outcome.LOCAL: Decision(False, Reason.LOCAL),
    # Not without a file; nothing opens by accident.
    Outcome.SUCCESSFUL: Decision(False, Reason.UNREACHABLE),
}


class FileReader:
    """Reads the files of a crawl, by ROBOTSTXT_PARSER.

    :param agent: gives the agent of requests that bring none; large files are read for it.
    :raises SettingError: the parser cannot be loaded or made, or is no parser.
    """

    def __init__(self, crawler: Crawler, settings: Settings, agent: Callable[[], Agent]) -> None:
        self._crawler = crawler
        self._settings = settings
        self._agent = agent
        self._threads = Threads(1, Runtime(), "robots.txt parser")
        self._failures = set[str]()  # names of exceptions that were logged
        settled.add(crawler)
        try:
            self._parser: type[Any] = load_object(settings.parser)
            # Fails at start if a dependency is missing, or if the class is no parser.
            probe = build_from_crawler(self._parser, crawler, b"")
            probe.allowed  # noqa: B018 - as above
        except Exception as error:
            accepted = f"{PARSER_ACCEPTED} ({type(error).__name__}: {error})"
            raise SettingError("ROBOTSTXT_PARSER", settings.parser, accepted) from error
        # A subclass with an allowed() of its own decides by that method, as a foreign parser does.
        kind = type(probe)
        self._ours = issubclass(kind, RfcRobotParser) and kind.allowed is RfcRobotParser.allowed
        if not self._ours:
            name = f"{kind.__module__}.{kind.__qualname__}"
            text = "ROBOTSTXT_PARSER is %s, so verdicts do not name a rule or a line"
            logger.info(text, name, extra={"spider": crawler.spider})

    def parse(self, body: bytes, origin: Origin) -> ParsedRobots:
        """Return the parsed file of a site; raises whatever a parser of the user's raises."""
        settings = self._settings
        gemini = gemini_file(body, settings, origin.scheme)
        octets = body if gemini is None else gemini.content.data[1:]
        parser: Any
        if self._parser is RfcRobotParser:  # its from_crawler reads the setting for each file
            parser = RfcRobotParser(octets, max_size=settings.max_size)
        else:
            parser = build_from_crawler(self._parser, self._crawler, octets)
        digest = ""
        if settings.report or settings.archive:
            digest = f"sha256:{sha256(body[: settings.max_size]).hexdigest()}"
        ours = self._ours
        own_delay = not ours or type(parser).crawl_delay is not RfcRobotParser.crawl_delay
        if ours and gemini is not None:
            parser.robots = gemini
        robots = parser.robots if ours else None
        size = len(body)
        return ParsedRobots(parser, robots, own_delay, size, ours and size > LARGE, digest)

    def policy(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Return what is known of an origin by a cache entry; its file is parsed now."""
        validity = entry.validity
        cause = entry.cause
        file = None
        if entry.body is not None:
            try:
                file = self.parse(entry.body, origin)
            except Exception as error:  # a file that cannot be read must not open the origin
                name = type(error).__name__
                cause = f"ROBOTSTXT_PARSER raised {name}"
                if name not in self._failures:  # a mistake of a parser concerns many sites
                    self._failures.add(name)
                    text = "ROBOTSTXT_PARSER failed on %s, which counts as unreachable"
                    logger.exception(text, origin.robots_url)
                validity = Validity(
                    Outcome.UNREACHABLE, validity.fresh_until, unreachable_since=entry.fetched
                )
        return OriginPolicy(
            origin, validity, entry.status, cause, file, self._agent, entry.fetched, entry.for_all
        )

    async def policy_aside(self, origin: Origin, entry: CacheEntry) -> OriginPolicy:
        """Do what `policy` does, and read a large file on the thread, for the crawl's own agent."""
        robots = self.policy(origin, entry)
        file = robots.file
        # Without the thread the first pages of a site would stop the event loop for up to a second.
        if file is not None and file.large:
            try:
                agent = self._agent()
            except Exception:  # noqa: BLE001 - the property is the user's, who sees its error when a page is judged
                agent = NOBODY
            await self.read_for(file, agent)
        return robots

    async def read_for(self, file: ParsedRobots, agent: Agent) -> None:
        """Read a file on the thread for an agent. Nothing is read any more when the crawl ends."""

        def read() -> None:
            if not _scrapy.is_closing(self._crawler):
                file.prepare(agent)

        with contextlib.suppress(TimeoutError):  # who needs the file waits again
            await self._threads.call(read, limit=_PATIENCE)

    def stop(self) -> None:
        """Let the thread end."""
        self._threads.stop()


def gemini_file(body: bytes, settings: Settings, scheme: str) -> RobotsTxt | None:
    """Return the parsed file of a scheme whose files have the rules of Gemini; else ``None``."""
    known = settings.schemes.get(scheme)
    if known is None or known.rules is not Dialect.GEMINI:
        return None
    from scrapy_robots_rfc.core.gemini import GeminiFile  # noqa: PLC0415 - few crawls need it

    return GeminiFile(body, max_size=settings.max_size)
