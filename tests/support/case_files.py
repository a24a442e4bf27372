"""Read and check the cases of `tests/cases/*.toml`.

`test_cases.py` runs them, and `docs/test_tables.py` compares them with docs/rfc9309.md.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.explanation import Flag

FOLDER = Path(__file__).parent.parent / "cases"
#: Files with other kinds of cases.
_OTHERS = {
    "answers.toml",
    "command_lines.toml",
    "headers.toml",
    "intervals.toml",
    "lint.toml",
    "origins.toml",
    "page_rules.toml",
    "preferences.toml",
    "reports.toml",
    "stores.toml",
}

#: The number of a clause in docs/rfc9309.md, or the name of a decision.
Clause = int | str
#: Texts and how often each is repeated.
Parts = list[tuple[str, int]]


@dataclass(frozen=True, slots=True)
class Case:
    """A file, a crawler, a URL, and the verdict.

    :param basis: the source of the verdict, if the clauses do not tell
        (`bench/conformance_cases.py`).
    :param text: the file as text.
    :param encoding: the codec of the file, or ``hex`` if the text is hexadecimal digits.
    :param asked: product tokens in order of preference, or the identification of a crawler.
    :param line: the line of the rule that decides, or ``None``.
    :param flagged: line numbers, and a flag that each line must have.
    :param skip: variants of the file in which the case would have another meaning.
    :param body_parts: the parts of the file, if that is shorter.
    :param url_parts: the parts of the URL, if that is shorter.
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
        if self.encoding == "hex":
            return bytes.fromhex(self.text)
        return self.text.encode(self.encoding)

    def __str__(self) -> str:
        return self.id


#: The keys of an entry, by its kind.
_KEYS = {
    "case": "body body_parts body_hex encoding tokens agent url url_parts url_encoding allowed"
    " reason line flagged crawl_delay sitemaps size truncated skip skip_reason basis",
    "identification": "identification tokens",
    "own_token": "value valid",
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
                unknown = entry.keys() - {"id", "clause", "says", *_KEYS[kind].split()}
                assert not unknown, f"{path.name}: {entry.get('id')} has {sorted(unknown)}"
                found.append((kind, entry))
    repeated = [
        name for name, count in Counter(entry["id"] for _, entry in found).items() if count > 1
    ]
    assert not repeated, f"repeated ids: {repeated}"
    return tuple(found)


@cache
def cases() -> tuple[Case, ...]:
    """Return all cases of a file and a URL, in the order of the folder."""
    return tuple(_case(entry) for kind, entry in _entries() if kind == "case")


def others(kind: str) -> list[dict[str, Any]]:
    """Return all cases of another kind: identifications, or own tokens of a crawler."""
    return [entry for other, entry in _entries() if other == kind]


def tables(name: str) -> dict[str, list[Any]]:
    """Return the tables of a file."""
    return tomllib.loads((FOLDER / f"{name}.toml").read_text("utf-8"))


def clauses_by_id() -> dict[str, tuple[Clause, ...]]:
    """Return the clauses that each case proves, by the id of the case."""
    return {entry["id"]: tuple(entry["clause"]) for _, entry in _entries()}
