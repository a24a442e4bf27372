"""Decode the content codings of a robots.txt (RFC 9110, 8.4) and remove what a browser added.

The output is limited, which stops decompression bombs. Scrapy offers servers the same codings as
for a page, so this module knows each coding that Scrapy may offer.
"""

import importlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from scrapy_robots_rfc.errors import DecodingError

#: Maximum codings of a body: each one multiplies the work that a hostile server can cause.
MAX_CODINGS = 4

#: Maximum parts (gzip members, zstd frames) of a body. Real bodies have one, or one for each
#: 64 KiB. Thousands of empty parts would cost much time and never reach the limit.
MAX_PARTS = 64

#: How many times longer than the limit a coded body may be. No coding makes a text much longer. A
#: longer body has empty blocks or comments, which cost time and never reach the limit.
MAX_EXPANSION = 4

#: The first bytes of gzip data.
GZIP_MAGIC = b"\x1f\x8b"

# Values of Content-Encoding that name no coding: nothing, `none`, `binary`, and character sets such
# as `utf-8` or `iso-8859-1`.
_names_no_coding = re.compile(
    rb"|none|binary|identity|utf-?(?:8|16|32)|iso-8859-\d{1,2}|(?:us-)?ascii|windows-125\d"
).fullmatch

# Bytes of zstd data that are decoded at once: `zstandard` cannot stop at a limit. Four bytes can
# encode a block of 128 KiB, so these produce 8 MiB at most.
_PIECE = 256

# The beginning of the page that Chromium, Firefox and WebKit show for a text: with `pre` for plain
# text, without it if the site calls its robots.txt HTML. It has no line end, so that no rule that a
# site writes into a tag is lost.
_ATTRIBUTES = rb"[^<>\r\n]*"
_RENDERED = re.compile(
    rb"<html%b><head>(?:<(?:meta|link)%b>)*</head><body%b>(?:<pre%b>)?".replace(b"%b", _ATTRIBUTES)
)
# What a browser escapes, in this order: it writes `&lt;` as `&amp;lt;`, which must not become `<`.
_ESCAPES = {b"&lt;": b"<", b"&gt;": b">", b"&nbsp;": "\xa0".encode(), b"&amp;": b"&"}
# The end of such a page, from the last tag to the first.
_RENDERED_ENDS = b"</html>", b"</body>", b"</pre>"


def without_codings(body: bytes, codings: Sequence[bytes], limit: int) -> bytes:
    """Return a body without its codings; if a browser made a page of a text, return the text.

    :param body: the bytes as they came.
    :param codings: the values of the Content-Encoding headers, in order.
    :param limit: maximum bytes of the result; no more are produced.
    :raises DecodingError: if a coding is unknown, or the data are broken or end before the limit:
        half a file must not allow what the other half disallows.
    """
    listed = [name.strip() for name in b",".join(codings).lower().split(b",")]
    names = [name for name in listed if not _names_no_coding(name)]
    decoded = _decoded(body, names, limit)
    # Some servers send a .gz file as it is, without the header or with the header of its transfer.
    # No robots.txt begins with these bytes.
    for _ in range(2):
        if decoded.startswith(GZIP_MAGIC):
            names.insert(0, b"gzip")
            decoded = _decoded(body, names, limit)
    if decoded.startswith(GZIP_MAGIC):
        raise DecodingError("gzip data inside gzip data")
    return _without_rendering(decoded)


