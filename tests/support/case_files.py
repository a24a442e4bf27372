"""The cases of `tests/cases/*.toml` as values: what a file, a URL and a crawler's tokens must give.

This file reads and checks the TOML. See `test_cases.py` for what is done with a case; which clause
has which cases is `test_rfc_doc.py`.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.findings import Flag

FOLDER = Path(__file__).parent.parent / "cases"
#: Files with cases of another kind: of rules of a page, and of preferences.
_OTHERS = {"page_rules.toml", "preferences.toml"}

#: A row number of the RFC's table, or the name of a decision.
Clause = int | str
#: Texts, and how often each stands there.
Parts = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Case:
    """One file, one crawler, one URL, and the verdict.

    :param basis: whose verdict it is, where the clauses do not say so:
        `bench/conformance_cases.py`.
    :param text: the file, before it is encoded.
    :param encoding: the codec of the file; ``hex`` where the text is its octets in hexadecimal
        digits.
    :param asked: product tokens in order of preference, or a string by which a crawler identifies
        itself.
    :param line: of the rule that decides; ``None`` where none does.
    :param flagged: line numbers with a flag that the line must carry.
    :param skip: variants in which the case would mean something else.
    :param body_parts: what the file is put together from, where that is shorter.
    :param url_parts: the same for the URL.
    """

    id: str
    clauses: tuple[Clause, ...]
    says: str
    text: str
    encoding: str
    asked: str | tuple[str, ...]
    url: str | bytes
    allowed: bool
    reason: Reason
    line: int | None
    flagged: tuple[tuple[int, Flag], ...]
    crawl_delay: float | None
    sitemaps: tuple[str, ...] | None
    size: int | None
    truncated: bool | None
    skip: frozenset[str]
    basis: str | None
    body_parts: Parts | None
    url_parts: Parts | None

    @property
    def octets(self) -> bytes:
        """The file as it is written."""
        if self.encoding == "hex":
            return bytes.fromhex(self.text)
        return self.text.encode(self.encoding)

    def __str__(self) -> str:
        return self.id


@dataclass(frozen=True, slots=True)
class Identification:
    """A string by which a crawler identifies itself, and its product tokens."""

    id: str
    clauses: tuple[Clause, ...]
    says: str
    identification: str
    tokens: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnToken:
    """A string that is, or is not, a valid product token for a crawler."""

    id: str
    clauses: tuple[Clause, ...]
    says: str
    value: str
    valid: bool


_COMMON = {"id", "clause", "says"}
_KEYS = {
    "case": _COMMON
    | {"basis"}
    | {
        "body",
        "body_parts",
        "body_hex",
        "encoding",
        "tokens",
        "agent",
        "url",
        "url_parts",
        "url_encoding",
    }
    | {
        "allowed",
        "reason",
        "line",
        "flagged",
        "crawl_delay",
        "sitemaps",
        "size",
        "truncated",
        "skip",
        "skip_reason",
    },
    "identification": _COMMON | {"identification", "tokens"},
    "own_token": _COMMON | {"value", "valid"},
}


def _one_of(entry: dict[str, Any], *keys: str) -> str:
    given = [key for key in keys if key in entry]
    assert len(given) == 1, f"{entry['id']}: exactly one of {', '.join(keys)} is needed"
    return given[0]


def _text(entry: dict[str, Any], key: str) -> str:
    value = entry[key]
    return value if isinstance(value, str) else "".join(text * count for text, count in value)


def _case(entry: dict[str, Any]) -> Case:
    name = entry["id"]
    body = _one_of(entry, "body", "body_parts", "body_hex")
    agent = _one_of(entry, "tokens", "agent")
    url = _text(entry, _one_of(entry, "url", "url_parts"))
    assert ("line" in entry) != ("reason" in entry), (
        f"{name}: either the line that decides or the reason is needed"
    )
    assert ("skip" in entry) == ("skip_reason" in entry), f"{name}: skipped variants need a reason"
    return Case(
        id=name,
        clauses=tuple(entry["clause"]),
        says=entry["says"],
        text=_text(entry, body),
        encoding="hex" if body == "body_hex" else entry.get("encoding", "utf-8"),
        asked=entry[agent] if agent == "agent" else tuple(entry[agent]),
        url=url.encode(entry["url_encoding"]) if "url_encoding" in entry else url,
        allowed=entry["allowed"],
        reason=Reason(entry.get("reason", "rule")),
        line=entry.get("line"),
        flagged=tuple((number, Flag[flag.upper()]) for number, flag in entry.get("flagged", ())),
        crawl_delay=entry.get("crawl_delay"),
        sitemaps=tuple(entry["sitemaps"]) if "sitemaps" in entry else None,
        size=entry.get("size"),
        truncated=entry.get("truncated"),
        skip=frozenset(entry.get("skip", ())),
        basis=entry.get("basis"),
        body_parts=entry.get("body_parts"),
        url_parts=entry.get("url_parts"),
    )


@cache
def _entries() -> tuple[tuple[str, dict[str, Any]], ...]:
    found = []
    for path in sorted(path for path in FOLDER.glob("*.toml") if path.name not in _OTHERS):
        for kind, entries in tomllib.loads(path.read_text("utf-8")).items():
            for entry in entries:
                odd = entry.keys() - _KEYS[kind]
                assert not odd, f"{path.name}: {entry.get('id')} has {', '.join(sorted(odd))}"
                found.append((kind, entry))
    names = [entry["id"] for _, entry in found]
    twice = {name for name in names if names.count(name) > 1}
    assert not twice, f"ids given twice: {', '.join(sorted(twice))}"
    return tuple(found)


@cache
def cases() -> tuple[Case, ...]:
    """All cases of a file and a URL, in the order of the folder."""
    return tuple(_case(entry) for kind, entry in _entries() if kind == "case")


@cache
def identifications() -> tuple[Identification, ...]:
    """All identifications with their product tokens."""
    return tuple(
        Identification(
            entry["id"],
            tuple(entry["clause"]),
            entry["says"],
            entry["identification"],
            tuple(entry["tokens"]),
        )
        for kind, entry in _entries()
        if kind == "identification"
    )


@cache
def own_tokens() -> tuple[OwnToken, ...]:
    """All strings that are, or are not, product tokens."""
    return tuple(
        OwnToken(entry["id"], tuple(entry["clause"]), entry["says"], entry["value"], entry["valid"])
        for kind, entry in _entries()
        if kind == "own_token"
    )


def clauses_by_id() -> dict[str, tuple[Clause, ...]]:
    """The clauses that each case of whatever kind proves."""
    return {entry["id"]: tuple(entry["clause"]) for _, entry in _entries()}
