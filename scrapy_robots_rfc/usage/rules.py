"""Rules of a page: `X-Robots-Tag` header lines and robots metas. No standard defines them; `docs/page_rules.md` does.

Members are separated by commas. `NAME:` in front of a member limits it, and the members behind it,
to that crawler.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import NamedTuple

#: Names that are for every crawler, beside its own product tokens.
EVERYONE = frozenset({"*", "robots"})
#: Octets of all header lines together that are read, and characters of all metas together.
MAX_HEADERS = 65_536
#: Members of all header lines together that are read, and of all metas together.
MAX_MEMBERS = 500
#: Members that restrict.
RESTRICTS: frozenset[str] = frozenset({
    "nofollow", "noindex", "noarchive", "nocache", "nosnippet", "noimageindex", "notranslate", "noodp", "noyaca",
    "nositelinkssearchbox", "noai", "noimageai", "noml", "none",
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
    """A member that holds for this crawler.

    :param name: of a directive, in lower case; `none` is taken apart into the two that it means.
    :param value: of the directive; ``None`` where it has none.
    :param where: the header line or the meta that it stands in, as written.
    """

    name: str
    value: str | None
    where: str


@dataclass(frozen=True)
class PageRules:
    """What a page asks of this crawler.

    :param found: all that holds for it, in order of name.
    :param cut: whether the page has more of them than is read.
    """

    found: tuple[Found, ...] = ()
    cut: bool = False

    def __reduce__(self) -> tuple[type[PageRules], tuple[tuple[Found, ...], bool]]:
        """Leave out what `directives` stores: a user may pickle the rules of a page."""
        return type(self), (self.found, self.cut)

    @property
    def nofollow(self) -> bool:
        """Whether links of the page are not to be followed."""
        return "nofollow" in self.directives

    @property
    def noindex(self) -> bool:
        """Whether the page is not to be shown in an index."""
        return "noindex" in self.directives

    @property
    def noarchive(self) -> bool:
        """Whether no copy of the page is to be shown."""
        return "noarchive" in self.directives

    @cached_property
    def directives(self) -> Mapping[str, str | None]:
        """All directives, also unknown ones: name in lower case -> value.

        Of several values, the most restrictive.
        """
        values: dict[str, str | None] = {}
        for name, value, _ in self.found:
            known = values.get(name, value)
            values[name] = min(
                known, value, key=lambda one: (_rank(name, one or "") or 0.0, one or "")
            )
        return MappingProxyType(values)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The restrictions that another member permits. They hold all the same."""
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
    """Yield every member of a header line or of a meta's content, for whomever it is.

    :param text: the value of the header line, or of the attribute.
    """
    members = text.split(",", MAX_MEMBERS + 1)
    bot, at = "", 0
    while at < len(members):
        pieces, size = [piece.strip() for piece in members[at].split(":")], 1
        first = 0
        while first < len(pieces) - 1 and _is_prefix(pieces[first], pieces[first + 1]):
            bot, first = pieces[first] or bot, first + 1
        name, value = (
            pieces[first].lower(),
            ":".join(pieces[first + 1 :]) if first < len(pieces) - 1 else None,
        )
        if name == _UNTIL and value is not None:
            longer = ",".join(
                (value, *members[at + 1 : at + 2])
            ).strip()  # a comma stands behind the day of the week
            value, size = (longer, 2) if _seconds(longer) is not None else (value, 1)
        if name or value:
            yield _member(name, value, bot)
        at += size


def _is_prefix(name: str, following: str) -> bool:
    """Return whether what stands before a colon is the name of a crawler.

    No directive, and no hours of a time.
    """
    is_time = following[:2].isdigit() and _HOURS.search(name) is not None
    return not is_time and name.lower() not in _KNOWN


