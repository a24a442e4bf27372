"""The sums of a report for people on a terminal, or in a pipe.

In here: lines of text. Whoever asks for them prints them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.report_sums import most, percent
from scrapy_robots_rfc.commands.report_times import between
from scrapy_robots_rfc.commands.terminal import Colour
from scrapy_robots_rfc.core.text import many, printable

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from scrapy_robots_rfc.commands.report_files import ReportFile
    from scrapy_robots_rfc.commands.report_sums import RuleKey, Sums
    from scrapy_robots_rfc.commands.terminal import Style

    K = TypeVar("K")

NO_ORIGIN = "(no origin)"
NO_SPIDER = "(no name)"


def lines_of(sums: Sums, files: Sequence[ReportFile], top: int, style: Style) -> Iterator[str]:
    """Yield the lines.

    :param top: how many of each kind are listed.
    """
    yield style.paint(headline(sums), Colour.STRONG)
    for name, text in _facts(sums, files, top):
        yield from style.fact(name, text)
    tables = _Tables(sums, top, style)
    yield from tables.table("by reason", sums.reasons, str)
    yield from tables.table("by origin", sums.by_origin, lambda origin: origin or NO_ORIGIN)
    yield from tables.table("by rule", sums.rules, rule_text)
    yield from tables.table("robots.txt unreachable", sums.by_cause, lambda cause: f"{cause}{_in(sums, cause)}")
    yield from tables.table("not asked, by entry of ROBOTSTXT_EXEMPT", sums.exempt, str, shares=False)


def headline(sums: Sums) -> str:
    """Return the one sentence."""
    if not sums.requests:
        return "no request was disallowed"
    times = "" if sums.first is None or sums.last is None else f", {between(sums.first, sums.last)}"
    return f"{many(sums.requests, 'request')} disallowed{times}"


def _facts(sums: Sums, files: Sequence[ReportFile], top: int) -> Iterator[tuple[str, str]]:
    """Yield what is to be said of all of it, each with a name."""
    records = sum(file.reading.records for file in files)
    yield "files", f"{_listed([file.name for file in files], top)} ({many(records, 'record')})"
    if sums.requests:
        yield "spiders", _listed([f"{name or NO_SPIDER} {count:,}" for name, count in most(sums.spiders)], top)
        yield "sites", f"{many(len(sums.origins), 'origin')}, {many(len(sums.rules), 'rule')}"
    if sums.dry_run:
        yield "dry run", f"{sums.dry_run:,} of them were let through all the same"
    if sums.stale:
        yield "stale", f"{sums.stale:,} were decided by an earlier copy, because its refresh failed"


def rule_text(key: RuleKey) -> str:
    """Return a rule with all that belongs to it."""
    line = "" if key.line is None else f" line {key.line}"
    token = "" if key.token is None else f" (for {key.token})"
    return f"{key.origin or NO_ORIGIN}{line}: {key.rule}{token}"


def _listed(names: Sequence[str], top: int) -> str:
    left = len(names) - top
    return ", ".join([*names[:top], *([f"and {left:,} more"] if left > 0 else [])])


def _in(sums: Sums, cause: str) -> str:
    return f", of {many(len(sums.unreachable[cause]), 'origin')}"


class _Tables:
    """Tables with the same columns: how many, their share of all, what."""

    def __init__(self, sums: Sums, top: int, style: Style) -> None:
        self._sums = sums
        self._top = top
        self._style = style
        largest = max([sums.requests, *sums.exempt.values()])
        self._digits = max(len(f"{largest:,}"), 6)

    def table(self, title: str, counts: Counter[K], name: Callable[[K], str], *, shares: bool = True) -> Iterator[str]:
        """Yield a heading and a row for each of those that count most; nothing where there is none."""
        if not counts:
            return
        left = len(counts) - self._top
        yield ""
        yield self._style.paint(f"{title}{f' ({self._top:,} of {len(counts):,})' if left > 0 else ''}", Colour.STRONG)
        for key, count in most(counts, self._top):
            share = f"{percent(self._sums.share(count)):>7}" if shares else ""
            before = f"  {count:>{self._digits},}{self._style.paint(share, Colour.FAINT)}  "
            used = 4 + self._digits + len(share)
            yield before + self._style.cut(printable(name(key)), used)
