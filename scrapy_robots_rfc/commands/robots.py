"""`scrapy robots TOPIC ...`: adds the topics to Scrapy's command line, and gives the exit code."""

import os
import signal
import sys
from argparse import ArgumentParser, Namespace
from typing import NoReturn

from scrapy.commands import ScrapyCommand

from scrapy_robots_rfc.commands import cache, check, lint, page, report
from scrapy_robots_rfc.commands.common import NO_ANSWER, Console, Failed, abandon, without_passwords
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.errors import RobotsError

#: The topics, in the order of docs/cli.md.
_TOPICS = {
    "check": check.CHECK,
    "show": check.SHOW,
    "lint": lint.TOPIC,
    "page": page.TOPIC,
    "report": report.TOPIC,
    "cache": cache.TOPIC,
}
#: Those whose exit code is an answer: there is none where the output is not read to its end.
_ANSWERS = frozenset({"check", "lint", "page"})


class Command(ScrapyCommand):
    """`scrapy robots`, in a project and outside of one."""

    requires_crawler_process = False
    exitcode: int = NO_ANSWER

    def syntax(self) -> str:
        """Return what follows the command's name."""
        return "[options] TOPIC ..."

    def short_desc(self) -> str:
        """Return the line in Scrapy's list of commands."""
        return "Say what robots.txt allows, and why; find mistakes; sum up a report; show the store"

    def add_options(self, parser: ArgumentParser) -> None:
        """Add the topics."""
        super().add_options(parser)
        # Scrapy makes this parser, which would print the whole usage before an error.
        parser.error = _Parser(prog="scrapy robots").error  # type: ignore[method-assign]
        topics = parser.add_subparsers(
            title="Topics",
            dest="topic",
            metavar="TOPIC",
            required=True,
            prog="scrapy robots",
            parser_class=_Parser,
        )
        for name, topic in _TOPICS.items():
            own = topics.add_parser(name, help=topic.help, description=topic.help)
            own.set_defaults(run=topic.run)
            # Scrapy accepts -s before the topic only.
            own.add_argument("-s", dest="also_set", metavar="NAME=VALUE", action="append")
            for argument, options in topic.arguments.items():
                own.add_argument(argument, **options)

    def process_options(self, args: list[str], opts: Namespace) -> None:
        """Take over the settings of the command line."""
        if args:
            prog = f"scrapy robots {opts.topic}"
            _Parser(prog=prog).error(f"unrecognized arguments: {' '.join(args)}")
        opts.set = [*opts.set, *(opts.also_set or ())]
        super().process_options(args, opts)
        if self.settings is not None and not (opts.logfile or opts.loglevel):
            self.settings.set("LOG_ENABLED", False, "cmdline")

    def run(self, _: list[str], opts: Namespace) -> None:
        """Run the topic. Every early end has a line on stderr and an exit code."""
        _open_streams()
        console = Console(sys.stdin, sys.stdout, sys.stderr, f"scrapy robots {opts.topic}")
        try:
            code = opts.run(self.settings, console, opts)
            console.stdout.flush()
            self.exitcode = code
        except KeyboardInterrupt:
            # Ignore more Ctrl-C: little is left to do, and a second one would print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            console.complain("stopped")
            abandon(console.stdout)  # its reader may be gone
        except (Failed, RobotsError) as error:
            console.complain(str(error))
        except OSError as error:
            if not isinstance(error, BrokenPipeError):
                console.complain(f"the output cannot be written: {error.strerror or error}")
            elif opts.topic not in _ANSWERS:  # its reader has had enough, such as `head`
                self.exitcode = 0
            abandon(console.stdout)


def _open_streams() -> None:
    """Open a substitute for each closed stream.

    So Python does not fail on it with the exit code 1, which would mean *disallowed*.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115


class _Parser(ArgumentParser):
    """Says in one line what is wrong with a command line."""

    def error(self, message: str) -> NoReturn:
        """End the command."""
        text = printable(without_passwords(message))
        self.exit(2, f"{self.prog}: {text}; see {self.prog} --help\n")
