"""The page that `scrapy robots report --html` writes, in a real browser: contents and use."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.report_pages import hostile, made
from tests.support.reports import crawl, record, unreachable

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.browser import Browser

    Shown = tuple[Browser, dict[str, Any]]

#: What a browser shows does not depend on the versions of CPython and Scrapy.
pytestmark = pytest.mark.once

#: Name of a table -> the key of its rows in the JSON.
TABLES = {
    "origin": "by_origin",
    "unreachable": "unreachable",
    "dropped": "dropped",
    "exempt": "exempt",
}
HAS_ROOM = "return document.documentElement.scrollWidth <= document.documentElement.clientWidth"


def rows(browser: Browser, table: str) -> list[list[str]]:
    """The texts of a table's cells, of the rows that are shown, line by line."""
    script = """
        return [...document.querySelectorAll(`#${arguments[0]} tbody tr`)]
            .filter((row) => row.offsetHeight > 0)
            .map((row) => [...row.cells].map((cell) => cell.innerText))
    """
    found: list[list[str]] = browser.run(script, table)
    return found


def text(browser: Browser, selector: str) -> str:
    """The text of the first element of a selector."""
    found: str = browser.run("return document.querySelector(arguments[0]).innerText", selector)
    return found


def opened(browser: Browser, folder: Path, records: list[dict[str, Any]]) -> Browser:
    """Open the page of some records."""
    made(folder, records)
    assert browser.open(folder / "report.html").console == []
    return browser


# What it shows.


def test_numbers_are_those_of_the_json(shown: Shown) -> None:
    """The tables have the numbers and shares of the JSON, in the same order."""
    browser, sums = shown
    for name, key in TABLES.items():
        numbers = [[str(row["requests"]), row.get("share")] for row in sums[key]]
        cells = [[*row[1].split(), None][:2] for row in rows(browser, name)]
        assert cells == numbers, name
    assert text(browser, "h1") == f"{sums['requests']} requests dropped"


def test_reasons_add_up_to_the_total(browser: Browser, tmp_path: Path) -> None:
    """Each reason has a number, a share and an explanation; rare ones are added up."""
    reasons = ["rule", "rule", "page", "use", *(f"made up {number}" for number in range(9))]
    opened(browser, tmp_path, [record(reason=reason) for reason in reasons])
    script = """
        return [...document.querySelectorAll(".tiles div")].map((tile) =>
            [...tile.children].map((part) => part.innerText.split("\\n")))
    """
    tiles = browser.run(script)
    assert sum(int(number[0]) for _, number in tiles) == len(reasons)
    assert tiles[0] == [["rule", "a rule of robots.txt disallows the page"], ["2", "15.4%"]]
    assert tiles[-1][0][0] == "other reasons"
    assert all(len(name) == 2 for name, _ in tiles[:-1])


def test_bars_are_as_long_as_their_shares(shown: Shown) -> None:
    """A bar has the length of its share, and no text of its own."""
    browser, sums = shown
    script = """
        return [...document.querySelectorAll("#origin svg")].map((svg) =>
            svg.querySelector(".bar").getBoundingClientRect().width
            / svg.getBoundingClientRect().width)
    """
    shares = [row["requests"] / sums["requests"] for row in sums["by_origin"]]
    assert browser.run(script) == pytest.approx(shares, abs=0.01)
    assert browser.run("return document.querySelector('#origin svg').ariaHidden") == "true"


def test_the_header_says_when_and_who(shown: Shown) -> None:
    """The header has the file, the time, the runs, the spiders and the agents."""
    facts = text(shown[0], ".facts").splitlines()
    assert dict(zip(facts[::2], facts[1::2], strict=True)) == {
        "file": "robots.jsonl (961 records)",
        "time": "2026-11-21 08:00:00 to 09:30:00 UTC",
        "runs": "2",
        "spiders": "shops (718), news (239)",
        "agent": "newsbot",
        "exempt": "53 requests, not judged by robots.txt",
    }
    assert [row[1] for row in rows(shown[0], "runs")] == ["718", "239"]


def test_a_page_says_that_nothing_was_dropped(browser: Browser, tmp_path: Path) -> None:
    """A page of an empty report says so, and has nothing to draw."""
    opened(browser, tmp_path, [])
    assert browser.driver.title == "No request was dropped - robots.txt report"
    assert text(browser, ".facts").split("\n") == ["file", "robots.jsonl (0 records)"]
    assert browser.driver.find_elements(By.CSS_SELECTOR, "section, .tiles") == []


