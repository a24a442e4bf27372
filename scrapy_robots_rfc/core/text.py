"""Text for messages: a site's text made safe to print, counts, addresses without credentials."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_LAST_TIME = 253_402_300_799.0  # 9999-12-31, also for copies that never expire

# Maximum characters of an origin, a rule or a cause in a message.
_MAX_SHOWN = 100


def printable(text: str) -> str:
    """Escape control characters in a site's text, so that they have no effect on a terminal."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shorten(site_text: object) -> str:
    """Escape and shorten a site's text, so that it neither controls a terminal nor fills it."""
    text = printable(str(site_text)[: _MAX_SHOWN + 1])
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."


def join_items(items: Sequence[str], word: str = "and") -> str:
    """Join items as in ``5, 15 and 45``."""
    return f" {word} ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def pluralize(count: int, what: str) -> str:
    """Return a count with its noun, such as ``1 rule`` or ``2,000 rules``.

    :param what: the noun in the singular; its plural ends in ``s``.
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def without_credentials(text: str, instead: str = "") -> str:
    """Return a text without the user and the password of an address in it.

    It removes too much rather than too little, because a password may contain slashes and ``@``.

    :param instead: the text in their place.
    """
    # From the first colon of a word to its last @. Each word is searched once: time is linear.
    text = re.sub(r"(?<!\S)([^\s:]*+:/{0,2})\S*@", rf"\1{instead}", text)
    return re.sub(r"(?i)\b(password|username)=[^&\s]*", r"\1=***", text)


def masked(value: Any) -> Any:  # noqa: ANN401 - a value of any setting
    """Return a value with ``***`` instead of the credentials in its addresses."""
    if isinstance(value, str):
        return without_credentials(value, "***@")
    if isinstance(value, Mapping):
        return {masked(key): masked(item) for key, item in value.items()}
    return [masked(item) for item in value] if isinstance(value, (list, tuple)) else value


def message_of(error: BaseException) -> str:
    """Return the text of an error on one line, without credentials."""
    try:
        return without_credentials(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - a third-party class
        return ""


def error_text(error: Exception) -> str:
    """Return the class and the text of an error on one short line, without credentials."""
    text = printable(message_of(error))[:200]
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def utc_text(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC, with milliseconds."""
    time = datetime.fromtimestamp(min(seconds, _LAST_TIME), UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
