"""The formats of a report of disallowed requests: how text becomes records.

In here: JSON and CSV, whole or in pieces, good or broken, and one behind the other where the format of a feed was
changed, but not its file. Where the text comes from is `report_files.py`. A report can be cut short, damaged, or made
up: nothing in here raises over it, and nothing keeps more of it than one record.
"""

from __future__ import annotations

import csv
import json
import re
from collections import deque
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.report_records import MARKS
from scrapy_robots_rfc.records import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scrapy_robots_rfc.commands.report_records import Reading, Record

#: Characters of one record: a hundred times what a long URL needs. Without an end, it would fill the memory.
LONGEST = 1_000_000

_DELIMITERS = ",;\t|"
_DECODER = json.JSONDecoder()
#: How many beginnings of a record are tried behind a broken one, before what is there is passed over.
_TRIES = 64
#: How many lines a row of CSV can have, if cells hold line ends.
_ROW_LINES = 8


def records(pieces: Iterator[str], reading: Reading) -> Iterator[Record]:
    """Yield the records of a text, whichever format it is in.

    :param pieces: the text, of any cut.
    :param reading: is told how it goes.
    """
    head = ""
    for piece in pieces:
        head += piece
        if "\n" in head.lstrip() or len(head) > LONGEST:
            break
    first, ends, _ = head.lstrip("\r\n").partition("\n")
    header = None if head.lstrip().startswith(("[", "{")) else _header(first.rstrip("\r"))
    if header is None:
        yield from _Objects(head, pieces, reading).records()
    elif ends or header[1][-1] in FIELDS:
        yield from _Table(_lines(head, pieces, reading), reading).records()
    else:
        reading.breaks_off = True


# JSON.

_SEPARATORS = re.compile(r"[\s,\[\]]*")


class _Objects:
    """The objects of a text, one after the other: lines of JSON, an array of them, or several arrays in a row.

    Behind a broken object it goes on at the next one, in the same line too: a crawl that was killed leaves half a
    record, and the one that goes on with it writes right behind it.
    """

    def __init__(self, head: str, pieces: Iterator[str], reading: Reading, line: int = 1) -> None:
        self._text = head
        self._at = 0
        self._line = line
        self._looked = 0  # the last line that may have been the header of a table
        self._pieces = pieces
        self._reading = reading
        self._spoiled = 0  # the line of the broken object after which none was good, yet
        self._tries = 0
        self._ends = False  # whether the text ended within that object

    def records(self) -> Iterator[Record]:
        """Yield the records."""
        while self._next():
            try:
                found, end = self._decoded()
            except (ValueError, RecursionError) as error:
                if self._may_go_on(error) and self._more():
                    continue
                if self._is_table():
                    lines = _lines(self._text[self._at :], self._pieces, self._reading, self._line)
                    yield from _Table(lines, self._reading).records()
                    return
                self._pass_over(error)
                continue
            self._to(end)
            self._spoiled = self._tries = 0
            self._ends = False
            record = self._reading.made(found)
            if record is not None:
                yield record

    def _decoded(self) -> tuple[object, int]:
        if self._text[self._at] != "{":
            raise ValueError("no object")
        return _DECODER.raw_decode(self._text, self._at)

    def _next(self) -> bool:
        """Go to the next object, or to something that is none; return whether there is any."""
        while True:
            match = _SEPARATORS.match(self._text, self._at)
            assert match is not None
            self._to(match.end())
            if self._at < len(self._text):
                return True
            if not self._more():
                return False

    def _to(self, position: int) -> None:
        self._line += self._text.count("\n", self._at, position)
        self._at = position

    def _more(self) -> bool:
        """Read on, and return whether there is more; what has been read is let go."""
        for piece in self._pieces:
            if piece:
                self._tries = 0
                self._text = self._text[self._at :] + piece
                self._at = 0
                return True
        return False

    def _may_go_on(self, error: ValueError | RecursionError) -> bool:
        """Whether an object may be good, and only its end is still to come."""
        if not isinstance(error, json.JSONDecodeError) or len(self._text) - self._at > LONGEST:
            return False
        # A string that is not closed is reported where it begins; else the error is at the end, or in the last word.
        return error.msg.startswith("Unterminated") or error.pos >= len(self._text) - 8

    def _is_table(self) -> bool:
        """Whether a table begins here, with its header."""
        if self._text[self._at] == "{" or self._line == self._looked:
            return False
        self._looked = self._line
        while "\n" not in self._text[self._at :] and len(self._text) - self._at <= LONGEST and self._more():
            pass
        header = _header(self._text[self._at :].partition("\n")[0].rstrip("\r"))
        return header is not None and FIELDS.keys() >= set(header[1])

    def _pass_over(self, error: ValueError | RecursionError) -> None:
        """Count a broken object, and go to where the next one may begin."""
        if self._line != self._spoiled:
            too_long = len(self._text) - self._at > LONGEST
            self._reading.spoiled(self._line, f"longer than {LONGEST:,} characters" if too_long else "no JSON")
            self._spoiled, self._tries, self._ends = self._line, 0, False
        self._ends = self._ends or self._may_go_on(error)
        self._tries += 1
        found = self._text.find("{", self._at + 1)
        if found < 0 or self._tries > _TRIES:
            found = self._text.find("\n", self._at + 1)
            found = len(self._text) if found < 0 else found
        self._to(found)
        self._reading.breaks_off = self._ends and found == len(self._text)