def test_a_dry_run_is_titled_as_such(browser: Browser, tmp_path: Path) -> None:
    """The page of a dry run does not say that requests were dropped."""
    opened(browser, tmp_path, [record(dry_run=True)])
    assert text(browser, "h1") == "Dry run: 1 request would be dropped"
    assert text(browser, "#dropped h2") == "Disallowed URLs"
    assert "in a dry run" not in text(browser, "#dropped")


def test_rows_count_the_requests_of_a_dry_run(browser: Browser, tmp_path: Path) -> None:
    """A rule and a URL say how many of their requests were sent in a dry run."""
    url = "https://a.example/private/x"
    opened(browser, tmp_path, [record(url=url, dry_run=True), record(url=url)])
    [row] = browser.driver.find_elements(By.CSS_SELECTOR, "#dropped tbody th")
    assert row.text.split("\n")[1:] == [
        "https://a.example, rule, group *, agent newsbot, 1 in a dry run",
        "1 URL",
        f"{url} (2 times), 1 in a dry run",
    ]


def test_dropped_urls_are_listed_by_reason_and_rule(browser: Browser, tmp_path: Path) -> None:
    """Each rule has its URLs; what a page does not list is counted in a line."""
    urls = [f"https://a.example/private/{number}" for number in range(1002)]
    slow = unreachable(url="https://b.example/x", origin="https://b.example")
    opened(browser, tmp_path, [*(record(url=url) for url in urls), slow, slow])
    first, second = browser.driver.find_elements(By.CSS_SELECTOR, "#dropped tbody th")
    assert first.text.split("\n") == [
        "robots.txt line 2: Disallow: /private/",
        "https://a.example, rule, group *, agent newsbot",
        "1,000 URLs",
    ]
    first.find_element(By.TAG_NAME, "summary").click()
    lines = first.text.split("\n")
    assert lines[3:-1] == urls[:1000]
    assert lines[-1] == "and 2 more requests; scrapy robots report --json lists every URL"
    second.find_element(By.TAG_NAME, "summary").click()
    assert second.text.endswith("\n1 URL\nhttps://b.example/x (2 times)")


def test_long_tables_say_how_much_is_left_out(browser: Browser, tmp_path: Path) -> None:
    """A table has 1,000 rows and says how many there are."""
    records = [record(origin=f"https://{number}.example") for number in range(1001)]
    opened(browser, tmp_path, records)
    assert len(rows(browser, "origin")) == len(rows(browser, "dropped")) == 1000
    assert "the first 1,000 of 1,001" in text(browser, "#origin .head")
    assert "the first 1,000 of 1,001" in text(browser, "#dropped .head")


# How it is used.


def test_urls_are_found(browser: Browser, tmp_path: Path) -> None:
    """A search shows the URLs that contain a text, in any case, also those that were hidden."""
    urls = [f"https://a.example/private/{number}" for number in range(200)]
    records = [*(record(url=url) for url in urls), record(url="https://a.example/b", line=3)]
    opened(browser, tmp_path, records)
    field = browser.driver.find_element(By.ID, "filter-dropped")
    field.send_keys("PRIVATE/19")
    [[found, _]] = rows(browser, "dropped")
    assert [line for line in found.split("\n") if "/private/1" in line] == [urls[19], *urls[190:]]
    field.clear()
    field.send_keys("line 3", Keys.BACKSPACE)
    assert len(rows(browser, "dropped")) == 2
    assert "/private/19" not in rows(browser, "dropped")[0][0]


def test_a_click_sorts_a_table(shown: Shown) -> None:
    """A click on a heading sorts by it, another one reverses the order; numbers are numbers."""
    browser, sums = shown
    before = [str(row["requests"]) for row in sums["by_origin"]]
    name, heading = browser.driver.find_elements(By.CSS_SELECTOR, "#origin thead button")
    for expected in (before[::-1], before):
        heading.click()
        assert [row[1].split()[0] for row in rows(browser, "origin")] == expected
    name.click()
    sites = sorted(row["origin"] for row in sums["by_origin"])
    assert [row[0] for row in rows(browser, "origin")] == sites
    assert sort_of(browser) == ["ascending", None]


