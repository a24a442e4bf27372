"""Decodes the content codings of a robots.txt (RFC 9110, 8.4) while its octets come, up to a limit.

A decompression bomb never grows past that limit. Scrapy offers servers the same codings as for a page, so each coding
that Scrapy may offer has to be known here.
"""

from __future__ import annotations

import importlib
import zlib
from typing import TYPE_CHECKING, Any, Protocol

from scrapy_robots_rfc.errors import DecodingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The most codings that an answer may name: each one multiplies the work that a hostile server can cause.
MAX_CODINGS = 4

#: The most parts (gzip members, zstd frames) that a body may have. Real bodies have one, or one for each 64 KiB.
#: Thousands of empty parts would cost much time and never reach the limit.
MAX_PARTS = 64

#: How many times longer than the limit a coded body may be. No coding makes a text much longer. A body that is longer
#: all the same has empty blocks or comments, which cost time and never reach the limit.
MAX_EXPANSION = 4

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP = 16 + zlib.MAX_WBITS


def decode(body: bytes, codings: Iterable[bytes], limit: int) -> bytes:
    """Return a body without its codings.

    :param body: the octets as they came.
    :param codings: the values of the Content-Encoding headers, in order.
    :param limit: octets of the result at most; what lies beyond is not produced.
    :raises DecodingError: an unknown coding, broken data, or data that break off before the limit: half a file must
        not open what the other half closes.
    """
    decoder = Decoder(codings, limit)
    decoder.feed(body)
    return decoder.result()


class Decoder:
    """Decodes a body that comes in pieces.

    :param codings: the values of the Content-Encoding headers, in order.
    :param limit: octets of the result at most.
    :raises DecodingError: a coding that nobody knows, or for which no library is installed.
    """

    def __init__(self, codings: Iterable[bytes], limit: int) -> None:
        names = [name.strip().lower() for value in codings for name in value.split(b",") if name.strip()]
        if len(names) > MAX_CODINGS:
            raise DecodingError(f"{len(names)} content codings")
        self._stages = [_stage(name) for name in reversed(names)]
        self._limit, self._longest = limit, MAX_EXPANSION * limit
        self._unnamed = not names
        self._head = b""
        self._output = bytearray()

    @property
    def full(self) -> bool:
        """Whether the limit is reached, so that no more octets are needed."""
        return len(self._output) >= self._limit

    def feed(self, data: bytes) -> None:
        """Take the next octets of the body.

        :raises DecodingError: they are broken, or there are too many of them for what they give.
        """
        if self._unnamed:
            self._head += data
            if len(self._head) < len(_GZIP_MAGIC):
                return
            data = self._named()
        if self.full:
            return
        for stage in self._stages:
            stage.taken += len(data)
            last = stage is self._stages[-1]
            data = stage.coding.decode(data, self._limit - len(self._output) if last else self._longest + 1)
        self._output += data
        for stage in self._stages:
            if stage.taken > self._longest and not self.full:
                raise DecodingError(f"more than {self._longest} octets of {stage.text} data for so short a file")

    def result(self) -> bytes:
        """Return the decoded octets, up to the limit.

        :raises DecodingError: the data break off before the limit.
        """
        if self._unnamed:
            self._output += self._named()  # the body is too short to tell a coding by
        for stage in self._stages:
            if not self.full and stage.taken and not stage.coding.whole:
                raise DecodingError(f"the {stage.text} data break off")
        return bytes(self._output[: self._limit])

    def _named(self) -> bytes:
        """Tell the coding of a body without a header by its first octets, and return those."""
        # Some servers send a .gz file without the header. No robots.txt begins with these octets.
        self._stages = [_stage(b"gzip" if self._head.startswith(_GZIP_MAGIC) else b"identity")]
        self._unnamed = False
        return self._head


class _Coding(Protocol):
    """Undoes one coding."""

    whole: bool
    """Whether the data that came so far have come to their own end."""

    def decode(self, data: bytes, room: int) -> bytes:
        """Decode the next octets, up to `room` octets of output. It is not called again once that many have come.

        :raises DecodingError: the data are broken.
        """


class _Stage:
    """One coding of a body, and how many octets it was given."""

    __slots__ = ("coding", "name", "taken")

    def __init__(self, name: bytes, coding: _Coding) -> None:
        self.name, self.coding = name, coding
        self.taken = 0

    @property
    def text(self) -> str:
        """The name, for people."""
        return self.name.decode("ascii")


def _stage(name: bytes) -> _Stage:
    if name not in _CODINGS:
        raise DecodingError(f"unknown content coding {name[:40].decode('latin-1')!r}")
    return _Stage(name, _CODINGS[name]())


class _Identity:
    whole = True

    def decode(self, data: bytes, room: int) -> bytes:
        return data[:room]


