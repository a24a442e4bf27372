"""Decodes the content codings of a robots.txt (RFC 9110, 8.4), up to a limit for bombs, too.

Scrapy offers servers the same codings as for a page, so each coding that Scrapy may offer has to be
known here. What a browser made of the text is undone, too.
"""

import importlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from scrapy_robots_rfc.errors import DecodingError

#: The most codings that an answer may name: each one multiplies the work that a hostile server can
#: cause.
MAX_CODINGS = 4

#: The most parts (gzip members, zstd frames) of a body. Real ones have one, or one for each 64 KiB.
#: Thousands of empty parts would cost much time and never reach the limit.
MAX_PARTS = 64

#: How many times longer than the limit a coded body may be. No coding makes a text much longer. A
#: body that is longer all the same has empty blocks or comments, which cost time and never reach
#: the limit.
MAX_EXPANSION = 4

#: The first octets of gzip data.
GZIP_MAGIC = b"\x1f\x8b"

# Octets of zstd data that are decoded at once: `zstandard` cannot stop at a limit. Four can stand
# for a block of 128 KiB, so these give 8 MiB at most.
_PIECE = 256

# How the page begins that Chromium, Firefox and WebKit show for a text: with `pre` for plain text,
# without it where the site calls its robots.txt HTML. There is no line end in it, so that no rule
# that a site writes into a tag is lost. And how the page ends, and what a browser escapes.
_ATTRIBUTES = rb"[^<>\r\n]*"
_RENDERED = re.compile(
    rb"<html%b><head>(?:<(?:meta|link)%b>)*</head><body%b>(?:<pre%b>)?".replace(b"%b", _ATTRIBUTES)
)
# In this order: what a browser wrote as `&amp;lt;` was `&lt;`, and must not become `<`.
_ESCAPES = {b"&lt;": b"<", b"&gt;": b">", b"&nbsp;": "\xa0".encode(), b"&amp;": b"&"}
_RENDERED_ENDS = b"</html>", b"</body>", b"</pre>"


def without_codings(body: bytes, codings: Sequence[bytes], limit: int) -> bytes:
    """Return a body without its codings; if a browser made a page of a text, return the text.

    :param body: the octets as they came.
    :param codings: the values of the Content-Encoding headers, in order.
    :param limit: octets of the result at most; what lies beyond is not produced.
    :raises DecodingError: an unknown coding, broken data, or data that break off before the limit:
        half a file must not open what the other half closes.
    """
    named = b",".join(codings).lower().split(b",")
    names = [name.strip() for name in named if name.strip()]
    if len(names) > MAX_CODINGS:
        raise DecodingError(f"{len(names)} content codings")
    # Some servers send a .gz file without the header. No robots.txt begins with these octets.
    if not names and body.startswith(GZIP_MAGIC):
        names = [b"gzip"]
    longest = MAX_EXPANSION * limit
    fault = ""
    for stage, name in enumerate(reversed(names), 1):
        if name not in _DECODERS:
            raise DecodingError(f"unknown content coding {name[:40].decode('latin-1')!r}")
        taken = len(body)
        most = limit if stage == len(names) else longest + 1
        if body:
            try:
                body, whole = _DECODERS[name](body, most)
            except Exception as error:  # noqa: BLE001 - each of the libraries has errors of its own
                raise DecodingError(str(error)) from None
            if taken > longest:
                fault = f"more than {longest} octets of {name.decode()} data for so short a file"
            elif not whole:
                fault = fault or f"the {name.decode()} data break off"
    if fault and len(body) < limit:
        raise DecodingError(fault)
    return _without_rendering(body[:limit])


def _without_rendering(body: bytes) -> bytes:
    """If a browser made a page of a text, return the text; otherwise return the body as it is.

    In such a page the first line stands behind tags, so that the first group would be lost.
    """
    found = _RENDERED.match(body)
    if found is None:
        return body
    text = body[found.end() :]
    for end in _RENDERED_ENDS:
        text = text.rstrip().removesuffix(end)
    for escape, octets in _ESCAPES.items():
        text = text.replace(escape, octets)
    return text


def _gzip(data: bytes, room: int) -> tuple[bytes, bool]:
    """A file may have several members (RFC 1952, 2.2); anything else after one is padding."""
    output = b""
    for _ in range(MAX_PARTS):
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        output += member.decompress(data, room - len(output))
        data = member.unused_data
        if not member.eof or len(output) >= room or not data.startswith(GZIP_MAGIC):
            # One octet may be the first one of another member.
            return output, member.eof and data != GZIP_MAGIC[:1]
    raise DecodingError(f"more than {MAX_PARTS} parts")


def _deflate(data: bytes, room: int) -> tuple[bytes, bool]:
    """Deflate with the zlib wrapper, or without it, as some servers send it."""
    # The header of zlib says deflate, and is a multiple of 31 (RFC 1950, 2.2).
    wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
    decompressor = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
    return decompressor.decompress(data, room), decompressor.eof


def _brotli(data: bytes, room: int) -> tuple[bytes, bool]:
    decompressor = _import("brotli", "brotlicffi").Decompressor()
    # Versions before 1.2, which Scrapy does not use, know no limit, and raise.
    return decompressor.process(data, output_buffer_limit=room), decompressor.is_finished()


def _zstd(data: bytes, room: int) -> tuple[bytes, bool]:
    """Zstandard, by a library that Scrapy uses: that of Python 3.14, its backport, `zstandard`."""
    library = _import("compression.zstd", "backports.zstd", "zstandard")
    output = bytearray()
    for _ in range(MAX_PARTS):
        frame = library.ZstdDecompressor()
        if library.__name__ == "zstandard":
            frame = frame.decompressobj()
        for at in range(0, len(data), _PIECE):
            output += frame.decompress(data[at : at + _PIECE])
            if frame.eof or len(output) >= room:
                break
        data = frame.unused_data + data[at + _PIECE :]
        if not frame.eof or not data or len(output) >= room:
            return bytes(output[:room]), frame.eof
    raise DecodingError(f"more than {MAX_PARTS} parts")


def _import(*names: str) -> Any:  # noqa: ANN401 - a module without types
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise DecodingError(f"none of these is installed: {', '.join(names)}")


# Each decodes data, up to so many octets, and returns the result, and whether the data came to
# their own end.
_DECODERS: dict[bytes, Callable[[bytes, int], tuple[bytes, bool]]] = {
    b"identity": lambda data, _room: (data, True),
    b"gzip": _gzip,
    b"x-gzip": _gzip,
    b"deflate": _deflate,
    b"br": _brotli,
    b"zstd": _zstd,
}
