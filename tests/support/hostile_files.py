"""robots.txt files that are made to fill the memory: of what is small in a file and large when it
is read.

The tests that read them say what they may cost.
"""

from __future__ import annotations

from itertools import count
from string import ascii_letters, digits
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_SIGNS = ascii_letters + digits + "-_~."


def _name(number: int) -> str:
    """Three signs, another three for each number."""
    signs = []
    for _ in range(3):
        number, sign = divmod(number, len(_SIGNS))
        signs.append(_SIGNS[sign])
    return "".join(signs)


#: What is repeated, by what it is to swell.
LINES: dict[str, Callable[[int], str]] = {
    "prefixes": lambda number: f"allow:/{_name(number)}",
    "nested prefixes": lambda number: f"allow:/{'a' * number}",
    "wildcards": lambda number: f"allow:*{_name(number)}",
    "one literal": lambda number: f"allow:*{_name(number)}*abcd",
    "many wildcards": lambda number: f"allow:/{_name(number)}{'*a' * 40}",
    "escapes": lambda number: f"allow:*%26{_name(number)}",
    "many escapes": lambda number: f"allow:*{_name(number)}{'*%26' * 40}",
    "anchors": lambda number: f"allow:/{_name(number)}$",
    "octets": lambda number: f"allow:/ä{_name(number)}",
    "user agents": lambda number: f"useragent:{_name(number)}",
    "groups": lambda _: "useragent:*\nallow:/",
    "delays": lambda number: f"crawl-delay:{number}",
    "windows": lambda number: f"request-rate:1/{number} {number % 24:02}00-{number % 23:02}30",
    "visits": lambda number: f"visit-time:{number % 24:02}00-{number % 23:02}30",
    "records": lambda _: "a:b",
    "blank lines": lambda _: "",
}


def hostile(kind: str, octets: int) -> bytes:
    """A file of about so many octets."""
    lines, size = ["User-agent: *"], 0
    for number in count():
        lines.append(LINES[kind](number))
        size += len(lines[-1]) + 1
        if size >= octets:
            break
    return "\n".join(lines).encode() + b"\n"
