"""What sites declare about use outside of robots.txt: TDMRep, and rules of pages. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from scrapy_robots_rfc.core.percent import Pattern, parse_pattern, request_target, to_octets
from scrapy_robots_rfc.core.preferences import TDM, TRAIN_AI, Preference
from scrapy_robots_rfc.usage.rules import PageRules

#: Octets of a `/.well-known/tdmrep.json`, its entries, and octets of all their locations, at most.
#: So many take ten milliseconds, if each octet is escaped. A larger file counts as one that cannot
#: be read: its first entry that matches decides, so a part of it says nothing.
MOST_TDMREP_OCTETS, MOST_TDMREP_ENTRIES, MOST_LOCATION_OCTETS = 131_072, 500, 16_384


def of_page(rules: PageRules) -> Mapping[str, Preference]:
    """Return what the rules of a page say: `noai`, `noimageai` and `noml` refuse training."""
    for directive in ("noai", "noimageai", "noml"):
        if directive in rules.directives:
            return {TRAIN_AI: Preference(False, None, rules.where(directive)[0])}
    return {}


def of_tdm(*sources: tuple[str, object]) -> Mapping[str, Preference]:
    """Return what TDMRep says: 1 reserves text and data mining and training, 0 permits them.

    :param sources: where a value stands, and the value, for file, header and document in this
        order: each one overrides those before it, unless its value is something else than 0 and 1.
    """
    found: Mapping[str, Preference] = {}
    for where, value in sources:
        # To make a text of deeply nested JSON would raise.
        text = str(value).strip() if isinstance(value, (int, str)) else ""
        allowed = {"1": False, "0": True}.get(text)
        if allowed is not None:
            preference = Preference(allowed, None, f"{where}: {text}".replace("\n", " "))
            found = {TDM: preference, TRAIN_AI: preference}
    return found


class Reservation(NamedTuple):
    """One entry of `/.well-known/tdmrep.json`.

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


def reservation_of(entries: Iterable[Reservation], url: str | bytes) -> Reservation | None:
    """Return the first entry of the file, not the longest, whose location matches a URL."""
    target = request_target(url)
    return next((entry for entry in entries if entry.pattern.matches(target)), None)
