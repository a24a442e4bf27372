"""The tables of the reference pages match the code: settings, stats, signals, service."""

from __future__ import annotations

import dataclasses
import re
import shlex
from pathlib import Path

from scrapy_robots_rfc import RobotsService, signals, stats
from scrapy_robots_rfc.fetching.parsed import OriginPolicy
from scrapy_robots_rfc.settings import TABLE
from tests.support.documents import executed

DOCS = Path(__file__).parent.parent / "docs"


def rows(page: str, head: str = "") -> list[list[str]]:
    """Return the rows of the first table of a page whose head begins with some text."""
    text = (DOCS / page).read_text(encoding="utf-8")
    tables = re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE)
    table = next(table for table in tables if table.startswith(f"| {head}"))
    return [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()[2:]
    ]


def shown(value: object) -> str:
    """Return a default as the page shows it."""
    return f"`{int(value) if isinstance(value, float) and value.is_integer() else value!r}`"


def test_settings_page() -> None:
    """docs/settings.md has a section for each setting, in the order of the code, with the type, the
    default and the accepted values.
    """
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    facts = re.findall(
        r"^## `(\w+)`\n\n(.*)\n\n- Type: (.*)\n- Default: (.*)\n- Accepted: (.*)\n",
        text,
        re.MULTILINE,
    )
    assert [(key, default, accepted) for key, _, _, default, accepted in facts] == [
        (row.key, shown(row.default), row.accepted) for row in TABLE
    ]
    assert all(text and kind for _, text, kind, _, _ in facts)


def test_examples_of_settings() -> None:
    """Each setting has an example for settings.py, and the same value for `-s`."""
    text = (DOCS / "settings.md").read_text(encoding="utf-8")
    examples = re.findall(r"^- Examples: `(.*)`, `-s (.*)`$", text, re.MULTILINE)
    for row, (code, command) in zip(TABLE, examples, strict=True):
        example = executed(code)
        [argument] = shlex.split(command)
        key, _, value = argument.partition("=")
        assert key == row.key
        assert row.read(value) == row.read(example[row.key])
        assert row.read(value) != row.read(row.default)


def test_stats_page() -> None:
    """docs/report.md has a row for each stat."""
    keys = [
        value for name, value in vars(stats).items() if name.isupper() and isinstance(value, str)
    ]
    table = rows("report.md", "key |")
    assert sorted(key for key, _ in table) == sorted(f"`{key}`" for key in keys)
    assert all(text for _, text in table)


def test_signals_page() -> None:
    """docs/spiders.md has a row for each signal."""
    names = {name for name, value in vars(signals).items() if type(value) is object}
    assert {row[0].strip("`") for row in rows("spiders.md", "signal |")} == names


def public(cls: type) -> set[str]:
    """Return the public names of a class, including its fields."""
    fields = (
        {field.name for field in dataclasses.fields(cls)}
        if dataclasses.is_dataclass(cls)
        else set()
    )
    return {name for name in {*vars(cls), *fields} if not name.startswith("_")}


def members(name: str) -> list[list[str]]:
    """Return the rows of the table below the heading with the name of a class."""
    text = (DOCS / "spiders.md").read_text(encoding="utf-8").partition(f"## `{name}`\n")[2]
    (table,) = re.findall(r"\A\s*((?:^\|.*\n)+)", text, re.MULTILINE)
    lines = table.splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def test_service_page() -> None:
    """The names of the service and of its results in docs/spiders.md exist."""
    for cls in (RobotsService, OriginPolicy):
        described = {row[0].strip("`") for row in members(cls.__name__)}
        assert described
        assert described <= public(cls)
