"""The tables of a report's page.

In here: what stands in them, and their HTML. Whatever a site, a spider or a file name wrote goes through `escaped`, and
into a link through `_link`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from scrapy_robots_rfc.commands.report_plots import escaped
from scrapy_robots_rfc.commands.report_sums import most, percent
from scrapy_robots_rfc.commands.report_text import NO_ORIGIN, NO_SPIDER
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.policy.origin import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from scrapy_robots_rfc.commands.report_files import ReportFile
    from scrapy_robots_rfc.commands.report_sums import RuleKey, Sums

#: HTML; or a number and what is shown for it.
_Cell: TypeAlias = "str | tuple[float, str]"

#: Characters of a URL that are shown; the link has all of them.
_SHOWN = 100
#: Rows from which on there is something to filter.
_FILTERED = 3

_RULE, _UNREACHABLE = Reason.RULE.value, Reason.UNREACHABLE.value
_MEANING = {
    _RULE: "a rule of the site's robots.txt",
    _UNREACHABLE: "robots.txt could not be had, so nobody knows the rules",
    Reason.LOCAL.value: "a part of the crawl itself failed, so that nobody knows the rules",
    Reason.CRAWL_DELAY.value: "the site asks for a longer interval than is kept",
    Reason.PARSER.value: "the project's own parser says so",
}


@dataclass(frozen=True, slots=True)
class _Table:
    """A table.

    :param columns: headings; the first is that of the rows' own headings.
    :param rows: their cells.
    :param total: how many rows there would be if all were listed.
    """

    name: str
    title: str
    about: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[_Cell]]
    total: int


def sections(sums: Sums, files: Sequence[ReportFile], top: int) -> Iterator[str]:
    """Yield links to the tables, and each table that has a row.

    :param top: how many rows a table has at most.
    """
    cells = _Cells(sums)
    all_of_them = (
        _reasons(sums, cells, top),
        _origins(sums, cells, top),
        _rules(sums, cells, top),
        _spiders(sums, cells, top),
        _causes(sums, cells, top),
        _entries(sums, top),
        _files(files),
    )
    tables = [table for table in all_of_them if table.rows]
    links = "".join(f'<li><a href="#{table.name}">{table.title}</a></li>' for table in tables)
    yield f'<nav aria-label="Tables"><ul>{links}</ul></nav>'
    yield from map(_section, tables)


# What stands in them.


class _Cells:
    """Cells with numbers of requests."""

    def __init__(self, sums: Sums) -> None:
        self._sums = sums

    def of(self, count: int) -> tuple[_Cell, _Cell]:
        """Return the cells of a number and of its share."""
        part = self._sums.share(count)
        return _number(count), (part, escaped(percent(part, " ")))

    def by_reason(self, origin: str | None) -> Iterator[_Cell]:
        """Yield the cells of an origin's reasons."""
        reasons = self._sums.origins[origin]
        named = [reasons[_RULE], reasons[_UNREACHABLE]]
        return map(_number, (*named, reasons.total() - sum(named)))


def _number(count: int) -> _Cell:
    return count, f"{count:,}"


def _reasons(sums: Sums, cells: _Cells, top: int) -> _Table:
    rows = [
        (f'{escaped(reason)}<span class="note">{_MEANING.get(reason, "")}</span>', *cells.of(count))
        for reason, count in most(sums.reasons, top)
    ]
    return _Table("reason", "By reason", "", ("Reason", "Requests", "Share"), rows, len(sums.reasons))


def _origins(sums: Sums, cells: _Cells, top: int) -> _Table:
    rows = [
        (_link(origin, NO_ORIGIN), *cells.of(count), *cells.by_reason(origin))
        for origin, count in most(sums.by_origin, top)
    ]
    columns = ("Origin", "Requests", "Share", "By a rule", "Unreachable", "Other")
    return _Table("origin", "By origin", "scheme, host and port", columns, rows, len(sums.origins))


def _rules(sums: Sums, cells: _Cells, top: int) -> _Table:
    rows = [_rule(key, count, sums, cells) for key, count in most(sums.rules, top)]
    about = "with the first URL that each disallowed, and where it stands"
    return _Table("rule", "By rule", about, ("Rule", "robots.txt of", "Requests", "Share"), rows, len(sums.rules))


