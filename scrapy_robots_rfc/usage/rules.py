"""Parse what pages and sites declare outside of robots.txt: rules of pages, and TDMRep.

No standard defines `X-Robots-Tag` header lines and robots metas; `docs/page_rules.md` says how they
are read. Commas separate members. `NAME:` before a member addresses it, and the members after it,
to one crawler. `page_rules.py` and `use.py` apply the results.
"""

import json
import math
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from scrapy_robots_rfc.core.percent import Pattern, parse_pattern, request_target, to_octets
from scrapy_robots_rfc.core.preferences import TDM, TRAIN_AI, Preference

#: Names that address every crawler; a member without a name does, too.
EVERYONE = frozenset({"", "*", "robots"})
#: Maximum characters and members that are read of all header lines together, and of all metas.
MAX_CHARACTERS, MAX_MEMBERS = 65_536, 500
#: Members that restrict.
RESTRICTS: frozenset[str] = frozenset({
    "nofollow", "noindex", "noarchive", "nocache", "nosnippet", "noimageindex", "notranslate",
    "noodp", "noyaca", "nositelinkssearchbox", "noai", "noimageai", "noml", "none",
})  # fmt: skip
#: Members that restrict nothing -> the restrictions that they contradict.
PERMITS: dict[str, tuple[str, ...]] = {
    "all": ("noindex", "nofollow"),
    "index": ("noindex",),
    "follow": ("nofollow",),
    "archive": ("noarchive",),
    "indexifembedded": (),
}
# A date of RFC 822 or RFC 850, with or without a time: "Wed, 03 Dec 2025 13:09:53 GMT".
_DATE = re.compile(
    r"(?:[a-z]{3,9},?\s+)?\d{1,2}[ -][a-z]{3,9}[ -]\d{2,4}"
    r"(?:\s+\d{1,2}:\d\d(?::\d\d)?(?:\s*(?:[a-z]{1,5}|[+-]\d{4}))?)?",
    re.IGNORECASE | re.ASCII,
)
# The end of the text before the first colon of a time: the hours of "3 Dec 2025 13:09".
_HOURS = re.compile(r"(?:^|[\sT])\d{1,2}\Z", re.IGNORECASE | re.ASCII)
# Maximum characters of a date.
_DATE_SIZE = 64

#: The path of a site's TDMRep file.
TDMREP = "/.well-known/tdmrep.json"
#: Maximum bytes, entries, and bytes of all locations of a tdmrep.json; to read that much takes ten
#: milliseconds if each byte is escaped. A larger file counts as unreadable. Its first entry that
#: matches decides, so part of a file says nothing.
MAX_TDMREP_BYTES, MAX_TDMREP_ENTRIES, MAX_LOCATION_BYTES = 131_072, 500, 16_384


class Member(NamedTuple):
    """One member of a header line or of a meta.

    :param name: the name in lower case. `PageRules` has `nofollow` and `noindex` for `none`.
    :param value: the text after its colon, or `None` if it has no colon.
    :param bot: the crawler that it is for, as written, or empty if it is for every crawler.
    :param odd: what is wrong with it, for users, or empty.
    :param where: the header line or the meta that contains it, as written.
    """

    name: str
    value: str | None
    bot: str
    odd: str
    where: str


@dataclass(frozen=True, slots=True)
class PageRules:
    """The rules of a page for this crawler.

    :param members: all members that apply, sorted by name, the most restrictive value first.
    :param cut: whether the page has more members than are read.
    """

    members: tuple[Member, ...] = ()
    cut: bool = False

    @property
    def directives(self) -> Mapping[str, str | None]:
        """All directives, also unknown ones: name in lower case -> the most restrictive value."""
        values: dict[str, str | None] = {}
        for member in self.members:
            values.setdefault(member.name, member.value)
        return MappingProxyType(values)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """The restrictions that another member contradicts. They still apply."""
        permitted = {name for member in self.members for name in PERMITS.get(member.name, ())}
        return tuple(sorted(permitted & self.directives.keys()))

    def where(self, directive: str) -> tuple[str, ...]:
        """Return the header lines and metas that contain a directive, as written."""
        places = (member.where for member in self.members if member.name == directive)
        return tuple(dict.fromkeys(places))


