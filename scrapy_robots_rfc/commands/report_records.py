"""A record of a report of disallowed requests, as the command line reads it, and how the reading of a file went.

In here: fields become values. How text becomes fields is `report_formats.py`.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scrapy_robots_rfc.policy.origin import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Characters of a field that are kept; a longer one is nobody's rule or origin, and a link that no browser follows.
_KEPT = 2000
#: A record of this kind has one of these, however few fields its writer asked for.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: The reason of the closing records: how often an entry of ROBOTSTXT_EXEMPT was used.
EXEMPT = "exempt"
#: Where the writer left the reason out, and no rule tells it.
NO_REASON = "not given"

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_LATEST = 32_503_680_000  # the year 3000: a plot needs room behind the last request, and no calendar here has 10000


@dataclass(frozen=True, slots=True)
class Record:
    """A disallowed request; or, with the reason ``exempt``, an entry of ROBOTSTXT_EXEMPT that was used.

    :param time: when, in seconds since 1970; ``None``: not given, or not to be read.
    :param count: how many requests it stands for.
    """

    time: float | None
    spider: str | None
    url: str | None
    origin: str | None
    token: str | None
    reason: str
    line: int | None
    rule: str | None
    why: str | None
    stale: bool
    dry_run: bool
    count: int

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Record | None:
        """Return what the fields say, as far as they do; ``None`` where they are those of something else."""
        if MARKS.isdisjoint(fields):
            return None
        get = fields.get
        rule = _text(get("rule"))
        return cls(
            _time(get("time")),
            _text(get("spider")),
            _address(get("url")),
            _address(get("origin")),
            _text(get("token")),
            _text(get("reason")) or (NO_REASON if rule is None else "rule"),
            _number(get("line")),
            rule,
            _text(get("why")),
            _flag(get("stale")),
            _flag(get("dry_run")),
            _number(get("count")) or 1,
        )


def _text(value: object) -> str | None:
    if value is None or value == "":
        return None
    return (value if isinstance(value, str) else str(value))[:_KEPT]


def _address(value: object) -> str | None:
    """Return a URL, without what may be a password."""
    text = _text(value)
    return None if text is None else without_userinfo(text)


def _number(value: object) -> int | None:
    """Return a whole number; whatever is none that a crawl could count to, is none at all."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        return int(value)
    return value if isinstance(value, int) and value is not True and 0 < value < 10**15 else None


def _flag(value: object) -> bool:
    return value is True or (isinstance(value, str) and value.lower() == "true")


def _time(value: object) -> float | None:
    """Return seconds since 1970; a time without a zone is one of UTC."""
    try:
        date = datetime.datetime.fromisoformat(str(value))
    except ValueError:
        return None
    seconds = ((date if date.tzinfo else date.replace(tzinfo=datetime.UTC)) - _EPOCH).total_seconds()
    return seconds if 0 <= seconds < _LATEST else None


@dataclass(slots=True)
class Reading:
    """How the reading of a file went.

    :param records: how many records there were.
    :param broken: how many there were that could not be read.
    :param first: the line of the first of them.
    :param because: why it could not.
    :param others: how many objects or rows there were that are no records of this kind.
    :param breaks_off: whether the file ends in the middle of a record, or of its compression.
    """

    records: int = 0
    broken: int = 0
    first: int = 0
    because: str = ""
    others: int = 0
    breaks_off: bool = False

    def spoiled(self, line: int, because: str) -> None:
        """Count a broken record."""
        self.broken += 1
        if not self.first:
            self.first, self.because = line, because

    def made(self, fields: object) -> Record | None:
        """Return the record of these fields, counted, if it is one."""
        record = Record.of(fields) if isinstance(fields, dict) else None
        if record is None:
            self.others += 1
        else:
            self.records += 1
        return record
