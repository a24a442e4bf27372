"""What the topics of `scrapy robots` share: output, URLs as people type them, files, and a crawl.

Control characters in a site's text are escaped before they reach a terminal. The crawl asks sites
with the project's settings and components: `_WITHOUT` says how it differs from the project's own.
"""

import json
import math
import os
import re
import signal
from argparse import ArgumentTypeError, Namespace
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, TypeVar

from scrapy import Request, Spider
from scrapy.crawler import AsyncCrawlerProcess
from scrapy.http import Response
from scrapy.settings import Settings as ScrapySettings
from w3lib.url import safe_url_string

from scrapy_robots_rfc import signals
from scrapy_robots_rfc.addon import Addon
from scrapy_robots_rfc.core.agents import NOBODY, Agent, agent_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import printable, without_credentials
from scrapy_robots_rfc.errors import RobotsDisallowed, RobotsError
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots, gemini_file
from scrapy_robots_rfc.fetching.pending import MAX_FETCHES
from scrapy_robots_rfc.fetching.routes import through
from scrapy_robots_rfc.middleware.downloader import robots_service
from scrapy_robots_rfc.middleware.user_agent import default_header
from scrapy_robots_rfc.policy.access import Access, Local, Outcome
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme, without_userinfo
from scrapy_robots_rfc.settings import Settings, read_settings

T = TypeVar("T")

#: The exit code where there is no answer, or not all of it.
NO_ANSWER = 2
#: What stands for standard input on a command line.
STANDARD = "-"
#: What to do where a text has no origin; the schemes, for `--help`.
URL_ADVICE = "write it as SCHEME://HOST/PATH"
URL_HELP = f"absolute: {', '.join(SCHEMES)}, or a scheme of ROBOTS_SCHEMES"
#: Colours by their meaning: codes of ECMA-48, 8.3.117 (SGR).
GOOD, BAD, DOUBT, STRONG, FAINT = "32", "31", "33", "1", "2"

#: What may be userinfo in a text that is no URL: all before the last `@`, except a scheme
#: (RFC 3986, 3.1).
_USERINFO = re.compile(
    r"\A(?!(?:data|mailto):[^/]|file:///)([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL
)
#: What a request removes from its URL, or changes in it (WHATWG URL, 4.4).
_ODD = re.compile(r"[\x00-\x20\x7f\\]|\?(?:#|$)")


class Failed(Exception):  # noqa: N818 - it ends a command, with one line
    """A command cannot go on."""


@dataclass(frozen=True, slots=True)
class Console:
    """Where a command reads and writes; the prefix begins each line on stderr."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    prefix: str

    def print(self, text: str = "") -> None:
        """Print a line; a character that the encoding of stdout lacks is escaped."""
        encoding = self.stdout.encoding or "utf-8"
        self.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def print_json(self, record: Mapping[str, Any]) -> None:
        """Print an object as one line of JSON, in ASCII."""
        self.stdout.write(json.dumps(record) + "\n")

    def fact(self, name: str, text: str, width: int = 10) -> None:
        """Print a name, in some columns, and a text, which is made safe."""
        self.print(f"  {self.paint(f'{name:<{width}}', FAINT)} {printable(text)}")

    def paint(self, text: str, *colours: str) -> str:
        """Return a text in colours, if stdout is a terminal that wants them (no-color.org)."""
        refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        if not text or refused or not self.stdout.isatty():
            return text
        return f"\x1b[{';'.join(colours)}m{text}\x1b[0m"

    def complain(self, text: str) -> None:
        """Print a line on stderr. If that fails, too, only the exit code shows the error."""
        try:
            self.stderr.write(f"{self.prefix}: {printable(without_passwords(text))}\n")
            self.stderr.flush()
        except OSError:
            abandon(self.stderr)


class Topic(NamedTuple):
    """A topic of the command line: what `--help` says, its arguments for argparse, and its run."""

    help: str
    arguments: dict[str, dict[str, Any]]
    run: Callable[[ScrapySettings, Console, Namespace], int]


def _agent(name: str) -> Agent:
    """Return the crawler that the command line names."""
    agent = agent_of(name)
    if agent is None or not (agent.tokens or any(map(str.isalnum, name))):
        raise ArgumentTypeError("it names no crawler: give a product token or a User-Agent")
    return agent


#: Arguments of several topics.
AGENT: dict[str, Any] = {
    "--agent": {
        "metavar": "TOKEN",
        "type": _agent,
        "action": "append",
        "help": "the crawler: a product token, or a User-Agent; A,B: A, or else B; as often as you"
        " like (default: the project's)",
    }
}
JSON: dict[str, Any] = {
    "--json": {"action": "store_true", "help": "print JSON, one object in a line for each answer"}
}


def agents_of(opts: Namespace, ours: Settings, settings: ScrapySettings) -> list[Agent]:
    """Return the crawlers that the command line names, each once, or else the project's."""
    own = ours.user_agent or agent_of(default_header(settings)) or NOBODY
    return list(dict.fromkeys(opts.agent or [own]))


