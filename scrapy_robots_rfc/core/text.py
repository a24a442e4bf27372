"""Text for people: what a site wrote, so that it cannot act on whoever reads it, and numbers of things.

In here: how a text is written. What is said stands where it is said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def printable(text: str) -> str:
    """Return a site's text for log lines, reports and terminals: no control character may act there."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def listed(items: Sequence[str]) -> str:
    """Return ``5, 15 and 45``."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def many(count: int, what: str) -> str:
    """Return a number of things.

    :param what: one of them, a word that takes an ``s`` where there are several.
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"
