"""Decode a robots.txt's content codings (RFC 9110, 8.4) and remove markup added by a browser.

The output size is limited, which stops decompression bombs. Scrapy sends the same Accept-Encoding
header as for pages, so this module supports every coding that Scrapy may list there.
"""

import importlib
import re
import zlib
from collections.abc import Callable, Sequence
from typing import Any

from scrapy_robots_rfc.errors import DecodingError

#: Maximum codings per body, because each one multiplies the work a hostile server can cause.
MAX_CODINGS = 4

#: Maximum parts (gzip members, zstd frames) per body. Real bodies have one, or one per 64 KiB.
#: Thousands of empty parts would take a long time to decode without ever reaching the limit.
MAX_PARTS = 64

#: Maximum length of a coded body, as a multiple of the limit. No coding makes text much longer. A
#: longer body must contain empty blocks or comments, which only take time to decode.
MAX_EXPANSION = 4

#: The first bytes of gzip data.
GZIP_MAGIC = b"\x1f\x8b"

# Content-Encoding values that don't name a coding: an empty string, `none`, `binary`, `identity`,
# and character sets such as `utf-8`, `iso-8859-1` or `latin1`.
_names_no_coding = re.compile(
    rb"|none|binary|identity|utf-?(?:8|16|32)|iso-8859-\d{1,2}|latin-?1|(?:us-)?ascii|windows-125\d"
).fullmatch

# Bytes of zstd data to decode at once, because `zstandard` can't stop at a limit. Four bytes can
# encode a 128 KiB block, so this many produce at most 8 MiB.
_PIECE = 256

# The start of the page that Chromium, Firefox and WebKit create to show a text file. It contains
# `pre` for plain text, but not if the site serves its robots.txt as HTML. Line breaks aren't
# matched, so that rules that a site put inside a tag aren't lost.
_ATTRIBUTES = rb"[^<>\r\n]*"
_RENDERED = re.compile(
    rb"<html%b><head>(?:<(?:meta|link)%b>)*</head><body%b>(?:<pre%b>)?".replace(b"%b", _ATTRIBUTES)
)
# Escapes used by browsers. The order matters, because `&amp;lt;` stands for `&lt;` and not for `<`.
_ESCAPES = {b"&lt;": b"<", b"&gt;": b">", b"&nbsp;": "\xa0".encode(), b"&amp;": b"&"}
# The tags at the end of such a page, last one first.
_RENDERED_ENDS = b"</html>", b"</body>", b"</pre>"


def without_codings(body: bytes, codings: Sequence[bytes], limit: int) -> bytes:
    """Return the decoded body. If a browser turned the text into a page, extract the text.

    :param body: the bytes as received.
    :param codings: the values of the Content-Encoding headers, in order.
    :param limit: maximum number of bytes to produce.
    :raises DecodingError: if a coding is unknown, or if the data is corrupt or cut short before the
        limit, because half a file must not allow what the other half disallows.
    """
    listed = [name.strip() for name in b",".join(codings).lower().split(b",")]
    names = [name for name in listed if not _names_no_coding(name)]
    decoded = _decoded(body, names, limit)
    # Some servers send a .gz file unchanged. They omit the header, or it only lists a second coding
    # that was added for the transfer. A valid robots.txt never starts with these bytes. So decode
    # up to two layers of gzip that aren't listed, in case a .gz file was compressed once more.
    # Start from the body each time, because `decoded` ends at the limit.
    for _ in range(2):
        if decoded.startswith(GZIP_MAGIC):
            names.insert(0, b"gzip")  # the file was compressed before anything else
            decoded = _decoded(body, names, limit)
    if decoded.startswith(GZIP_MAGIC):
        raise DecodingError("gzip data inside gzip data")
    return _without_rendering(decoded)


