"""Read what a site says about the use of its pages, by label: in robots.txt and in headers.

Most of it is based on drafts, which may still change: `LABELS` names them. `docs/preferences.md`
has the decisions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, islice
from types import MappingProxyType
from typing import NamedTuple

from scrapy_robots_rfc.core.decision import Refusal
from scrapy_robots_rfc.core.lines import TRAINING, Record, as_text
from scrapy_robots_rfc.core.percent import Pattern, parse_pattern, request_target, specificity
from scrapy_robots_rfc.core.text import join_items, printable

#: Known labels -> their synonyms in any source. Other labels are read as well, but a crawl that
#: declares one gets a warning.
LABELS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "train-ai": ("ai-train",),  # draft-ietf-aipref-vocab-08
    "search": (),  # draft-ietf-aipref-vocab-08
    "ai-use": (),  # the working group's text after draft-ietf-aipref-vocab-08
    "ai-input": (),  # Content Signals (Cloudflare, 2025-09-24)
    "tdm": (),  # TDMRep (W3C Community Group report, 2024-05-10)
})  # fmt: skip
TRAIN_AI, TDM = "train-ai", "tdm"
#: Names in user-agent lines that mean a use and not a crawler -> label. The rules of their groups
#: say which URLs may be used in that way.
POLICY_TOKENS: Mapping[str, str] = MappingProxyType({
    "__usage_ai-training": TRAIN_AI,  # draft-kelley-aipref-training-preference-signal-00 (2026)
})  # fmt: skip
#: Synonym -> label.
LABEL_OF = {synonym: label for label, synonyms in LABELS.items() for synonym in synonyms}
#: The spider attribute that says what a crawl is for.
USE_ATTRIBUTE = "robots_use"
#: The request meta key that says what a request is for. It is not `robots_use`, which is in the
#: meta of responses: a request with copied meta would declare what that response permits.
DECLARED_KEY = "robots_declared_use"

#: Keys of robots.txt records about use, in lower case.
USAGE = "content-usage"
SIGNAL = "content-signal"
RECORDS = (USAGE, SIGNAL, *TRAINING)
#: Maximum records about use in a group, and maximum bytes of their values. All are tried for each
#: page, on the event loop, which takes ten milliseconds. Real files have a few, a hostile one
#: 30,000.
MAX_RECORDS, MAX_BYTES = 1000, 32_768
# Maximum number of characters of a record, header line or meta tag shown in a message.
_MAX_SHOWN = 200

# Of several values for one label, the one with the highest number counts.
_STRICTNESS = {None: 0, True: 1, False: 2}


def parse_uses(value: object) -> tuple[str, ...] | None:
    """Return the labels that a user's value names, in lower case and without synonyms.

    :param value: a list of labels, or a string with commas.
    :returns: `None` for `None`.
    :raises TypeError: if it is something else.
    """
    labels = value.split(",") if isinstance(value, str) else value
    if labels is None:
        return None
    kinds = (list, tuple, set, frozenset)
    if not isinstance(labels, kinds) or not all(isinstance(label, str) for label in labels):
        raise TypeError(value)
    named = (label.strip().lower() for label in labels if label.strip())
    return tuple(dict.fromkeys(LABEL_OF.get(label, label) for label in named))


def unknown_labels(uses: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each unknown label, such as a typo, with the nearest known one."""
    for label in uses:
        if label not in LABELS:
            from difflib import get_close_matches  # noqa: PLC0415 - for unknown labels only

            yield label, get_close_matches(label, LABELS, n=1, cutoff=0)[0]


class Preference(NamedTuple):
    """The preference of a site about one use.

    :param allowed: whether it permits that use, or `None` if it names the use and says neither.
    :param line: its line in robots.txt, from 1, or `None` for other sources.
    :param source: its record, header line or meta.
    """

    allowed: bool | None
    line: int | None
    source: str