def _member(name: str, value: str | None, bot: str) -> Member:
    if name in VALUED:
        value = value if value is None or name == _UNTIL else value.lower()
        return Member(
            name,
            value,
            bot,
            "no valid value" if value is None or _rank(name, value) is None else "",
        )
    if name in _KNOWN:
        return Member(name, value, bot, "" if value is None else "takes no value")
    words = name.split() if value is None else []
    odd = (
        "spaces in place of commas"
        if len(words) > 1 and _KNOWN.issuperset(words)
        else "unknown directive"
    )
    return Member(name, value, bot, odd)


def _seconds(text: str) -> float | None:
    """Return a date of RFC 822, RFC 850 or ISO 8601 in seconds since 1970.

    ``None`` where it is none.
    """
    if len(text) > _DATE_SIZE:
        return None
    try:
        date = (
            parsedate_to_datetime(text)
            if _DATE.fullmatch(text)
            else datetime.fromisoformat(text.upper())
        )
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (
        ValueError,
        TypeError,
        OverflowError,
    ):  # TypeError: what `email.utils` raises for some of them
        return None


def _rules(sources: Iterable[tuple[str, str]], tokens: Sequence[str], now: float) -> PageRules:
    """Return what holds for this crawler of some texts, each with where it stands."""
    own = {*EVERYONE, "", *(token.lower() for token in tokens)}
    found = []
    left = MAX_MEMBERS
    for where, text in sources:
        # Empty members count, too: to pass over one takes as long as to read it.
        read, left = left, left - 1 - text.count(",")
        for member in islice(read_members(text), max(read, 0)):
            if member.bot.lower() not in own or (member.odd and member.name in _KNOWN):
                continue
            names = ("noindex", "nofollow") if member.name == "none" else (member.name,)
            if member.name == _UNTIL and (_seconds(member.value or "") or 0.0) <= now:
                names = (_UNTIL, "noindex")
            found += [
                Found(name, None if name == "noindex" else member.value, where) for name in names
            ]
        if left < 0:
            return _union(found, cut=True)
    return _union(found)


def _union(found: Iterable[Found], *, cut: bool = False) -> PageRules:
    return PageRules(
        tuple(sorted(set(found), key=lambda one: (one.name, one.value or "", one.where))), cut
    )


def parse_headers(values: Iterable[bytes], tokens: Sequence[str], *, now: float) -> PageRules:
    """Parse the `X-Robots-Tag` lines of a response; nothing is raised.

    :param values: the value of each line, in order; together, `MAX_HEADERS` octets and
        `MAX_MEMBERS` members are read.
    :param tokens: the product tokens of the crawler.
    :param now: seconds since 1970, to which `unavailable_after` is compared.
    """
    lines = list(values)
    rules = _rules(((f"X-Robots-Tag: {text}", text) for text in header_texts(lines)), tokens, now)
    return replace(rules, cut=True) if sum(map(len, lines)) > MAX_HEADERS else rules


def header_texts(values: Iterable[bytes]) -> Iterator[str]:
    """Yield the text of each header line, as far as it is read.

    Whole members within `MAX_HEADERS` octets.
    """
    left = MAX_HEADERS
    for octets in values:
        read = octets if len(octets) <= left else octets[: octets.rfind(b",", 0, left) + 1]
        left -= len(octets)
        yield read.decode("latin-1")
        if left <= 0:
            return


def parse_metas(
    pairs: Iterable[tuple[str, str]], tokens: Sequence[str], *, now: float
) -> PageRules:
    """Parse the robots metas of a document; nothing is raised.

    :param pairs: name and content of each meta, in order. Those of other names are passed over. Of
        all contents together, `MAX_MEMBERS` members are read.
    :param tokens: as for `parse_headers`.
    :param now: as for `parse_headers`.
    """
    own = {"robots", *(token.lower() for token in tokens)}
    named = ((name.strip(), content) for name, content in pairs)
    return _rules(
        ((f"meta {name}: {content}", content) for name, content in named if name.lower() in own),
        tokens,
        now,
    )


def combine(*rules: PageRules) -> PageRules:
    """Return the union of the restrictions of several sources."""
    return _union(
        (one for part in rules for one in part.found), cut=any(part.cut for part in rules)
    )
