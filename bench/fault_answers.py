"""The answers to requests for robots.txt in `bench.faults`, with their meaning in RFC 9309, 2.3.1.

The judge takes the meaning from here, not from the package.
"""

import asyncio
import gzip
import socket
import struct
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

#: The rules in the body apply (2.3.1.1).
RULES = "rules"
#: Everything is allowed (2.3.1.3), or the file is empty.
OPEN = "open"
#: Nothing is allowed, because the file is unreachable (2.3.1.4).
CLOSED = "closed"
#: RULES for a client that can read the answer, CLOSED for others.
EITHER = "either"

#: The name of the plain answer.
GOOD = "rules"
# Seconds of a slow answer, and of one that never ends.
_SLOW, _ENDLESS = 0.7, 30.0
_MEGABYTES = 10


@dataclass
class Line:
    """A connection on which an answer is sent.

    :param text: the rules.
    :param known: called before the client gets the bytes that complete the answer.
    :param hop: returns a URL that redirects a number of times before it leads to the rules. The
        second argument chooses whether redirects go to other origins.
    """

    writer: asyncio.StreamWriter
    text: bytes
    known: Callable[[], None]
    hop: Callable[[int, bool], str]

    async def send(self, data: bytes) -> None:
        """Send bytes."""
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, status: str, body: bytes = b"", **headers: str) -> None:
        """Send a whole answer."""
        self.known()
        await self.send(head(status, Content_Length=str(len(body)), **headers) + body)

    async def redirect(self, location: str) -> None:
        """Send a redirect, which does not complete the answer."""
        await self.send(head("302 Found", Location=location, Content_Length="0"))

    async def reset(self) -> None:
        """Reset the connection, after time for the client to read what was sent."""
        await asyncio.sleep(0.05)
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


def head(status: str, **headers: str) -> bytes:
    """Return the head of an answer. Header names have underscores instead of hyphens."""
    fields = (f"{name.replace('_', '-')}: {value}" for name, value in headers.items())
    return "\r\n".join((f"HTTP/1.1 {status}", *fields, "", "")).encode("latin-1")


@dataclass(frozen=True)
class Answer:
    """The meaning of an answer, and the function that sends it.

    :param status: some settings change the meaning of a status.
    """

    meaning: str
    send: Callable[[Line], Awaitable[None]]
    status: int = 200


def _body(
    change: Callable[[bytes], bytes], meaning: str = RULES, status: str = "200 OK", **headers: str
) -> Answer:
    """Return an answer whose body is made from the rules."""

    async def send(line: Line) -> None:
        await line.answer(status, await asyncio.to_thread(change, line.text), **headers)

    return Answer(meaning, send, int(status.split(maxsplit=1)[0]))


def _empty(status: str = "200 OK", meaning: str = OPEN, **headers: str) -> Answer:
    return _body(lambda _: b"", meaning, status, **headers)


def _status(status: str, meaning: str, **headers: str) -> Answer:
    body = b"User-agent: *\nAllow: /\n" if meaning == CLOSED else b"no"
    return _body(lambda _: body, meaning, status, **headers)


def _redirect(hops: int, meaning: str = RULES, *, away: bool = False) -> Answer:
    async def send(line: Line) -> None:
        await line.redirect(line.hop(hops - 1, away))

    return Answer(meaning, send)


def _leads(location: str, meaning: str = OPEN) -> Answer:
    return _empty("301 Moved", meaning, Location=location)


