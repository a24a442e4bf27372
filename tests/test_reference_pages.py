"""The reference pages say what the code says, both ways.

A row for every value, and a value for every row.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from scrapy_robots_rfc import RobotsService, signals, stats
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.settings import TABLE

DOCS = Path(__file__).parent.parent / "docs"


def rows(page: str, table: int = 0) -> list[list[str]]:
    """The cells of one table of a page, without its head."""
    text = (DOCS / page).read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in tables[table].splitlines()[2:]
    ]


def shown(value: object) -> str:
    """A default as the page shows it."""
    return f"`{int(value) if isinstance(value, float) and value.is_integer() else value!r}`"


def test_settings_page() -> None:
    """docs/settings.md has a row a setting.

    Key, type, default, accepted values, and a line of text.
    """
    found = rows("settings.md")
    assert [(key, default, accepted) for key, _, default, accepted, _ in found] == [
        (f"`{row.key}`", shown(row.default), row.accepted) for row in TABLE
    ]
    assert all(kind and text for _, kind, _, _, text in found)
    assert len(TABLE) <= 24


def test_stats_page() -> None:
    """docs/stats.md has a row a key, in their order, each with what it counts."""
    keys = [
        value for name, value in vars(stats).items() if name.isupper() and isinstance(value, str)
    ]
    found = rows("stats.md")
    assert sorted(key for key, _ in found) == sorted(f"`{key}`" for key in keys)
    assert all(text for _, text in found)
    assert len(found) <= 35


def test_signals_page() -> None:
    """docs/signals.md has a row a signal."""
    names = {name for name, value in vars(signals).items() if type(value) is object}
    assert {row[0].strip("`") for row in rows("signals.md")} == names


def public(cls: type) -> set[str]:
    """The public names of a class, its fields among them."""
    fields = (
        {field.name for field in dataclasses.fields(cls)}
        if dataclasses.is_dataclass(cls)
        else set()
    )
    return {name for name in {*vars(cls), *fields} if not name.startswith("_")}


def inner(page: str) -> list[set[str]]:
    """The names that a page calls apt to change, by paragraph."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return [
        set(re.findall(r"`(\w+)`", names))
        for names in re.findall(r"change: (.*)\.$", text, re.MULTILINE)
    ]


def test_service_page() -> None:
    """docs/service.md has a row a public name of the service and of what it gives, or says that
    it is not for users.
    """
    for table, (cls, names) in enumerate(
        zip((RobotsService, OriginPolicy), inner("service.md"), strict=True)
    ):
        described = {row[0].strip("`") for row in rows("service.md", table)}
        assert described | names == public(cls)
        assert not described & names
