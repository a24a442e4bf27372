"""The table that a demo crawl prints at its end: page, verdict, why.

`reporting.py` adds a row for each request when its outcome is known.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_PATH = 60  # characters; longer paths are cut, so that the verdicts stay aligned


@dataclass(frozen=True, slots=True)
class Row:
    """The outcome of one request.

    :param other_verdict: the verdict for another crawler, in a separate column.
    """

    url: str
    verdict: str
    why: str
    other_verdict: str = ""

    @property
    def origin(self) -> str:
        """Scheme, host and port."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}"

    @property
    def page(self) -> str:
        """The path and query, cut if they are long."""
        text = self.url[len(self.origin) :] or "/"
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
    _rows: dict[int, Row] = field(default_factory=dict)

    def add(self, position: int, row: Row) -> None:
        """Add a row.

        :param position: its place in the table, so that rows are in the order of the requests.
        """
        self._rows[position] = row

    def lines(self) -> Iterator[str]:
        """Yield the lines of the table."""
        yield ""
        yield f"What {self.agent} may fetch, and why"
        yield ""
        rows = [row for _, row in sorted(self._rows.items())]
        cells = [self._cells(row) for row in rows] + [self._heading()]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        for origin in dict.fromkeys([*self.titles, *(row.origin for row in rows)]):
            rows_of_origin = [row for row in rows if row.origin == origin]
            if rows_of_origin:
                yield from self._origin(origin, rows_of_origin, widths)

    def _origin(self, origin: str, rows: list[Row], widths: list[int]) -> Iterator[str]:
        yield self.titles.get(origin, origin)
        if origin in self.titles:
            yield f"  {origin}"
        yield f"  robots.txt: {self.access.get(origin, 'not requested')}"
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
