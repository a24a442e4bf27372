"""Helpers for formatting messages, which escape text from sites and hide credentials."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_LAST_TIME = 253_402_300_799.0  # the end of 9999-12-31, used for copies that never expire

# Maximum number of characters to show from an origin, rule or cause in a message.
_MAX_SHOWN = 100


def printable(text: str) -> str:
    """Escape control characters, so that text from a site cannot control the terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def lower_ascii(text: str) -> str:
    """Lowercase only the ASCII letters in text that was decoded as Latin-1."""
    return text.lower() if text.isascii() else text.encode("latin-1").lower().decode("latin-1")


def shorten(site_text: object) -> str:
    """Escape and truncate text from a site, so that it is safe to print."""
    text = printable(str(site_text)[: _MAX_SHOWN + 1])
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def join_items(items: Sequence[str], word: str = "and") -> str:
    """Join items into a phrase such as ``5, 15 and 45``."""
    if len(items) < 2:
        return "".join(items)
    return f"{', '.join(items[:-1])} {word} {items[-1]}"


def pluralize(count: int, noun: str) -> str:
    """Return a count and a noun, such as ``1 rule`` or ``2,000 rules``.

    :param noun: a singular noun whose plural ends in ``s``.
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def without_credentials(text: str, instead: str = "") -> str:
    """Remove user names and passwords from all addresses in a text.

    A password may contain slashes and ``@``, so this may also remove parts of the host.

    :param instead: a replacement for the user name and password.
    """
    # Remove everything from the first colon in a word to its last @, except for the slashes after
    # the colon: `https://user:password@a.example` becomes `https://a.example`. This takes linear
    # time, because each word is searched only once.
    text = re.sub(r"(?<!\S)([^\s:]*+:/{0,2})\S*@", rf"\1{instead}", text)
    # In the query of a URL: `?username=a&password=b`.
    return re.sub(r"(?i)\b(password|username)=[^&\s]*", r"\1=***", text)


def masked(value: Any) -> Any:  # noqa: ANN401 - any setting's value
    """Replace the credentials in all addresses in a value with ``***``."""
    if isinstance(value, str):
        return without_credentials(value, "***@")
    if isinstance(value, Mapping):
        return {masked(key): masked(item) for key, item in value.items()}
    return [masked(item) for item in value] if isinstance(value, (list, tuple)) else value


def message_of(error: BaseException) -> str:
    """Return an error's message on a single line, without credentials."""
    try:
        return without_credentials(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - a third-party `__str__` may fail
        return ""


def error_text(error: Exception) -> str:
    """Return an error's class and message on a single short line, without credentials."""
    text = printable(message_of(error))[:200]
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def ranked(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    """Return names with their counts, the highest first, and ties in the order of their names.

    :param counts: the count of each name. A name may be `None`.
    """
    return sorted(counts.items(), key=lambda item: (-item[1], item[0] or ""))


def utc_text(seconds: float) -> str:
    """Format a Unix timestamp as ISO 8601 in UTC, with milliseconds."""
    time = datetime.fromtimestamp(min(seconds, _LAST_TIME), UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