class _Gzip:
    """A gzip file may have several members, one after the other (RFC 1952, 2.2); anything else after one is padding."""

    def __init__(self) -> None:
        self.whole = False
        self._padding = False
        self._parts = 0
        self._held = b""
        self._member: Any = None

    def decode(self, data: bytes, room: int) -> bytes:
        output = bytearray()
        rest = self._held + data
        self._held = b""
        while rest and len(output) < room and not self._padding:
            if self._member is None and not self._begun(rest):
                break
            output += _zlib(self._member, rest, room - len(output))
            self.whole = self._member.eof
            rest = self._member.unused_data
            if self.whole:
                self._member = None
        return bytes(output)

    def _begun(self, rest: bytes) -> bool:
        """Begin the member that comes next, if it is one."""
        if self._parts and not rest.startswith(_GZIP_MAGIC):
            self._padding = not _GZIP_MAGIC.startswith(rest)
            self.whole = self._padding
            self._held = b"" if self._padding else rest  # one octet may begin a member: the next one tells
            return False
        self._parts = _one_more(self._parts)
        self._member = zlib.decompressobj(_GZIP)
        return True


class _Deflate:
    """Deflate with the zlib wrapper, or without it, as some servers send it."""

    def __init__(self) -> None:
        self.whole = False
        self._head = b""
        self._data: Any = None

    def decode(self, data: bytes, room: int) -> bytes:
        if self.whole:
            return b""
        if self._data is None:
            self._head += data
            if len(self._head) < 2:
                return b""
            data, wrapped = self._head, _is_zlib(self._head)
            self._data = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
        output = _zlib(self._data, data, room)
        self.whole = self._data.eof
        return output


def _is_zlib(data: bytes) -> bool:
    """Whether data begin with the header of zlib: deflate, and a multiple of 31 (RFC 1950, 2.2)."""
    return data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0


def _zlib(decompressor: Any, data: bytes, room: int) -> bytes:  # noqa: ANN401 - a type that zlib does not name
    try:
        output: bytes = decompressor.decompress(data, room)
    except zlib.error as error:
        raise DecodingError(str(error)) from None
    return output


class _Brotli:
    def __init__(self) -> None:
        self._library = _import("brotli", "brotlicffi")
        # Older versions cannot stop at a limit.
        if not hasattr(getattr(self._library, "Decompressor", None), "can_accept_more_data"):
            raise DecodingError("content coding 'br', and no brotli 1.2 or newer is installed")
        self.whole = False
        self._data = self._library.Decompressor()

    def decode(self, data: bytes, room: int) -> bytes:
        output = bytearray()
        try:
            while not self.whole and len(output) < room:
                chunk = self._data.process(data, output_buffer_limit=room - len(output))
                output += chunk
                self.whole = self._data.is_finished()
                if not chunk:
                    break
                data = b""
        except self._library.error as error:
            raise DecodingError(str(error)) from None
        return bytes(output)


class _Zstd:
    """Zstandard, by the library that Scrapy uses: that of Python 3.14 or its backport; else `zstandard`."""

    def __init__(self) -> None:
        self._library = _import("compression.zstd", "backports.zstd")
        self._error: type[Exception]
        if self._library is not None:
            self._new, self._error = self._library.ZstdDecompressor, self._library.ZstdError
        else:
            older = _import("zstandard")
            if older is None:
                raise DecodingError("content coding 'zstd', and no library for it is installed")
            self._new, self._error = (lambda: _Zstandard(older)), older.ZstdError
        self.whole = False
        self._parts = 0
        self._frame: Any = None

    def decode(self, data: bytes, room: int) -> bytes:
        output = bytearray()
        try:
            while data and len(output) < room:
                if self._frame is None:
                    self._parts = _one_more(self._parts)
                    self._frame = self._new()
                output += self._frame.decompress(data, room - len(output))
                self.whole = self._frame.eof
                data = self._frame.unused_data if self.whole else b""
                if self.whole:
                    self._frame = None
        except self._error as error:
            raise DecodingError(str(error)) from None
        return bytes(output)


class _Zstandard:
    """One frame, read by `zstandard`, which cannot stop at a limit by itself."""

    # Octets that are decoded at once. Four can stand for a block of 128 KiB, so that these give 2 MiB at most.
    _PIECE = 64

    def __init__(self, library: Any) -> None:  # noqa: ANN401 - a module without types
        self._data = library.ZstdDecompressor().decompressobj()
        self.eof = False
        self.unused_data = b""

    def decompress(self, data: bytes, room: int) -> bytes:
        output = bytearray()
        at = 0
        while at < len(data) and len(output) < room and not self.eof:
            piece = data[at : at + self._PIECE]
            output += self._data.decompress(piece)
            at += len(piece)
            self.eof = self._data.eof
        self.unused_data = self._data.unused_data + data[at:] if self.eof else b""
        return bytes(output[:room])


def _one_more(parts: int) -> int:
    if parts == MAX_PARTS:
        raise DecodingError(f"more than {MAX_PARTS} parts")
    return parts + 1


def _import(*names: str) -> Any:  # noqa: ANN401 - a module without types, or None
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


_CODINGS: dict[bytes, Callable[[], _Coding]] = {
    b"identity": _Identity,
    b"gzip": _Gzip,
    b"x-gzip": _Gzip,
    b"deflate": _Deflate,
    b"br": _Brotli,
    b"zstd": _Zstd,
}
