"""Text for people: a site's text made safe to print, counts, addresses without credentials."""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

_LAST_TIME = 253_402_300_799.0  # 9999-12-31: what is fresh for ever has a time, too

# Characters of an origin, a rule or a cause that are shown: they may have any length.
_LONGEST = 100


def printable(text: str) -> str:
    """Escape control characters in a site's text, so that they have no effect where it is shown."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def short(site_text: object) -> str:
    """Escape and shorten what may come from a site: it neither acts on a terminal nor fills it."""
    text = printable(str(site_text)[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def listed(items: Sequence[str], word: str = "and") -> str:
    """Return ``5, 15 and 45``."""
    return f" {word} ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def many(count: int, what: str) -> str:
    """Return a count with its noun, such as ``1 rule`` or ``2,000 rules``.

    :param what: the noun in the singular; its plural is made with an ``s``.
    """
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def without_credentials(text: str, instead: str = "") -> str:
    """Return a text without the user and the password of an address in it.

    It removes rather too much than too little: a password may have slashes and more than one ``@``.

    :param instead: what stands where they were.
    """
    # From the first colon of a word to its last @, looked for once a word: time is linear.
    text = re.sub(r"(?<!\S)([^\s:]*+:/{0,2})\S*@", rf"\1{instead}", text)
    return re.sub(r"(?i)\b(password|username)=[^&\s]*", r"\1=***", text)


def hidden(value: Any) -> Any:  # noqa: ANN401 - whatever a user may write
    """Return a value with ``***`` in place of the credentials in its addresses, to be shown."""
    if isinstance(value, str):
        return without_credentials(value, "***@")
    if isinstance(value, Mapping):
        return {hidden(key): hidden(item) for key, item in value.items()}
    return [hidden(item) for item in value] if isinstance(value, (list, tuple)) else value


def words_of(error: BaseException) -> str:
    """Return what an error says, on one line, without credentials."""
    try:
        return without_credentials(" ".join(str(error).split()))
    except Exception:  # noqa: BLE001 - a class of anybody's
        return ""


def error_text(error: Exception) -> str:
    """Return the class and the text of an error on one short line, without credentials."""
    text = printable(words_of(error))[:200]
    return f"{type(error).__name__}: {text}".removesuffix(": ")


def utc_text(seconds: float) -> str:
    """Return seconds since 1970 as ISO 8601 in UTC, with milliseconds."""
    time = datetime.fromtimestamp(min(seconds, _LAST_TIME), UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
