"""Parse a site's preferences about how its pages are used. `uses.py` applies them to a crawl.

Most of this is based on drafts that may still change. `LABELS` lists them, and
`docs/preferences.md` explains how they are interpreted.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from scrapy_robots_rfc.core.lines import BLANKS, TRAINING, Record, as_text
from scrapy_robots_rfc.core.percent import Pattern, parse_pattern, request_target, specificity

#: Known label -> its synonyms. Other labels are also accepted; see `parse_uses`.
LABELS: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "train-ai": ("ai-train",),  # draft-ietf-aipref-vocab-08
    "search": (),  # draft-ietf-aipref-vocab-08
    "ai-use": (),  # the working group's text after draft-ietf-aipref-vocab-08
    "ai-input": (),  # Content Signals (Cloudflare, 2025-09-24)
    "tdm": (),  # TDMRep (W3C Community Group report, 2024-05-10)
})  # fmt: skip
TRAIN_AI, TDM = "train-ai", "tdm"
#: Name in a user-agent line that stands for a use instead of a crawler -> label. The rules in its
#: group define which URLs may be used that way.
POLICY_TOKENS: Mapping[str, str] = MappingProxyType({
    "__usage_ai-training": TRAIN_AI,  # draft-kelley-aipref-training-preference-signal-00 (2026)
})  # fmt: skip
#: Synonym -> label.
LABEL_OF = {synonym: label for label, synonyms in LABELS.items() for synonym in synonyms}
#: Label -> other names that users may declare. Sites do not use them as labels.
NICKNAMES: Mapping[str, tuple[str, ...]] = MappingProxyType({
    TRAIN_AI: ("ai-training", "noai", "noimageai", "noml", "train", "training"),
    "search": ("index", "indexing"),
    "ai-input": ("grounding", "rag"),
    TDM: ("data-mining", "mining", "notdm", "tdm-reservation", "text-and-data-mining"),
})  # fmt: skip
#: Synonym or nickname -> label.
LABEL_MEANT = LABEL_OF | {name: label for label, names in NICKNAMES.items() for name in names}
#: The spider attribute that declares a crawl's uses.
USE_ATTRIBUTE = "robots_use"
#: The request meta key that declares a request's uses. Responses have a different key,
#: `robots_use`, so that copying meta from a response does not declare anything.
DECLARED_KEY = "robots_declared_use"

#: The lowercase keys of robots.txt records about use.
USAGE = "content-usage"
SIGNAL = "content-signal"
RECORDS = (USAGE, SIGNAL, *TRAINING)
# Key -> its usual spelling.
_SPELLING = {key.lower(): key for key in (
    "Content-Usage", "Content-Signal", "DisallowAITraining", "AllowAITraining"
)}  # fmt: skip
#: Maximum number and total size in bytes of a group's records about use. All of them are matched
#: against each page on the event loop, which takes up to 10 ms. Real files only contain a few.
MAX_RECORDS, MAX_BYTES = 1000, 32_768
# If a label has several values, the one with the highest number wins.
_STRICTNESS = {None: 0, True: 1, False: 2}


def parse_uses(value: object) -> tuple[str, ...] | None:
    """Parse the uses that a crawl declares into lowercase labels, replacing synonyms and nicknames.

    Each label can only disallow more pages. An unknown one may be a misspelling, so it declares all
    known labels.

    :param value: a list or a comma-separated string of labels.
    :returns: the labels, or `None` if the value is `None`.
    :raises TypeError: if the value has any other type.
    """
    labels = value.split(",") if isinstance(value, str) else value
    if labels is None:
        return None
    kinds = (list, tuple, set, frozenset)
    if not isinstance(labels, kinds) or not all(isinstance(label, str) for label in labels):
        raise TypeError(value)
    named = (re.sub(r"[\s_]+", "-", label.strip().lower()) for label in labels if label.strip())
    meant = dict.fromkeys(LABEL_MEANT.get(label, label) for label in named)
    return tuple(meant if meant.keys() <= LABELS.keys() else meant | dict.fromkeys(LABELS))


class Preference(NamedTuple):
    """A site's preference about a use.

    :param allowed: True if the use is allowed, or `None` if the value is neither yes nor no.
    :param line: the line number in robots.txt, or `None` for other sources.
    :param source: the record, header or meta tag that contains the preference.
    """

    allowed: bool | None
    line: int | None
    source: str


# The key of a dictionary member (RFC 9651, 3 and 4.2): `train-ai`. All of these expressions run in
# linear time, because the next character always determines where a part ends.
_KEY = r"[a-z*][a-z0-9_.*-]*"
# An escaped UTF-8 continuation byte: `%a9`.
_TAIL = "%[89ab][0-9a-f]"
# An escaped UTF-8 character (RFC 3629, 4): `%c3%a9`.
_ESCAPED = rf"""(?:
    %[0-7][0-9a-f]
  | %(?:c[2-9a-f]|d[0-9a-f]){_TAIL}
  | %e0%[ab][0-9a-f]{_TAIL} | %e[1-9a-cef](?:{_TAIL}){{2}} | %ed%[89][0-9a-f]{_TAIL}
  | %f0%[9ab][0-9a-f](?:{_TAIL}){{2}} | %f[1-3](?:{_TAIL}){{3}} | %f4%8[0-9a-f](?:{_TAIL}){{2}}
)"""
# A value: `n`, `"text"`, `1.5`.
_ITEM = rf"""(?:
    [A-Za-z*][!#$%&'*+^_`|~0-9A-Za-z:/.-]*              # a token
  | "(?:[\x20\x21\x23-\x5b\x5d-\x7e]|\\["\\])*"        # a string
  | -?(?:\d{{1,12}}\.\d{{1,3}}|\d{{1,15}})(?![\d.])     # a number
  | \?[01] | @-?\d{{1,15}}(?![\d.])                    # a boolean, a date
  | :(?:[A-Za-z0-9+/]{{4}})*(?:[A-Za-z0-9+/]{{2,3}})?(?:(?<!:)={{1,2}})?:  # bytes, not just padding
  | %"(?:[\x20\x21\x23\x24\x26-\x7e]|{_ESCAPED})*"     # a display string
)"""
# The parameters of a value: `;x=1`.
_PARAMETERS = rf"(?:;\ *{_KEY}(?:={_ITEM})?)*"
# A list as a value: `(a b)`.
_INNER_LIST = rf"\(\ *(?:{_ITEM}{_PARAMETERS}(?=[ )])\ *)*\)"
# A dictionary member and the comma that follows it: `train-ai=n;x=1, `. The groups are the key and
# the value, unless the value is a list. A comma at the end is an error (RFC 9651, 4.2.2).
_MEMBER = rf"({_KEY})(?:=(?:({_ITEM})|{_INNER_LIST}))?{_PARAMETERS}[ \t]*(?:,[ \t]*(?=.)|\Z)"


def parse_usage(value: bytes) -> Mapping[str, bool | None]:
    """Parse a Content-Usage value, which is a dictionary (RFC 9651), without its path.

    :param value: the value as written in the file or header.
    :returns: label -> True for `y`, False for `n`, or `None` for any other value. The result is
        empty if the value is malformed.
    """
    text = value.decode("latin-1").strip(" ")
    # Few crawls need the expression, so it is compiled on first use. After that, `re` caches it.
    member_at = re.compile(_MEMBER, re.VERBOSE | re.ASCII | re.DOTALL).match
    members: dict[str, bool | None] = {}
    at = 0
    while at < len(text):
        member = member_at(text, at)
        if member is None:
            return {}
        # If a key is repeated, its last member applies (RFC 9651, 4.2.2).
        key, item = member.groups()
        members[key] = {"y": True, "n": False}.get(item)
        at = member.end()
    return _by_label(members.items())


def parse_signal(value: bytes) -> Mapping[str, bool | None]:
    """Parse a Content-Signal value, such as `search=yes, ai-train=no`, ignoring case.

    :returns: label -> True for `yes`, False for `no`, or `None` for any other value.
    """
    values: list[tuple[str, bool | None]] = []
    for member in value.decode("latin-1").lower().split(","):
        name, equals, answer = member.partition("=")
        if equals and name.strip():
            values.append((name.strip(), {"yes": True, "no": False}.get(answer.strip())))
    return _by_label(values)


def _by_label(values: Iterable[tuple[str, bool | None]]) -> dict[str, bool | None]:
    """Return the strictest value for each label, after replacing synonyms."""
    by_label: dict[str, bool | None] = {}
    for name, allowed in values:
        label = LABEL_OF.get(name, name)
        by_label[label] = max(by_label.get(label), allowed, key=_STRICTNESS.__getitem__)
    return by_label


def combined(*sources: Mapping[str, Preference]) -> Mapping[str, Preference]:
    """Combine preferences from several sources, using the strictest one for each label."""
    strictest: dict[str, Preference] = {}
    for label, preference in chain.from_iterable(source.items() for source in sources):
        before = strictest.setdefault(label, preference)
        if _STRICTNESS[preference.allowed] > _STRICTNESS[before.allowed]:
            strictest[label] = preference
    return strictest


class PathPreference(NamedTuple):
    """The preferences in a robots.txt record.

    :param pattern: the pattern for the URLs that they apply to. An empty pattern matches all URLs.
    :param length: the length of the pattern in octets (2.2.2). The longest match wins.
    :param labels: the preference for each label.
    """

    pattern: Pattern
    length: int
    labels: Mapping[str, Preference]


def read_records(
    records: Iterable[Record], default_signals: Iterable[Record] = ()
) -> dict[str, list[PathPreference]]:
    """Parse a group's records into preferences, grouped by the kind of record.

    :param records: the group's records with a key in `RECORDS`, decoded as Latin-1.
    :param default_signals: the Content-Signal records above the first user-agent line. They apply
        to labels that the group's own Content-Signal records do not mention.
    """
    by_kind = _read_all(records)
    own_labels = {label for signal in by_kind[SIGNAL] for label in signal.labels}
    for signal in _read_all(default_signals)[SIGNAL]:
        labels = {
            label: preference
            for label, preference in signal.labels.items()
            if label not in own_labels
        }
        by_kind[SIGNAL].append(signal._replace(labels=labels))
    return by_kind


def _read_all(records: Iterable[Record]) -> dict[str, list[PathPreference]]:
    """Parse records into preferences, grouped by kind, ignoring records after `MAX_BYTES`."""
    # Both training records are one kind, which is named after their label.
    by_kind: dict[str, list[PathPreference]] = {SIGNAL: [], USAGE: [], TRAIN_AI: []}
    bytes_left = MAX_BYTES
    for record in records:
        kind, value = record.key, record.value
        bytes_left -= len(value)
        if bytes_left < 0:
            break
        path = ""  # matches all URLs
        if kind == SIGNAL:  # `Content-Signal: ai-train=no`
            values = parse_signal(value.encode("latin-1"))
        elif kind == USAGE:  # `Content-Usage: train-ai=n` or `Content-Usage: /a/ train-ai=n`
            if value.startswith("/"):
                # Only ASCII blanks end it, because other bytes may be part of a UTF-8 character.
                path = value.partition(" ")[0].partition("\t")[0]
                value = value.removeprefix(path).lstrip(BLANKS)
            values = parse_usage(value.encode("latin-1"))
        elif value[:1] in {"/", "*"}:  # `DisallowAITraining: /a/` or `AllowAITraining: /a/`
            kind, path = TRAIN_AI, value
            values = {TRAIN_AI: TRAINING[record.key]}
        else:
            continue  # `DisallowAITraining: a/`, which never matches
        source = f"{_SPELLING[record.key]}: {as_text(record.value)}"
        preferences = with_source(values, source, record.line)
        by_kind[kind].append(PathPreference(parse_pattern(path), specificity(path), preferences))
    return by_kind


def record_preferences(
    by_kind: Mapping[str, Sequence[PathPreference]], url: str | bytes
) -> Mapping[str, Preference]:
    """Return a site's preferences for a URL.

    For each kind of record, only the records with the longest matching pattern apply. The results
    for the different kinds are then merged with `combined`.

    :param by_kind: the result of `read_records`.
    :param url: the URL, in any form that `RobotsTxt.decide` accepts.
    """
    target = request_target(url)
    sources: list[Mapping[str, Preference]] = []
    for records in by_kind.values():
        matches = [record for record in records if record.pattern.matches(target)]
        longest = max((record.length for record in matches), default=0)
        sources += [record.labels for record in matches if record.length == longest]
    return combined(*sources)


def with_source(
    values: Mapping[str, bool | None], source: str, line: int | None = None
) -> Mapping[str, Preference]:
    """Return the preferences in a record or header, by label."""
    return {label: Preference(allowed, line, source) for label, allowed in values.items()}
