"""`scrapy robots check URL...`: may these URLs be fetched, and why.

In here: the command line, and the way from URLs to findings. What a finding says is `judging.py`, how it looks
`explained.py`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_robots_rfc.commands import asking, judging, sources
from scrapy_robots_rfc.commands.explained import lines_of
from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.terminal import Progress, Style
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.policy.origin import Origin, without_userinfo
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from scrapy.settings import Settings as ScrapySettings

    from scrapy_robots_rfc._compat import Waiter
    from scrapy_robots_rfc.commands.asking import Inquirer
    from scrapy_robots_rfc.commands.judging import Finding
    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.identity import Agent
    from scrapy_robots_rfc.robots import Robots
    from scrapy_robots_rfc.settings import Settings

#: Exit codes.
ALLOWED, DISALLOWED, UNDECIDED = 0, 1, 2

# URLs whose robots.txt is asked for ahead of the one that is printed next.
_AHEAD = 64

_Topics: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def add_to(topics: _Topics) -> Iterator[argparse.ArgumentParser]:
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
    text = "product token, or User-Agent; several in order of preference (default: the project's)"
    topic.add_argument("--agent", metavar="TOKEN", action="append", help=text)


def check(settings: ScrapySettings, console: Console, opts: argparse.Namespace) -> int:
    """Judge the URLs, print what is found, and return the exit code."""
    urls = _urls(console, opts)
    ours = prepared(settings, opts)
    judge = _Judge(console, opts.json, ours, judging.agent_for(ours, settings), Progress(console.stderr, len(urls)))
    try:
        if opts.robots is None:
            asking.crawl(settings, partial(judge.ask, urls))
        elif sources.is_url(opts.robots):
            asking.crawl(settings, partial(judge.download, urls, opts.robots))
        else:
            judge.go_by(urls, sources.read(opts.robots, console), _named(opts.robots))
    finally:
        judge.progress.clear()
    if judge.done < len(urls):
        raise Failed(f"stopped after {judge.done:,} of {len(urls):,} URLs", UNDECIDED)
    return judge.code


def prepared(settings: ScrapySettings, opts: argparse.Namespace) -> Settings:
    """Make the settings those of a crawl that answers a command, and read ours of them."""
    try:
        asking.prepare(settings, opts)
        return read_settings(settings)
    except SettingError as error:
        raise Failed(str(error), UNDECIDED) from error


def _urls(console: Console, opts: argparse.Namespace) -> list[str]:
    if opts.urls and opts.urls != [sources.STANDARD]:
        return list(opts.urls)
    if opts.robots == sources.STANDARD:
        raise Failed("standard input is the robots.txt: name the URLs on the command line", UNDECIDED)
    if not opts.urls and console.stdin.isatty():
        raise Failed("name the URLs, or send them to standard input, one a line", UNDECIDED)
    urls = sources.lines(sources.STANDARD, console)
    if not urls:
        raise Failed("there is no URL on standard input", UNDECIDED)
    return urls


def _named(source: str) -> str:
    return "standard input" if source == sources.STANDARD else source


@dataclass(slots=True)
class _Judge:
    """Judges URLs in their order, and prints what it finds.

    :param done: how many are printed.
    :param code: the exit code so far.
    """

    console: Console
    json: bool
    settings: Settings
    agent: Agent
    progress: Progress
    done: int = 0
    code: int = ALLOWED

    async def ask(self, urls: list[str], inquirer: Inquirer) -> None:
        """Go by the files of the sites."""
        ahead: deque[tuple[str, Waiter[Robots | None] | None]] = deque()
        for url in [*urls, *[None] * _AHEAD]:
            if url is not None:
                origin = Origin.of(url)
                ahead.append((url, None if origin is None else inquirer.ask(origin)))
            if ahead and (url is None or len(ahead) > _AHEAD):
                await self._next(*ahead.popleft(), inquirer)

    async def _next(self, url: str, waiter: Waiter[Robots | None] | None, inquirer: Inquirer) -> None:
        robots = None if waiter is None else await waiter
        if robots is None:
            if waiter is None:
                self._tell(_no_url(url))
            return
        finding = judging.judged(url, robots, robots.origin.robots_url, self.agent, self.settings)
        self._tell(replace(finding, hops=inquirer.redirects(robots.origin)))

    async def download(self, urls: list[str], source: str, inquirer: Inquirer) -> None:
        """Go by what a URL has."""
        self.go_by(urls, await inquirer.download(source), without_userinfo(source))

    def go_by(self, urls: list[str], body: bytes, source: str) -> None:
        """Go by a file that is given."""
        file = RobotsTxt.parse(body, max_size=self.settings.max_size)
        for url in urls:
            robots = judging.given(file, url, self.agent)
            if robots is None:
                self._tell(_no_url(url))
            else:
                self._tell(judging.judged(url, robots, source, self.agent, self.settings))

    def _tell(self, finding: Finding) -> None:
        if self.console.stdout.isatty():
            self.progress.clear()
        if self.json:
            self.console.say_json(judging.record(finding))
        else:
            if self.done:
                self.console.say()
            for line in lines_of(finding, Style.of(self.console.stdout)):
                self.console.say(line)
        if not finding.decided:
            self.code = UNDECIDED
            self.console.complain(f"{finding.url} is not decided: {_advice(finding)}")
        elif self.code == ALLOWED and finding.verdict == "disallowed":
            self.code = DISALLOWED
        self.done += 1
        self.progress.show(self.done)


def _no_url(url: str) -> Finding:
    return judging.Finding(without_userinfo(url), None, "it is no absolute http or https URL with a valid authority")


def _advice(finding: Finding) -> str:
    advice: dict[bool, Any] = {
        True: "write it as http://HOST/PATH or https://HOST/PATH",
        False: "see whether the site is up, or name a copy of its file with --robots FILE",
    }
    return f"{finding.why}; {advice[finding.decision is None]}"