def name_of(agent: Agent) -> str:
    """Return a crawler's product tokens, or the User-Agent header that they are from."""
    return ",".join(agent.tokens) if agent.identification in agent.tokens else agent.identification


def abandon(stream: TextIO) -> None:
    """Discard the rest of an output, else Python would try to write it at its exit, and fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def meaning(outcome: Outcome, cause: str, *, stale: bool) -> str:
    """Return a result with what follows for pages: ``unavailable (404): everything is allowed``."""
    return f"stale ({cause}): an earlier copy is obeyed" if stale else outcome.explained(cause)


def whole_number(value: object) -> int | None:
    """Return a whole number, also of a text; ``None``: it is none, or has more than 15 digits."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def as_url(text: str) -> str:
    """Return a typed URL as a crawl requests it, without blanks around it for instance."""
    # Octets that are not UTF-8 are surrogates (PEP 383). They become escapes, by w3lib's handler.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "percentencode")
    if _ODD.search(text):
        with suppress(ValueError):
            requested = safe_url_string(text)
            if Origin.of(requested) is not None:
                return requested
    return text  # what cannot be requested is shown as it was typed


def origin_of(url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin:
    """Return the origin of a typed URL that has one of some schemes, or raise `Failed`."""
    origin = Origin.of(as_url(url), schemes)
    if origin is None:
        raise Failed(f"{stripped(url)} is {no_url(schemes)}; {URL_ADVICE}")
    return origin


def no_url(schemes: Iterable[str]) -> str:
    """Return what a text is that has no origin of one of some schemes."""
    return f"no absolute URL of {' or '.join(schemes)} with a valid authority"


def stripped(url: str) -> str:
    """Return a URL without userinfo, or another text without what may be userinfo."""
    any_scheme = {url.partition("://")[0].lower(): Scheme(1)}
    is_text = Origin.of(url, any_scheme) is None
    return _USERINFO.sub(r"\1", url) if is_text else without_userinfo(url)


def without_passwords(text: str) -> str:
    """Return a text for people with ``***`` in place of what may be userinfo of its words."""
    # An @ in the path of a URL stays.
    return " ".join(
        word if stripped(word) == word else without_credentials(word, "***@")
        for word in text.split(" ")
    )


def is_url(source: str) -> bool:
    """Whether a source is a URL, and not the name of a file."""
    return source.partition("://")[0].lower() in SCHEMES and "://" in source


def source_name(source: str) -> str:
    """Return what a source is called for people: a URL has no userinfo."""
    if source == STANDARD:
        return "standard input"
    return stripped(source) if is_url(source) else source


@contextmanager
def opened(source: str, console: Console) -> Iterator[BinaryIO]:
    """Open a file, or standard input, which stays open. An OSError becomes `Failed`."""
    given = source == STANDARD
    try:
        with nullcontext(console.stdin.buffer) if given else Path(source).open("rb") as file:
            yield file
    except OSError as error:
        raise Failed(
            f"{source_name(source)} cannot be read: {error.strerror};"
            " name another file, or - for standard input"
        ) from error


def read(source: str, console: Console, max_size: float = math.inf) -> bytes:
    """Return the octets of a file or of standard input, one more than count at most."""
    found = bytearray()
    with opened(source, console) as file:
        # Piece by piece: memory for the whole limit, which may be huge, is never taken at once.
        while piece := file.read(int(min(max_size + 1 - len(found), 65_536))):
            found += piece
    return bytes(found)


#: What could write files, open ports or run spiders of the project, which no command may do. A
#: store in the job directory is not used, either.
_WITHOUT: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "FEEDS": {},
    "ROBOTS_REPORT": {},
    "ROBOTS_ARCHIVE": None,
    "ITEM_PIPELINES": {},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "JOBDIR": None,
    "HTTPCACHE_ENABLED": False,  # the site is asked, not the HTTP cache
    "HTTPCACHE_IGNORE_MISSING": False,
    "SPIDER_LOADER_CLASS": "scrapy.spiderloader.DummySpiderLoader",
    # The one that `AsyncCrawlerProcess` installs.
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
}
#: What else can be done where a site has no file.
_COPY = "or take a copy of its file: check --robots FILE, lint FILE"


