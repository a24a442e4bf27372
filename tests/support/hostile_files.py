"""robots.txt files that need much memory when they are parsed."""

from __future__ import annotations

from itertools import count
from string import ascii_letters, digits
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_CHARACTERS = ascii_letters + digits + "-_~."


def _name(number: int) -> str:
    """Return three characters, different ones for each number."""
    name = ""
    for _ in range(3):
        number, index = divmod(number, len(_CHARACTERS))
        name += _CHARACTERS[index]
    return name


#: The repeated line, by what it makes large.
LINES: dict[str, Callable[[int], str]] = {
    "prefixes": lambda number: f"allow:/{_name(number)}",
    "nested prefixes": lambda number: f"allow:/{'a' * number}",
    "wildcards": lambda number: f"allow:*{_name(number)}",
    "one literal": lambda number: f"allow:*{_name(number)}*abcd",
    "many wildcards": lambda number: f"allow:/{_name(number)}{'*a' * 40}",
    "escapes": lambda number: f"allow:*%26{_name(number)}",
    "many escapes": lambda number: f"allow:*{_name(number)}{'*%26' * 40}",
    "anchors": lambda number: f"allow:/{_name(number)}$",
    "non-ASCII": lambda number: f"allow:/ä{_name(number)}",
    "user agents": lambda number: f"useragent:{_name(number)}",
    "groups": lambda _: "useragent:*\nallow:/",
    "delays": lambda number: f"crawl-delay:{number}",
    "windows": lambda number: f"request-rate:1/{number} {number % 24:02}00-{number % 23:02}30",
    "visits": lambda number: f"visit-time:{number % 24:02}00-{number % 23:02}30",
    "records": lambda _: "a:b",
    "blank lines": lambda _: "",
}


def hostile(kind: str, size: int) -> bytes:
    """Return a file of about this size in bytes."""
    lines, length = ["User-agent: *"], 0
    for number in count():
        lines.append(LINES[kind](number))
        length += len(lines[-1]) + 1
        if length >= size:
            break
    return "\n".join(lines).encode() + b"\n"