# A member of a dictionary (RFC 9651, 3 and 4.2), such as `train-ai=n;x=1`. If a part can end in two
# ways, the next character decides, so time is linear.
_KEY = r"[a-z*][a-z0-9_.*-]*"
_TAIL = "%[89ab][0-9a-f]"
# The escapes of one character in UTF-8 (RFC 3629, 4): `%c3%a9`.
_ESCAPED = rf"""(?:
    %[0-7][0-9a-f]
  | %(?:c[2-9a-f]|d[0-9a-f]){_TAIL}
  | %e0%[ab][0-9a-f]{_TAIL} | %e[1-9a-cef](?:{_TAIL}){{2}} | %ed%[89][0-9a-f]{_TAIL}
  | %f0%[9ab][0-9a-f](?:{_TAIL}){{2}} | %f[1-3](?:{_TAIL}){{3}} | %f4%8[0-9a-f](?:{_TAIL}){{2}}
)"""
_ITEM = rf"""(?:
    [A-Za-z*][!#$%&'*+^_`|~0-9A-Za-z:/.-]*              # a token
  | "(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"        # a string
  | -?(?:\d{{1,12}}\.\d{{1,3}}|\d{{1,15}})(?![\d.])     # a number
  | \?[01] | @-?\d{{1,15}}(?![\d.])                    # a boolean, a date
  | :(?:[A-Za-z0-9+/]{{4}})*(?:[A-Za-z0-9+/]{{2,3}})?(?:(?<!:)={{1,2}})?:  # bytes
  | %"(?:[\x20\x21\x23\x24\x26-\x7e]|{_ESCAPED})*"     # a display string
)"""
_PARAMETERS = rf"(?:;\ *{_KEY}(?:={_ITEM})?)*"
_INNER_LIST = rf"\(\ *(?:{_ITEM}{_PARAMETERS}(?=[ )])\ *)*\)"
# Few crawls see such a value, so this is compiled on first use.
_MEMBER = rf"({_KEY})(?:=(?:({_ITEM})|{_INNER_LIST}))?{_PARAMETERS}[ \t]*(?:,[ \t]*(?=.)|\Z)"


def parse_usage(value: bytes) -> Mapping[str, bool | None]:
    """Parse a Content-Usage value without a path, a dictionary of RFC 9651.

    :param value: as the file or the header line has it.
    :returns: label -> whether that use is permitted (`y`), refused (`n`), or neither; empty if the
        value cannot be parsed.
    """
    text = value.decode("latin-1").strip(" ")
    member_at = re.compile(_MEMBER, re.VERBOSE | re.ASCII | re.DOTALL).match
    members: dict[str, bool | None] = {}
    at = 0
    while at < len(text):
        member = member_at(text, at)
        if member is None:
            return {}
        members[member[1]] = {"y": True, "n": False}.get(member[2])
        at = member.end()
    return _by_label(members.items())


def parse_signal(value: bytes) -> Mapping[str, bool | None]:
    """Parse a Content-Signal value, such as `search=yes, ai-train=no`, in any case.

    :returns: label -> whether that use is permitted (`yes`), refused (`no`), or neither.
    """
    members = (member.partition("=") for member in value.decode("latin-1").lower().split(","))
    named = ((name.strip(), given.strip()) for name, equals, given in members if equals)
    return _by_label((name, {"yes": True, "no": False}.get(given)) for name, given in named if name)


def _by_label(values: Iterable[tuple[str, bool | None]]) -> dict[str, bool | None]:
    """Return the strictest value of each label, over its synonyms."""
    by_label: dict[str, bool | None] = {}
    for name, allowed in values:
        label = LABEL_OF.get(name, name)
        by_label[label] = max(by_label.get(label), allowed, key=_STRICTNESS.__getitem__)
    return by_label


def combined(*sources: Mapping[str, Preference]) -> Mapping[str, Preference]:
    """Combine sources for each label: any no is a no; otherwise, any yes is a yes."""
    strictest: dict[str, Preference] = {}
    for label, preference in chain.from_iterable(source.items() for source in sources):
        before = strictest.setdefault(label, preference)
        if _STRICTNESS[preference.allowed] > _STRICTNESS[before.allowed]:
            strictest[label] = preference
    return strictest


def find_refusal(uses: Iterable[str], stated: Mapping[str, Preference]) -> Refusal | None:
    """Return what refuses all of some uses, or `None` if not all are refused."""
    preferences = [stated.get(use) for use in uses]
    refusals = [one for one in preferences if one is not None and one.allowed is False]
    if not preferences or len(refusals) < len(preferences):
        return None
    texts = (f"line {one.line}: {one.source}" if one.line else one.source for one in refusals)
    why = join_items(tuple(dict.fromkeys(printable(text[:_MAX_SHOWN]) for text in texts)))
    return Refusal(why, min((one.line for one in refusals if one.line), default=None))


