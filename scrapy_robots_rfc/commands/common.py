"""What the topics of `scrapy robots` share: output, URLs as people type them, files that are read or written.

In text from a site, control characters are escaped before it gets to a terminal.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any, TextIO, cast

from w3lib.url import safe_url_string

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.policy.schemes import SCHEMES, Scheme

#: The exit code where a command has no answer: it was stopped, or something is wrong with its
#: command line.
NO_ANSWER = 2
#: The name of standard input, and of standard output; how an empty text is shown.
STANDARD, EMPTY = "-", "''"
#: What is told of a text that has no origin, with schemes that have; the advice for it; the
#: schemes, for `--help`.
NO_URL = "no absolute URL of {} with a valid authority"
URL_ADVICE = "write it as SCHEME://HOST/PATH"
URL_HELP = f"absolute: {', '.join(SCHEMES)}, or a scheme of ROBOTS_SCHEMES"
#: Colours by their meaning: codes of ECMA-48, 8.3.117 (SGR).
GOOD, BAD, DOUBT, STRONG, FAINT = "32", "31", "33", "1", "2"

_PIECE = 65_536  # octets that are read at a time
_MOST_TOLD = 10  # mistakes of one kind that have a line each
#: Units of time, largest first, each with the seconds from which on it is used.
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))

#: What may be userinfo in a text that is no URL: all before the last `@`, but for a scheme (RFC
#: 3986, 3.1).
_USERINFO = re.compile(
    r"\A(?!(?:data|mailto):[^/]|file:///)([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL
)
#: The scheme of a URL that Scrapy's `Request` takes; for that, `localhost:8000/x` has none.
REQUESTED = re.compile("[A-Za-z][A-Za-z0-9+.-]*(?=://)|(?:about|data)(?=:)")
#: What a request removes from its URL, or changes in it (WHATWG URL, 4.4).
_ODD = re.compile(r"[\x00-\x20\x7f\\]|\?(?:#|$)")


class Failed(Exception):  # noqa: N818 - the end of a command, said in one line
    """A command cannot go on.

    :param code: of the process: NO_ANSWER, or 1 where a store or a disk failed, or something is not
        there.
    """

    def __init__(self, text: str, code: int = NO_ANSWER) -> None:
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

    def fact(self, name: str, text: str, width: int = 10) -> None:
        """Print a name and a text, which is made safe.

        :param width: columns that the name has.
        """
        self.say(f"  {self.paint(f'{name:<{width}}', FAINT)} {printable(text)}")

    def paint(self, text: str, *colours: str) -> str:
        """Return a text in colours, if stdout is a terminal that wants them.

        See no-color.org, and TERM=dumb.
        """
        wanted = (
            self.stdout.isatty()
            and not os.environ.get("NO_COLOR")
            and os.environ.get("TERM") != "dumb"
        )
        return f"\x1b[{';'.join(colours)}m{text}\x1b[0m" if wanted and text else text

    def complain(self, text: str) -> None:
        """Print a line on stderr.

        If it cannot be written, only the exit code tells of the error.
        """
        try:
            self.stderr.write(f"{self.prefix}: {printable(text)}\n")
            self.stderr.flush()
        except OSError:
            abandon(self.stderr)

    def complain_of(self, mistakes: Sequence[str]) -> None:
        """Print the first lines about many mistakes of one kind, and how many more there are."""
        for text in mistakes[:_MOST_TOLD]:
            self.complain(text)
        if len(mistakes) > _MOST_TOLD:
            self.complain(f"and {len(mistakes) - _MOST_TOLD:,} more of this kind")


def abandon(stream: TextIO) -> None:
    """Discard what is left of an output.

    Python would write it again when it exits, and change the exit code.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def span(seconds: float) -> str:
    """Return a duration for people: ``3 min``."""
    for size, unit in _UNITS:
        if seconds >= size:
            return (
                f"{seconds / size:.0f} {unit}"
                if seconds >= 10 * size
                else f"{seconds / size:.1f} {unit}"
            )
    return f"{max(seconds, 0):.0f} s"


def meaning(outcome: Outcome, cause: str, *, stale: bool) -> str:
    """Return what came of a fetch, and what that means for pages: ``unavailable (404).

    Everything is allowed``.
    """
    return f"stale ({cause}): an earlier copy is obeyed" if stale else outcome.explained(cause)


def seconds_of(text: str) -> float | None:
    """Return a time of ISO 8601 in seconds since 1970, of UTC where it names no zone.

    ``None``: it is none.
    """
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()


def date_text(seconds: float) -> str | None:
    """Return seconds since 1970 as ISO 8601 in UTC: ``2026-11-21T22:40:01Z``.

    ``None`` for what is no time.
    """
    return (
        f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"
        if math.isfinite(seconds)
        else None
    )


def whole_number(value: object) -> int | None:
    """Return a whole number, or what a text says of one.

    ``None`` for one that no crawl could count to.
    """
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def as_url(text: str) -> str:
    """Return a typed URL as a crawl requests it: without blanks around it, for instance.

    :param text: octets that are not UTF-8 are surrogates in it (PEP 383), and become escapes (RFC
        3986, 2.5).
    """
    text = text.encode("utf-8", "surrogateescape").decode(
        "utf-8", "percentencode"
    )  # w3lib's way with such octets
    if _ODD.search(text):
        with contextlib.suppress(ValueError):
            asked = safe_url_string(text)
            if Origin.of(asked) is not None:  # what cannot be requested is shown as it was typed
                return asked
    return text


def origin_of(url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin:
    """Return the origin of a URL.

    :param schemes: those that have origins.
    :raises Failed: it has none.
    """
    if (origin := Origin.of(url, schemes)) is None:
        raise Failed(
            f"{stripped(url) or EMPTY} is {NO_URL.format(' or '.join(schemes))}; {URL_ADVICE}"
        )
    return origin


def stripped(url: str) -> str:
    """Return a URL without userinfo, or another text without what may be userinfo."""
    any_scheme = {url.partition("://")[0].lower(): Scheme(1)}
    return (
        _USERINFO.sub(r"\1", url) if Origin.of(url, any_scheme) is None else without_userinfo(url)
    )


def is_url(source: str) -> bool:
    """Whether a source is to be fetched."""
    return source.partition("://")[0].lower() in SCHEMES and "://" in source


def source_name(source: str) -> str:
    """Return what a source is called for people: a URL without userinfo."""
    if source == STANDARD:
        return "standard input"
    return stripped(source) if is_url(source) else source or EMPTY


@contextlib.contextmanager
def opened(source: str, console: Console) -> Iterator[BufferedReader]:
    """Open a file, which is closed at the end, or standard input, which is not.

    :raises Failed: it cannot be read, in place of any OSError.
    """
    try:
        if source == STANDARD:
            yield cast("BufferedReader", console.stdin.buffer)
        else:
            with Path(source).open("rb") as file:
                yield file
    except OSError as error:
        advice = "name another file, or - for standard input"
        raise Failed(f"{source_name(source)} cannot be read: {error.strerror}; {advice}") from error


def read(source: str, console: Console, max_size: float = math.inf) -> bytes:
    """Return the octets of a file or of standard input.

    :param max_size: how many octets of a robots.txt count; one more is read, which shows that it is
        longer. A device may have no end.
    :raises Failed: it cannot be read.
    """
    found = bytearray()
    with opened(source, console) as file:
        while piece := file.read(
            int(min(max_size + 1 - len(found), _PIECE))
        ):  # memory is taken for what there is only
            found += piece
    return bytes(found)
