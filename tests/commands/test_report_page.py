"""The page that `scrapy robots report --html` writes, in a real browser.

What it shows, and how it is used.
"""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.command_line import run
from tests.support.report_pages import hostile, made
from tests.support.reports import crawl, exported, record

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.browser import Browser

#: What a browser shows does not depend on the versions of CPython and Scrapy.
pytestmark = pytest.mark.once

#: Of the tables: the name of each, and where its rows stand in the JSON with the columns that are
#: numbers.
TABLES = {
    "reason": ("by_reason", ["requests"]),
    "origin": ("by_origin", ["requests"]),
    "rule": ("by_rule", ["requests"]),
    "unreachable": ("unreachable", ["requests"]),
    "exempt": ("exempt", ["requests"]),
}


def rows(browser: Browser, table: str) -> list[list[str]]:
    """The texts of a table's cells, of the rows that are shown."""
    script = """
        return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]
            .filter((row) => row.offsetHeight > 0)
            .map((row) => [...row.cells].map((cell) => cell.innerText))
    """
    found: list[list[str]] = browser.run(script, table)
    return found


# What it shows.


def test_numbers_are_those_of_the_json(shown: tuple[Browser, dict[str, Any]]) -> None:
    """The numbers of the tables are those of the JSON, in the same order.

    So are the ones at the top.
    """
    browser, sums = shown
    for name, (key, columns) in TABLES.items():
        script = """
            return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)].map(
                (row) => [...row.querySelectorAll("td.n")].map((cell) => cell.innerText))
        """
        cells = [[int(text) for text in row if text.isdigit()] for row in browser.run(script, name)]
        assert cells == [[entry[one] for one in columns] for entry in sums[key]], name
    for row, entry in zip(rows(browser, "origin"), sums["by_origin"], strict=True):
        share = f"{entry['requests'] / sums['requests'] * 100:.1f} %"
        assert row == [entry["origin"], str(entry["requests"]), share]
    figures = browser.run(
        "return [...document.querySelectorAll('.figures div')].map((one) => one.innerText)"
    )
    assert "by a rule\n893" in figures
    assert (
        browser.run("return document.querySelector('h1').innerText")
        == f"{sums['requests']} requests disallowed"
    )


def test_bars_are_as_long_as_their_numbers(shown: tuple[Browser, dict[str, Any]]) -> None:
    """The bars of origins, rules and reasons are as long as their numbers are large, the first
    one all of the width.
    """
    browser, sums = shown
    script = """
        const items = (list) => [...list.children];
        return [...document.querySelectorAll(".bars")].map((list) => items(list).map((item) => [
            item.querySelector(".bar").getBoundingClientRect().width,
            item.querySelector("svg").getBoundingClientRect().width]))
    """
    plots = browser.run(script)
    assert len(plots) == 3
    for key, bars in zip(("by_reason", "by_origin", "by_rule"), plots, strict=True):
        numbers = [entry["requests"] for entry in sums[key]][:10]
        assert [width for width, _ in bars] == pytest.approx(
            [bars[0][1] * n / numbers[0] for n in numbers], abs=0.1
        )


def test_rules_that_are_long_are_readable(browser: Browser, tmp_path: Path) -> None:
    """However long patterns and names are, each bar shows site, line and token of its rule.

    No two are the same.
    """
    rule, origins = (
        f"Disallow: /{'p' * 3000}",
        ("https://a.example", f"https://{'b' * 900}.example"),
    )
    keys = [
        (origin, line, token) for origin in origins for line in (2, 3) for token in ("*", "foobot")
    ]
    made(
        tmp_path,
        [record(rule=rule, origin=origin, line=line, token=token) for origin, line, token in keys],
    )
    script = """
        const names = [...document.querySelectorAll(".bars:has(code) .name")];
        return names.map((name) => [name.offsetHeight,
            ...[...name.children].map((part) => [part.innerText, part.getBoundingClientRect().bottom
                <= name.getBoundingClientRect().bottom && part.offsetHeight > 10])])
    """
    for width in (360, 1440):
        browser.screen(width)
        browser.open(tmp_path / "report.html")
        names = browser.run(script)
        assert [[text for text, _ in parts[1:]] for _, *parts in names] == [
            [origin, f"line {line}, for {token}"] for origin, line, token in keys
        ]
        assert all(seen for _, *parts in names for _, seen in parts)
        assert max(height for height, *_ in names) < 150