def _rule(key: RuleKey, count: int, sums: Sums, cells: _Cells) -> tuple[_Cell, ...]:
    example = sums.examples.get(key)
    first = "" if example is None else f'<span class="note">{_link(example, "")}</span>'
    origin = None if key.origin is None else Origin.of(key.origin)
    file = _link(key.origin, NO_ORIGIN, None if origin is None else origin.robots_url)
    place = rule_place(key)
    there = f'<span class="note">{escaped(place)}</span>' if place else ""
    return f"<code>{escaped(key.rule)}</code>{first}", f"{file}{there}", *cells.of(count)


def rule_place(key: RuleKey) -> str:
    """Return where a rule stands in its file, and for whom, as far as the report says so."""
    line = [] if key.line is None else [f"line {key.line}"]
    return ", ".join([*line, *([] if key.token is None else [f"for {key.token}"])])


def _spiders(sums: Sums, cells: _Cells, top: int) -> _Table:
    rows = [(escaped(name or NO_SPIDER), *cells.of(count)) for name, count in most(sums.spiders, top)]
    return _Table("spider", "By spider", "", ("Spider", "Requests", "Share"), rows, len(sums.spiders))


def _causes(sums: Sums, cells: _Cells, top: int) -> _Table:
    rows = [
        (escaped(cause), *cells.of(count), _number(len(sums.unreachable[cause])))
        for cause, count in most(sums.by_cause, top)
    ]
    about = "nobody knows what these sites say"
    columns = ("Why", "Requests", "Share", "Origins")
    return _Table("unreachable", "robots.txt unreachable", about, columns, rows, len(sums.unreachable))


def _entries(sums: Sums, top: int) -> _Table:
    rows = [(escaped(entry), _number(count)) for entry, count in most(sums.exempt, top)]
    about = "entries of ROBOTSTXT_EXEMPT that were used; these requests are in no other number"
    return _Table("exempt", "Not asked", about, ("Entry", "Requests"), rows, len(sums.exempt))


def _files(files: Sequence[ReportFile]) -> _Table:
    rows = [
        (
            escaped(file.name),
            _number(file.reading.records),
            _number(file.reading.broken),
            "breaks off" if file.reading.breaks_off else "whole",
        )
        for file in files
    ]
    return _Table("file", "Files", "", ("File", "Records", "Broken", "End"), rows, len(rows))


# Their HTML.


def _link(text: str | None, nothing: str, target: str | None = None) -> str:
    """Return a text, as a link where it, or the target, is the URL of a page on the web in which nothing is odd."""
    if text is None:
        return escaped(nothing)
    target = target or text
    shown = escaped(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
    if Origin.of(target) is None or not target.isprintable() or " " in target:
        return shown
    return f'<a href="{escaped(target)}" rel="noopener noreferrer">{shown}</a>'


def _section(table: _Table) -> str:
    left = (
        f"the first {len(table.rows):,} of {table.total:,}, --top N lists more" if table.total > len(table.rows) else ""
    )
    about = "; ".join(filter(None, (table.about, left)))
    field = f'<label class="filter" hidden>Filter <input type="search" id="filter-{table.name}"></label>'
    heads = "".join(
        f'<th scope="col"{_class(cell)}{_sorted(name)}>{name}</th>'
        for name, cell in zip(table.columns, table.rows[0], strict=True)
    )
    return (
        f'<section id="{table.name}" aria-labelledby="{table.name}-title"><div class="head">'
        f'<h2 id="{table.name}-title">{table.title}</h2><p class="note">{about}</p>'
        f'<p class="note" role="status"></p>{"" if len(table.rows) < _FILTERED else field}</div>'
        f'<div class="scroll" tabindex="0" role="region" aria-labelledby="{table.name}-title"><table>'
        f"<caption>{table.title}</caption><thead><tr>{heads}</tr></thead>"
        f"<tbody>{''.join(map(_row, table.rows))}</tbody></table></div></section>"
    )


def _class(cell: _Cell) -> str:
    return "" if isinstance(cell, str) else ' class="n"'


def _sorted(name: str) -> str:
    return ' aria-sort="descending"' if name == "Requests" else ""


def _row(cells: Sequence[_Cell]) -> str:
    first, *rest = cells
    shown = (
        f"<td>{cell}</td>"
        if isinstance(cell, str)
        else f'<td class="n{"" if cell[0] else " zero"}" data-v="{cell[0]:.12g}">{cell[1]}</td>'
        for cell in rest
    )
    return f'<tr><th scope="row">{first}</th>{"".join(shown)}</tr>'
