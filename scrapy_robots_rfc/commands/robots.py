"""`scrapy robots TOPIC ...`: how Scrapy's command line comes to the topics, and how their ends become exit codes.

In here: options, settings, the store. What a topic does is its own module's business.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from argparse import ArgumentParser
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from scrapy import Spider
from scrapy.commands import ScrapyCommand
from scrapy.crawler import Crawler
from scrapy.exceptions import UsageError

from scrapy_robots_rfc.cache.entry import rules_of
from scrapy_robots_rfc.cache.stores.opening import sqlite_path, store_of
from scrapy_robots_rfc.commands import cache, check, diff, lint, report, settings, show, transfer
from scrapy_robots_rfc.commands.output import Console, Failed, abandon
from scrapy_robots_rfc.commands.shelf import Shelf
from scrapy_robots_rfc.core.text import error_text, printable
from scrapy_robots_rfc.errors import RobotsError, SettingError
from scrapy_robots_rfc.settings import read_settings

if TYPE_CHECKING:
    import argparse

    from scrapy.settings import Settings

    from scrapy_robots_rfc.cache.stores.base import Store

#: How an SQLite file begins; an empty one is a database without tables.
_SQLITE = b"SQLite format 3\0"

#: The exit code after Ctrl-C.
STOPPED = 2


class Command(ScrapyCommand):
    """`scrapy robots`, in a project and outside of one."""

    requires_crawler_process = False

    def syntax(self) -> str:
        """Return what follows the command's name."""
        return "[options] TOPIC ..."

    def short_desc(self) -> str:
        """Return the line in Scrapy's list of commands."""
        return "Say what robots.txt allows, and why; find mistakes; sum up reports; look into the store of files"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add the topics, each with actions of its own."""
        super().add_options(parser)
        # Scrapy makes this parser, and its own way is to print the usage first.
        parser.error = _Parser(prog="scrapy robots").error  # type: ignore[method-assign]  # there is no other way in
        one_line: type[ArgumentParser] = _Parser
        topics = parser.add_subparsers(
            title="Topics", dest="topic", metavar="TOPIC", prog="scrapy robots", parser_class=one_line
        )
        for topic in (check, show, diff, lint, report, cache, settings):  # in the order of docs/cli.md
            for action in topic.add_to(topics):
                _add_settings(action)

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Take over the settings of the command line."""
        if args:
            prog = "scrapy robots" if opts.topic is None else f"scrapy robots {opts.topic}"
            _Parser(prog=prog).error(f"unrecognized arguments: {' '.join(args)}")
        if opts.topic is not None:
            opts.set = [*opts.set, *opts.also_set]
        super().process_options(args, opts)
        if opts.topic is None:
            raise UsageError

    def run(self, args: list[str], opts: argparse.Namespace) -> None:  # noqa: ARG002 - all of them are options
        """Do what is asked for, and set the exit code."""
        _open_streams()
        console = Console(sys.stdin, sys.stdout, sys.stderr, f"scrapy robots {opts.topic}")
        try:
            self._answer(opts, console)
        except KeyboardInterrupt:
            # The rest is short, and whoever is impatient gets no traceback.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            console.complain("stopped")
            self.exitcode = STOPPED
            abandon(console.stdout)  # its reader may have stopped reading

    def _answer(self, opts: argparse.Namespace, console: Console) -> None:
        """Do what is asked for; whatever ends it early but Ctrl-C is said, and has an exit code."""
        try:
            self.exitcode = self._act(opts, console)
            console.stdout.flush()
        except (Failed, SettingError) as error:
            console.complain(str(error))
            self.exitcode = error.code if isinstance(error, Failed) else 2
        except OSError as error:
            if isinstance(error, BrokenPipeError):  # whoever read the output has seen enough
                self.exitcode = getattr(opts, "failed", 0)  # where the code is an answer, there is none
            else:
                console.complain(f"the output cannot be written: {error.strerror or error}")
                self.exitcode = getattr(opts, "failed", 1)
            abandon(console.stdout)

    def _act(self, opts: argparse.Namespace, console: Console) -> int:
        assert self.settings is not None
        code: int
        if "work" in opts:  # it needs no store of its own
            code = opts.work(self.settings, console, opts)
            return code
        settings = read_settings(self.settings)
        with ExitStack() as stack:
            if opts.act is transfer.import_copies:
                opts.source = stack.enter_context(transfer.source(console, opts))
            store, name = _opened(settings.cache, self.settings, opts)
            stack.callback(store.close)
            shelf = Shelf(store, name, rules_of(settings), time.time(), _files(opts.store or settings.cache))
            code = opts.act(shelf, console, opts)
        return code


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


def _add_settings(action: argparse.ArgumentParser) -> None:
    """Scrapy's own option is that of the whole command; here it may stand where everybody types it, too."""
    action.add_argument(
        "-s", dest="also_set", action="append", default=[], metavar="NAME=VALUE", help="set/override setting"
    )


def _opened(configured: object, settings: Settings, opts: argparse.Namespace) -> tuple[Store, str]:
    """Return the store of a command, opened, and its name."""
    spec = opts.store or configured
    path = sqlite_path(spec) if isinstance(spec, str) else None
    if path is not None:
        _look_at(Path(path), may_be_made=opts.act is transfer.import_copies)
    try:
        made = store_of(spec, Crawler(Spider, settings))
        if made is not None:
            made[0].open()
            return made
    except SettingError:
        raise
    except RobotsError as error:
        raise Failed(str(error)) from error
    except Exception as error:
        raise Failed(f"the store cannot be opened ({error_text(error)})") from error
    raise Failed("there is no store: name one with --store ADDRESS, or in ROBOTSTXT_CACHE", 2)


def _files(spec: object) -> tuple[Path, ...]:
    """Return the files of a store: of SQLite, those that it has beside the database, too."""
    path = sqlite_path(spec) if isinstance(spec, str) else None
    return () if path is None else tuple(Path(f"{path}{suffix}") for suffix in ("", "-wal", "-shm", "-journal"))


def _look_at(path: Path, *, may_be_made: bool) -> None:
    """Refuse what a store would make, or put aside as damaged, where somebody only mistook the path."""
    try:
        with path.open("rb") as file:
            first = file.read(len(_SQLITE))
    except FileNotFoundError:
        if not may_be_made:
            raise Failed(f"{path} is not there") from None
    except OSError as error:
        raise Failed(f"{path}: {error.strerror}") from error
    else:
        if first and first != _SQLITE:
            raise Failed(f"{path} is no SQLite file")