def _seconds(text: str) -> float | None:
    """Return the seconds since 1970 of an RFC 822, RFC 850 or ISO 8601 date, or `None`."""
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
    """Return the number of a limit, infinity for -1, or `None` if it is not a number."""
    if re.fullmatch(r"-1|[0-9]{1,9}", text) is None:
        return None
    return math.inf if text == "-1" else float(text)


_UNTIL = "unavailable_after"
#: Directive with a value -> the function that ranks its values, the most restrictive lowest. It
#: returns `None` for a value that is not valid.
_RANKS: dict[str, Callable[[str], float | None]] = {
    "max-snippet": _number,
    "max-image-preview": {"none": 0.0, "standard": 1.0, "large": 2.0}.get,
    "max-video-preview": _number,
    _UNTIL: _seconds,
}
_KNOWN = frozenset({*RESTRICTS, *PERMITS, *_RANKS})


def read_members(text: str, where: str = "") -> Iterator[Member]:
    """Yield every member of a header line or of a meta's content, for any crawler.

    :param text: the value of the header line or of the attribute.
    :param where: becomes part of the members.
    """
    texts = deque(text.split(","))
    bot = ""
    while texts:
        pieces = deque(piece.strip() for piece in texts.popleft().split(":"))
        while len(pieces) > 1 and _is_prefix(pieces[0], pieces[1]):
            bot = pieces.popleft() or bot
        name = pieces.popleft().lower()
        value = ":".join(pieces) if pieces else None
        if name == _UNTIL and value is not None and texts:
            # A date may contain a comma, after the day of the week.
            longer = f"{value},{texts[0]}".strip()
            if _seconds(longer) is not None:
                value = longer
                texts.popleft()
        if name in _RANKS and name != _UNTIL and value is not None:
            value = value.lower()
        if name or value:
            yield Member(name, value, bot, _odd(name, value), where)


def _is_prefix(name: str, following: str) -> bool:
    """Return whether the text before a colon names a crawler: not a directive, not hours."""
    is_time = following[:2].isdigit() and _HOURS.search(name) is not None
    return not is_time and name.lower() not in _KNOWN


def _odd(name: str, value: str | None) -> str:
    """Return what is wrong with a member, for users, or an empty text."""
    if name in _RANKS:
        return "" if value is not None and _RANKS[name](value) is not None else "no valid value"
    if name in _KNOWN:
        return "" if value is None else "takes no value"
    words = name.split() if value is None else []
    if len(words) > 1 and _KNOWN.issuperset(words):
        return "spaces instead of commas"
    return "unknown directive"


def parse_rules(
    lines: Iterable[bytes],
    metas: Iterable[tuple[str, str]],
    tokens: Sequence[str],
    *,
    now: float,
) -> PageRules:
    """Return the union of the restrictions of all sources; never raise.

    :param lines: the value of each `X-Robots-Tag` line of a response, in order.
    :param metas: name and content of each meta, in order. Metas for other crawlers are ignored.
    :param tokens: the product tokens of the crawler.
    :param now: seconds since 1970, compared with `unavailable_after`.
    """
    own = {token.lower() for token in tokens}
    headers, are_headers_cut = bounded_texts(
        ("X-Robots-Tag", line.decode("latin-1")) for line in lines
    )
    named_metas, are_metas_cut = bounded_texts(
        (f"meta {name.strip()}", content)
        for name, content in metas
        if name.strip().lower() in own | {"robots"}
    )
    members: set[Member] = set()
    for source, text in (*headers, *named_metas):
        where = f"{source}: {text}"  # one string for all its members, because it may be long
        for member in read_members(text, where):
            if member.bot.lower() in own | EVERYONE:
                members.update(_applied(member, now))
    return PageRules(tuple(sorted(members, key=_order)), are_headers_cut or are_metas_cut)


