"""`scrapy robots check URL...`: may these URLs be fetched, and why.

In here: the command line, and the way from URLs to findings. What a finding says is `judging.py`, how it looks
`explained.py`.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands import asking, judging, sources
from scrapy_robots_rfc.commands.addresses import ADVICE, file_url
from scrapy_robots_rfc.commands.explained import lines_of
from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.terminal import Progress, Style
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc._runtime import Waiter
    from scrapy_robots_rfc.commands import Topics
    from scrapy_robots_rfc.commands.asking import Hop, Inquirer
    from scrapy_robots_rfc.commands.judging import Asker, Finding
    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.fetching.parsed import OriginPolicy
    from scrapy_robots_rfc.settings import Settings

#: Exit codes.
ALLOWED, DISALLOWED, UNDECIDED = 0, 1, 2

# URLs whose robots.txt is asked for ahead of the one that is printed next.
_AHEAD = 64


def add_to(topics: Topics) -> Iterator[argparse.ArgumentParser]:
    """Add the topic to a command line, and yield its parser."""
    text = (
        "Say whether URLs may be fetched, and why: the verdict, the line that decided, the group, the rules that lost."
    )
    topic = topics.add_parser("check", help=text, description=text)
    topic.set_defaults(work=check, failed=UNDECIDED)
    topic.add_argument(
        "urls", metavar="URL", nargs="*", help="absolute, http or https; -, or none: from standard input"
    )
    add_agent(topic)
    topic.add_argument("--robots", metavar="FILE|URL|-", help="the robots.txt to go by, in place of the sites' own")
    topic.add_argument("--json", action="store_true", help="an object in one line for each URL")
    yield topic


def add_agent(topic: argparse.ArgumentParser) -> None:
    """Add the option that says who asks."""
    text = "product token, or User-Agent; A,B: A, or else B; as often as you like (default: the project's)"
    topic.add_argument("--agent", metavar="TOKEN", action="append", help=text)


def check(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Judge the URLs, print what is found, and return the exit code."""
    urls = _urls(console, opts)
    if opts.robots is not None and sources.is_url(opts.robots):
        opts.robots = file_url(opts.robots)
    ours = asking.prepared(settings, opts)
    judge = _Judge(console, opts.json, ours, judging.askers_for(opts.agent, ours, settings), len(urls))
    judge.progress.show(0)  # the first site may be slow
    try:
        if opts.robots is None:
            asking.crawl(settings, partial(judge.ask, urls))
        elif sources.is_url(opts.robots):
            asking.crawl(settings, partial(judge.download, urls, opts.robots))
        else:
            judge.go_by(urls, sources.read(opts.robots, console, ours.max_size), opts.robots)
    finally:
        judge.progress.clear()
    if judge.done < len(urls):
        raise Failed(f"stopped after {judge.done:,} of {len(urls):,} URLs", UNDECIDED)
    return judge.code


def _urls(console: Console, opts: argparse.Namespace) -> list[str]:
    named = opts.urls or [sources.STANDARD]
    if sources.STANDARD not in named:
        return [sources.as_url(url) for url in named]
    if opts.robots == sources.STANDARD:
        raise Failed("standard input is the robots.txt: name the URLs on the command line", UNDECIDED)
    if not opts.urls and console.stdin.isatty():
        raise Failed("name the URLs, or send them to standard input, one a line", UNDECIDED)
    found = sources.lines(sources.STANDARD, console)
    if not found:
        raise Failed("there is no URL on standard input; send some, one a line, or name them", UNDECIDED)
    at = named.index(sources.STANDARD)
    return [*map(sources.as_url, named[:at]), *found, *map(sources.as_url, named[at + 1 :])]


class _Judge:
    """Judges URLs in their order, each for all who ask, and prints what it finds.

    :param json: for programs.
    :param total: how many URLs there are.
    """

    def __init__(self, console: Console, json: bool, settings: Settings, askers: list[Asker], total: int) -> None:
        self._console, self._json, self._settings, self._askers = console, json, settings, askers
        self.progress = Progress(console.stderr, total)
        #: How many URLs are done.
        self.done = 0
        #: The exit code so far.
        self.code = ALLOWED

    async def ask(self, urls: list[str], inquirer: Inquirer) -> None:
        """Go by the files of the sites."""
        ahead: deque[tuple[str, Waiter[OriginPolicy | None] | None]] = deque()
        for url in [*urls, *[None] * _AHEAD]:
            if url is not None:
                origin = Origin.of(url)
                ahead.append((url, None if origin is None else inquirer.ask(origin)))
            if ahead and (url is None or len(ahead) > _AHEAD):
                await self._next(*ahead.popleft(), inquirer)

    async def _next(self, url: str, waiter: Waiter[OriginPolicy | None] | None, inquirer: Inquirer) -> None:
        robots = None if waiter is None else await waiter
        if robots is not None:
            self._judge(url, robots, robots.origin.robots_url, inquirer.redirects(robots.origin))
        elif waiter is None:
            self._tell([judging.no_url(url, asker) for asker in self._askers])

    async def download(self, urls: list[str], source: str, inquirer: Inquirer) -> None:
        """Go by what a URL has."""
        found = await inquirer.download(source)
        self.go_by(urls, found.body, source, found.hops)

    def go_by(self, urls: list[str], body: bytes, source: str, hops: tuple[Hop, ...] = ()) -> None:
        """Go by a file that is given."""
        file = RobotsTxt.parse(body, max_size=self._settings.max_size)
        self.progress.clear()
        sources.doubt(source, file, self._console)
        for url in urls:
            robots = judging.given(file, url)
            if robots is None:
                self._tell([judging.no_url(url, asker) for asker in self._askers])
            else:
                self._judge(url, robots, sources.named(source), hops)

    def _judge(self, url: str, robots: OriginPolicy, source: str, hops: tuple[Hop, ...]) -> None:
        self._tell([judging.judged(url, robots, source, asker, self._settings, hops) for asker in self._askers])

    def _tell(self, findings: list[Finding]) -> None:
        """Print the verdicts on one URL, and what is wrong with it once."""
        if self._console.stdout.isatty():
            self.progress.clear()
        for number, finding in enumerate(findings):
            self._print(finding, first=self.done == number == 0)
            if not finding.decided:
                self.code = UNDECIDED
            elif self.code == ALLOWED and finding.verdict == "disallowed":
                self.code = DISALLOWED
        if not findings[0].decided:
            self._console.complain(f"{findings[0].url} is not decided: {_advice(findings[0])}")
        self.done += 1
        self.progress.show(self.done)

    def _print(self, finding: Finding, *, first: bool) -> None:
        if self._json:
            self._console.say_json(judging.record(finding))
            return
        if not first:
            self._console.say()
        for line in lines_of(finding, Style.of(self._console.stdout), agent=len(self._askers) > 1):
            self._console.say(line)


def _advice(finding: Finding) -> str:
    advice = "see whether the site is up, or name a copy of its file with --robots FILE"
    return f"{finding.why}; {ADVICE if finding.decision is None else advice}"
