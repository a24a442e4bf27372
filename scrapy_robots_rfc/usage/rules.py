"""Rules of a page: `X-Robots-Tag` header lines and robots metas.

No standard defines them, so `docs/page_rules.md` does. Members are separated by commas. `NAME:` in
front of a member says for which crawler it is, and those behind it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import NamedTuple

#: Names that are for every crawler, beside its own product tokens.
EVERYONE = frozenset({"*", "robots"})
#: Characters and members of all header lines together that are read, and as many of all metas.
MAX_CHARACTERS, MAX_MEMBERS = 65_536, 500
#: Members that restrict.
RESTRICTS: frozenset[str] = frozenset({
    "nofollow", "noindex", "noarchive", "nocache", "nosnippet", "noimageindex", "notranslate",
    "noodp", "noyaca", "nositelinkssearchbox", "noai", "noimageai", "noml", "none",
})  # fmt: skip
#: What each of these members permits; it restricts nothing.
PERMITS: dict[str, tuple[str, ...]] = {
    "all": ("noindex", "nofollow"),
    "index": ("noindex",),
    "follow": ("nofollow",),
    "archive": ("noarchive",),
    "indexifembedded": (),
}
_NUMBER = re.compile(r"-1|\d{1,9}", re.ASCII)
_IMAGE_PREVIEWS = {"none": 0, "standard": 1, "large": 2}
_UNTIL = "unavailable_after"
#: Directives with a value.
VALUED = frozenset({"max-snippet", "max-image-preview", "max-video-preview", _UNTIL})
_KNOWN = frozenset({*RESTRICTS, *PERMITS, *VALUED})

# A date of RFC 822 or RFC 850, with or without its time.
_DATE = re.compile(
    r"(?:[a-z]{3,9},?\s+)?\d{1,2}[ -][a-z]{3,9}[ -]\d{2,4}"
    r"(?:\s+\d{1,2}:\d\d(?::\d\d)?(?:\s*(?:[a-z]{1,5}|[+-]\d{4}))?)?",
    re.IGNORECASE | re.ASCII,
)
# What stands before the first colon of a time ends like this.
_HOURS = re.compile(r"(?:^|[\sT])\d{1,2}\Z", re.IGNORECASE | re.ASCII)
# Characters of the longest date that is read.
_DATE_SIZE = 64


class Member(NamedTuple):
    """One member of a header line or of a meta.

    :param name: in lower case.
    :param value: what stands behind its colon; ``None`` without one.
    :param bot: whom it is for, as written; empty for everyone.
    :param odd: what is wrong with it, in words for people; empty where nothing is.
    """

    name: str
    value: str | None
    bot: str
    odd: str = ""


class Found(NamedTuple):
    """A member that applies to this crawler.

    :param name: of a directive, in lower case; `none` is taken apart into the two that it means.
    :param value: of the directive; ``None`` where it has none.
    :param where: the header line or the meta that it stands in, as written.
    """

    name: str
    value: str | None
    where: str


@dataclass(frozen=True, slots=True)
class PageRules:
    """What a page asks of this crawler.

    :param found: all members that apply to it, in order of name.
    :param cut: whether the page has more of them than is read.
    """

    found: tuple[Found, ...] = ()
    cut: bool = False

    @property
    def directives(self) -> Mapping[str, str | None]:
        """All directives, also unknown ones: name in lower case -> value.

        Of several values, the most restrictive.
        """
        values: dict[str, str | None] = {}
        for name, value, _ in self.found:
            both = (values.get(name, value), value)
            values[name] = min(both, key=lambda one: (_rank(name, one or ""), one or ""))
        return MappingProxyType(values)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The restrictions that another member permits. They apply nevertheless."""
        permitted = {name for found in self.found for name in PERMITS.get(found.name, ())}
        return tuple(sorted(permitted & self.directives.keys()))

    def where(self, directive: str) -> tuple[str, ...]:
        """Return the header lines and metas, as written, in which a directive stands."""
        return tuple(dict.fromkeys(found.where for found in self.found if found.name == directive))


def _rank(name: str, value: str) -> float | None:
    """Return what orders the values of a directive, the most restrictive first.

    ``None`` where a value is not valid.
    """
    if name == _UNTIL:
        return _seconds(value)
    if name == "max-image-preview":
        return _IMAGE_PREVIEWS.get(value)
    if name not in VALUED:
        return 0.0
    return (math.inf if value == "-1" else float(value)) if _NUMBER.fullmatch(value) else None


