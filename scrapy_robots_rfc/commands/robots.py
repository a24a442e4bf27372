"""`scrapy robots TOPIC ...`.

Adds the topics to Scrapy's command line, and turns how they end into exit codes.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import NoReturn

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError

from scrapy_robots_rfc.commands import cache, check, lint, page, report, show
from scrapy_robots_rfc.commands.common import NO_ANSWER, Console, Failed, abandon
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.errors import SettingError, StoreError

#: The topics, in the order of docs/cli.md: each a module with `HELP`, `run`, and `add_arguments`.
#: The last one returns the parsers of its actions, if the topic has any.
_TOPICS = {
    "check": check,
    "show": show,
    "lint": lint,
    "page": page,
    "report": report,
    "cache": cache,
}
#: Those whose exit code is an answer, which there is none of where the output cannot be written.
_ANSWERS = frozenset({"check", "lint", "page"})


class Command(ScrapyCommand):
    """`scrapy robots`, in a project and outside of one."""

    requires_crawler_process = False
    exitcode: int = 0

    def syntax(self) -> str:
        """Return what follows the command's name."""
        return "[options] TOPIC ..."

    def short_desc(self) -> str:
        """Return the line in Scrapy's list of commands."""
        return "Say what robots.txt allows, and why; find mistakes; sum up a report; look into the store of files"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the topics, each with actions of its own."""
        super().add_options(parser)
        # Scrapy makes this parser, which would print the whole usage before an error.
        parser.error = _Parser(prog="scrapy robots").error  # type: ignore[method-assign]  # there is no other way in
        one_line: type[ArgumentParser] = _Parser
        topics = parser.add_subparsers(
            title="Topics",
            dest="topic",
            metavar="TOPIC",
            prog="scrapy robots",
            parser_class=one_line,
        )
        for name, topic in _TOPICS.items():
            own = topics.add_parser(name, help=topic.HELP, description=topic.HELP)
            own.set_defaults(run=topic.run)
            for action in topic.add_arguments(own) or [own]:
                # Scrapy's own -s is accepted in front of the topic only; here it may stand behind
                # it, too.
                what = "set/override setting"
                action.add_argument(
                    "-s",
                    dest="also_set",
                    metavar="NAME=VALUE",
                    action="append",
                    default=[],
                    help=what,
                )

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Take over the settings of the command line."""
        if args:
            prog = "scrapy robots" if opts.topic is None else f"scrapy robots {opts.topic}"
            _Parser(prog=prog).error(f"unrecognized arguments: {' '.join(args)}")
        if opts.topic is not None:
            opts.set = [*opts.set, *opts.also_set]
        super().process_options(args, opts)
        if self.settings is not None and not (opts.logfile or opts.loglevel):
            self.settings.set("LOG_ENABLED", False, "cmdline")
        if opts.topic is None:
            raise UsageError

    def run(self, args: list[str], opts: argparse.Namespace) -> None:  # noqa: ARG002 - all of them are options
        """Do what is asked for. Every early end is told on stderr, and gets its exit code."""
        _open_streams()
        console = Console(sys.stdin, sys.stdout, sys.stderr, f"scrapy robots {opts.topic}")
        try:
            self.exitcode = opts.run(self.settings, console, opts)
            console.stdout.flush()
        except KeyboardInterrupt:
            # What is left is short, and a second Ctrl-C would print a traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            console.complain("stopped")
            self.exitcode = NO_ANSWER
            abandon(console.stdout)  # its reader may have stopped reading
        except (Failed, SettingError, StoreError) as error:
            console.complain(str(error))
            self.exitcode = (
                1 if isinstance(error, StoreError) else getattr(error, "code", NO_ANSWER)
            )
        except OSError as error:
            enough = isinstance(error, BrokenPipeError)  # whoever read the output has seen enough
            if not enough:
                console.complain(f"the output cannot be written: {error.strerror or error}")
            self.exitcode = NO_ANSWER if opts.topic in _ANSWERS else 0 if enough else 1
            abandon(console.stdout)


def _open_streams() -> None:
    """Put something in the place of standard streams that whoever began the process has closed."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 - until the process ends
            setattr(sys, name, stream)


class _Parser(ArgumentParser):
    """Says in one line what is wrong with a command line."""

    def error(self, message: str) -> NoReturn:
        """End the command."""
        self.exit(2, f"{self.prog}: {printable(message)}; see {self.prog} --help\n")
