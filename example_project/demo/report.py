"""The closing table of a crawl: URL, verdict, why; then the stats. It is made from what happened,
not from what should.

`reporting.py` adds the rows.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_WIDEST_PATH = 60  # longer ones are cut short, so that verdicts stay under each other


@dataclass(frozen=True, slots=True)
class Row:
    """What became of one request.

    :param also: an additional verdict, in a column of its own.
    :param batch: rows of one batch, verdict and reason are one line of the table.
    """

    url: str
    verdict: str
    why: str
    also: str = ""
    batch: str | None = None

    @property
    def origin(self) -> str:
        """Scheme and authority."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def page(self) -> str:
        """Path and query, as far as there is room."""
        text = self.batch or self.url[len(self.origin) :] or "/"
        return text if len(text) <= _WIDEST_PATH else f"{text[: _WIDEST_PATH - 3]}..."


@dataclass(slots=True)
class Report:
    """The table of one crawl.

    :param agent: the User-Agent header of the crawl.
    :param titles: what an origin shows, by origin. Origins without a title are named by their URL
        alone.
    :param also: the heading of the additional verdict.
    """

    agent: str
    titles: dict[str, str] = field(default_factory=dict)
    also: str = ""
    #: How the fetch of an origin's robots.txt ended, by origin.
    access: dict[str, str] = field(default_factory=dict)
    #: The pace that was obeyed, by origin, if there was one.
    paces: dict[str, str] = field(default_factory=dict)
    _rows: dict[int, Row] = field(default_factory=dict)

    def add(self, position: int, row: Row) -> None:
        """Add a row.

        :param position: its place in the table, so that the order is that of asking and not that of
            answers.
        """
        self._rows[position] = row

    def lines(self, stats: Mapping[str, Any]) -> Iterator[str]:
        """Yield the table, then the stats of robots.txt.

        :param stats: all stats of the crawl.
        """
        yield f"What may be fetched as {self.agent!r}, and why"
        yield ""
        rows = list(_merged(row for _, row in sorted(self._rows.items())))
        cells = [self._cells(row) for row in rows] + [self._heading()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for origin in dict.fromkeys([*self.titles, *(row.origin for row in rows)]):
            found = [row for row in rows if row.origin == origin]
            if found:
                yield from self._origin(origin, found, widths)
        yield "Stats"
        # What is counted by origin stands above, at the origin.
        shown = {
            k: value
            for k, value in sorted(stats.items())
            if k.startswith("robotstxt/") and "://" not in k
        }
        for key, value in shown.items():
            yield f"  {key:<{max(map(len, shown))}}  {value}"

    def _origin(self, origin: str, rows: list[Row], widths: list[int]) -> Iterator[str]:
        yield self.titles.get(origin, origin)
        if origin in self.titles:
            yield f"  {origin}"
        yield f"  robots.txt: {self.access.get(origin, 'not asked for')}"
        if origin in self.paces:
            yield f"  pace: {self.paces[origin]}"
        for cells in (self._heading(), *map(self._cells, rows)):
            yield "    " + "  ".join(map(str.ljust, cells, widths)).rstrip()
        yield ""

    def _heading(self) -> tuple[str, ...]:
        return ("page", "verdict", *([self.also] if self.also else []), "why")

    def _cells(self, row: Row) -> tuple[str, ...]:
        return (row.page, row.verdict, *([row.also] if self.also else []), row.why)


def _merged(rows: Iterable[Row]) -> Iterator[Row]:
    """Make one row of each batch, with its number of pages."""
    counts = Counter(row if row.batch is None else replace(row, url=row.origin) for row in rows)
    for row, count in counts.items():
        yield row if row.batch is None else replace(row, batch=f"{row.batch} ({count} pages)")
