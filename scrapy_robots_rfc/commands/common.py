"""What the topics of `scrapy robots` share: output, URLs as people type them, files that are read.

Control characters in a site's text are escaped before they reach a terminal.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Any, TextIO, cast

from w3lib.url import safe_url_string

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.policy.origins import SCHEMES, Origin, Scheme, without_userinfo

#: The exit code where there is no answer: the command was stopped, or its arguments are wrong.
NO_ANSWER = 2
#: What stands for standard input on a command line.
STANDARD = "-"
#: What is wrong with a text that has no origin, and what to do; the schemes, for `--help`.
NO_URL = "no absolute URL of {} with a valid authority"
URL_ADVICE = "write it as SCHEME://HOST/PATH"
URL_HELP = f"absolute: {', '.join(SCHEMES)}, or a scheme of ROBOTS_SCHEMES"
#: Colours by their meaning: codes of ECMA-48, 8.3.117 (SGR).
GOOD, BAD, DOUBT, STRONG, FAINT = "32", "31", "33", "1", "2"

_PIECE = 65_536  # octets that are read at a time
#: What may be userinfo in a text that is no URL: all before the last `@`, except a scheme
#: (RFC 3986, 3.1).
_USERINFO = re.compile(
    r"\A(?!(?:data|mailto):[^/]|file:///)([A-Za-z][A-Za-z0-9+.-]*://)?.*@", re.DOTALL
)
#: What a request removes from its URL, or changes in it (WHATWG URL, 4.4).
_ODD = re.compile(r"[\x00-\x20\x7f\\]|\?(?:#|$)")


class Failed(Exception):  # noqa: N818 - it ends a command, with one line
    """A command cannot go on; its exit code is 1 where a store failed, or has not what is asked."""

    def __init__(self, text: str, code: int = NO_ANSWER) -> None:
        super().__init__(text)
        self.code = code


@dataclass(frozen=True, slots=True)
class Console:
    """Where a command reads and writes; the prefix begins each line on stderr."""

    stdin: TextIO
    stdout: TextIO
    stderr: TextIO
    prefix: str

    def print(self, text: str = "") -> None:
        """Print a line; a character that the encoding of stdout lacks is escaped."""
        encoding = self.stdout.encoding or "utf-8"
        self.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")

    def print_json(self, record: Mapping[str, Any]) -> None:
        """Print an object as one line of JSON, in ASCII."""
        self.stdout.write(json.dumps(record) + "\n")

    def fact(self, name: str, text: str, width: int = 10) -> None:
        """Print a name, in some columns, and a text, which is made safe."""
        self.print(f"  {self.paint(f'{name:<{width}}', FAINT)} {printable(text)}")

    def paint(self, text: str, *colours: str) -> str:
        """Return a text in colours, if stdout is a terminal that wants them (no-color.org)."""
        refused = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
        if not text or refused or not self.stdout.isatty():
            return text
        return f"\x1b[{';'.join(colours)}m{text}\x1b[0m"

    def complain(self, text: str) -> None:
        """Print a line on stderr. If that fails, too, only the exit code shows the error."""
        try:
            self.stderr.write(f"{self.prefix}: {printable(text)}\n")
            self.stderr.flush()
        except OSError:
            abandon(self.stderr)


#: Arguments of several topics.
AGENT: dict[str, Any] = {
    "--agent": {
        "metavar": "TOKEN",
        "action": "append",
        "help": "the crawler: a product token, or a User-Agent; A,B: A, or else B; as often as you"
        " like (default: the project's)",
    }
}
JSON: dict[str, Any] = {
    "--json": {"action": "store_true", "help": "print JSON, one object in a line for each answer"}
}


def abandon(stream: TextIO) -> None:
    """Discard what is left of an output: at its exit Python would fail to write it, too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def meaning(outcome: Outcome, cause: str, *, stale: bool) -> str:
    """Return a result with what follows for pages: ``unavailable (404): everything is allowed``."""
    return f"stale ({cause}): an earlier copy is obeyed" if stale else outcome.explained(cause)


def whole_number(value: object) -> int | None:
    """Return a whole number, or what a text says of one; ``None`` where no crawl counts so far."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def as_url(text: str) -> str:
    """Return a typed URL as a crawl requests it, without blanks around it for instance."""
    # Octets that are not UTF-8 are surrogates (PEP 383). They become escapes, by w3lib's handler.
    text = text.encode("utf-8", "surrogateescape").decode("utf-8", "percentencode")
    if _ODD.search(text):
        with contextlib.suppress(ValueError):
            requested = safe_url_string(text)
            if Origin.of(requested) is not None:
                return requested
    return text  # what cannot be requested is shown as it was typed


def origin_of(url: str, schemes: Mapping[str, Scheme] = SCHEMES) -> Origin:
    """Return the origin of a URL that has one of some schemes, or raise `Failed`."""
    origin = Origin.of(url, schemes)
    if origin is None:
        what = NO_URL.format(" or ".join(schemes))
        raise Failed(f"{stripped(url)} is {what}; {URL_ADVICE}")
    return origin


def stripped(url: str) -> str:
    """Return a URL without userinfo, or another text without what may be userinfo."""
    any_scheme = {url.partition("://")[0].lower(): Scheme(1)}
    is_text = Origin.of(url, any_scheme) is None
    return _USERINFO.sub(r"\1", url) if is_text else without_userinfo(url)


def is_url(source: str) -> bool:
    """Whether a source is a URL, and not the name of a file."""
    return source.partition("://")[0].lower() in SCHEMES and "://" in source


def source_name(source: str) -> str:
    """Return what a source is called for people: a URL has no userinfo."""
    if source == STANDARD:
        return "standard input"
    return stripped(source) if is_url(source) else source


@contextlib.contextmanager
def opened(source: str, console: Console) -> Iterator[BufferedReader]:
    """Open a file, or standard input, which stays open. An OSError becomes `Failed`."""
    try:
        if source == STANDARD:
            yield cast("BufferedReader", console.stdin.buffer)
        else:
            with Path(source).open("rb") as file:
                yield file
    except OSError as error:
        advice = "name another file, or - for standard input"
        raise Failed(f"{source_name(source)} cannot be read: {error.strerror}; {advice}") from error


def read(source: str, console: Console, max_size: float = math.inf) -> bytes:
    """Return the octets of a file or of standard input, one more than count at most."""
    found = bytearray()
    with opened(source, console) as file:
        # Piece by piece: memory for the whole limit, which may be huge, is never taken at once.
        while piece := file.read(int(min(max_size + 1 - len(found), _PIECE))):
            found += piece
    return bytes(found)
