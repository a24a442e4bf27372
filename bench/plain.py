"""A second reading of RFC 9309, plain and slow, that shares no code with the package: what verdicts
must be.

Every line is read, every rule is tried, a pattern is matched octet by octet with all the positions
it may be at. `rfc9309.md`'s decisions are followed; sizes are not limited here, since the tables
measure whole files.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_AGENT_KEYS = ("user-agent", "useragent", "user agent")
_ALLOW_KEYS = ("allow",)
_DISALLOW_KEYS = ("disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw")
_LONGEST_LINE = 16_664

_WILDCARD = (-1, False)
Octet = tuple[int, bool]  # an octet, and whether it is written as itself


@dataclass(frozen=True, slots=True)
class _Rule:
    allow: bool
    size: int
    octets: list[Octet]
    anchored: bool


class Plain:
    """A file, read for one product token.

    :param body: the file's octets.
    :param token: the token that the crawler goes by.
    """

    def __init__(self, body: bytes, token: str) -> None:
        groups = _read(body)
        group = groups.get(token.lower(), groups.get("*", []))
        self._rules = [
            _rule(allow, pattern) for allow, pattern in group if pattern[:1] in (b"/", b"*")
        ]

    def allowed(self, url: str) -> bool:
        """The verdict of the longest rule that matches; of equals, an allow's."""
        parts = urlsplit(url, allow_fragments=True)
        target = _octets(((parts.path or "/") + ("?" + parts.query if "?" in url else "")).encode())
        query = target.index((0x3F, True)) if (0x3F, True) in target else len(target)
        best, verdict = -1, True
        for rule in self._rules:
            decides = rule.size > best or (rule.size == best and rule.allow and not verdict)
            if decides and _matches(rule, target, query):
                best, verdict = rule.size, rule.allow
        return verdict or bytes(octet for octet, _ in target) == b"/robots.txt"


def _read(body: bytes) -> dict[str, list[tuple[bool, bytes]]]:
    """Token -> rules, of all groups together."""
    groups: dict[str, list[tuple[bool, bytes]]] = {}
    current: list[str] = []
    ruled = False
    for raw in re.split(rb"\r\n|\r|\n", _without_bom(body)):
        key, value = _record(raw)
        if key in _AGENT_KEYS:
            current = [_token(value)] if ruled else [*current, _token(value)]
            ruled = False
            groups.setdefault(current[-1], [])
        elif key in _ALLOW_KEYS or key in _DISALLOW_KEYS:
            ruled = bool(current)
            for name in set(current):
                groups[name].append((key in _ALLOW_KEYS, value))
    return groups


def _without_bom(body: bytes) -> bytes:
    for mark, encoding in ((codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be")):
        if body.startswith(mark) and not body.startswith(codecs.BOM_UTF32_LE):
            return body[2:].decode(encoding, "replace").encode()
    return body.removeprefix(codecs.BOM_UTF8)


def _record(raw: bytes) -> tuple[str, bytes]:
    text = raw[:_LONGEST_LINE].split(b"#")[0].strip(b" \t")
    key, colon, value = text.partition(b":")
    if not colon:
        words = re.split(rb"[ \t]+", text)
        key, value = words if len(words) == 2 else (b"", b"")
    return key.strip(b" \t").decode("latin-1").lower(), value.strip(b" \t")


def _token(value: bytes) -> str:
    if re.match(rb"\*(?:\s|$)", value):
        return "*"
    run = re.match(rb"[A-Za-z_-]+", value)
    return (run[0] if run else value).decode("latin-1").lower()


def _rule(allow: bool, pattern: bytes) -> _Rule:
    anchored = pattern.endswith(b"$")
    octets: list[Octet] = []
    for at, piece in enumerate((pattern[:-1] if anchored else pattern).split(b"*")):
        octets += [_WILDCARD, *_octets(piece)] if at else _octets(piece)
    return _Rule(allow, sum(3 if octet > 0x7F else 1 for octet in pattern), octets, anchored)


def _octets(text: bytes) -> list[Octet]:
    """Octets of a text with its escapes taken off."""
    found = []
    at = 0
    while at < len(text):
        escape = re.compile(rb"%([0-9A-Fa-f]{2})").match(text, at)
        found.append((int(escape[1], 16), False) if escape else (text[at], True))
        at += 3 if escape else 1
    return found


def _same(one: Octet, other: Octet, place: int) -> bool:
    """Whether an octet of a pattern is that of a target.

    :param place: where in the target it stands: -1 in the path, 0 at the `?`, 1 in the query.
    """
    if one[0] != other[0]:
        return False
    told_apart = b"&=+;" if place > 0 else b"/?"
    return one[1] == other[1] or one[0] not in told_apart


def _matches(rule: _Rule, target: list[Octet], query: int) -> bool:
    places = {0}
    for octet in rule.octets:
        if octet is _WILDCARD:
            places = set(range(min(places), len(target) + 1))
        else:
            places = {
                at + 1
                for at in places
                if at < len(target) and _same(octet, target[at], (at > query) - (at < query))
            }
        if not places:
            return False
    return not rule.anchored or len(target) in places
