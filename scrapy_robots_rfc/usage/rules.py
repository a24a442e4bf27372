"""Parse X-Robots-Tag headers, robots meta tags and TDMRep.

X-Robots-Tag and robots meta tags are not standardized, so `docs/page_rules.md` describes how we
interpret them. Members are separated by commas. If a member starts with `NAME:`, it and all later
members only apply to the crawler with that name.
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

#: Names that stand for all crawlers. An empty string means that no crawler is named.
EVERYONE = frozenset({"", "*", "robots"})
#: Maximum total number of characters and members in headers. The same limits apply to meta tags.
MAX_CHARACTERS, MAX_MEMBERS = 65_536, 500
#: Members that restrict a crawler.
RESTRICTS: frozenset[str] = frozenset({
    "nofollow", "noindex", "noarchive", "nocache", "nosnippet", "noimageindex", "notranslate",
    "noodp", "noyaca", "nositelinkssearchbox", "noai", "noimageai", "noml", "none",
})  # fmt: skip
#: Members that permit something -> the restrictions that contradict them.
PERMITS: dict[str, tuple[str, ...]] = {
    "all": ("noindex", "nofollow"),
    "index": ("noindex",),
    "follow": ("nofollow",),
    "archive": ("noarchive",),
    "indexifembedded": (),
}
# A date in RFC 822 or RFC 850 format, and a comment: "Wed, 03 Dec 2025 13:09:53 +0000 (UTC)".
_DATE = re.compile(
    r"(?:[a-z]{3,9}(?:,\s*|\s+))?\d{1,2}[ -][a-z]{3,9}[ -]\d{2,4}"
    r"(?:\s+\d{1,2}:\d\d(?::\d\d)?(?:\s*(?:[a-z]{1,5}|[+-]\d{4})(?:\s*\([a-z ]*\))?)?)?",
    re.IGNORECASE | re.ASCII,
)
# The hour at the end of the text before a colon: "13" in "3 Dec 2025 13".
_HOURS = re.compile(r"(?:^|[\sT])\d{1,2}\Z", re.IGNORECASE | re.ASCII)
# Maximum number of characters in a date.
_MAX_DATE = 64

#: The path of a site's TDMRep file.
TDMREP = "/.well-known/tdmrep.json"
#: Maximum size of a tdmrep.json file in bytes, number of its entries, and total size of its
#: locations in bytes. Parsing a hostile file of this size takes 10 ms. A larger file is ignored
#: entirely, because reading only part of it could give the wrong result.
MAX_TDMREP_BYTES, MAX_TDMREP_ENTRIES, MAX_LOCATION_BYTES = 131_072, 500, 16_384


class Member(NamedTuple):
    """A member of a header or meta tag.

    :param name: the name in lowercase. `PageRules` replaces `none` with `nofollow` and `noindex`.
    :param value: the text after the colon, or `None` if there is no colon.
    :param bot: the name of the crawler that it applies to, as written, or an empty string.
    :param problem: a human-readable description of a mistake, or an empty string.
    :param where: the header or meta tag that contains it, as written.
    """

    name: str
    value: str | None
    bot: str
    problem: str
    where: str


@dataclass(frozen=True, slots=True)
class PageRules:
    """The rules on a page that apply to this crawler.

    :param members: the members, sorted by name and with the most restrictive value first.
    :param cut: True if some members were ignored because the page contains too many.
    """

    members: tuple[Member, ...] = ()
    cut: bool = False

    @property
    def directives(self) -> Mapping[str, str | None]:
        """The most restrictive value for each directive, including unknown ones, keyed by name."""
        values: dict[str, str | None] = {}
        for member in self.members:
            values.setdefault(member.name, member.value)
        return MappingProxyType(values)

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Restrictions that are contradicted by another member. They still apply."""
        permitted = {name for member in self.members for name in PERMITS.get(member.name, ())}
        return tuple(sorted(permitted & self.directives.keys()))

    def where(self, directive: str) -> tuple[str, ...]:
        """Return the text of each header and meta tag that contains a directive."""
        places = (member.where for member in self.members if member.name == directive)
        return tuple(dict.fromkeys(places))


def _seconds(text: str) -> float | None:
    """Parse an RFC 822, RFC 850 or ISO 8601 date into a Unix timestamp, or return `None`."""
    if len(text) > _MAX_DATE:
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
    """Parse a limit, where -1 means infinity, or return `None` if it is not a number."""
    if re.fullmatch(r"-1|[0-9]{1,9}", text) is None:
        return None
    return math.inf if text == "-1" else float(text)


_UNTIL = "unavailable_after"
#: Directive that takes a value -> a function that ranks its values. The most restrictive value has
#: the lowest rank. For an invalid value, the function returns `None`.
_RANKS: dict[str, Callable[[str], float | None]] = {
    "max-snippet": _number,
    "max-image-preview": {"none": 0.0, "standard": 1.0, "large": 2.0}.get,
    "max-video-preview": _number,
    _UNTIL: _seconds,
}
_KNOWN = frozenset({*RESTRICTS, *PERMITS, *_RANKS})


