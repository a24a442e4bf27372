"""The files that `scrapy robots report` reads: unpacked, told apart by what is in them, and never whole in memory.

In here: octets become text. What the text holds is `report_formats.py`.
"""

from __future__ import annotations

import bz2
import codecs
import lzma
import re
import zlib
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Protocol

from scrapy_robots_rfc.commands.output import Failed
from scrapy_robots_rfc.commands.report_formats import records
from scrapy_robots_rfc.commands.report_records import MARKS, Reading
from scrapy_robots_rfc.commands.sources import opened, telling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from scrapy_robots_rfc.commands.output import Console
    from scrapy_robots_rfc.commands.report_records import Record

_ADVICE = "name a file that ROBOTSTXT_REPORT wrote, or - for standard input"
_PIECE = 65_536  # octets that are read, and at most unpacked, at a time
#: Octets that unpacking xz may take; `xz -9` needs 65 MiB, and a made-up header could ask for 4 GiB.
_XZ_MEMORY = 256 * 2**20

#: What Scrapy writes besides, by how it begins: nobody should load a pickle or marshal of somebody else's.
_REFUSED = (
    (re.compile(rb"\x80[\x02-\x05]"), "pickle"),
    (re.compile(rb"[{\xfb][\x80-\xffazAZu]"), "marshal"),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*<"), "XML"),
)


@dataclass(slots=True)
class ReportFile:
    """One of the files.

    :param name: as the command line names it.
    """

    name: str
    reading: Reading = field(default_factory=Reading)

    def records(self, console: Console) -> Iterator[Record]:
        """Yield the records.

        :raises Failed: the file cannot be read, or holds something else.
        """
        with opened(self.name, console, _ADVICE) as file, telling(self.name, _ADVICE):
            yield from records(_text(self._unpacked(file)), self.reading)
        if self.reading.records == 0 and (self.reading.broken or self.reading.others):
            what = f"name a file that this setting wrote, with one of the fields {', '.join(sorted(MARKS))}"
            raise Failed(f"{self.name} holds no records of ROBOTSTXT_REPORT; {what}", 2)

    def _unpacked(self, file: IO[bytes]) -> Iterator[bytes]:
        """Yield pieces of what is in the file, once it is clear that it is text."""
        pieces = self._pieces(file)
        first = next(pieces, b"")
        for pattern, name in _REFUSED:
            if pattern.match(first):
                instead = 'write it as "jsonlines", "json" or "csv" ("format" in ROBOTSTXT_REPORT)'
                raise Failed(f"{self.name} is {name}, which is not read here; {instead}", 2)
        yield first
        yield from pieces

    def _pieces(self, file: IO[bytes]) -> Iterator[bytes]:
        raw = iter(lambda: file.read(_PIECE), b"")
        first = next(raw, b"")
        if not first and self.name.endswith(_PACKED_NAMES):  # an empty report has a header when it is whole
            self.reading.breaks_off = True
        for magic, make in _PACKED:
            if first.startswith(magic):
                yield from _expanded(first, raw, make, self.reading)
                return
        yield first
        yield from raw


def _text(pieces: Iterator[bytes]) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
    for piece in pieces:
        yield decoder.decode(piece)
    yield decoder.decode(b"", final=True)


# Compression.


class _Expander(Protocol):
    """What bz2 and lzma have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


class _Gzip:
    """The same for gzip."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)  # 31: with the header and checksum of gzip

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        return self._inner.decompress(self._inner.unconsumed_tail + data, max_length)


def _xz() -> _Expander:
    return lzma.LZMADecompressor(memlimit=_XZ_MEMORY)


#: How packed files begin, the older format of LZMA among them, and what unpacks them.
_PACKED: tuple[tuple[bytes, Callable[[], _Expander]], ...] = (
    (b"\x1f\x8b", _Gzip),
    (b"BZh", bz2.BZ2Decompressor),
    (b"\xfd7zXZ\x00", _xz),
    (b"\x5d\x00\x00", _xz),
)


#: What such files are called, where they are called by what they are.
_PACKED_NAMES = (".gz", ".bz2", ".xz", ".lzma")


def _expanded(data: bytes, raw: Iterator[bytes], make: Callable[[], _Expander], reading: Reading) -> Iterator[bytes]:
    """Yield what was packed, a piece at a time, however much it is; several packed parts may follow each other.

    Where it is cut short or damaged, that is the end.
    """
    expander = make()
    while True:
        try:
            piece = expander.decompress(data, _PIECE)
        except (OSError, ValueError, EOFError, zlib.error, lzma.LZMAError):
            reading.breaks_off = True
            reading.spoiled(0, "it cannot be unpacked any further")
            return
        if piece:
            yield piece
        data = b""
        if expander.eof:
            data = expander.unused_data.lstrip(b"\0") or next(raw, b"").lstrip(b"\0")
            if not data:
                return
            expander = make()
        elif expander.needs_input and not piece:
            data = next(raw, b"")
            if not data:
                reading.breaks_off = True
                return
