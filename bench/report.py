"""Tables as text."""

from collections.abc import Sequence

Row = Sequence[str]


def table(title: str, head: Row, rows: Sequence[Row]) -> str:
    """Return a table with the first column on the left and the others on the right."""
    columns = zip(head, *rows, strict=True)
    widths = [max(map(len, column)) for column in columns]

    def line(row: Row) -> str:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        return "  ".join((row[0].ljust(len(first)), *others)).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join((f"\n{title}", line(head), rule, *map(line, rows)))