@dataclass(frozen=True, slots=True)
class FoundRobots:
    """What governs an origin, and where that is from."""

    robots: OriginPolicy
    source: str  # the URL of the robots.txt, or the name of a file that replaces it
    declared: tuple[str, ...] | None = None  # the uses of an archived crawl; `None`: unknown
    advice: str = ""  # where the file is unreachable, or the crawl itself failed
    agent: Agent | None = None  # for whom an archived crawl asked; `None`: unknown

    @property
    def file(self) -> RobotsTxt:
        """The file as this package reads it; empty where there is none."""
        return self.robots.robots or RobotsTxt()

    @property
    def problem(self) -> str:
        """Why the file is not known, and what to do."""
        robots = self.robots
        return f"{self.source} is {robots.outcome.explained(robots.cause)}; {self.advice}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why it is not known what governs a URL, and what to do."""

    why: str
    advice: str


def prepared(settings: ScrapySettings) -> Settings:
    """Change a project's settings to those of a command's crawl, and return this package's."""
    # A command requests a file once. The default would retry for a minute.
    settings.set("ROBOTS_UNREACHABLE_BACKOFF", [], "command")
    for name, value in _WITHOUT.items():
        settings.set(name, value, "cmdline")
    Addon().update_settings(settings)
    return read_settings(settings)


class Inquirer(Spider):
    """The spider of the crawl: it does some work once it has begun, and yields nothing."""

    name = "robots"
    work: Callable[["Inquirer"], Awaitable[None]]

    async def start(self) -> AsyncIterator[Any]:
        """Do the work."""
        self._advice: dict[str, str] = {}
        self.crawler.signals.connect(self._attempted, signals.robots_attempted)
        await self.work(self)
        for request in list[Any]():  # never runs: only a `yield` makes this an async generator
            yield request

    def _attempted(self, access: Access | None) -> None:
        """Remember what to do about a failure of the crawl itself; see `signals.py`."""
        if isinstance(access, Local):
            self._advice[access.cause] = access.advice

    async def find(self, origins: Sequence[Origin]) -> dict[Origin, FoundRobots]:
        """Return what governs origins."""
        service = robots_service(self.crawler)
        found = {}
        for start in range(0, len(origins), MAX_FETCHES):
            fetches = [service.fetch(origin) for origin in origins[start : start + MAX_FETCHES]]
            for fetch in fetches:
                robots = await fetch.result()
                if robots is None:  # the crawl ends
                    raise Failed("stopped")
                advice = f"{self._advice.get(robots.cause, 'see whether the site is up')}, {_COPY}"
                url = robots.origin.robots_url
                found[robots.origin] = FoundRobots(robots, url, advice=advice)
        return found

    async def page(self, url: str) -> Response:
        """Return the answer for a page; robots.txt is obeyed, and redirects are followed."""
        request = Request(stripped(url))
        assert self.crawler.engine is not None
        try:
            return await self.crawler.engine.download_async(request)
        except Exception as error:
            refused = isinstance(error, RobotsDisallowed)
            timeout = read_settings(self.settings).timeout
            cause = error if refused else through(access_after(error, timeout), request).cause
            raise Failed(f"{request.url} cannot be read: {cause}") from error


def crawl(settings: ScrapySettings, work: Callable[[Inquirer], Awaitable[T]]) -> T:
    """Run a crawl that does some work, and return the result of that. The settings are prepared.

    The work prints nothing: while the crawl runs, Ctrl-C ends the crawl.
    """
    ends: list[T | Exception] = []  # the first counts

    async def guarded(inquirer: Inquirer) -> None:
        try:
            ends.append(await work(inquirer))
        except Exception as error:  # noqa: BLE001 - raised again below, where nothing logs it
            ends.append(error)

    # A crawl does not remove its signal handlers, and they call an event loop that has ended.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        process = AsyncCrawlerProcess(settings)
        task = process.crawl(Inquirer, work=guarded)
        process.start()
        if task.done() and not task.cancelled():
            task.result()
    except Exception as error:  # noqa: BLE001 - any part that the project's settings name raises
        ends.append(error)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    end = ends[0] if ends else Failed("stopped")
    # Scrapy may fail once more, without a cause, when it ends a crawl that could not begin.
    while isinstance(end, RuntimeError) and isinstance(end.__context__, Exception):
        end = end.__context__
    if isinstance(end, (Failed, RobotsError)):
        raise end
    if isinstance(end, Exception):  # of the project's code: it becomes one line
        raise Failed(f"no crawl is possible with these settings: {type(end).__name__}: {end}")
    return end


def found_about(settings: ScrapySettings, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
    """Return what governs origins, by their own robots.txt. The settings are prepared."""
    return crawl(settings, lambda inquirer: inquirer.find(list(origins)))


def parsed(octets: bytes, scheme: str, settings: Settings) -> ParsedRobots:
    """Return a file as it counts for pages of a scheme: Gemini has rules of its own."""
    gemini = gemini_file(octets, settings, scheme)
    return ParsedRobots(None, gemini or RobotsTxt.parse(octets, max_size=settings.max_size))
