"""What the topics of `scrapy robots` share: output, colours, URLs as people type them, files that are read or written.

In text from a site, control characters are escaped before it gets to a terminal.
"""

from __future__ import annotations

import codecs
import contextlib
import datetime
import enum
import json
import math
import os
import re
import secrets
import shutil
import textwrap
import unicodedata
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO, cast
from urllib.parse import urlsplit

from w3lib.url import safe_url_string

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.origins import Origin, without_userinfo
from scrapy_robots_rfc.policy.schemes import SCHEMES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from io import BufferedReader

    from scrapy_robots_rfc.policy.schemes import Scheme


#: The exit code where a command has no answer: it was stopped, or something is wrong with its command line.
NO_ANSWER = 2
#: The name of standard input, and of standard output.
STANDARD = "-"
#: What is told of a text that has no origin, and the advice for it.
NO_URL = "no absolute http or https URL with a valid authority"
URL_ADVICE = "write it as http://HOST/PATH or https://HOST/PATH"
#: The column where the facts of most topics begin.
FACTS = 13

_FILE_ADVICE = "name a file, a URL, or - for standard input"
_PIECE = 65_536  # octets that are read at a time
_NARROWEST = 40  # columns; a terminal that says less gets longer lines than it has room for
_BAR = 30
#: Characters of a file's name with which that of its unfinished copy begins: they have 200 octets at most, a name 255.
_NAME = 50
#: Units of time, largest first, each with the seconds from which on it is used.
_UNITS = ((86_400, "d"), (3600, "h"), (60, "min"))

_SCHEME = re.compile("[A-Za-z][A-Za-z0-9+.-]*")  # RFC 3986, 3.1
_LINE_END = re.compile("\r\n?|\n")
#: What a request removes from its URL, or changes in it (WHATWG URL, 4.4).
_ODD = re.compile(r"[\x00-\x20\x7f\\]|\?(?:#|$)")


# What a command prints, and how it fails.


