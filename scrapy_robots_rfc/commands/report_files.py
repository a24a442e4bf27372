"""The files that `scrapy robots report` reads: JSON lines, JSON or CSV that ROBOTSTXT_REPORT wrote, packed or not.

They are read a line at a time and never held whole. A report can be cut short, damaged or made up: nothing here raises
over that, what is broken is counted and left out.
"""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import json
import lzma
import re
import zlib
from collections import deque
from dataclasses import dataclass
from itertools import chain
from typing import IO, TYPE_CHECKING, Any, TypeAlias, cast

from scrapy_robots_rfc.commands.common import STANDARD, UNDECIDED, Failed, opened, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from scrapy_robots_rfc.commands.common import Console

#: A record of ROBOTSTXT_REPORT has one of these fields, however few its feed has asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Octets of a line that are read at once: a hundred times what a long URL needs. A line may have no end.
LONGEST = 1_000_000
_ROW_LINES = 8  # lines that a row of CSV may have
_OBJECT_LINES = 64  # lines that an indented JSON object may have: four times as many as there are fields

_ADVICE = "name a file that ROBOTSTXT_REPORT wrote, or - for standard input"
_NO_JSON, _NO_ROW, _TOO_LONG = "no JSON", "no row of this table", f"longer than {LONGEST:,} characters"

#: Files that can be looked into without reading on.
_Peekable: TypeAlias = "io.BufferedReader | gzip.GzipFile | bz2.BZ2File | lzma.LZMAFile"
#: How packed files begin, and what opens them; the last one is the older format of LZMA.
_PACKED: tuple[tuple[bytes, Callable[[IO[bytes]], _Peekable]], ...] = (
    (b"\x1f\x8b", gzip.open),
    (b"BZh", bz2.open),
    (b"\xfd7zXZ\x00", lzma.open),
    (b"\x5d\x00\x00", lzma.open),
)
_PACKED_NAMES = (".gz", ".bz2", ".xz", ".lzma")
#: What reading a packed file raises where it is damaged. bz2 and gzip raise an OSError, too, but without a number.
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, MemoryError)