def test_a_page_says_that_nothing_was_disallowed(browser: Browser, tmp_path: Path) -> None:
    """A page of an empty report says so, and has nothing to draw."""
    made(tmp_path, [])
    assert browser.open(tmp_path / "report.html").console == []
    assert browser.driver.title == "No request was disallowed - robots.txt report"
    shown = "return ['h1', '.lede'].map((part) => document.querySelector(part).innerText)"
    assert browser.run(shown) == ["No request was disallowed", "robots.jsonl"]
    assert browser.driver.find_elements(By.CSS_SELECTOR, "section, figure") == []


def test_a_page_of_a_damaged_report_says_so(browser: Browser, tmp_path: Path) -> None:
    """A page of a report that breaks off says how many records were left out."""
    (tmp_path / "robots.jsonl").write_bytes(exported([record(), record()])[:-100])
    assert run("report", "robots.jsonl", "--html", "report.html", folder=tmp_path).code == 0
    assert browser.open(tmp_path / "report.html").console == []
    figures = browser.run("return document.querySelector('.figures').innerText")
    assert "broken records, left out\n1" in figures


def test_it_says_how_much_is_not_listed(browser: Browser, tmp_path: Path) -> None:
    """A table that does not list all says how many there are."""
    made(tmp_path, [record(origin=f"https://{number}.example") for number in range(1001)])
    browser.open(tmp_path / "report.html")
    assert len(rows(browser, "origin")) == 1000
    text = browser.run("return document.querySelector('#origin .head').innerText")
    assert "the first 1,000 of 1,001" in text
    assert browser.run("return document.querySelectorAll('.bars')[1].children.length") == 10


# What it is like to use.


def test_a_click_sorts_a_table(shown: tuple[Browser, dict[str, Any]]) -> None:
    """A click on a heading sorts by it, another one the other way round; numbers as numbers."""
    browser, sums = shown
    before = [entry["requests"] for entry in sums["by_origin"]]
    heading, name = browser.driver.find_elements(By.CSS_SELECTOR, "#origin thead button")[1::-1]
    assert sort_of(browser) == ["descending" if n == 1 else None for n in range(3)]
    heading.click()
    assert [int(row[1]) for row in rows(browser, "origin")] == before[::-1]
    assert sort_of(browser)[1] == "ascending"
    heading.click()
    assert [int(row[1]) for row in rows(browser, "origin")] == before
    name.click()
    assert [row[0] for row in rows(browser, "origin")] == sorted(
        entry["origin"] for entry in sums["by_origin"]
    )
    assert sort_of(browser) == ["ascending" if n == 0 else None for n in range(3)]


def sort_of(browser: Browser) -> list[str | None]:
    """What the headings of a table say of its order."""
    script = (
        "return [...document.querySelectorAll('#origin thead th')].map((one) =>"
        " one.getAttribute('aria-sort'))"
    )
    found: list[str | None] = browser.run(script)
    return found


def test_a_key_sorts_a_table(shown: tuple[Browser, dict[str, Any]]) -> None:
    """A heading is reached, and pressed, by keyboard."""
    browser, _ = shown
    browser.driver.find_element(By.ID, "filter-origin").send_keys(Keys.TAB)
    browser.driver.switch_to.active_element.send_keys(
        Keys.TAB
    )  # the table, which scrolls where it has no room
    heading = browser.driver.switch_to.active_element
    assert (heading.tag_name, heading.text) == ("button", "Origin")
    heading.send_keys(Keys.SPACE)
    assert sort_of(browser)[0] == "ascending"
    heading.send_keys(Keys.ENTER)
    assert sort_of(browser)[0] == "descending"


def test_a_table_is_filtered(shown: tuple[Browser, dict[str, Any]]) -> None:
    """Only rows that have the text are shown, in any case of letters; without a text, all are."""
    browser, sums = shown
    field = browser.driver.find_element(By.ID, "filter-rule")
    field.send_keys("NEWS.example")
    found = rows(browser, "rule")
    assert [("news.example" in " ".join(row)) for row in found] == [True, True]
    field.clear()
    field.send_keys("x", Keys.BACKSPACE)
    assert len(rows(browser, "rule")) == len(sums["by_rule"])


