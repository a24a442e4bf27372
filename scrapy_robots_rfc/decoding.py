"""Content codings of a robots.txt (RFC 9110, 8.4), undone within a bound: a decompression bomb never grows past it.

We ask for `identity`; some servers compress all the same. In here: octets to octets.
"""

from __future__ import annotations

import importlib
import zlib
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_robots_rfc.errors import DecodingError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# What a coding gives: octets, and whether the data came to their own end.
Decoded: TypeAlias = tuple[bytes, bool]

#: Codings that an answer may name at most; each doubles the work of a hostile one.
MAX_CODINGS = 4

#: Parts (gzip members, zstd frames) of which a body may consist. Real ones have one, or one for each 64 KiB; thousands
#: of empty ones cost the time of large ones and never reach the limit.
MAX_PARTS = 64


def decode(body: bytes, codings: Iterable[bytes], limit: int, *, cut: bool = False) -> bytes:
    """Undo the codings of a body.

    :param body: the octets as they came.
    :param codings: the values of the Content-Encoding headers, in order.
    :param limit: octets of the result at most; what lies beyond is not produced.
    :param cut: the body was cut off on purpose, because it is longer than we read; its beginning counts.
    :raises DecodingError: an unknown coding, broken data, or data that break off although they were not cut: half a
        file must not open what the other half closes.
    """
    names = [name.strip().lower() for value in codings for name in value.split(b",") if name.strip()]
    if not names and body.startswith(_GZIP_MAGIC):
        names = [b"gzip"]  # no robots.txt begins like this; a server that sends a .gz file forgot to say so
    if len(names) > MAX_CODINGS:
        raise DecodingError(f"{len(names)} content codings")
    for name in reversed(names):
        if name not in _DECODERS:
            raise DecodingError(f"unknown content coding {name[:40].decode('latin-1')!r}")
        if body:
            body, whole = _DECODERS[name](body, limit)
            if not whole and not cut and len(body) < limit:
                raise DecodingError(f"the {name.decode('ascii')} data break off")
            cut = cut or len(body) >= limit
    return body[:limit]


def _inflate(body: bytes, limit: int, wbits: int) -> Decoded:
    output = bytearray()
    whole = False
    rest = body
    parts = 0
    try:
        # A gzip file may have several members, one after the other (RFC 1952, 2.2); what else follows is padding.
        while rest and len(output) < limit and not (whole and not _GZIP_MAGIC.startswith(rest[:2])):
            parts = _one_more(parts)
            member = zlib.decompressobj(wbits)
            output += member.decompress(rest, limit - len(output))
            whole = member.eof
            rest = member.unused_data if wbits == _GZIP else b""
    except zlib.error as error:
        raise DecodingError(str(error)) from None
    return bytes(output), whole


_GZIP_MAGIC = b"\x1f\x8b"


def _one_more(parts: int) -> int:
    if parts == MAX_PARTS:
        raise DecodingError(f"more than {MAX_PARTS} parts")
    return parts + 1


_GZIP = 16 + zlib.MAX_WBITS


def _gunzip(body: bytes, limit: int) -> Decoded:
    return _inflate(body, limit, _GZIP)


def _deflate(body: bytes, limit: int) -> Decoded:
    try:
        return _inflate(body, limit, zlib.MAX_WBITS)
    except DecodingError:
        return _inflate(body, limit, -zlib.MAX_WBITS)  # servers that leave the zlib wrapper out


def _import(*names: str) -> Any:  # noqa: ANN401 - a module without types, or None
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


def _unbrotli(body: bytes, limit: int) -> Decoded:
    brotli = _import("brotli", "brotlicffi")
    # Older versions cannot stop at a limit.
    if not hasattr(getattr(brotli, "Decompressor", None), "can_accept_more_data"):
        raise DecodingError("content coding 'br', and no brotli 1.2 or newer is installed")
    output = bytearray()
    try:
        decompressor = brotli.Decompressor()
        chunk = decompressor.process(body, output_buffer_limit=limit)
        while chunk and len(output) < limit:
            output += chunk
            chunk = b"" if decompressor.is_finished() else decompressor.process(b"", output_buffer_limit=limit)
    except brotli.error as error:
        raise DecodingError(str(error)) from None
    return bytes(output), decompressor.is_finished()


def _unzstd(body: bytes, limit: int) -> Decoded:
    zstd = _import("compression.zstd", "backports.zstd")
    if zstd is None:
        raise DecodingError("content coding 'zstd', and no library for it is installed")
    output = bytearray()
    whole = False
    parts = 0
    try:
        rest = body
        while rest and len(output) < limit:
            parts = _one_more(parts)
            frame = zstd.ZstdDecompressor()
            output += frame.decompress(rest, limit - len(output))
            whole = frame.eof
            rest = frame.unused_data if whole else b""
    except zstd.ZstdError as error:
        raise DecodingError(str(error)) from None
    return bytes(output), whole


_DECODERS: dict[bytes, Callable[[bytes, int], Decoded]] = {
    b"identity": lambda body, limit: (body[:limit], True),
    b"gzip": _gunzip,
    b"x-gzip": _gunzip,
    b"deflate": _deflate,
    b"br": _unbrotli,
    b"zstd": _unzstd,
}
