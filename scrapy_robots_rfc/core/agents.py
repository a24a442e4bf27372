"""Parse crawler names from User-Agent headers, settings and user-agent lines (RFC 9309, 2.2.1).

`groups.py` finds the groups that match a name.
"""

import re
from functools import lru_cache
from string import ascii_letters
from typing import Any, NamedTuple

from scrapy_robots_rfc.core.header_names import names_in_header
from scrapy_robots_rfc.core.percent import to_octets
from scrapy_robots_rfc.core.text import lower_ascii

#: The request meta key and the spider attribute for setting the agent.
USER_AGENT_KEY = "robotstxt_user_agent"
#: Describes the values that `parse_agent` accepts, for use in error messages.
ACCEPTED = "a string, or a list of strings in order of preference"

#: The name in a user-agent line that matches all crawlers.
ANY = "*"

# The characters of a product token (RFC 9309, 2.2).
_TOKEN_CHARACTERS = f"{ascii_letters}-_"
# Splits a user-agent line or a setting at the end of the name: `FooBot2 (beta)`, `FooBot2, BarBot`.
_before_end = re.compile("[ \t/;,|]").split
# A character between the parts of a User-Agent header. A setting without any is a single name.
_has_separator = re.compile(r"[\s/();,]").search


def is_token(value: str) -> bool:
    """Return whether a string is a product token, which is made up of letters, `_` and `-`."""
    return value != "" and not value.strip(_TOKEN_CHARACTERS)


class GroupKey(NamedTuple):
    """A key for finding user-agent lines, either by product token or by full name.

    :param text: the token or the name, in lowercase.
    :param whole: True if `text` is a full name.
    """

    text: str
    whole: bool = False


#: The key for the group that applies to all crawlers.
ANY_KEY = GroupKey(ANY)


def _leading_token(full_name: str) -> str:
    """Return the token at the start of a full name, such as `grub-client` in `grub-client-1.0`."""
    rest = full_name.lstrip(_TOKEN_CHARACTERS)
    token = full_name.removesuffix(rest)
    # A token may end with `-`. But if a version follows, the `-` only separates the two.
    return token.rstrip("-_") if rest else token


def names_in_line(value: str) -> tuple[str, str]:
    """Return the product token and the full name from a user-agent line, in lowercase.

    The name ends at a space, tab, ``/``, ``;``, ``,`` or ``|``. The token ends at the first
    character that is not allowed in a token, or at the ``-`` or ``_`` before it. For example,
    ``bot-1/2.0`` has the token ``bot`` and the name ``bot-1``. Either may be empty. For ``*``, the
    name is empty, because ``*`` is not the full name of any crawler.

    :param value: the value of the line, decoded as Latin-1.
    """
    # As in Google's reference parser, `*` may be followed by whitespace and any text. It may also
    # be the first of several names.
    if value[:1] == ANY and value[1:2] in ("", *" \t\v\f;,|"):
        return ANY, ""
    name = lower_ascii(_before_end(value, 1)[0])
    return _leading_token(name), name


def crawler_keys(name: str) -> tuple[tuple[str, GroupKey], ...]:
    """Return the keys for finding a crawler's user-agent lines, in order of preference.

    A product token is compared with the token in each line, so ``bot`` also matches ``bot1``
    (2.2.1). A name that contains other characters is compared with full names. If none of them
    match, its leading token is compared with full names instead. For example, ``bot2`` matches
    ``bot2`` if the file contains it, or else ``bot``, but never ``bot1``.

    :returns: pairs of a name and its key. Names are spelled as in `name`.
    """
    if name == ANY:
        return ((ANY, ANY_KEY),)
    full_name = _before_end(name, 1)[0]
    if is_token(full_name):
        return ((full_name, GroupKey(full_name.lower())),)
    # A full name may contain non-ASCII characters. To find it in the file, convert it to the form
    # that `names_in_line` returns, which is decoded as Latin-1.
    return tuple(
        (spelling, GroupKey(lower_ascii(to_octets(spelling)), whole=True))
        for spelling in (full_name, _leading_token(full_name))
        if spelling
    )


@lru_cache(maxsize=1024)
def product_tokens(identification: str | bytes) -> tuple[str, ...]:
    """Return the crawler names in an identification string, in order of preference.

    A value without spaces, ``/``, ``,``, ``;`` or parentheses is returned unchanged. For a
    User-Agent header, see `names_in_header`.

    :param identification: a name or the value of a User-Agent header. Bytes are decoded as UTF-8.
    :returns: the names as written, or an empty tuple if there are none. In that case, only the
        ``*`` group can apply.
    """
    text = _to_text(identification)
    if text and not _has_separator(text):
        return (text,)
    spellings: dict[str, str] = {}
    for name in names_in_header(text):
        spellings.setdefault(name.lower(), name)
    return tuple(spellings.values())


def _to_text(identification: str | bytes) -> str:
    """Decode bytes as UTF-8, and strip whitespace."""
    if isinstance(identification, bytes):
        identification = identification.decode("utf-8", "replace")
    elif not isinstance(identification, str):
        raise TypeError(f"the agent must be a str or bytes, not {identification!r}")
    return identification.strip()


class Agent(NamedTuple):
    """The crawler's identity, which is matched against user-agent lines.

    :param tokens: the crawler's names, in order of preference. Without any, only the ``*`` group
        can apply.
    :param identification: the full identification string. Third-party parsers get it if there are
        no tokens.
    """

    tokens: tuple[str, ...]
    identification: str


#: The agent to use if the crawl does not send a User-Agent.
NO_AGENT = Agent((), "")


def parse_agent(value: object) -> Agent | None:
    """Parse a user-supplied value into an agent.

    :param value: a name, the value of a User-Agent header, or a list of either.
    :returns: `None` if the value is `None` or empty.
    :raises TypeError: if the value has any other type.
    """
    if value is None:
        return None
    names = tuple(value) if isinstance(value, (list, tuple)) else (value,)
    try:
        # Bytes are the value of a header, which isn't a list of names.
        return _agent_from_names(names, split_commas=isinstance(value, str))
    except TypeError:  # also for a name that can't be hashed
        raise TypeError(ACCEPTED) from None


@lru_cache(maxsize=1024)
def _agent_from_names(names: tuple[Any, ...], split_commas: bool) -> Agent | None:
    """Return an agent with the given names.

    :param split_commas: True if there is only one text, which may be a comma-separated list of
        names, as on the command line.
    :raises TypeError: if a name is neither a str nor bytes.
    """
    if not all(isinstance(name, (str, bytes)) for name in names):
        raise TypeError
    texts = [text for text in map(_to_text, names) if text]
    if split_commas and texts:
        # Do not split a User-Agent header that contains commas. If it was split, at least one part
        # would contain another separator, such as the space in `FooBot (Linux, x86)`.
        parts = [part.strip() for part in texts[0].split(",")]
        if not any(_has_separator(part) for part in parts):
            texts = [part for part in parts if part]
    if not texts:
        return None
    tokens = [token for text in texts for token in product_tokens(text)]
    return Agent(tuple(dict.fromkeys(tokens)), texts[0])