def read_members(text: str) -> Iterator[Member]:
    """Yield every member of a header line or of a meta's content, whichever crawler it is for.

    :param text: the value of the header line, or of the attribute, as far as it is read.
    """
    members = text.split(",")
    bot = ""
    at = 0
    while at < len(members):
        pieces = [piece.strip() for piece in members[at].split(":")]
        at += 1
        first = 0
        while first < len(pieces) - 1 and _is_prefix(pieces[first], pieces[first + 1]):
            bot = pieces[first] or bot
            first += 1
        name, *values = pieces[first].lower(), *pieces[first + 1 :]
        value = ":".join(values) if values else None
        if name == _UNTIL and value is not None and at < len(members):
            # A comma stands behind the day of the week.
            longer = f"{value},{members[at]}".strip()
            if _seconds(longer) is not None:
                value = longer
                at += 1
        if name in VALUED and name != _UNTIL and value is not None:
            value = value.lower()
        if name or value:
            yield Member(name, value, bot, _odd(name, value))


def _is_prefix(name: str, following: str) -> bool:
    """Whether what stands before a colon names a crawler: no directive, and no hours of a time."""
    is_time = following[:2].isdigit() and _HOURS.search(name) is not None
    return not is_time and name.lower() not in _KNOWN


def _odd(name: str, value: str | None) -> str:
    """Return what is wrong with a member, in words for people; nothing where nothing is."""
    if name in VALUED:
        return "no valid value" if value is None or _rank(name, value) is None else ""
    if name in _KNOWN:
        return "" if value is None else "takes no value"
    words = name.split() if value is None else []
    if len(words) > 1 and _KNOWN.issuperset(words):
        return "spaces in place of commas"
    return "unknown directive"


def _seconds(text: str) -> float | None:
    """Return a date of RFC 822, RFC 850 or ISO 8601 in seconds since 1970; ``None``: it is none."""
    if len(text) > _DATE_SIZE:
        return None
    try:
        if _DATE.fullmatch(text):
            date = parsedate_to_datetime(text)
        else:
            date = datetime.fromisoformat(text.upper())
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError):  # `email.utils` raises TypeError for some dates
        return None


def parse_rules(
    lines: Iterable[bytes],
    metas: Iterable[tuple[str, str]],
    tokens: Sequence[str],
    *,
    now: float,
) -> PageRules:
    """Return the union of the restrictions of all sources; nothing is raised.

    :param lines: the value of each `X-Robots-Tag` line of a response, in order.
    :param metas: name and content of each meta, in order. Those of other names are passed over.
    :param tokens: the product tokens of the crawler.
    :param now: seconds since 1970, to which `unavailable_after` is compared.
    """
    own = {token.lower() for token in tokens}
    headers = [("X-Robots-Tag", line.decode("latin-1")) for line in lines]
    named = [
        (f"meta {name.strip()}", content)
        for name, content in metas
        if name.strip().lower() in own | {"robots"}
    ]
    found: set[Found] = set()
    cut = False
    for sources in (headers, named):
        texts, more = as_far_as_read(text for _, text in sources)
        cut = cut or more
        for (source, _), text in zip(sources, texts, strict=False):
            where = f"{source}: {text}"  # once: it may be long, and each member refers to it
            for member in read_members(text):
                if not member.bot or member.bot.lower() in own | EVERYONE:
                    found.update(_applied(member, where, now))
    ordered = sorted(found, key=lambda one: (one.name, one.value or "", one.where))
    return PageRules(tuple(ordered), cut)


def _applied(member: Member, where: str, now: float) -> Iterator[Found]:
    """Yield what a member that is for this crawler asks for."""
    if member.odd and member.name in _KNOWN:
        return
    if member.name == "none":
        yield Found("nofollow", None, where)
    else:
        yield Found(member.name, member.value, where)
    is_over = member.name == _UNTIL and (_seconds(member.value or "") or 0.0) <= now
    if is_over or member.name == "none":
        yield Found("noindex", None, where)


def as_far_as_read(texts: Iterable[str]) -> tuple[list[str], bool]:
    """Return texts up to the last whole member that is read, and whether there is more."""
    characters, members = MAX_CHARACTERS, MAX_MEMBERS
    read = list[str]()
    for text in texts:
        if members <= 0:
            return read, True
        whole = text if len(text) <= characters else text[: text.rfind(",", 0, characters) + 1]
        # Empty members count, too: to pass over one takes as long as to read it.
        found = whole.split(",", members)
        read.append(",".join(found[:members]))
        if read[-1] != text:
            return read, True
        characters -= len(text)
        members -= len(found)
    return read, False
