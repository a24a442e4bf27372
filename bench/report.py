"""Tables as text: a row a parser, with the ratio to ours beside each number."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ABSENT = "absent"

Row = Sequence[str]


def table(title: str, head: Row, rows: Sequence[Row]) -> str:
    """A table: the first column to the left, the others to the right."""
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]

    def line(row: Row) -> str:
        first, *others = (
            cell.rjust(width) if at else cell.ljust(width)
            for at, (cell, width) in enumerate(cells(row))
        )
        return "  ".join((first, *others)).rstrip()

    def cells(row: Row) -> list[tuple[str, int]]:
        return list(zip(row, widths, strict=True))

    rule = "  ".join("-" * width for width in widths)
    return "\n".join((f"\n{title}", line(head), rule, *map(line, rows)))


def with_ratios(
    names: Sequence[str], columns: Sequence[Mapping[str, float]], base: str, digits: int = 1
) -> list[list[str]]:
    """A row a parser: each number, and its ratio to that of `base`.

    A parser without numbers is shown as absent.
    """
    rows = []
    for name in names:
        cells = [name]
        for column in columns:
            value, ours = column.get(name), column[base]
            if value is None:
                cells += [ABSENT, ""]
            else:
                cells += [f"{value:,.{digits}f}", f"{value / ours:.2f}x"]
        rows.append(cells)
    return rows
