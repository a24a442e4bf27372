"""What pages and sites declare outside of robots.txt: rules of a page, and TDMRep. Pure.

No standard defines `X-Robots-Tag` header lines and robots metas, so `docs/page_rules.md` does.
Members are separated by commas. `NAME:` in front of a member says for which crawler it is, and
those behind it. See `use.py` for what follows from both.
"""

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple

from scrapy_robots_rfc.core.percent import Pattern, parse_pattern, request_target, to_octets
from scrapy_robots_rfc.core.preferences import TDM, TRAIN_AI, Preference

#: For whom a member is that is for every crawler: these names, or none.
EVERYONE = frozenset({"", "*", "robots"})
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

#: The file of a site.
TDMREP = "/.well-known/tdmrep.json"
#: Octets of a tdmrep.json, its entries, and octets of all their locations, at most. So many take
#: ten milliseconds, if each octet is escaped. A larger file counts as one that cannot be read: its
#: first entry that matches decides, so a part of it says nothing.
MOST_TDMREP_OCTETS, MOST_TDMREP_ENTRIES, MOST_LOCATION_OCTETS = 131_072, 500, 16_384


class Member(NamedTuple):
    """One member of a header line or of a meta.

    :param name: in lower case. Of those that apply, `none` is taken apart into what it means.
    :param value: what stands behind its colon; ``None`` without one.
    :param bot: whom it is for, as written; empty for everyone.
    :param odd: what is wrong with it, in words for people; empty where nothing is.
    :param where: the header line or the meta that it stands in, as written.
    """

    name: str
    value: str | None
    bot: str
    odd: str
    where: str


