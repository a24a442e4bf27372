"""Code shared by the `scrapy robots` topics: output, URL parsing, input files and the crawl.

Control characters in a site's text are escaped before they reach a terminal. The crawl fetches
files with the project's settings and components, except for those in `_WITHOUT`.
"""

import json
import math
import os
import re
import signal
from argparse import Namespace
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
from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.core.text import join_items, printable, without_credentials
from scrapy_robots_rfc.errors import RobotsDisallowed, RobotsError
from scrapy_robots_rfc.fetching.faults import access_after
from scrapy_robots_rfc.fetching.parsed import OriginPolicy, ParsedRobots
from scrapy_robots_rfc.fetching.pending import MAX_FETCHES
from scrapy_robots_rfc.fetching.reader import gemini_file
from scrapy_robots_rfc.fetching.routes import sparing_site
from scrapy_robots_rfc.middleware.downloader import robots_service
from scrapy_robots_rfc.policy.access import OTHER_HOST, Access, Local
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme, without_userinfo
from scrapy_robots_rfc.settings import Settings, read_settings

T = TypeVar("T")

#: The exit code when the answer is missing or incomplete.
NO_ANSWER = 2
#: The command-line argument for standard input.
STANDARD = "-"
#: Advice for an argument that isn't a URL, or that is neither a file nor a URL, and the help text
#: for URL arguments.
URL_ADVICE = "write it as SCHEME://HOST/PATH"
IF_URL = f"; if it is a URL, {URL_ADVICE}"
URL_HELP = f"absolute: {', '.join(SCHEMES)}, or a scheme of ROBOTS_SCHEMES"
#: SGR codes for the colours (ECMA-48, 8.3.117).
GOOD, BAD, DOUBT, STRONG, FAINT = "32", "31", "33", "1", "2"

#: The values of a use, in words.
USES = {True: "yes", False: "no", None: "neither yes nor no"}

#: Possible userinfo in text that isn't a URL. It ends at the last `@` and starts after the scheme
#: (RFC 3986, 3.1), if there is one.
_USERINFO = re.compile(
    r"\A(?!(?:data|mailto):[^/]|file:///)([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL
)
#: Characters that Scrapy removes or changes in request URLs (WHATWG URL, 4.4).
_ODD = re.compile(r"[\x00-\x20\x7f\\]|\?(?:#|$)")


class Failed(Exception):  # noqa: N818 - it ends a command with a message
    """Ends a command and prints a message on stderr."""


@dataclass(frozen=True, slots=True)
class Console:
    """A command's standard streams. Each line on stderr starts with the prefix."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    prefix: str

    def print(self, text: str = "") -> None:
        """Print a line, escaping any characters that stdout can't encode."""
        encoding = self.stdout.encoding or "utf-8"
        self.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def print_json(self, record: Mapping[str, Any]) -> None:
        """Print an object as a single line of ASCII JSON."""
        self.stdout.write(json.dumps(record) + "\n")

    def fact(self, name: str, text: str, width: int = 10) -> None:
        """Print a padded name followed by escaped text."""
        self.print(f"  {self.paint(f'{name:<{width}}', FAINT)} {printable(text)}")

    def paint(self, text: str, *colours: str) -> str:
        """Colour the text if stdout is a terminal and colours are not disabled (no-color.org)."""
        is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        if not text or is_plain or not self.stdout.isatty():
            return text
        return f"\x1b[{';'.join(colours)}m{text}\x1b[0m"

    def complain(self, text: str) -> None:
        """Print a line on stderr. If that fails, the exit code still signals the error."""
        try:
            self.stderr.write(f"{self.prefix}: {printable(without_passwords(text))}\n")
            self.stderr.flush()
        except OSError:
            abandon(self.stderr)


def refuse(problems: Mapping[str, object]) -> None:
    """Raise `Failed` with the first problem whose value is true."""
    for problem, applies in problems.items():
        if applies:
            raise Failed(problem)


class Topic(NamedTuple):
    """A subcommand with its help text, argparse arguments and function."""

    help: str
    arguments: dict[str, dict[str, Any]]
    run: Callable[[ScrapySettings, Console, Namespace], int]


#: An argument shared by several topics.
JSON: dict[str, Any] = {
    "--json": {"action": "store_true", "help": "print JSON, one object per line"}
}


def abandon(stream: TextIO) -> None:
    """Discard buffered output, because Python would otherwise fail to write it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def whole_number(value: object) -> int | None:
    """Parse a whole number, or return `None` if it isn't one or has more than 15 digits."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def as_url(text: str) -> str:
    """Return a command-line URL as a crawl would request it, without surrounding whitespace."""
    # Python decodes non-UTF-8 bytes as surrogates (PEP 383), which w3lib can percent-encode.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "percentencode")
    if _ODD.search(text):
        with suppress(ValueError):
            requested = safe_url_string(text)
            if Origin.of(requested) is not None:
                return requested
    return text  # it can't be requested, so show it exactly as typed


