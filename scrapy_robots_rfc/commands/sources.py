"""What a command reads: a file, standard input, or what a URL has."""

from __future__ import annotations

import codecs
import contextlib
import os
import re
import stat
from pathlib import Path
from typing import IO, TYPE_CHECKING

from w3lib.url import safe_url_string

from scrapy_robots_rfc.commands.addresses import stripped
from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.core.lint import is_markup
from scrapy_robots_rfc.policy.origins import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from contextlib import AbstractContextManager

    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.core.robotstxt import RobotsTxt

#: Stands for standard input.
STANDARD = "-"

_ADVICE = "name a file, a URL, or - for standard input"
_PIECE = 65_536  # octets that are read at a time

_LINE_END = re.compile("\r\n?|\n")
#: An octet that is no text, as Python keeps it: a half of a surrogate pair that has no other half (PEP 383).
_STRAY = re.compile("[\udc80-\udcff]")
_FIRST_STRAY = 0xDC00
#: What a request takes out of its URL, or takes for something else (WHATWG URL, 4.4).
_ODD = re.compile(r"[\x00-\x20\x7f\\]|\?(?:#|$)")


def is_url(source: str) -> bool:
    """Whether a source is to be fetched."""
    return source.lower().startswith(("http://", "https://"))


def named(source: str) -> str:
    """Return what a source is called for people: a URL without userinfo."""
    if source == STANDARD:
        return "standard input"
    return stripped(source) if is_url(source) else source


def read(source: str, console: Console, max_size: int | None = None) -> bytes:
    """Return the octets of a file or of standard input.

    :param max_size: how many of a robots.txt count: one more is read, which says that it is too long. A device may
        have no end. ``None``: all that there are.
    :raises Failed: it cannot be read.
    """
    with opened(source, console) as file, telling(source):
        return _octets(file, None if max_size is None else max_size + 1)


def opened(source: str, console: Console, advice: str = _ADVICE) -> AbstractContextManager[IO[bytes]]:
    """Open a file, which is closed at the end, or standard input, which is not.

    :param advice: what to do where it cannot be opened.
    :raises Failed: it cannot.
    """
    if source == STANDARD:
        return contextlib.nullcontext(console.stdin.buffer)
    with telling(source, advice):
        try:
            return Path(source).open("rb")
        except ValueError as error:  # there is a NUL in the name
            raise OSError(0, "no name of a file") from error


@contextlib.contextmanager
def telling(source: str, advice: str = _ADVICE) -> Iterator[None]:
    """Have what goes wrong with a source end the command.

    :raises Failed: something did.
    """
    try:
        yield
    except OSError as error:
        raise Failed(f"{source} cannot be read: {error.strerror}; {advice}", 2) from error


def doubt(source: str, file: RobotsTxt, console: Console) -> None:
    """Say that a source is a web page, where it is: it would pass for a file that allows everything."""
    if is_markup(file):
        name = source if source == STANDARD else named(source)
        console.complain(f"{named(source)} looks like an HTML page, no robots.txt: see scrapy robots lint {name}")


def _octets(file: IO[bytes], most: int | None) -> bytes:
    """Return what there is, in pieces: between them Ctrl-C is heard, and room is taken for no more than there is."""
    found = bytearray()
    while piece := file.read(_PIECE if most is None else min(most - len(found), _PIECE)):
        found += piece
    return bytes(found)


def lines(source: str, console: Console) -> list[str]:
    """Return the URLs of `numbered` alone."""
    return [url for _, url in numbered(source, console)]


def numbered(source: str, console: Console) -> list[tuple[int, str]]:
    """Return the URLs in a file or in standard input, with their lines, less blank ones and comments.

    :raises Failed: it cannot be read.
    """
    text = read(source, console).removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    found = ((number, line.strip()) for number, line in enumerate(_LINE_END.split(text), 1))
    return [(number, as_url(line)) for number, line in found if line and not line.startswith("#")]


def once(names: Sequence[str], console: Console) -> list[str]:
    """Return the names of files, each file by the first of its names; that there are others is said in one line.

    :param names: may be links, or `-`, standard input; a file that is not there stays.
    """
    known: dict[object, str] = {}
    again: list[tuple[str, str]] = []
    for name in names:
        identity = _identity(name, console) or object()
        if identity in known:
            again.append((name, known[identity]))
        else:
            known[identity] = name
    if again:
        name, first = again[0]
        more = f" (and {len(again) - 1:,} more)" if again[1:] else ""
        console.complain(f"{name} is the same file as {first}{more}: each file counts once")
    return list(known.values())


def _identity(name: str, console: Console) -> tuple[int, int] | None:
    """Return what all names of a file have in common; ``None``: there is none, or it is a pipe or device."""
    try:
        found = os.fstat(console.stdin.fileno()) if name == STANDARD else Path(name).stat()
    except (OSError, ValueError):  # a ValueError: there is a NUL in the name, or standard input is closed
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


def as_url(text: str) -> str:
    """Return a URL as it was typed, as far as a crawl would ask for it like that.

    What a request changes of its URL is changed here, too: blanks around it go, and so on. Octets that are no UTF-8
    stand as escapes (RFC 3986, 2.5).

    :param text: in which such octets are surrogates, as in arguments of a command.
    """
    if _STRAY.search(text):
        octets = text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")  # the locale may be ASCII
        text = _STRAY.sub(lambda match: f"%{ord(match[0]) - _FIRST_STRAY:02X}", octets)
    if _ODD.search(text):
        with contextlib.suppress(ValueError):
            asked = safe_url_string(text)
            if Origin.of(asked) is not None:  # else it is shown as it was typed: nobody can ask for it
                return asked
    return text