def read_members(text: str, where: str = "") -> Iterator[Member]:
    """Yield all members in a header or meta tag, regardless of the crawler they apply to.

    :param text: the value of the header or the content of the meta tag.
    :param where: the header or meta tag, as written.
    """
    texts = deque(text.split(","))
    bot = ""
    while texts:
        pieces = deque(piece.strip() for piece in texts.popleft().split(":"))
        while len(pieces) > 1 and _is_bot_name(pieces[0], pieces[1]):
            bot = pieces.popleft() or bot
        name = pieces.popleft().lower()
        value = ":".join(pieces) if pieces else None
        if name == _UNTIL and value is not None and texts:
            # In a date, the day of the week is followed by a comma.
            longer = f"{value},{texts[0]}".strip()
            if _seconds(longer) is not None:
                value = longer
                texts.popleft()
        if name in _RANKS and name != _UNTIL and value is not None:
            value = value.lower()
        if name or value:
            yield Member(name, value, bot, _problem(name, value), where)


def _is_bot_name(before_colon: str, after_colon: str) -> bool:
    """Return whether the text before a colon is a crawler's name, not a directive or an hour."""
    is_time = after_colon[:2].isdigit() and _HOURS.search(before_colon) is not None
    return not is_time and before_colon.lower() not in _KNOWN


def _problem(name: str, value: str | None) -> str:
    """Return a description of the problem with a member, or an empty string if it is valid."""
    if name in _RANKS:
        is_valid = value is not None and _RANKS[name](value) is not None
        return "" if is_valid else "no valid value"
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
    """Combine the rules from all headers and meta tags on a page. This never raises.

    :param lines: the values of all X-Robots-Tag lines.
    :param metas: the names and contents of all meta tags. Tags for other crawlers are ignored.
    :param tokens: the crawler's product tokens.
    :param now: the current time as a Unix timestamp, to compare with `unavailable_after`.
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
        where = f"{source}: {text}"  # all members share this string, because it may be long
        for member in read_members(text, where):
            if member.bot.lower() in own | EVERYONE:
                members.update(_applied(member, now))
    return PageRules(tuple(sorted(members, key=_order)), are_headers_cut or are_metas_cut)


def _applied(member: Member, now: float) -> Iterator[Member]:
    """Expand a member into the directives that it stands for, or into nothing if it is invalid."""
    if member.problem and member.name in _KNOWN:
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
    """Truncate texts after the last complete member within the limits.

    :param sources: pairs of a source and a text.
    :returns: the sources with their truncated texts, and whether anything was removed.
    """
    characters, members = MAX_CHARACTERS, MAX_MEMBERS
    bounded = list[tuple[str, str]]()
    for source, text in sources:
        if not members:
            return bounded, True
        end = len(text)
        if end > characters:
            end = text.rfind(",", 0, characters) + 1
        # Empty members count towards the limit, because it takes time to skip them.
        kept = text[:end].split(",", members)[:members]
        bounded.append((source, ",".join(kept)))
        if bounded[-1] != (source, text):
            return bounded, True
        characters -= len(text)
        members -= len(kept)
    return bounded, False


# Preferences about use.


def page_preferences(rules: PageRules) -> Mapping[str, Preference]:
    """Return the preferences implied by `noai`, `noimageai` or `noml`, if any."""
    places = [place for name in ("noai", "noimageai", "noml") for place in rules.where(name)]
    return {TRAIN_AI: Preference(False, None, places[0])} if places else {}


def tdm_preferences(*sources: tuple[str, object]) -> Mapping[str, Preference]:
    """Return TDMRep preferences, where 1 means that text and data mining is reserved.

    :param sources: places and values from the file, the headers and the document, in this order.
        Later values override earlier ones, but values other than 0 and 1 are ignored.
    """
    preferences: Mapping[str, Preference] = {}
    for where, value in sources:
        # Check the type first, because `str` fails on deeply nested JSON.
        text = str(value).strip() if isinstance(value, (int, str)) else ""
        if text in ("0", "1"):
            preference = Preference(text == "0", None, f"{where}: {text}".replace("\n", " "))
            preferences = {TDM: preference, TRAIN_AI: preference}
    return preferences


class Reservation(NamedTuple):
    """An entry in a tdmrep.json file.

    :param location: the path pattern, as written.
    :param pattern: the parsed path pattern.
    :param reservation: the value of `tdm-reservation`, which may have any type.
    """

    location: str
    pattern: Pattern
    reservation: object


def parse_tdmrep(body: bytes) -> tuple[Reservation, ...]:
    """Parse a `/.well-known/tdmrep.json` file, ignoring malformed entries.

    :raises ValueError: if the file is too large, or is not a JSON array.
    """
    try:
        entries: Any = json.loads(body) if len(body) <= MAX_TDMREP_BYTES else None
    except (ValueError, RecursionError):
        raise ValueError("not JSON") from None
    if not isinstance(entries, list) or len(entries) > MAX_TDMREP_ENTRIES:
        raise ValueError(
            f"not an array of at most {MAX_TDMREP_ENTRIES} entries and {MAX_TDMREP_BYTES} bytes"
        )
    reservations = list[Reservation]()
    total = 0
    for entry in entries:
        location = entry.get("location") if isinstance(entry, dict) else None
        if isinstance(location, str):
            octets = to_octets(location)
            total += len(octets)
            if total > MAX_LOCATION_BYTES:
                raise ValueError(f"more than {MAX_LOCATION_BYTES} bytes of locations")
            value = entry.get("tdm-reservation")
            reservations.append(Reservation(location, parse_pattern(octets), value))
    return tuple(reservations)


def find_reservation(entries: Iterable[Reservation], url: str | bytes) -> list[tuple[str, object]]:
    """Return the index and value of the first entry that matches a URL, if any."""
    target = request_target(url)
    for entry in entries:
        if entry.pattern.matches(target):
            return [(f"{TDMREP} {entry.location}", entry.reservation)]
    return []
