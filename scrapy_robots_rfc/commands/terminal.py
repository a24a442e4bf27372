"""How text looks where people read it: colour and width on a terminal, neither of them anywhere else; a progress bar.

In here: looks. What is said, and the escaping of what a site sent, is `output.py`.
"""

from __future__ import annotations

import enum
import os
import shutil
import textwrap
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO

from scrapy_robots_rfc.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: The column where the facts of most topics begin.
FACTS = 13
_NARROWEST = 40  # columns; a terminal that says less gets longer lines than it has room for
_BAR = 30


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
    def of(cls, stream: TextIO, environment: Mapping[str, str] = os.environ) -> Style:
        """Return the style for a stream: NO_COLOR (no-color.org), TERM=dumb and COLUMNS are heeded."""
        if not stream.isatty():
            return cls()
        colour = not environment.get("NO_COLOR") and environment.get("TERM") != "dumb"
        return cls(colour, max(shutil.get_terminal_size().columns, _NARROWEST))

    def paint(self, text: str, *colours: Colour) -> str:
        """Return a text in colours, where the stream has any."""
        if not self.colour or not text:
            return text
        return f"\x1b[{';'.join(colour.value for colour in colours)}m{text}\x1b[0m"

    def wrapped(self, text: str, indent: int) -> list[str]:
        """Return the lines of a text without colours: the first begins at column `indent`, the others under it.

        URLs and patterns stay whole, whatever their length.
        """
        if self.width is None:
            return [text]
        room = max(self.width - indent, _NARROWEST // 2)
        lines = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
        return [lines[0], *(f"{' ' * indent}{line}" for line in lines[1:])]

    def fact(self, name: str, text: str, indent: int = FACTS, lead: str = "  ") -> Iterator[str]:
        """Yield the lines of a fact: its name, and a text, wrapped where there is a width.

        :param indent: the column where the text begins.
        :param lead: what the line begins with.
        """
        first, *more = self.wrapped(printable(text), indent)
        yield f"{lead}{self.paint(f'{name:<{indent - len(lead)}}', Colour.FAINT)}{first}"
        yield from more

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
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(character) else 2 if unicodedata.east_asian_width(character) in "WF" else 1
        for character in text
    )


class Progress:
    """A bar on stderr that says how much is done; nothing where stderr is no terminal.

    :param total: how much there is to do.
    """

    def __init__(self, stream: TextIO, total: int, environment: Mapping[str, str] = os.environ) -> None:
        self._stream = stream
        self._total = total
        self._on = total > 1 and stream.isatty() and environment.get("TERM") != "dumb"
        self._shown = ""

    def show(self, done: int) -> None:
        """Draw it, in one line, where it has changed."""
        if not self._on:
            return
        full = _BAR * done // self._total
        text = f"[{'#' * full}{'.' * (_BAR - full)}] {done:,} of {self._total:,}"
        text = text[: max(shutil.get_terminal_size().columns, 2) - 1]
        if text != self._shown:
            self._stream.write(f"\r\x1b[K{text}")
            self._stream.flush()
            self._shown = text

    def clear(self) -> None:
        """Take it away, so that something else can be printed in its place."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = ""
