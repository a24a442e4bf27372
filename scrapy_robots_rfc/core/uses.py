"""Apply a site's preferences to the uses that a crawl declares, and read them from HTTP headers."""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches

from scrapy_robots_rfc.core.decision import Refusal
from scrapy_robots_rfc.core.preferences import (
    LABEL_MEANT,
    LABELS,
    MAX_BYTES,
    Preference,
    combined,
    parse_signal,
    parse_usage,
    with_source,
)
from scrapy_robots_rfc.core.text import join_items, printable

# Maximum number of characters to show from a record, header line or meta tag in a message.
_MAX_SHOWN = 200


def unknown_labels(uses: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each unknown label together with a hint that names a similar or all known labels."""
    for label in uses:
        if label not in LABELS:
            similar = get_close_matches(label, [*LABELS, *LABEL_MEANT], n=1)
            meant = [LABEL_MEANT.get(name, name) for name in similar]
            yield label, f"did you mean {meant[0]}?" if meant else f"known: {', '.join(LABELS)}"


def find_refusal(uses: Iterable[str], preferences: Mapping[str, Preference]) -> Refusal | None:
    """Return a refusal if the site disallows any of the given uses, or `None` otherwise."""
    refused: dict[Preference, list[str]] = {}
    for use in uses:
        preference = preferences.get(use)
        if preference is not None and preference.allowed is False:
            refused.setdefault(preference, []).append(use)
    texts = (
        ("" if preference.line is None else f"line {preference.line}: ")
        + f"refuses {join_items(labels)} ({preference.source[:_MAX_SHOWN]})"
        for preference, labels in refused.items()
    )
    why = printable("; ".join(texts))
    return Refusal(why, next(iter(refused)).line) if refused else None  # the first one's line


def header_preferences(
    usage: Iterable[bytes], signals: Iterable[bytes]
) -> tuple[Mapping[str, Preference], bool]:
    """Return the preferences in a response's headers, and whether the headers were too long.

    :param usage: the values of all Content-Usage lines. Together they form one dictionary (RFC
        9651, 4.2), which is ignored if it is larger than `MAX_BYTES`.
    :param signals: the values of all Content-Signal lines. Only the first lines are read.
    """
    # Lines of the same header are joined with commas (RFC 9110, 5.3).
    signal, signals_are_too_long = _join_first(signals)
    preferences = with_source(parse_signal(signal), _header("Content-Signal", signal))
    joined_usage, usage_is_too_long = _join_first(usage)
    if not usage_is_too_long:
        source = _header("Content-Usage", joined_usage)
        preferences = combined(with_source(parse_usage(joined_usage), source), preferences)
    return preferences, usage_is_too_long or signals_are_too_long


def _join_first(lines: Iterable[bytes]) -> tuple[bytes, bool]:
    """Join a header's first lines up to `MAX_BYTES`, and return whether lines were left out."""
    joined: list[bytes] = []
    size = -len(b", ")  # the first line has no separator
    for line in lines:
        size += len(line) + len(b", ")
        if size > MAX_BYTES:
            return b", ".join(joined), True
        joined.append(line)
    return b", ".join(joined), False


def _header(name: str, value: bytes) -> str:
    """Return the source of a header's preferences, as shown in messages."""
    return f"header {name}: {value.decode('latin-1')}"
