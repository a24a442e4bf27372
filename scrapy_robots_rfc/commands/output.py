"""What a command prints, and how it fails: in one line on stderr, with an exit code.

In here: text for people. Nothing that a site sent gets to a terminal as it is: what a terminal would act on is escaped.
"""

from __future__ import annotations

import datetime
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from scrapy_robots_rfc.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Units of time, largest first, each with the seconds from which on it is used.
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))


class Failed(Exception):  # noqa: N818 - the end of a command, said in one line
    """A command cannot go on.

    :param code: of the process: 1, something failed or is not there; 2, the command line makes no sense.
    """

    def __init__(self, text: str, code: int = 1) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Console:
    """Where a command reads and writes.

    :param prefix: begins each line on stderr.
    """

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    prefix: str

    def say(self, text: str = "") -> None:
        """Print a line of the output; what the encoding of stdout cannot hold is escaped."""
        encoding = self.stdout.encoding or "utf-8"
        self.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def say_json(self, record: Mapping[str, Any]) -> None:
        """Print an object as one line of JSON, in ASCII."""
        self.stdout.write(json.dumps(record) + "\n")

    def complain(self, text: str) -> None:
        """Print a line on stderr; where there is no room for it, the exit code has to do."""
        try:
            self.stderr.write(f"{self.prefix}: {printable(text)}\n")
            self.stderr.flush()
        except OSError:
            abandon(self.stderr)


def abandon(stream: TextIO) -> None:
    """Have what is left of an output go nowhere: Python would try it again at its end, and change the exit code."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def span(seconds: float) -> str:
    """Return a duration for people: ``3 min``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}" if seconds >= 10 * size else f"{seconds / size:.1f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def moment(time: float, now: float) -> str:
    """Return a time for people: the date in UTC, and how long ago that was, or when it will be."""
    try:
        date = datetime.datetime.fromtimestamp(time, datetime.UTC)
    except (OverflowError, ValueError, OSError):  # a year that no calendar of this machine has
        return f"{time:.0f} s after 1970"
    distance = f"{span(now - time)} ago" if time <= now else f"in {span(time - now)}"
    return f"{date:%Y-%m-%d %H:%M:%S} UTC ({distance})"