def _applied(member: Member, now: float) -> Iterator[Member]:
    """Yield the meaning of a member that is for this crawler; nothing if it is not valid."""
    if member.odd and member.name in _KNOWN:
        return
    if member.name == "none":
        yield member._replace(name="nofollow")
        yield member._replace(name="noindex")
        return
    yield member
    if member.name == _UNTIL and (_seconds(member.value or "") or 0.0) <= now:
        yield member._replace(name="noindex", value=None)


def _order(member: Member) -> tuple[str, float, str, str]:
    value = member.value or ""
    rank = _RANKS[member.name](value) if member.name in _RANKS else None
    return member.name, rank or 0.0, value, member.where


def bounded_texts(sources: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], bool]:
    """Return sources with their texts, up to the last whole member within the limits.

    Return also whether something is left out.
    """
    characters, members = MAX_CHARACTERS, MAX_MEMBERS
    bounded = list[tuple[str, str]]()
    for source, text in sources:
        if not members:
            return bounded, True
        whole = text if len(text) <= characters else text[: text.rfind(",", 0, characters) + 1]
        # Empty members count, too, because skipping one takes as long as reading it.
        kept = whole.split(",", members)[:members]
        bounded.append((source, ",".join(kept)))
        if bounded[-1] != (source, text):
            return bounded, True
        characters -= len(text)
        members -= len(kept)
    return bounded, False


# Preferences of use.


def page_preferences(rules: PageRules) -> Mapping[str, Preference]:
    """Return the preferences in rules of a page: `noai`, `noimageai`, `noml` refuse training."""
    places = [place for name in ("noai", "noimageai", "noml") for place in rules.where(name)]
    return {TRAIN_AI: Preference(False, None, places[0])} if places else {}


def tdm_preferences(*sources: tuple[str, object]) -> Mapping[str, Preference]:
    """Return the preferences of TDMRep: 1 reserves text and data mining and training, 0 does not.

    :param sources: places and values of file, header and document, in this order. Each overrides
        those before it, unless its value is neither 0 nor 1.
    """
    preferences: Mapping[str, Preference] = {}
    for where, value in sources:
        # `str` raises for deeply nested JSON.
        text = str(value).strip() if isinstance(value, (int, str)) else ""
        if text in ("0", "1"):
            preference = Preference(text == "0", None, f"{where}: {text}".replace("\n", " "))
            preferences = {TDM: preference, TRAIN_AI: preference}
    return preferences


class Reservation(NamedTuple):
    """One entry of a tdmrep.json.

    :param location: the path pattern, as written.
    :param pattern: the path pattern, parsed.
    :param reservation: the value of `tdm-reservation`, of any type.
    """

    location: str
    pattern: Pattern
    reservation: object


def parse_tdmrep(body: bytes) -> tuple[Reservation, ...]:
    """Parse a `/.well-known/tdmrep.json`; ignore entries that cannot be read.

    :raises ValueError: if it is not a JSON array, or too large.
    """
    try:
        entries: Any = json.loads(body) if len(body) <= MAX_TDMREP_BYTES else None
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(entries, list) or len(entries) > MAX_TDMREP_ENTRIES:
        raise ValueError(
            f"not an array of at most {MAX_TDMREP_ENTRIES} entries and {MAX_TDMREP_BYTES} bytes"
        )
    located = [
        (to_octets(entry["location"]), entry)
        for entry in entries
        if isinstance(entry, dict) and isinstance(entry.get("location"), str)
    ]
    if sum(len(location) for location, _ in located) > MAX_LOCATION_BYTES:
        raise ValueError(f"more than {MAX_LOCATION_BYTES} bytes of locations")
    return tuple(
        Reservation(entry["location"], parse_pattern(location), entry.get("tdm-reservation"))
        for location, entry in located
    )


def find_reservation(entries: Iterable[Reservation], url: str | bytes) -> list[tuple[str, object]]:
    """Return place and value of the first entry that matches a URL, or nothing."""
    target = request_target(url)
    for entry in entries:
        if entry.pattern.matches(target):
            return [(f"{TDMREP} {entry.location}", entry.reservation)]
    return []