def sort_of(browser: Browser) -> list[str | None]:
    """What the headings of a table say of its order."""
    script = """
        return [...document.querySelectorAll("#origin thead th")]
            .map((one) => one.getAttribute("aria-sort"))
    """
    found: list[str | None] = browser.run(script)
    return found


def test_without_script_the_page_says_so(
    browser: Browser, usual: tuple[Path, dict[str, Any]]
) -> None:
    """Without scripts the page says that it needs one, and what else shows its numbers."""
    browser.command("Emulation.setScriptExecutionDisabled", value=True)
    try:
        browser.open(usual[0])
        shown = browser.driver.find_element(By.CSS_SELECTOR, "noscript p")
        assert shown.is_displayed()
        assert "scrapy robots report FILE prints the same numbers as text" in shown.text
        assert browser.driver.find_elements(By.CSS_SELECTOR, "button, input") == []
    finally:
        browser.command("Emulation.setScriptExecutionDisabled", value=False)


# How it looks.

CUT_OFF = """
    const edge = document.documentElement.clientWidth;
    for (const details of document.querySelectorAll("details")) details.open = true;
    return [...document.querySelectorAll("body *:not(caption)")]
        .filter((one) => one.getBoundingClientRect().right > edge || one.scrollWidth >
            Math.max(one.clientWidth, 1) && getComputedStyle(one).overflow !== "visible")
        .map((one) => one.outerHTML.slice(0, 80))
"""


def test_nothing_is_cut_off(browser: Browser, usual: tuple[Path, Any], tmp_path: Path) -> None:
    """On a narrow and a wide screen, light or dark, all text has room, however long it is."""
    made(tmp_path, [*crawl(), *hostile("http://127.0.0.1:9"), record(rule="p" * 3000)])
    for page, width, dark in product(
        (usual[0], tmp_path / "report.html"), (360, 400, 1440), (False, True)
    ):
        browser.screen(width, dark=dark)
        browser.open(page)
        assert browser.run(HAS_ROOM)
        assert browser.run(CUT_OFF) == []


def test_contrast_is_high_enough(browser: Browser, usual: tuple[Path, Any]) -> None:
    """All text stands out from the paper, light or dark (WCAG 2.2, 1.4.3)."""
    script = """
        const paper = getComputedStyle(document.body).backgroundColor;
        return [...document.querySelectorAll("body *")].filter((one) => one.innerText)
            .map((one) => [paper, getComputedStyle(one).color])
    """
    for dark in (False, True):
        browser.screen(1440, dark=dark)
        browser.open(usual[0])
        pairs = set(map(tuple, browser.run(script)))
        assert min(contrast(*pair) for pair in pairs) > 4.5
        paper = next(iter(pairs))[0]
        assert (brightness(paper) < 0.5) is dark


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


def test_it_can_be_printed_on_paper(shown: Shown) -> None:
    """On paper there are no fields, and all tables and URLs."""
    browser, sums = shown
    browser.screen(794, medium="print")  # A4 at 96 dots an inch
    browser.run("dispatchEvent(new Event('beforeprint'))")
    fields = browser.driver.find_elements(By.TAG_NAME, "input")
    assert fields
    assert not any(field.is_displayed() for field in fields)
    urls = [row["url"] for group in sums["dropped"] for row in group["urls"]]
    lines = [line for row in rows(browser, "dropped") for line in row[0].split("\n")]
    assert set(urls) <= {line.partition(" (")[0] for line in lines}
    assert browser.run(HAS_ROOM)


def test_a_screen_reader_can_read_it(shown: Shown) -> None:
    """Every table, field and link has a name, and headings are in order."""
    browser, _ = shown
    names: dict[str, list[str]] = {}
    for node in browser.command("Accessibility.getFullAXTree")["nodes"]:
        if not node["ignored"]:
            role, name = node["role"]["value"], node.get("name", {}).get("value", "")
            names.setdefault(role, []).append(name)
    for role in ("table", "region", "searchbox", "button", "columnheader", "rowheader", "link"):
        assert names[role], role
        assert all(names[role]), role
    levels = browser.run(
        "return [...document.querySelectorAll('h1, h2')].map((one) => one.tagName)"
    )
    assert levels == ["H1"] + ["H2"] * (len(levels) - 1)
    assert browser.run("return [...document.querySelectorAll('th')].every((one) => one.scope)")