def test_without_script_the_page_says_so(
    browser: Browser, usual: tuple[Path, dict[str, Any]]
) -> None:
    """Without script the page says that it needs one, and how else to get its numbers.

    There is nothing to press.
    """
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(usual[0])
        text = browser.driver.find_element(By.CSS_SELECTOR, "noscript p")
        assert text.is_displayed()
        assert "scrapy robots report FILE prints the same numbers as text" in text.text
        assert browser.driver.find_elements(By.CSS_SELECTOR, "button, input") == []
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


def test_it_has_room_on_narrow_and_wide_screens(
    browser: Browser, usual: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    """On a narrow and on a wide screen, light or dark, nothing but a wide table scrolls
    sideways, whatever is in it.
    """
    made(tmp_path, [*crawl(), *hostile("http://127.0.0.1:9")])
    for page, width, dark in product(
        (usual[0], tmp_path / "report.html"), (360, 1440), (False, True)
    ):
        browser.screen(width, dark=dark)
        if (width, dark) == (360, False):
            browser.open(page)
        assert browser.run(
            "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        )
        paper, ink = browser.run(
            "const style = getComputedStyle(document.body); return [style.backgroundColor,"
            " style.color]"
        )
        assert (brightness(paper) < brightness(ink)) is dark
        assert contrast(paper, ink) > 7  # WCAG 2.2, 1.4.6


def test_contrast_is_high_enough(browser: Browser, usual: tuple[Path, dict[str, Any]]) -> None:
    """All text stands out from the paper, the quiet one too (WCAG 2.2, 1.4.3)."""
    script = """
        const paper = getComputedStyle(document.body).backgroundColor;
        return [...document.querySelectorAll("body *")].filter((one) => one.innerText)
            .map((one) => [paper, getComputedStyle(one).color])
    """
    for dark in (False, True):
        browser.screen(1440, dark=dark)
        browser.open(usual[0])
        assert min(contrast(*pair) for pair in set(map(tuple, browser.run(script)))) > 4.5


def brightness(colour: str) -> float:
    """The relative luminance of a colour, as WCAG 2.2 defines it."""
    parts = [int(part) / 255 for part in re.findall(r"\d+", colour)[:3]]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours, as WCAG 2.2 defines it."""
    dark, light = sorted((brightness(one), brightness(other)))
    return (light + 0.05) / (dark + 0.05)


def test_it_can_be_printed_on_paper(shown: tuple[Browser, dict[str, Any]]) -> None:
    """On paper there is nothing to press, and all of the tables."""
    browser, _ = shown
    browser.screen(794, medium="print")  # A4 at 96 dots an inch
    assert not any(
        field.is_displayed() for field in browser.driver.find_elements(By.TAG_NAME, "input")
    )
    assert len(rows(browser, "rule")) == 7
    assert browser.run(
        "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"
    )


def test_a_screen_reader_can_read_it(shown: tuple[Browser, dict[str, Any]]) -> None:
    """Whoever hears the page hears what each picture, table and field is.

    Headings come in order.
    """
    browser, sums = shown
    nodes = browser.command("Accessibility.getFullAXTree")["nodes"]
    roles: dict[str, list[str]] = {}
    for node in nodes:
        if not node["ignored"]:
            roles.setdefault(node["role"]["value"], []).append(
                node.get("name", {}).get("value", "")
            )
    for role in (
        "image",
        "table",
        "region",
        "searchbox",
        "button",
        "columnheader",
        "rowheader",
        "link",
        "heading",
    ):
        assert roles[role], role
        assert all(roles[role]), role
    assert f"893 of {sums['requests']} requests, 93.3 %" in roles["image"]
    levels = browser.run(
        "return [...document.querySelectorAll('h1, h2')].map((one) => one.tagName)"
    )
    assert levels == ["H1"] + ["H2"] * (len(levels) - 1)
    assert browser.run("return [...document.querySelectorAll('th')].every((one) => one.scope)")
    assert browser.run(
        "return [...document.querySelectorAll('table')].every((one) => one.caption.innerText)"
    )