def _decoded(body: bytes, names: Sequence[bytes], limit: int) -> bytes:
    """Decode a body, and return up to `limit` bytes of it.

    Bytes after the limit do not count, so data may be damaged there.

    :param names: the codings in the order in which they were applied.
    :raises DecodingError: if the first `limit` bytes cannot be decoded.
    """
    if len(names) > MAX_CODINGS:
        raise DecodingError(f"too many content codings ({len(names)})")
    max_coded = MAX_EXPANSION * limit
    bomb = ""  # why the body is a decompression bomb
    damage = ""  # where it breaks off first
    for stage, name in enumerate(reversed(names), 1):
        if name not in _DECODERS:
            raise DecodingError(f"unknown content coding {name[:40].decode('latin-1')!r}")
        if not body:
            continue
        if len(body) > max_coded:
            bomb = f"more than {max_coded} bytes of {name.decode()} data for so short a file"
        # One byte too many shows the next stage that its input was cut.
        max_size = limit if stage == len(names) else max_coded + 1
        try:
            body, is_whole = _DECODERS[name](body, max_size)
        except Exception as error:  # noqa: BLE001 - each of the libraries has its own errors
            raise DecodingError(str(error)) from None
        if not is_whole:
            damage = damage or f"the {name.decode()} data break off"
    problem = bomb or damage
    if problem and len(body) < limit:
        raise DecodingError(problem)
    return body[:limit]


def _without_rendering(body: bytes) -> bytes:
    """Return the text of a page that a browser made of a text file, or the body of any other file.

    On such a page, the first line follows tags, so the first group would be lost.
    """
    page = _RENDERED.match(body)
    if page is None:
        return body
    text = body[page.end() :]
    for end in _RENDERED_ENDS:
        text = text.rstrip().removesuffix(end)
    for escape, character in _ESCAPES.items():
        text = text.replace(escape, character)
    return text


def _gzip(data: bytes, room: int) -> tuple[bytes, bool]:
    """Decode gzip data, which may have several members (RFC 1952, 2.2) and then padding."""
    output = b""
    for _ in range(MAX_PARTS):
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        output += member.decompress(data, room - len(output))
        data = member.unused_data
        if not member.eof or len(output) >= room or not data.startswith(GZIP_MAGIC):
            # A single byte may be the first one of another member.
            return output, member.eof and data != GZIP_MAGIC[:1]
    raise DecodingError(f"more than {MAX_PARTS} parts")


def _deflate(data: bytes, room: int) -> tuple[bytes, bool]:
    """Decode deflate with the zlib wrapper, or without it, as some servers send it."""
    # The header of zlib names deflate and is a multiple of 31 (RFC 1950, 2.2).
    wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
    decompressor = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
    return decompressor.decompress(data, room), decompressor.eof


def _brotli(data: bytes, room: int) -> tuple[bytes, bool]:
    """Decode brotli with either of the libraries that Scrapy uses."""
    decompressor = _import("brotli", "brotlicffi").Decompressor()
    # Versions before 1.2, which Scrapy does not use, have no limit and raise.
    return decompressor.process(data, output_buffer_limit=room), decompressor.is_finished()


def _zstd(data: bytes, room: int) -> tuple[bytes, bool]:
    """Decode zstd with a library that Scrapy uses: Python 3.14's, its backport or `zstandard`."""
    library = _import("compression.zstd", "backports.zstd", "zstandard")
    output = bytearray()
    for _ in range(MAX_PARTS):
        frame = library.ZstdDecompressor()
        if library.__name__ == "zstandard":
            frame = frame.decompressobj()
        for start in range(0, len(data), _PIECE):
            end = start + _PIECE
            output += frame.decompress(data[start:end])
            if frame.eof or len(output) >= room:
                break
        data = frame.unused_data + data[end:]
        if not frame.eof or not data or len(output) >= room:
            return bytes(output[:room]), frame.eof
    raise DecodingError(f"more than {MAX_PARTS} parts")


def _import(*names: str) -> Any:  # noqa: ANN401 - a module without types
    """Return the first of these modules that is installed."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise DecodingError(f"none of these is installed: {', '.join(names)}")


# Each decodes data up to a number of bytes, and returns the result and whether the data are whole.
_DECODERS: dict[bytes, Callable[[bytes, int], tuple[bytes, bool]]] = {
    b"gzip": _gzip,
    b"x-gzip": _gzip,
    b"deflate": _deflate,
    b"br": _brotli,
    b"zstd": _zstd,
}