class PathPreference(NamedTuple):
    """The preferences of one record of robots.txt.

    :param pattern: the pattern of its URLs; an empty one matches all.
    :param length: the octets of that pattern (2.2.2); the longest one that matches decides.
    :param labels: its preference for each label.
    """

    pattern: Pattern
    length: int
    labels: Mapping[str, Preference]


def read_records(
    records: Iterable[Record], above: Iterable[Record] = ()
) -> dict[str, list[PathPreference]]:
    """Return the preferences of robots.txt records, by kind: signal, usage and training.

    :param records: the records of the group that applies with a key of `RECORDS`; their values are
        bytes, one character each.
    :param above: the Content-Signal records above the first user-agent line. They count for the
        labels that no Content-Signal of the group names.
    """
    by_kind = _read_all(records)
    own = {label for signal in by_kind[SIGNAL] for label in signal.labels}
    for signal in _read_all(above)[SIGNAL]:
        others = {label: one for label, one in signal.labels.items() if label not in own}
        by_kind[SIGNAL].append(signal._replace(labels=others))
    return by_kind


def _read_all(records: Iterable[Record]) -> dict[str, list[PathPreference]]:
    by_kind: dict[str, list[PathPreference]] = {SIGNAL: [], USAGE: [], TRAIN_AI: []}
    left = MAX_BYTES
    for record in records:
        key, value = record.key, record.value
        left -= len(value)
        if left < 0:
            break
        kind = key
        path = ""
        if key == SIGNAL:
            values = parse_signal(value.encode("latin-1"))
        elif key == USAGE:
            if value.startswith("/"):
                path, *rest = value.split(maxsplit=1)
                value = "".join(rest)
            values = parse_usage(value.encode("latin-1"))
        elif value[:1] in {"/", "*"}:
            kind = TRAIN_AI
            path = value
            values = {TRAIN_AI: TRAINING[key]}
        else:
            continue  # it matches nothing, like a rule with such a pattern
        stated = _stated(values, f"{key}: {as_text(record.value)}", record.line)
        by_kind[kind].append(PathPreference(parse_pattern(path), specificity(path), stated))
    return by_kind


def record_preferences(
    read: Mapping[str, Sequence[PathPreference]], url: str | bytes
) -> Mapping[str, Preference]:
    """Return what the records of the group that applies say about a URL.

    Of each kind of record, the records with the longest pattern that matches count. Then `combined`
    decides between the kinds.

    :param read: the result of `read_records`.
    :param url: as for `RobotsTxt.decide`.
    """
    target = request_target(url)
    stated: list[Mapping[str, Preference]] = []
    for records in read.values():
        matches = [one for one in records if one.pattern.matches(target)]
        longest = max((one.length for one in matches), default=0)
        stated += [one.labels for one in matches if one.length == longest]
    return combined(*stated)


def _stated(
    values: Mapping[str, bool | None], source: str, line: int | None = None
) -> Mapping[str, Preference]:
    return {label: Preference(allowed, line, source) for label, allowed in values.items()}


def header_preferences(
    usage: Iterable[bytes], signals: Iterable[bytes]
) -> tuple[Mapping[str, Preference], bool]:
    """Return what the header lines of a response say, and whether some of them are not read.

    :param usage: the values of its Content-Usage lines. They are one dictionary (RFC 9651, 4.2),
        which is void as a whole if it has more than `MAX_BYTES`.
    :param signals: the values of its Content-Signal lines. The first `MAX_BYTES` are read.
    """
    # Lines of one header are one line with commas (RFC 9110, 5.3), so empty lines count, too.
    whole = b", ".join(islice(usage, MAX_BYTES))
    is_void = len(whole) > MAX_BYTES
    lines = tuple(islice(signals, MAX_BYTES))
    ends = accumulate(len(line) + len(b", ") for line in lines)
    read = [line for line, end in zip(lines, ends, strict=True) if end <= MAX_BYTES]
    signal = b", ".join(read)
    preferences = combined(
        {} if is_void else _stated(parse_usage(whole), _header("Content-Usage", whole)),
        _stated(parse_signal(signal), _header("Content-Signal", signal)),
    )
    return preferences, is_void or len(read) < len(lines)


def _header(name: str, value: bytes) -> str:
    return f"header {name}: {value.decode('latin-1')}"