# CSV.


def _header(line: str) -> tuple[str, list[str]] | None:
    """Return the delimiter and the names of the columns, where a line is the header of a report."""
    if not any(mark in line for mark in MARKS):  # nearly all that is none
        return None
    for delimiter in _DELIMITERS:
        cells = _cells([line], delimiter)
        if cells and not MARKS.isdisjoint(cells):
            return delimiter, cells
    return None


def _cells(lines: list[str], delimiter: str) -> list[str] | None:
    """Return the cells of a row; ``None`` where it is none, such as one with a quote that is not closed."""
    try:
        rows = list(csv.reader(lines, delimiter=delimiter, strict=True))
    except csv.Error:
        return None
    return rows[0] if len(rows) == 1 else None


def _lines(head: str, pieces: Iterator[str], reading: Reading, first: int = 1) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; of one that is too long, nothing."""
    number, rest, skipping = first - 1, head, False
    while True:
        *lines, rest = rest.split("\n")
        for line in lines:
            number += 1
            if skipping:
                skipping = False
            else:
                yield number, line
        if len(rest) > LONGEST:
            if not skipping:
                reading.spoiled(number + 1, f"longer than {LONGEST:,} characters")
            skipping, rest = True, ""
        piece = next(pieces, None)
        if piece is None:
            break
        rest += piece
    if rest and not skipping:
        yield number + 1, rest


#: Where an object begins in a line. A quote within a cell is doubled, and one behind a cell has no name behind it.
_OBJECT = re.compile(r'\{"[a-z_]')
#: What an array has besides.
_BRACKETS = re.compile(r"\s*[\[\]][\s,\[\]]*")


class _Table:
    """The rows of CSV. Whoever goes on with a file writes the header again, perhaps behind half a row."""

    def __init__(self, lines: Iterator[tuple[int, str]], reading: Reading) -> None:
        self._lines = lines
        self._ahead: deque[tuple[int, str]] = deque()
        self._reading = reading
        self._header = ""
        self._delimiter = ","
        self._columns: list[str] = []

    def records(self) -> Iterator[Record]:
        """Yield the records."""
        while self._ahead or self._more():
            number, line = self._ahead.popleft()
            if not line.strip() or self._is_header(number, line.removesuffix("\r")):
                continue
            found = _OBJECT.search(line)
            if found or _BRACKETS.fullmatch(line):
                yield from self._objects(number, line, found.start() if found else 0)
                continue
            cells = self._row(line)
            if cells is not None:
                record = self._reading.made(dict(zip(self._columns, cells, strict=True)))
                if record is not None:
                    yield record
            elif not self._is_other_header(line.removesuffix("\r")):
                self._reading.spoiled(number, "no row of this table")
                self._reading.breaks_off = not self._ahead and not self._more()

    def _objects(self, number: int, line: str, start: int) -> Iterator[Record]:
        """Yield the records of a line of JSON, which may stand behind half a row."""
        ended = self._reading.breaks_off
        if line[:start].strip(" \t,[]"):
            self._reading.spoiled(number, "half a row")
        yield from _Objects(line[start:], iter(()), self._reading, number).records()
        self._reading.breaks_off = ended or (self._reading.breaks_off and not self._ahead and not self._more())

    def _more(self) -> bool:
        found = next(self._lines, None)
        if found is not None:
            self._ahead.append(found)
        return found is not None

    def _is_header(self, number: int, line: str) -> bool:
        """Whether a line is the first one, or the same one again."""
        if not self._header:
            return self._is_other_header(line)
        if not line.endswith(self._header):
            return False
        if line.removesuffix(self._header).strip("\ufeff[]"):
            self._reading.spoiled(number, "half a row")
        return True

    def _is_other_header(self, line: str) -> bool:
        """Whether a line names columns; from then on they hold."""
        found = _header(line)
        if found is None or (self._header and not FIELDS.keys() >= set(found[1])):
            return False
        self._header, (self._delimiter, self._columns) = line, found
        return True

    def _row(self, line: str) -> list[str] | None:
        """Return the cells of a row, which takes further lines where a cell holds line ends."""
        cells = _cells([line], self._delimiter)
        if cells is not None or line.count('"') % 2 == 0:
            return cells if cells is not None and len(cells) == len(self._columns) else None
        taken = [line]
        for more in range(_ROW_LINES - 1):
            if len(self._ahead) <= more and not self._more():
                return None
            taken = [*taken[:-1], f"{taken[-1]}\n", self._ahead[more][1]]
            cells = _cells(taken, self._delimiter)
            if cells is not None and len(cells) == len(self._columns):
                for _ in taken[1:]:
                    self._ahead.popleft()
                return cells
        return None
