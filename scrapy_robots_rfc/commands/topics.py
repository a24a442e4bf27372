"""Define the `scrapy robots` topics and run one of them."""

import os
import signal
import sys
from argparse import Action, ArgumentError, ArgumentParser, Namespace
from typing import Any, NoReturn

from scrapy.settings import Settings

from scrapy_robots_rfc.commands import cache, check, lint, page, report_views
from scrapy_robots_rfc.commands.common import NO_ANSWER, Console, Failed, abandon, without_passwords
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.errors import RobotsError

#: The topics, in the same order as in docs/cli.md.
_TOPICS = {
    "check": check.CHECK,
    "show": check.SHOW,
    "lint": lint.TOPIC,
    "page": page.TOPIC,
    "report": report_views.TOPIC,
    "cache": cache.TOPIC,
}
#: Topics whose exit code is an answer, which is incomplete if some of the output is not read.
_ANSWERS = frozenset({"check", "lint", "page"})


class _Parser(ArgumentParser):
    """A parser that prints each error on one line."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        text = printable(without_passwords(message))
        self.exit(2, f"{self.prog}: {text}; see {self.prog} --help\n")

    def refuse(self, arguments: list[str]) -> None:
        """Exit with an error if there are unrecognized arguments."""
        if arguments:
            self.error(f"unrecognized arguments: {' '.join(arguments)}")


class _Once(Action):
    """An argument that stores a value. As an option, it may only be given once."""

    def __call__(
        self,
        _: object,
        namespace: Namespace,
        values: Any,  # noqa: ANN401
        __: object = None,
    ) -> None:
        """Store the value."""
        if self.option_strings and getattr(namespace, self.dest) is not self.default:
            raise ArgumentError(self, "may only be given once")
        setattr(namespace, self.dest, values)


def add_topics(parser: ArgumentParser) -> None:
    """Add the topics to the `scrapy robots` parser."""
    # Scrapy creates this parser, and its own `error` method would also print the usage.
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
        topic_parser: _Parser = topics.add_parser(name, help=topic.help, description=topic.help)
        topic_parser.set_defaults(run=topic.run, refuse=topic_parser.refuse)
        # Scrapy itself accepts -s only before the topic.
        topic_parser.add_argument("-s", dest="also_set", metavar="NAME=VALUE", action="append")
        for argument, options in topic.arguments.items():
            topic_parser.add_argument(argument, **{"action": _Once, **options})


def run_topic(settings: Settings, opts: Namespace) -> int:
    """Run a topic and return its exit code. If it fails, print the reason on stderr."""
    _open_streams()
    console = Console(sys.stdin, sys.stdout, sys.stderr, f"scrapy robots {opts.topic}")
    try:
        code: int = opts.run(settings, console, opts)
        console.stdout.flush()
        return code
    except KeyboardInterrupt:
        # Ignore a second Ctrl-C, which would print a traceback.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        console.complain("stopped")
        abandon(console.stdout)  # its reader may be gone
    except (Failed, RobotsError) as error:
        console.complain(str(error))
    except OSError as error:
        abandon(console.stdout)
        if not isinstance(error, BrokenPipeError):
            console.complain(f"the output cannot be written: {error.strerror or error}")
        elif opts.topic not in _ANSWERS:  # a reader such as `head` has seen enough
            return 0
    return NO_ANSWER


def _open_streams() -> None:
    """Replace closed standard streams.

    Otherwise Python would fail with exit code 1, which means "disallowed".
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115