class Failed(Exception):  # noqa: N818 - the end of a command, said in one line
    """A command cannot go on.

    :param code: of the process: NO_ANSWER, or 1 where a store or a disk failed, or something is not there.
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

    def say_all(self, lines: Iterable[str]) -> None:
        """Print lines of the output."""
        for line in lines:
            self.say(line)

    def say_json(self, record: Mapping[str, Any]) -> None:
        """Print an object as one line of JSON, in ASCII."""
        self.stdout.write(json.dumps(record) + "\n")

    def complain(self, text: str) -> None:
        """Print a line on stderr; if it cannot be written, only the exit code tells of the error."""
        try:
            self.stderr.write(f"{self.prefix}: {printable(text)}\n")
            self.stderr.flush()
        except OSError:
            abandon(self.stderr)


def abandon(stream: TextIO) -> None:
    """Discard what is left of an output: Python would write it again when it exits, and change the exit code."""
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


# How it looks on a terminal.


class Colour(enum.Enum):
    """Colours by their meaning; the values are those of ECMA-48, 8.3.117 (SGR)."""

    GOOD = "32"
    BAD = "31"
    DOUBT = "33"
    STRONG = "1"
    FAINT = "2"


@dataclass(frozen=True, slots=True)
class Style:
    """What a stream can show.

    :param colour: whether it is a terminal that wants colour.
    :param width: columns of the terminal; ``None``: no terminal, so nothing is wrapped or cut.
    """

    colour: bool = False
    width: int | None = None

    @classmethod
    def of(cls, stream: TextIO) -> Style:
        """Return the style for a stream: NO_COLOR (no-color.org), TERM=dumb and COLUMNS are heeded."""
        if not stream.isatty():
            return cls()
        colour = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        return cls(colour, max(shutil.get_terminal_size().columns, _NARROWEST))

    def paint(self, text: str, *colours: Colour) -> str:
        """Return a text in colours, where the stream has any."""
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(colour.value for colour in colours)}m{text}\x1b[0m"

    def wrapped(self, text: str, indent: int, head: str = "") -> Iterator[str]:
        """Yield the lines of a text, made safe to print; URLs and patterns stay whole, whatever their length.

        :param indent: the column where each line begins.
        :param head: what stands before the first line, and may have colours.
        """
        lines = [printable(text)]
        if self.width is not None:
            room = max(self.width - indent, _NARROWEST // 2)
            lines = textwrap.wrap(lines[0], room, break_long_words=False, break_on_hyphens=False) or [""]
        yield head + lines[0]
        for line in lines[1:]:
            yield " " * indent + line

    def fact(self, name: str, text: str, indent: int = FACTS, lead: str = "  ") -> Iterator[str]:
        """Return the lines of a fact: its name, and a text, wrapped where there is a width.

        :param indent: the column where the text begins.
        :param lead: what the line begins with.
        """
        return self.wrapped(text, indent, lead + self.paint(f"{name:<{indent - len(lead)}}", Colour.FAINT))

    def cut(self, text: str, indent: int = 0) -> str:
        """Return what of a text fits into a line that has so many columns already."""
        if self.width is None or indent + columns(text) <= self.width:
            return text
        room = max(self.width - indent - 3, 0)
        while columns(text) > room:
            text = text[: min(len(text) - 1, room)]
        return f"{text}..."


def columns(text: str) -> int:
    """Return how many columns of a terminal a printable text takes (Unicode, annex 11)."""
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    return len(text) + wide - sum(unicodedata.combining(character) > 0 for character in text)


class ProgressBar:
    """A bar on stderr that says how much is done; nothing where stderr is no terminal.

    :param total: how much there is to do.
    """

    def __init__(self, stream: TextIO, total: int) -> None:
        self._stream, self._total = stream, total
        self._on = total > 1 and stream.isatty() and os.environ.get("TERM") != "dumb"

    def show(self, done: int) -> None:
        """Draw it, in one line."""
        full = _BAR * done // self._total
        text = f"[{'#' * full}{'.' * (_BAR - full)}] {done:,} of {self._total:,}"
        self._draw(text[: max(shutil.get_terminal_size().columns, 2) - 1])

    def clear(self) -> None:
        """Remove it, so that something else can be printed in its place."""
        self._draw("")

    def _draw(self, text: str) -> None:
        if self._on:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()


# URLs as people type them.


def as_url(text: str) -> str:
    """Return a typed URL as a crawl requests it: without blanks around it, for instance.

    :param text: octets that are not UTF-8 are surrogates in it (PEP 383), and become escapes (RFC 3986, 2.5).
    """
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "percentencode")  # w3lib's way with such octets
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
        raise Failed(f"{safe_url(url)} is {NO_URL}; {URL_ADVICE}")
    return origin


def file_url(url: str) -> str:
    """Return the URL of the robots.txt that a URL stands for: that of a site stands for its file, any other for itself.

    :raises Failed: it has no origin.
    """
    origin_of(url)
    parts = urlsplit(url)
    if parts.path not in ("", "/") or parts.query:
        return url
    return parts._replace(path="/robots.txt", fragment="").geturl()


def safe_url(url: str) -> str:
    """Return a URL for people: without userinfo, and with control characters escaped."""
    return printable(stripped(url))


def stripped(url: str) -> str:
    """Return a URL without userinfo.

    In a text that is no URL, all before the last ``@`` may be userinfo, and is left out.
    """
    if Origin.of(url) is not None:
        return without_userinfo(url)
    scheme, separator, rest = url.partition("://")
    if separator and _SCHEME.fullmatch(scheme):
        return f"{scheme}://{rest.rpartition('@')[2]}"
    return url.rpartition("@")[2]


# Files that are read, and standard input.


def is_url(source: str) -> bool:
    """Whether a source is to be fetched."""
    return source.partition("://")[0].lower() in SCHEMES and "://" in source


def source_name(source: str) -> str:
    """Return what a source is called for people: a URL without userinfo."""
    if source == STANDARD:
        return "standard input"
    return stripped(source) if is_url(source) else source


@contextlib.contextmanager
def opened(source: str, console: Console, advice: str = _FILE_ADVICE) -> Iterator[BufferedReader]:
    """Open a file, which is closed at the end, or standard input, which is not.

    :param advice: what to do where it cannot be read.
    :raises Failed: it cannot, in place of any OSError.
    """
    try:
        if source == STANDARD:
            yield cast("BufferedReader", console.stdin.buffer)
        else:
            with Path(source).open("rb") as file:
                yield file
    except OSError as error:
        raise Failed(f"{source_name(source)} cannot be read: {error.strerror}; {advice}") from error


def read(source: str, console: Console, max_size: int | None = None) -> bytes:
    """Return the octets of a file or of standard input.

    :param max_size: how many octets of a robots.txt count; one more is read, which shows that it is longer. A device
        may have no end. ``None``: all are read.
    :raises Failed: it cannot be read.
    """
    most = math.inf if max_size is None else max_size + 1
    found = bytearray()
    with opened(source, console) as file:
        while piece := file.read(int(min(most - len(found), _PIECE))):  # memory is taken for what there is only
            found += piece
    return bytes(found)


def urls_in(source: str, console: Console) -> list[tuple[int, str]]:
    """Return the URLs in a file or in standard input, with their lines, without blank lines and comments.

    :raises Failed: it cannot be read.
    """
    text = read(source, console).removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    found = ((number, line.strip()) for number, line in enumerate(_LINE_END.split(text), 1))
    return [(number, as_url(line)) for number, line in found if line and not line.startswith("#")]


# Files are written whole or not at all, and never replace a device, a folder, or a file that is still to be read.


@contextlib.contextmanager
def new_file(name: str, sources: Iterable[Path | str] = ()) -> Iterator[IO[bytes]]:
    """Yield a file that appears under its name when it is whole, with the permissions of any other new file.

    A link is followed.

    :param sources: what is read meanwhile, and not to be written over.
    :raises Failed: there is a device, a pipe, a folder, or a source; it cannot be made (2), or written to its end (1).
        Then nothing has changed.
    """
    path = Path(os.path.realpath(name))
    part = path.with_name(f".{path.name[:_NAME]}.{secrets.token_hex(4)}")
    try:
        # A name may stand for a pipe of this process, under the path of which there is nothing.
        special = path.is_symlink() or (Path(name).exists() and not path.is_file())
        if special or name == STANDARD or any(_same(path, Path(source)) for source in sources):
            raise Failed(f"{name} cannot be written over, since it is no file, or one that is read; name another file")
        file = part.open("xb")
    except OSError as error:
        text = f"{path} cannot be written: {error.strerror}; name a file in a folder of yours"
        raise Failed(text) from error
    try:
        with file:
            yield file
        part.replace(path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise Failed(f"{path} cannot be written: {error.strerror}; name a file where there is room", 1) from error
        raise


def _same(path: Path, source: Path) -> bool:
    both = path.exists() and source.exists()
    return path.samefile(source) if both else os.path.realpath(source) == str(path)