@dataclass(frozen=True, slots=True)
class PageRules:
    """What a page asks of this crawler.

    :param found: all members that apply to it, in order of name, the most restrictive value first.
    :param cut: whether the page has more of them than is read.
    """

    found: tuple[Member, ...] = ()
    cut: bool = False

    @property
    def directives(self) -> Mapping[str, str | None]:
        """All directives, also unknown ones: name in lower case -> value.

        Of several values, the most restrictive.
        """
        values: dict[str, str | None] = {}
        for member in self.found:
            values.setdefault(member.name, member.value)
        return MappingProxyType(values)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The restrictions that another member permits. They apply nevertheless."""
        permitted = {name for member in self.found for name in PERMITS.get(member.name, ())}
        return tuple(sorted(permitted & self.directives.keys()))

    def where(self, directive: str) -> tuple[str, ...]:
        """Return the header lines and metas, as written, in which a directive stands."""
        places = (member.where for member in self.found if member.name == directive)
        return tuple(dict.fromkeys(places))


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


def _number(text: str) -> float | None:
    """Return a limit, -1 for none; ``None``: it is no number."""
    if re.fullmatch(r"-1|[0-9]{1,9}", text) is None:
        return None
    return math.inf if text == "-1" else float(text)


_UNTIL = "unavailable_after"
#: Directive with a value -> what orders its values, the most restrictive first. It returns ``None``
#: for one that is not valid.
_RANKS: dict[str, Callable[[str], float | None]] = {
    "max-snippet": _number,
    "max-image-preview": {"none": 0.0, "standard": 1.0, "large": 2.0}.get,
    "max-video-preview": _number,
    _UNTIL: _seconds,
}
_KNOWN = frozenset({*RESTRICTS, *PERMITS, *_RANKS})


def read_members(text: str, where: str = "") -> Iterator[Member]:
    """Yield every member of a header line or of a meta's content, whichever crawler it is for.

    :param text: the value of the header line, or of the attribute, as far as it is read.
    """
    left = deque(text.split(","))
    bot = ""
    while left:
        pieces = deque(piece.strip() for piece in left.popleft().split(":"))
        while len(pieces) > 1 and _is_prefix(pieces[0], pieces[1]):
            bot = pieces.popleft() or bot
        name = pieces.popleft().lower()
        value = ":".join(pieces) if pieces else None
        if name == _UNTIL and value is not None and left:
            # A comma stands behind the day of the week.
            longer = f"{value},{left[0]}".strip()
            if _seconds(longer) is not None:
                value = longer
                left.popleft()
        if name in _RANKS and name != _UNTIL and value is not None:
            value = value.lower()
        if name or value:
            yield Member(name, value, bot, _odd(name, value), where)


def _is_prefix(name: str, following: str) -> bool:
    """Whether what stands before a colon names a crawler: no directive, and no hours of a time."""
    is_time = following[:2].isdigit() and _HOURS.search(name) is not None
    return not is_time and name.lower() not in _KNOWN


def _odd(name: str, value: str | None) -> str:
    """Return what is wrong with a member, in words for people; nothing where nothing is."""
    if name in _RANKS:
        return "" if value is not None and _RANKS[name](value) is not None else "no valid value"
    if name in _KNOWN:
        return "" if value is None else "takes no value"
    words = name.split() if value is None else []
    if len(words) > 1 and _KNOWN.issuperset(words):
        return "spaces in place of commas"
    return "unknown directive"


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
    headers, more_headers = as_far_as_read(
        ("X-Robots-Tag", line.decode("latin-1")) for line in lines
    )
    named, more_metas = as_far_as_read(
        (f"meta {name.strip()}", content)
        for name, content in metas
        if name.strip().lower() in own | {"robots"}
    )
    found: set[Member] = set()
    for source, text in (*headers, *named):
        # The text is there once: it may be long, and each member refers to it.
        for member in read_members(text, f"{source}: {text}"):
            if member.bot.lower() in own | EVERYONE:
                found.update(_applied(member, now))
    return PageRules(tuple(sorted(found, key=_order)), more_headers or more_metas)


def _applied(member: Member, now: float) -> Iterator[Member]:
    """Yield what a member that is for this crawler asks for."""
    if member.odd and member.name in _KNOWN:
        return
    is_none = member.name == "none"
    yield member._replace(name="nofollow") if is_none else member
    if is_none or (member.name == _UNTIL and (_seconds(member.value or "") or 0.0) <= now):
        yield member._replace(name="noindex", value=None)


def _order(member: Member) -> tuple[str, float, str, str]:
    value = member.value or ""
    rank = _RANKS[member.name](value) if member.name in _RANKS else None
    return member.name, rank or 0.0, value, member.where


def as_far_as_read(sources: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], bool]:
    """Return texts, each with its source, up to the last whole member that is read.

    With whether there is more.
    """
    characters, members = MAX_CHARACTERS, MAX_MEMBERS
    read = list[tuple[str, str]]()
    for source, text in sources:
        if not members:
            return read, True
        whole = text if len(text) <= characters else text[: text.rfind(",", 0, characters) + 1]
        # Empty members count, too: to pass over one takes as long as to read it.
        found = whole.split(",", members)[:members]
        read.append((source, ",".join(found)))
        if read[-1] != (source, text):
            return read, True
        characters -= len(text)
        members -= len(found)
    return read, False


# Preferences of use.


def of_page(rules: PageRules) -> Mapping[str, Preference]:
    """Return what the rules of a page say: `noai`, `noimageai` and `noml` refuse training."""
    places = [place for name in ("noai", "noimageai", "noml") for place in rules.where(name)]
    return {TRAIN_AI: Preference(False, None, places[0])} if places else {}


def of_tdm(*sources: tuple[str, object]) -> Mapping[str, Preference]:
    """Return what TDMRep says: 1 reserves text and data mining and training, 0 permits them.

    :param sources: where a value stands, and the value, for file, header and document in this
        order: each one overrides those before it, unless its value is something else than 0 and 1.
    """
    found: Mapping[str, Preference] = {}
    for where, value in sources:
        # To make a text of deeply nested JSON would raise.
        text = str(value).strip() if isinstance(value, (int, str)) else ""
        if text in ("0", "1"):
            preference = Preference(text == "0", None, f"{where}: {text}".replace("\n", " "))
            found = {TDM: preference, TRAIN_AI: preference}
    return found


class Reservation(NamedTuple):
    """One entry of a tdmrep.json.

    :param location: the path pattern as the file has it.
    :param pattern: the same, parsed.
    :param reservation: its `tdm-reservation`, of any type.
    """

    location: str
    pattern: Pattern
    reservation: object


def parse_tdmrep(body: bytes) -> tuple[Reservation, ...]:
    """Parse a `/.well-known/tdmrep.json`; entries that cannot be read are passed over.

    :raises ValueError: it is no array of JSON, or too large; the text says which.
    """
    try:
        entries: Any = json.loads(body) if len(body) <= MOST_TDMREP_OCTETS else None
    except (ValueError, RecursionError):
        raise ValueError("no JSON") from None
    if not isinstance(entries, list) or len(entries) > MOST_TDMREP_ENTRIES:
        raise ValueError(
            f"no array of at most {MOST_TDMREP_ENTRIES} entries and {MOST_TDMREP_OCTETS} octets"
        )
    located = [
        (to_octets(entry["location"]), entry)
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("location"), str)
    ]
    if sum(len(location) for location, _ in located) > MOST_LOCATION_OCTETS:
        raise ValueError(f"more than {MOST_LOCATION_OCTETS} octets of locations")
    return tuple(
        Reservation(entry["location"], parse_pattern(location), entry.get("tdm-reservation"))
        for location, entry in located
    )


def reservation_of(entries: Iterable[Reservation], url: str | bytes) -> list[tuple[str, object]]:
    """Return where and what the file says of a URL, for `of_tdm`: its first entry that matches.

    It is empty where none does.
    """
    target = request_target(url)
    matching = (entry for entry in entries if entry.pattern.matches(target))
    return [(f"{TDMREP} {one.location}", one.reservation) for one in islice(matching, 1)]