def origin_of(url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin:
    """Return a URL's origin, or raise `Failed` if its scheme isn't in `schemes`."""
    origin = Origin.of(as_url(url), schemes)
    if origin is None:
        raise Failed(f"{stripped(url)} is {not_a_url(schemes)}; {URL_ADVICE}")
    return origin


def not_a_url(schemes: Iterable[str]) -> str:
    """Return the error message for text that isn't a URL with one of the schemes."""
    return f"not an absolute {join_items(list(schemes), 'or')} URL"


def stripped(url: str) -> str:
    """Remove userinfo from a URL, or possible userinfo from other text."""
    any_scheme = {url.partition("://")[0].lower(): Scheme(1)}
    if Origin.of(url, any_scheme) is None:
        return _USERINFO.sub(r"\1", url)
    return without_userinfo(url)


def without_passwords(text: str) -> str:
    """Replace possible userinfo in each word with ``***``."""
    # An @ in a URL's path is not part of userinfo.
    return " ".join(
        word if stripped(word) == word else without_credentials(word, "***@")
        for word in text.split(" ")
    )


def is_url(source: str, schemes: Iterable[str] = ()) -> bool:
    """Return True if a source is a URL rather than a file name.

    :param schemes: schemes accepted in addition to the default ones.
    """
    scheme, separator, _ = source.partition("://")
    return bool(separator) and scheme.lower() in {*SCHEMES, *schemes}


def source_name(source: str) -> str:
    """Return the name to print for a source, without userinfo if it's a URL."""
    if source == STANDARD:
        return "standard input"
    return stripped(source) if is_url(source) else source


@contextmanager
def opened(source: str, console: Console, more_advice: str = "") -> Iterator[BinaryIO]:
    """Open a file or standard input, and convert any OSError to `Failed`."""
    is_stdin = source == STANDARD
    try:
        with nullcontext(console.stdin.buffer) if is_stdin else Path(source).open("rb") as file:
            yield file
    except OSError as error:
        raise Failed(
            f"{source_name(source)} cannot be read: {error.strerror};"
            f" use another file, or - for standard input{more_advice}"
        ) from error


def read(source: str, console: Console, max_size: float = math.inf, more_advice: str = "") -> bytes:
    """Read up to `max_size + 1` bytes from a file or standard input."""
    data = bytearray()
    with opened(source, console, more_advice) as file:
        # Read in chunks, because `read(size)` allocates the whole size, and the limit may be huge.
        while chunk := file.read(int(min(max_size + 1 - len(data), 65_536))):
            data += chunk
    return bytes(data)


#: Settings that prevent a command's crawl from writing files, opening ports, loading spiders or
#: using the job directory.
_WITHOUT: dict[str, Any] = {
    "ROBOTSTXT_OBEY": True,
    "ROBOTS_DRY_RUN": False,
    "FEEDS": {},
    "ROBOTS_REPORT": {},
    "ROBOTS_ARCHIVE": None,
    "ITEM_PIPELINES": {},
    "TELNETCONSOLE_ENABLED": False,
    "REMOTE_CONTROL_ENABLED": False,
    "JOBDIR": None,
    "HTTPCACHE_ENABLED": False,  # get files from the site instead of the HTTP cache
    "HTTPCACHE_IGNORE_MISSING": False,
    "SPIDER_LOADER_CLASS": "scrapy.spiderloader.DummySpiderLoader",
    # The reactor that `AsyncCrawlerProcess` installs.
    "TWISTED_REACTOR": "twisted.internet.asyncioreactor.AsyncioSelectorReactor",
}
_COPY = "or use a local copy (check --robots FILE, lint FILE)"


@dataclass(frozen=True, slots=True)
class FoundRobots:
    """The result of fetching an origin's robots.txt.

    :param source: the URL of the robots.txt, or the local file that replaces it.
    :param advice: set if the file is unreachable or the crawl itself failed.
    :param redirected_to: the final URL, if there was a redirect.
    :param archived: when the fetch ended. Only files from an archive have this and the following.
    :param digest: the file's digest, or `None` if there is no file.
    :param use: the uses that the archived crawl declared, or `None` if they are not known.
    :param agent: the agent that the file was fetched for, or `None` if it is not known.
    :param dry_run: True if the archived crawl also sent disallowed requests.
    """

    policy: OriginPolicy
    source: str
    advice: str = ""
    redirected_to: str | None = None
    archived: str | None = None
    digest: str | None = None
    use: tuple[str, ...] | None = None
    agent: Agent | None = None
    dry_run: bool | None = None

    @property
    def file(self) -> RobotsTxt:
        """The parsed file, or an empty one if there is none."""
        return self.policy.robots or RobotsTxt()

    @property
    def problem(self) -> str:
        """An explanation of why the file is unknown, with advice."""
        policy = self.policy
        return f"{self.source} is {policy.outcome.explained(policy.cause)}; {self.advice}"


@dataclass(frozen=True, slots=True)
class Unknown:
    """An explanation of why a URL's robots.txt is unknown, with advice."""

    why: str
    advice: str


def prepared(settings: ScrapySettings) -> Settings:
    """Adapt the project's settings for a command's crawl, and return our own settings."""
    # Request each file only once. With the default backoff, the user would wait for a minute.
    settings.set("ROBOTS_UNREACHABLE_BACKOFF", [], "command")
    settings.setdict(_WITHOUT, "cmdline")
    Addon().update_settings(settings)
    return read_settings(settings)


class Inquirer(Spider):
    """The spider for a command's crawl. It runs a coroutine and yields no requests."""

    name = "robots"
    work: Callable[["Inquirer"], Awaitable[None]]

    async def start(self) -> AsyncIterator[Any]:
        """Run the coroutine."""
        self._advice = {OTHER_HOST: "set ROBOTS_REDIRECTS to 'any'"}
        self._last_urls: dict[Origin, str] = {}
        self.crawler.signals.connect(self._attempted, signals.robots_attempted)
        self.crawler.signals.connect(self._exchanged, signals.robots_exchanged)
        await self.work(self)
        for request in list[Any]():  # never runs; a `yield` makes this an async generator
            yield request

    def _attempted(self, access: Access | None, **_: object) -> None:
        """Remember the advice about a failure of the crawl itself; see `signals.py`."""
        if isinstance(access, Local):
            self._advice[access.cause] = access.advice

    def _exchanged(
        self,
        origin: Origin,
        request: Request,
        response: Any,  # noqa: ANN401
    ) -> None:
        """Remember the last URL requested for an origin; see `signals.py`."""
        self._last_urls[origin] = request.url if response is None else response.url

    async def find(self, origins: Sequence[Origin]) -> dict[Origin, FoundRobots]:
        """Fetch the robots.txt of each origin."""
        service = robots_service(self.crawler)
        found = {}
        for start in range(0, len(origins), MAX_FETCHES):
            fetches = [service.fetch(origin) for origin in origins[start : start + MAX_FETCHES]]
            for fetch in fetches:
                policy = await fetch.result()
                if policy is None:  # the crawl is ending
                    raise Failed("stopped")
                found[policy.origin] = self._found(policy)
        return found

    def _found(self, policy: OriginPolicy) -> FoundRobots:
        """Return a result, including the redirect target and advice."""
        url = policy.origin.robots_url
        last_url = stripped(self._last_urls.get(policy.origin, url))
        advice = self._advice.get(policy.cause, "check whether the site is up")
        return FoundRobots(
            policy,
            url,
            redirected_to=None if last_url == url else last_url,
            advice=f"{advice}, {_COPY}",
        )

    async def page(self, url: str) -> Response:
        """Fetch a page, obeying robots.txt and following redirects."""
        request = Request(stripped(url))
        assert self.crawler.engine is not None
        try:
            return await self.crawler.engine.download_async(request)
        except Exception as error:
            is_disallowed = isinstance(error, RobotsDisallowed)
            cause = str(error) if is_disallowed else cause_of(error, request, self)
            raise Failed(f"{request.url} cannot be read: {cause}") from error


def cause_of(error: Exception, request: Request, spider: Spider) -> str:
    """Return why a page could not be fetched, as a log line would show it."""
    # `DownloadTimeoutMiddleware` sets the meta.
    timeout = request.meta.get("download_timeout", spider.settings.getfloat("DOWNLOAD_TIMEOUT"))
    return sparing_site(access_after(error, timeout), request).cause


def crawl(settings: ScrapySettings, work: Callable[[Inquirer], Awaitable[T]]) -> T:
    """Run a coroutine in a crawl, and return its result.

    The coroutine must not print, because Ctrl-C only stops the crawl while it is running.

    :param settings: settings adapted by `prepared`.
    """
    ends: list[T | Exception] = []  # only the first one is used

    async def guarded(inquirer: Inquirer) -> None:
        try:
            ends.append(await work(inquirer))
        except Exception as error:  # noqa: BLE001 - raised again below, where Scrapy doesn't log it
            ends.append(error)

    # A crawl doesn't restore signal handlers, and its own handlers use a loop that has stopped.
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        process = AsyncCrawlerProcess(settings)
        task = process.crawl(Inquirer, work=guarded)
        process.start()
        if task.done() and not task.cancelled():
            task.result()
    except Exception as error:  # noqa: BLE001 - any of the project's components may raise
        ends.append(error)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    end = ends[0] if ends else Failed("stopped")
    # When Scrapy closes a crawl that couldn't start, another error may hide the original one.
    while isinstance(end, RuntimeError) and isinstance(end.__context__, Exception):
        end = end.__context__
    if isinstance(end, (Failed, RobotsError)):
        raise end
    if isinstance(end, Exception):  # raised by the project's code
        raise Failed(f"cannot crawl with these settings: {type(end).__name__}: {end}")
    return end


def found_about(settings: ScrapySettings, origins: Iterable[Origin]) -> dict[Origin, FoundRobots]:
    """Fetch each origin's robots.txt, using settings adapted by `prepared`."""
    return crawl(settings, lambda inquirer: inquirer.find(list(origins)))


def parsed(body: bytes, scheme: str, settings: Settings) -> ParsedRobots:
    """Parse a file according to the scheme, because Gemini has different rules."""
    gemini = gemini_file(body, settings, scheme)
    return ParsedRobots(None, gemini or RobotsTxt.parse(body, max_size=settings.max_size))
