"""Addresses of stores, as users write them, and how they are said to people: without credentials.

In here: text in, text out. What an address opens is `opening.py`.
"""

from __future__ import annotations

import re

#: Before the path of an SQLite file: three slashes and a relative path, or four, the last of which is the path's own.
SQLITE = "sqlite:///"


def without_credentials(text: str, instead: str = "") -> str:
    """Return a text that may hold an address, without the user and the password of that.

    Too much is rather taken than too little: a password may hold slashes and more than one ``@``.

    :param instead: what stands where they were.
    """
    # From the first colon of a word to its last @, looked for once a word: time is linear, whatever stands there.
    text = re.sub(r"(?<!\S)([^\s:]*+:/{0,2})\S*@", rf"\1{instead}", text)
    return re.sub(r"(?i)\b(password|username)=[^&\s]*", r"\1=***", text)


def sqlite_path(address: str) -> str | None:
    """Return the path in the address of an SQLite file, as it stands there: no character of it means anything else.

    :returns: ``None`` for another address, or one without a path.
    """
    return address.removeprefix(SQLITE) or None if address.startswith(SQLITE) else None
