"""The table that a demo crawl prints at its end: page, verdict, why; then the stats.

`reporting.py` adds a row for each request when its outcome is known.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MAX_PATH = 60  # characters; longer paths are cut, so that the verdicts stay aligned


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one request.

    :param other_verdict: the verdict for another crawler, in a separate column.
    :param batch: a label; rows with the same label, verdict and reason become one line.
    """

    url: str
    verdict: str
    why: str
    other_verdict: str = ""
    batch: str | None = None

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def page(self) -> str:
        """The path and query, cut if they are long, or the label of the batch."""
        text = self.batch or self.url[len(self.origin) :] or "/"
        return text if len(text) <= _MAX_PATH else f"{text[: _MAX_PATH - 3]}..."


@dataclass(slots=True)
class Report:
    """The table of one crawl.

    :param agent: the User-Agent header of the crawl.
    :param titles: what an origin demonstrates, by origin. The title of other origins is their URL.
    :param other_heading: the heading of the column with the other verdict, or an empty string.
    """

    agent: str
    titles: dict[str, str] = field(default_factory=dict)
    other_heading: str = ""
    #: How the fetch of an origin's robots.txt ended, by origin.
    access: dict[str, str] = field(default_factory=dict)
    #: The shortest interval between two requests, by origin with a Crawl-delay.
    intervals: dict[str, str] = field(default_factory=dict)
    _rows: dict[int, Row] = field(default_factory=dict)

    def add(self, position: int, row: Row) -> None:
        """Add a row.

        :param position: its place in the table, so that rows are in the order of the requests.
        """
        self._rows[position] = row

    def lines(self, stats: Mapping[str, Any]) -> Iterator[str]:
        """Yield the lines of the table and the robots.txt stats.

        :param stats: all stats of the crawl.
        """
        yield ""
        yield f"What {self.agent} may fetch, and why"
        yield ""
        rows = list(_merged(row for _, row in sorted(self._rows.items())))
        cells = [self._cells(row) for row in rows] + [self._heading()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for origin in dict.fromkeys([*self.titles, *(row.origin for row in rows)]):
            rows_of_origin = [row for row in rows if row.origin == origin]
            if rows_of_origin:
                yield from self._origin(origin, rows_of_origin, widths)
        yield "Stats"
        # Leave out the stats of single origins, which their sections already show.
        shown = {
            key: value
            for key, value in sorted(stats.items())
            if key.startswith("robotstxt/") and "://" not in key
        }
        for key, value in shown.items():
            yield f"  {key:<{max(map(len, shown))}}  {value}"

    def _origin(self, origin: str, rows: list[Row], widths: list[int]) -> Iterator[str]:
        yield self.titles.get(origin, origin)
        if origin in self.titles:
            yield f"  {origin}"
        yield f"  robots.txt: {self.access.get(origin, 'not requested')}"
        if origin in self.intervals:
            yield f"  interval: {self.intervals[origin]}"
        for cells in (self._heading(), *map(self._cells, rows)):
            yield "    " + "  ".join(map(str.ljust, cells, widths)).rstrip()
        yield ""

    def _heading(self) -> tuple[str, ...]:
        return ("page", "verdict", *([self.other_heading] if self.other_heading else []), "why")

    def _cells(self, row: Row) -> tuple[str, ...]:
        return (
            row.page,
            row.verdict,
            *([row.other_verdict] if self.other_heading else []),
            row.why,
        )


def _merged(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows, each batch as one row with its number of pages."""
    counts = Counter(row if row.batch is None else replace(row, url=row.origin) for row in rows)
    for row, count in counts.items():
        yield row if row.batch is None else replace(row, batch=f"{row.batch} ({count} pages)")