def _decoded(body: bytes, names: Sequence[bytes], limit: int) -> bytes:
    """Decode a body, and return up to `limit` bytes of it.

    Anything after the limit is ignored, even if it is corrupt.

    :param body: the bytes as received. `Downloader` stops a transfer after one byte more than a
        coded body may have.
    :param names: the codings, in the order in which they were applied.
    :raises DecodingError: if the first `limit` bytes cannot be decoded.
    """
    if len(names) > MAX_CODINGS:
        raise DecodingError(f"too many content codings ({len(names)})")
    max_coded = MAX_EXPANSION * limit
    # Two problems that don't matter if there is enough output all the same.
    too_long = ""  # a coded body is so long that it must contain blocks without any output
    cut_short = ""  # the data of a coding ends early, or there is more output than `max_size`
    for stage, name in enumerate(reversed(names), 1):  # undo the last one first
        if name not in _DECODERS:
            raise DecodingError(f"unknown content coding {name[:40].decode('latin-1')!r}")
        if not body:  # even an empty file has a compressed form
            raise DecodingError(f"the {name.decode()} data is missing")
        if len(body) > max_coded:
            too_long = f"more than {max_coded} bytes of {name.decode()} data for so short a file"
        # One extra byte tells the next stage that its input is too long.
        max_size = limit if stage == len(names) else max_coded + 1
        try:
            body, is_whole = _DECODERS[name](body, max_size)
        except Exception as error:  # noqa: BLE001 - each library raises its own errors
            raise DecodingError(str(error)) from None
        # If `max_size` was reached, there is enough output, or the next stage sets `too_long`.
        if not is_whole and not cut_short:
            cut_short = f"the {name.decode()} data ends early"
    problem = too_long or cut_short
    # If the limit was reached, the part that may be missing isn't needed.
    if problem and len(body) < limit:
        raise DecodingError(problem)
    return body[:limit]


def _without_rendering(body: bytes) -> bytes:
    """Return the original text if a browser turned it into a page, or the body otherwise.

    If the tags were kept, the text's first line wouldn't be parsed. That is usually the User-agent
    line of a group, whose rules would be ignored.
    """
    page = _RENDERED.match(body)
    if page is None:
        return body
    text = body[page.end() :]
    for end in _RENDERED_ENDS:
        text = text.rstrip().removesuffix(end)
    for escape, character in _ESCAPES.items():  # in this order, see there
        text = text.replace(escape, character)
    return text


# Each of these decoders returns up to `max_size` bytes, and whether the data is complete. The data
# is never empty.


def _gzip(data: bytes, max_size: int) -> tuple[bytes, bool]:
    """Decode gzip data, which may contain several members (RFC 1952, 2.2) followed by padding."""
    output = b""
    for _ in range(MAX_PARTS):
        member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        output += member.decompress(data, max_size - len(output))
        data = member.unused_data
        if not member.eof or len(output) >= max_size or not data.startswith(GZIP_MAGIC):
            # A single byte left over may be the start of another member that was cut short.
            return output, member.eof and data != GZIP_MAGIC[:1]
    raise DecodingError(f"more than {MAX_PARTS} parts")


def _deflate(data: bytes, max_size: int) -> tuple[bytes, bool]:
    """Decode deflate data, with the zlib wrapper or without it, because some servers omit it."""
    # The zlib header identifies deflate and is a multiple of 31 (RFC 1950, 2.2).
    wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
    decompressor = zlib.decompressobj(zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
    return decompressor.decompress(data, max_size), decompressor.eof


def _brotli(data: bytes, max_size: int) -> tuple[bytes, bool]:
    """Decode brotli data with one of the libraries that Scrapy uses."""
    decompressor = _import("brotli", "brotlicffi").Decompressor()
    # Versions before 1.2 don't support a limit, so this raises. Scrapy doesn't use them either.
    return decompressor.process(data, output_buffer_limit=max_size), decompressor.is_finished()


def _zstd(data: bytes, max_size: int) -> tuple[bytes, bool]:
    """Decode zstd data. Like Scrapy, use Python 3.14's library, its backport or `zstandard`."""
    library = _import("compression.zstd", "backports.zstd", "zstandard")
    output = bytearray()
    for _ in range(MAX_PARTS):
        frame = library.ZstdDecompressor()  # decodes a single frame
        if library.__name__ == "zstandard":
            frame = frame.decompressobj()
        for start in range(0, len(data), _PIECE):
            end = start + _PIECE
            output += frame.decompress(data[start:end])
            if frame.eof or len(output) >= max_size:
                break
        data = frame.unused_data + data[end:]  # the rest of this piece, and all further pieces
        if not frame.eof or not data or len(output) >= max_size:
            return bytes(output[:max_size]), frame.eof
    raise DecodingError(f"more than {MAX_PARTS} parts")


def _import(*names: str) -> Any:  # noqa: ANN401 - a module without types
    """Return the first of the named modules that is installed."""
    for name in names:
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    raise DecodingError(f"none of these is installed: {', '.join(names)}")


_DECODERS: dict[bytes, Callable[[bytes, int], tuple[bytes, bool]]] = {
    b"gzip": _gzip,
    b"x-gzip": _gzip,
    b"deflate": _deflate,
    b"br": _brotli,
    b"zstd": _zstd,
}
