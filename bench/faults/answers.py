"""The answers to requests for robots.txt, with their meaning in RFC 9309, 2.3.1.

The judge takes the meaning from here, not from the package. The answers differ in how the file
arrives, not in what it contains.
"""

import gzip
import zlib
from collections.abc import Callable
from typing import NamedTuple

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


class Answer(NamedTuple):
    """An answer.

    :param make: returns the bytes to send, from the rules of the site.
    :param end: "close" or "reset" ends the connection after them, "hang" keeps it open without the
        rest of the answer, "drip" sends them slowly, "drip-on" sends more without an end, and with
        "more", another request follows.
    :param status: some settings change the meaning of a status.
    """

    meaning: str
    make: Callable[[bytes], bytes]
    end: str = ""
    status: int = 200


def whole(status: str, body: bytes, **headers: str) -> bytes:
    """Return a complete answer. Header names have underscores instead of hyphens."""
    return head(status, Content_Length=str(len(body)), **headers) + body


def head(status: str, **headers: str) -> bytes:
    """Return the head of an answer."""
    fields = (f"{name.replace('_', '-')}: {value}" for name, value in headers.items())
    return "\r\n".join((f"HTTP/1.1 {status}", *fields, "", "")).encode("latin-1")


def _body(change: Callable[[bytes], bytes], meaning: str = RULES, **headers: str) -> Answer:
    return Answer(meaning, lambda text: whole("200 OK", change(text), **headers))


def _status(status: str, meaning: str = OPEN, **headers: str) -> Answer:
    body = b"User-agent: *\nAllow: /\n" if meaning == CLOSED else b""
    return Answer(meaning, lambda _: whole(status, body, **headers), status=int(status[:3]))


def _leads(location: str, meaning: str = OPEN) -> Answer:
    return _status("301 Moved", meaning, Location=location)


def _unframed(text: bytes) -> bytes:
    return head("200 OK", Connection="close") + text


def _longer(text: bytes) -> bytes:
    return head("200 OK", Content_Length=str(len(text) + 50)) + text


def _chunk(text: bytes) -> bytes:
    return head("200 OK", Transfer_Encoding="chunked") + b"%x\r\n%b\r\n" % (len(text), text)


def _long(text: bytes) -> bytes:
    comments = (b"# " + b"x" * 997 + b"\n") * 10_000
    return text + comments + b"User-agent: examplebot\nAllow: /\nDisallow: /a/1\n"


_OPEN = ("204 No", "300 Choices", "304 Not Modified", "400 Bad", "403 Forbidden", "404 Not Found")
_CLOSED = ("500 Server Error", "503 Service Unavailable", "599 Unknown")
_BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda _: b"",
    "head": lambda _: b"HTTP/1.1 200 OK\r\nContent-Le",
    "length": _longer,
    "chunks": _chunk,
}

#: Name -> answer.
ANSWERS: dict[str, Answer] = {
    GOOD: _body(bytes),
    "206": Answer(RULES, lambda text: whole("206 Partial", text), status=206),
    "chunked": Answer(RULES, lambda text: _chunk(text) + b"0\r\n\r\n"),
    "unframed": Answer(RULES, _unframed, "close"),
    "empty": _status("200 OK"),
    "gzip": _body(gzip.compress, Content_Encoding="gzip"),
    "deflate": _body(zlib.compress, Content_Encoding="deflate"),
    "bomb": _body(lambda text: gzip.compress(_long(text), 1), Content_Encoding="gzip"),
    "big": _body(_long),
    "drip": Answer(RULES, lambda text: whole("200 OK", text), "drip"),
    "huge-headers": _body(bytes, EITHER, X_Long="x" * 100_000),
    "many-headers": _body(bytes, EITHER, **{f"X_{n}": "x" * 50 for n in range(500)}),
    "early-hints": Answer(
        EITHER, lambda text: head("103 Early Hints", Link="</x>") + whole("200 OK", text)
    ),
    "unknown-coding": _body(bytes, EITHER, Content_Encoding="zork"),
    **{status[:3]: _status(status) for status in _OPEN},
    "401": _status("401 Unauthorized", WWW_Authenticate="Basic realm=x"),
    "429": _status("429 Too Many Requests", Retry_After="1"),
    "407": _status("407 Proxy Authentication Required", CLOSED, Proxy_Authenticate="Basic realm=x"),
    **{status[:3]: _status(status, CLOSED) for status in _CLOSED},
    "503-after": _status("503 Service Unavailable", CLOSED, Retry_After="1"),
    "503-garbled-after": _status("503 Service Unavailable", CLOSED, Retry_After="\xff soon"),
    "hang": Answer(CLOSED, lambda _: b"", "hang"),
    "drip-on": Answer(CLOSED, _unframed, "drip-on"),
    "length-hangs": Answer(CLOSED, _longer, "hang"),
    **{f"reset-in-{name}": Answer(CLOSED, make, "reset") for name, make in _BROKEN.items()},
    **{f"close-in-{name}": Answer(CLOSED, make, "close") for name, make in _BROKEN.items()},
    # Some download handlers report the reset, others do not.
    "reset-unframed": Answer(EITHER, _unframed, "reset"),
    "garbled-status": Answer(CLOSED, lambda _: b"HTTP/1.1 OK fine\r\n\r\n", "close"),
    "wrong-coding": _body(bytes, CLOSED, Content_Encoding="gzip"),
    "half-gzip": _body(lambda text: gzip.compress(text)[:-12], CLOSED, Content_Encoding="gzip"),
    "redirect": Answer(RULES, lambda _: whole("302 Found", b"", Location="/moved/rules"), "more"),
    "loop": _leads("/robots.txt"),
    "redirect-nowhere": _status("301 Moved"),
    "redirect-file": _leads("file:///etc/passwd"),
    "redirect-ftp": _leads("ftp://127.0.0.1/robots.txt"),
    "redirect-garbled": _leads("http://[::1/x"),
    "redirect-dead": _leads("http://127.0.0.1:9/robots.txt", CLOSED),
    "redirect-503": _leads("/moved/503", CLOSED),
    "redirect-404": _leads("/moved/404"),
}