#: Other formats of Scrapy's, by how they begin. Loading a pickle or marshal can run code of whoever wrote it.
_REFUSED = (
    (re.compile(rb"\x80[\x02-\x05]"), "pickle"),
    (re.compile(rb"[{\xfb][\x80-\xffazAZu]"), "marshal"),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*<"), "XML"),
)

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
    :param breaks_off: whether the file ends in the middle of a record, or of its compression.
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
            for fields in self._parsed(self._lines(file)):
                if isinstance(fields, dict) and not MARKS.isdisjoint(fields):
                    self.records += 1
                    yield fields
                else:
                    self.others += 1
        if self.records == 0 and (self.broken or self.others):
            what = f"name a file that this setting wrote, with one of the fields {', '.join(sorted(MARKS))}"
            raise Failed(f"{self.title} holds no records of ROBOTSTXT_REPORT; {what}", UNDECIDED)

    def _spoiled(self, line: int, because: str) -> None:
        """Count a broken record."""
        self.broken += 1
        if self.broken == 1:
            self.first, self.because = line, because

    def _lines(self, file: IO[bytes]) -> Iterator[tuple[int, str, bool]]:
        """Yield lines with their numbers, and whether each is whole: one longer than LONGEST comes in pieces."""
        decode = codecs.getincrementaldecoder("utf-8-sig")(errors="replace").decode
        number = 1
        try:
            unpacked = self._unpacked(file)
            while piece := unpacked.readline(LONGEST):
                yield number, decode(piece), piece.endswith(b"\n") or len(piece) < LONGEST
                number += piece.endswith(b"\n")
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise  # the disk failed, not the compression
            self.breaks_off = True
            if not isinstance(error, EOFError):
                self._spoiled(0, "it cannot be unpacked any further")

    def _unpacked(self, file: IO[bytes]) -> _Peekable:
        """Return a file of text: the same one, or what is packed in it. The octets tell which, not the name."""
        plain = file if isinstance(file, io.BufferedReader) else io.BufferedReader(cast("io.RawIOBase", file))
        first = plain.peek(8)
        unpacked = next((opener(plain) for magic, opener in _PACKED if first.startswith(magic)), plain)
        if not first and self.name.endswith(_PACKED_NAMES):  # a packed file has a header, even without records
            self.breaks_off = True
        for pattern, name in _REFUSED:
            if pattern.match(unpacked.peek(64)):
                instead = 'write it as "jsonlines", "json" or "csv" ("format" in ROBOTSTXT_REPORT)'
                raise Failed(f"{self.title} is {name}, which is not read here; {instead}", UNDECIDED)
        return unpacked

    def _parsed(self, lines: Iterator[tuple[int, str, bool]]) -> Iterator[object]:
        """Yield what the lines hold; the first line that is not blank tells the format."""
        for number, line, whole in lines:
            if line.strip():
                header = None if line.lstrip().startswith(("[", "{")) else _header(line)
                if header is None:
                    yield from self._objects(chain([(number, line, whole)], lines))
                else:
                    yield from self._rows(self._whole(lines), *header)

    def _objects(self, lines: Iterator[tuple[int, str, bool]]) -> Iterator[object]:
        """Yield the objects of JSON lines, or of JSON arrays of any layout, several in a row, too.

        An object may take several lines, and several objects may share one. A line that begins with ``{`` begins an
        object, so a broken one ends there at the latest.
        """
        text, start, count = "", 0, 0  # what is not read yet, the line where it begins, in how many pieces it came
        at_start, skipped = True, 0  # whether a piece begins its line; the line whose rest is passed over
        for number, line, whole in lines:
            if number == skipped:
                continue
            if text and at_start and line.lstrip().startswith("{"):
                self._spoiled(start, _NO_JSON)
                text = ""
            start, count = (start, count + 1) if text else (number, 1)
            text, at_start = text + line, whole
            at = _behind_separators(text, 0)
            while text.startswith("{", at):
                try:
                    found, end = _DECODER.raw_decode(text, at)
                except (ValueError, RecursionError):  # a ValueError: a number of thousands of digits, too
                    break
                start, count = number, 1
                yield found
                at = _behind_separators(text, end)
            text = text[at:]
            if text and (not text.startswith("{") or len(text) > LONGEST or count >= _OBJECT_LINES):
                self._spoiled(start, _TOO_LONG if len(text) > LONGEST else _NO_JSON)
                text, skipped, at_start = "", number, True
        if text:
            self._spoiled(start, _NO_JSON)
            self.breaks_off = True

    def _whole(self, lines: Iterator[tuple[int, str, bool]]) -> Iterator[tuple[int, str]]:
        """Yield the lines that are not too long."""
        skipped = 0
        for number, line, whole in lines:
            if whole and number != skipped:
                yield number, line
            elif number != skipped:
                self._spoiled(number, _TOO_LONG)
                skipped = number

    def _rows(self, lines: Iterator[tuple[int, str]], delimiter: str, columns: list[str]) -> Iterator[object]:
        """Yield the rows of CSV; a crawl that went on with a file wrote the header again, perhaps behind half a row.

        A quote that is not closed spoils its own line only: the lines behind it are read again as rows.
        """
        ahead: deque[tuple[int, str]] = deque()
        good = True
        while (found := ahead.popleft() if ahead else next(lines, None)) is not None:
            number, line = found
            if not line.strip():
                continue
            taken: list[tuple[int, str]] = []
            row = _cells([line], delimiter)
            while row is None and line.count('"') % 2 and len(taken) < _ROW_LINES - 1:
                more = ahead.popleft() if ahead else next(lines, None)
                if more is None:
                    break
                taken.append(more)
                row = _cells([line, *(text for _, text in taken)], delimiter)
            good = row is not None and len(row) == len(columns)
            again = row == columns or (len(columns) > 1 and row is not None and row[1:] == columns[1:])
            if not good:
                ahead.extendleft(reversed(taken))
            if not good or (again and row != columns):
                self._spoiled(number, _NO_ROW)
            elif row and not again:
                yield dict(zip(columns, row, strict=True))
        self.breaks_off = self.breaks_off or not good


def _behind_separators(text: str, at: int) -> int:
    """Return the place behind blanks, commas and brackets."""
    match = _SEPARATORS.match(text, at)
    return at if match is None else match.end()


def _header(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of the columns, where a line is the header of a report."""
    for delimiter in ",;\t|":
        cells = _cells([line], delimiter)
        if cells and not MARKS.isdisjoint(cells):
            return delimiter, cells
    return None


def _cells(lines: list[str], delimiter: str) -> list[str] | None:
    """Return the cells of a row; ``None`` where the lines are none, or more than one."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None
