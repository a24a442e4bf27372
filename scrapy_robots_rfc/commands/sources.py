"""What a command reads: a file, standard input, or what a URL has."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.output import Failed

if TYPE_CHECKING:
    from scrapy_robots_rfc.commands.output import Console

#: Stands for standard input.
STANDARD = "-"


def is_url(source: str) -> bool:
    """Whether a source is to be fetched."""
    return source.lower().startswith(("http://", "https://"))


def read(source: str, console: Console) -> bytes:
    """Return the octets of a file or of standard input.

    :raises Failed: it cannot be read.
    """
    if source == STANDARD:
        return console.stdin.buffer.read()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise Failed(
            f"{source} cannot be read: {error.strerror}; name a file, a URL, or - for standard input", 2
        ) from error


def lines(source: str, console: Console) -> list[str]:
    """Return the lines of a file or of standard input, less blank ones and comments.

    :raises Failed: it cannot be read.
    """
    found = read(source, console).decode("utf-8", "surrogateescape").splitlines()
    return [line.strip() for line in found if line.strip() and not line.lstrip().startswith("#")]