async def _drip(line: Line) -> None:
    start, end = line.text[:-1], line.text[-1:]
    await line.send(head("200 OK", Content_Length=str(len(line.text))))
    step = max(len(start) // 10, 1)
    for at in range(0, len(start), step):
        await line.send(start[at : at + step])
        await asyncio.sleep(_SLOW / (len(start) / step))
    line.known()
    await line.send(end)


async def _drip_on(line: Line) -> None:
    await line.send(head("200 OK", Content_Type="text/plain") + line.text)
    for _ in range(int(_ENDLESS / 0.1)):
        await line.send(b"#\n")
        await asyncio.sleep(0.1)


def _raw(make: Callable[[bytes], bytes], end: str, meaning: str = CLOSED) -> Answer:
    """Return an answer that sends bytes and then ends the connection.

    :param end: "reset", "close", "hang", or an empty string to keep the connection.
    """

    async def send(line: Line) -> None:
        if meaning != CLOSED:
            line.known()
        await line.send(make(line.text))
        if end == "reset":
            await line.reset()
        elif end == "close":
            line.writer.close()
        elif end == "hang":
            await asyncio.sleep(_ENDLESS)

    return Answer(meaning, send)


_CHUNKED_HEAD = head("200 OK", Transfer_Encoding="chunked")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def _chunked(text: bytes) -> bytes:
    return _CHUNKED_HEAD + _chunk(text[:9]) + _chunk(text[9:]) + b"0\r\n\r\n"


def _unframed(text: bytes) -> bytes:
    return head("200 OK", Connection="close") + text


def _longer(text: bytes) -> bytes:
    return head("200 OK", Content_Length=str(len(text) + 50)) + text


async def _hints(line: Line) -> None:
    line.known()
    await line.send(head("103 Early Hints", Link="</x>"))
    await line.answer("200 OK", line.text)


def _filling(megabytes: int) -> bytes:
    comments = (b"# " + b"x" * 997 + b"\n") * 1000 * megabytes
    return comments + b"User-agent: examplebot\nAllow: /\nDisallow: /a/1\n"


def _bomb(text: bytes) -> bytes:
    return gzip.compress(text + _filling(2 * _MEGABYTES), 1)


def _binary(text: bytes) -> bytes:
    line = bytes(range(256)).replace(b"\n", b"").replace(b"\r", b"") * 20
    return line + b"\n\x00\x01\x02:\n" + text


#: Name -> answer.
ANSWERS: dict[str, Answer] = {
    GOOD: _body(bytes),
    "203": _body(bytes, status="203 Non-Authoritative"),
    "206": _body(bytes, status="206 Partial"),
    "204": _empty("204 No Content"),
    "chunked": _raw(_chunked, "", RULES),
    "unframed": _raw(_unframed, "close", RULES),
    "empty": _empty(),
    "html": _body(
        lambda _: b"<html><body>no robots.txt: here</body></html>", OPEN, Content_Type="text/html"
    ),
    "cr": _body(lambda text: text.replace(b"\n", b"\r")),
    "bom": _body(lambda text: b"\xef\xbb\xbf" + text),
    "utf-16": _body(lambda text: text.decode().encode("utf-16")),
    "binary": _body(_binary, Content_Type="application/octet-stream"),
    "gzip": _body(gzip.compress, Content_Encoding="gzip"),
    "deflate": _body(zlib.compress, Content_Encoding="deflate"),
    "bomb": _body(_bomb, Content_Encoding="gzip"),
    "big": _body(lambda text: text + _filling(_MEGABYTES)),
    "drip": Answer(RULES, _drip),
    "huge-headers": _body(bytes, EITHER, X_Long="x" * 100_000),
    "many-headers": _body(bytes, EITHER, **{f"X_{n}": "x" * 50 for n in range(500)}),
    "early-hints": Answer(EITHER, _hints),
    "unknown-coding": _body(bytes, EITHER, Content_Encoding="zork"),
    "404": _status("404 Not Found", OPEN),
    "410": _status("410 Gone", OPEN),
    "400": _status("400 Bad Request", OPEN),
    "401": _status("401 Unauthorized", OPEN, WWW_Authenticate="Basic realm=x"),
    "403": _status("403 Forbidden", OPEN),
    "429": _status("429 Too Many Requests", OPEN),
    "429-after": _status("429 Too Many Requests", OPEN, Retry_After="1"),
    "407": _status("407 Proxy Authentication Required", CLOSED, Proxy_Authenticate="Basic realm=x"),
    "304": _status("304 Not Modified", CLOSED),
    "500": _status("500 Internal Server Error", CLOSED),
    "503": _status("503 Service Unavailable", CLOSED),
    "503-after": _status("503 Service Unavailable", CLOSED, Retry_After="1"),
    "503-garbled-after": _status("503 Service Unavailable", CLOSED, Retry_After="\xff soon"),
    "599": _status("599 Unknown", CLOSED),
    "hang": _raw(lambda _: b"", "hang"),
    "drip-on": Answer(CLOSED, _drip_on),
    "length-hangs": _raw(_longer, "hang"),
    "reset": _raw(lambda _: b"", "reset"),
    "closed": _raw(lambda _: b"", "close"),
    "reset-in-head": _raw(lambda _: b"HTTP/1.1 200 OK\r\nContent-Le", "reset"),
    "closed-in-head": _raw(lambda _: b"HTTP/1.1 200 OK\r\nContent-Le", "close"),
    "reset-in-length": _raw(_longer, "reset"),
    "closed-in-length": _raw(_longer, "close"),
    "reset-in-chunks": _raw(lambda text: _CHUNKED_HEAD + _chunk(text), "reset"),
    "closed-in-chunks": _raw(lambda text: _CHUNKED_HEAD + _chunk(text), "close"),
    # Some download handlers report the reset, others do not.
    "reset-unframed": _raw(_unframed, "reset", EITHER),
    "garbage": _raw(lambda _: b"\x16\x03\x01\x00garbage\r\n\r\nUser-agent: *\nAllow: /\n", "close"),
    "garbled-status": _raw(lambda _: b"HTTP/1.1 OK fine\r\n\r\n", "close"),
    "wrong-coding": _body(bytes, CLOSED, Content_Encoding="gzip"),
    "half-gzip": _body(lambda text: gzip.compress(text)[:-12], CLOSED, Content_Encoding="gzip"),
    **{f"redirects-{n}": _redirect(n, RULES if n <= 5 else OPEN) for n in range(1, 8)},
    "redirects-away-1": _redirect(1, away=True),
    "redirects-away-5": _redirect(5, away=True),
    "loop": _leads("/robots.txt"),
    "redirect-nowhere": _empty("301 Moved"),
    "redirect-file": _leads("file:///etc/passwd"),
    "redirect-ftp": _leads("ftp://127.0.0.1/robots.txt"),
    "redirect-garbled": _leads("http://[::1/x"),
    "redirect-dead": _leads("http://127.0.0.1:9/robots.txt", CLOSED),
    "redirect-503": _leads("/hop-503", CLOSED),
    "redirect-404": _leads("/hop-404"),
}
