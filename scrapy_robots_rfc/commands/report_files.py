"""The files that `scrapy robots report` reads: JSON lines, JSON or CSV that ROBOTSTXT_REPORT wrote, packed or not.

A file is read in pieces and never held whole. It can be cut short, damaged or made up: what is broken is counted and
left out, and raises nothing.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import re
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, cast

from scrapy_robots_rfc.commands.common import NO_ANSWER, STANDARD, Failed, opened, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy_robots_rfc.commands.common import Console

#: A record of ROBOTSTXT_REPORT has one of these fields, however few its feed has asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Characters that a line, or an object of a JSON array, may have: a hundred times what a long URL needs.
LONGEST = 1_000_000
_PIECE = 65_536  # characters of a JSON array that are read at a time
_ROW_LINES = 8  # lines that a row of CSV may have

_ADVICE = "name a file that ROBOTSTXT_REPORT wrote, or - for standard input"
_NO_JSON, _NO_ROW, _TOO_LONG = "no JSON", "no row of this table", f"longer than {LONGEST:,} characters"

#: How packed files begin, and what opens them.
_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], Any]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
)
_PACKED_NAMES = (".gz", ".bz2", ".xz")
#: What reading a packed file raises where it is damaged. The OSErrors of bz2 and gzip have no number.
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, MemoryError)

_SEPARATORS = re.compile(r"[\s,\[\]]*")
_DECODER = json.JSONDecoder()


@dataclass(slots=True)
class ReportFile:
    """One of the files, and how its reading went.

    :param name: as on the command line; ``-`` is standard input.
    :param records: how many records there were.
    :param broken: how many could not be read.
    :param first: the line of the first broken one; 0: not known.
    :param because: why that one could not be read.
    :param others: how many objects or rows are no records of ROBOTSTXT_REPORT.
    :param breaks_off: whether its end could not be read, or is that of half a record.
    """

    name: str
    records: int = 0
    broken: int = 0
    first: int = 0
    because: str = ""
    others: int = 0
    breaks_off: bool = False

    @property
    def title(self) -> str:
        """The name for people."""
        return "standard input" if self.name == STANDARD else self.name

    def read(self, console: Console) -> Iterator[Mapping[str, Any]]:
        """Yield the fields of each record.

        :raises Failed: the file cannot be read, or holds something else.
        """
        with opened(self.name, console, _ADVICE) as file, telling(self.title, _ADVICE):
            try:
                for fields in self._parsed(file):
                    if isinstance(fields, dict) and not MARKS.isdisjoint(fields):
                        self.records += 1
                        yield fields
                    else:
                        self.others += 1
            except _DAMAGED as error:
                if isinstance(error, OSError) and error.errno is not None:
                    raise  # the disk failed: the file is not damaged
                self.breaks_off = True
                self._leave_out(0, "it cannot be unpacked any further")
        if self.records == 0 and (self.broken or self.others):
            what = f"name a file that this setting wrote, with one of the fields {', '.join(sorted(MARKS))}"
            read = "records of ROBOTSTXT_REPORT in a format that is read (JSON lines, JSON, CSV)"
            raise Failed(f"{self.title} holds no {read}; {what}", NO_ANSWER)

    def _leave_out(self, line: int, because: str, count: int = 1) -> None:
        """Count broken records."""
        if not self.broken:
            self.first, self.because = line, because
        self.broken += count

    def _parsed(self, file: IO[bytes]) -> Iterator[object]:
        """Yield the objects or rows of a file: its first octets tell how it is packed, its first line the format."""
        plain = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", file))
        first = plain.peek(8)
        if not first and self.name.endswith(_PACKED_NAMES):  # a packed file has a header, even without records
            self.breaks_off = True
        unpacked = next((opener(plain) for magic, opener in _PACKED if first.startswith(magic)), plain)
        text = io.TextIOWrapper(unpacked, encoding="utf-8-sig", errors="replace", newline="\n")
        try:
            number, line = 1, text.readline(LONGEST)
            while line.isspace():
                number, line = number + line.endswith("\n"), text.readline(LONGEST)
            if line.lstrip().startswith("["):
                yield from self._array(line, number, text)
            elif (header := _header(line)) is not None:
                yield from self._rows(self._lines(line, number, text), *header)
            else:
                yield from self._json_lines(self._lines(line, number, text))
        finally:
            text.detach()  # else it would close standard input

    def _lines(self, line: str, number: int, text: io.TextIOWrapper) -> Iterator[tuple[int, str]]:
        """Yield the lines that are not too long, with their numbers.

        :param line: the first of them, or its beginning.
        """
        while line:
            if len(line) < LONGEST or line.endswith("\n"):
                yield number, line
            else:
                self._leave_out(number, _TOO_LONG)
                while line and not line.endswith("\n"):
                    line = text.readline(LONGEST)
            number, line = number + 1, text.readline(LONGEST)

    def _json_lines(self, lines: Iterator[tuple[int, str]]) -> Iterator[object]:
        """Yield the object of each line; a line that is none is left out."""
        for number, line in lines:
            if line.isspace():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):  # a ValueError: a number of thousands of digits, too
                self._leave_out(number, _NO_JSON)
                self.breaks_off = not line.endswith("\n")
            else:
                yield found

    def _array(self, text: str, line: int, file: io.TextIOWrapper) -> Iterator[object]:
        """Yield the objects of a JSON array of any layout, or of several in a row; the first broken one ends them.

        :param text: the beginning of the array, with the number of its line.
        """
        at = 0
        while True:
            if (match := _SEPARATORS.match(text, at)) is not None:
                at = match.end()
            try:
                found, end = _DECODER.raw_decode(text, at)
            except (ValueError, RecursionError):
                whole = len(text) - at > LONGEST
                more = "" if whole else file.read(_PIECE)
                if not more:
                    break
                line += text.count("\n", 0, at)
                text, at = text[at:] + more, 0
            else:
                yield found
                at = end
        if at < len(text):
            because = f"{_TOO_LONG if whole else _NO_JSON}, which ends what can be read of an array"
            self._leave_out(line + text.count("\n", 0, at), because)
            self.breaks_off = True

    def _rows(self, lines: Iterator[tuple[int, str]], delimiter: str, columns: list[str]) -> Iterator[object]:
        """Yield the rows of CSV; a crawl that went on with a file wrote the header again, perhaps behind half a row."""
        for number, line in lines:
            text, last = line, number
            while text.count('"') % 2 and last < number + _ROW_LINES - 1:  # a cell goes on in the next line
                last, more = next(lines, (last, ""))
                if not more:
                    break
                text += more
            row = _cells(text, delimiter)
            again = row is not None and (row == columns or (len(row) > 1 and row[1:] == columns[1:]))
            if row is None or (row and len(row) != len(columns)) or (again and row != columns):
                self._leave_out(number, _NO_ROW, last - number + 1)
                self.breaks_off = not text.endswith("\n")
            elif row and not again:
                yield dict(zip(columns, row, strict=True))


def _header(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of the columns, where a line is the header of a report."""
    for delimiter in ",;\t|":
        cells = _cells(line, delimiter)
        if cells and not MARKS.isdisjoint(cells):
            return delimiter, cells
    return None


def _cells(text: str, delimiter: str) -> list[str] | None:
    """Return the cells of a row; ``None``: it is none."""
    try:
        return next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        return None
