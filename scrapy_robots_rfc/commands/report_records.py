"""A record of a report of disallowed requests, as the command line reads it, and how text becomes records.

In here: JSON and CSV, whole or in pieces, good or broken. Where the text comes from is `report_files.py`. A report can
be cut short, damaged, or made up: nothing in here raises over it, and nothing keeps more of it than one record.
"""

from __future__ import annotations

import csv
import datetime
import json
import re
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc.policy.origin import without_userinfo
from scrapy_robots_rfc.records import FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

#: Characters of one record: a hundred times what a long URL needs. Without an end, it would fill the memory.
LONGEST = 1_000_000
#: Characters of a field that are kept; a longer one is nobody's rule or origin, and a link that no browser follows.
_KEPT = 2000
#: A record of this kind has one of these, however few fields its writer asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: The reason of the closing records: how often an entry of ROBOTSTXT_EXEMPT was used.
EXEMPT = "exempt"
#: Where the writer left the reason out, and no rule tells it.
NO_REASON = "not given"

_DELIMITERS = ",;\t|"
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LATEST = 32_503_680_000  # the year 3000: a plot needs room behind the last request, and no calendar here has 10000
_DECODER = json.JSONDecoder()
#: How many beginnings of a record are tried behind a broken one, before what is there is passed over.
_TRIES = 64
#: How many lines a row of CSV can have, if cells hold line ends.
_ROW_LINES = 8


@dataclass(frozen=True, slots=True)
class Record:
    """A disallowed request; or, with the reason ``exempt``, an entry of ROBOTSTXT_EXEMPT that was used.

    :param time: when, in seconds since 1970; ``None``: not given, or not to be read.
    :param count: how many requests it stands for.
    """

    time: float | None
    spider: str | None
    url: str | None
    origin: str | None
    token: str | None
    reason: str
    line: int | None
    rule: str | None
    why: str | None
    stale: bool
    dry_run: bool
    count: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Record | None:
        """Return what the fields say, as far as they do; ``None`` where they are those of something else."""
        if MARKS.isdisjoint(fields):
            return None
        get = fields.get
        rule = _text(get("rule"))
        return cls(
            _time(get("time")),
            _text(get("spider")),
            _address(get("url")),
            _address(get("origin")),
            _text(get("token")),
            _text(get("reason")) or (NO_REASON if rule is None else "rule"),
            _number(get("line")),
            rule,
            _text(get("why")),
            _flag(get("stale")),
            _flag(get("dry_run")),
            _number(get("count")) or 1,
        )


def _text(value: object) -> str | None:
    if value is None or value == "":
        return None
    return (value if isinstance(value, str) else str(value))[:_KEPT]


def _address(value: object) -> str | None:
    """Return a URL, without what may be a password."""
    text = _text(value)
    return None if text is None else without_userinfo(text)


def _number(value: object) -> int | None:
    """Return a whole number; whatever is none that a crawl could count to, is none at all."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return value if isinstance(value, int) and value is not True and 0 < value < 10**15 else None


def _flag(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _time(value: object) -> float | None:
    """Return seconds since 1970; a time without a zone is one of UTC."""
    try:
        date = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return None
    seconds = ((date if date.tzinfo else date.replace(tzinfo=datetime.UTC)) - _EPOCH).total_seconds()
    return seconds if 0 <= seconds < _LATEST else None


@dataclass(slots=True)
class Reading:
    """How the reading of a file went.

    :param records: how many records there were.
    :param broken: how many there were that could not be read.
    :param first: the line of the first of them.
    :param because: why it could not.
    :param others: how many objects or rows there were that are no records of this kind.
    :param breaks_off: whether the file ends in the middle of a record, or of its compression.
    """

    records: int = 0
    broken: int = 0
    first: int = 0
    because: str = ""
    others: int = 0
    breaks_off: bool = False

    def spoiled(self, line: int, because: str) -> None:
        """Count a broken record."""
        self.broken += 1
        if not self.first:
            self.first, self.because = line, because

    def made(self, fields: object) -> Record | None:
        """Return the record of these fields, counted, if it is one."""
        record = Record.of(fields) if isinstance(fields, dict) else None
        if record is None:
            self.others += 1
        else:
            self.records += 1
        return record


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

    def __init__(self, head: str, pieces: Iterator[str], reading: Reading) -> None:
        self._text = head
        self._at = 0
        self._line = 1
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


def _lines(head: str, pieces: Iterator[str], reading: Reading) -> Iterator[tuple[int, str]]:
    """Yield lines with their numbers; of one that is too long, nothing."""
    number, rest, skipping = 0, head, False
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
            cells = self._row(line)
            if cells is not None:
                record = self._reading.made(dict(zip(self._columns, cells, strict=True)))
                if record is not None:
                    yield record
            elif not self._is_other_header(line.removesuffix("\r")):
                self._reading.spoiled(number, "no row of this table")
                self._reading.breaks_off = not self._ahead and not self._more()

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
        if line.lstrip("\ufeff") != self._header:
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
