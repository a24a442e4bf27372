"""The page that `scrapy robots report --html` writes, in a real browser: contents and use."""

from __future__ import annotations

import re
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.reports import ACTS, crawl, ended, hostile, made, record, site, unreachable
from tests.support.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.browser import Browser

    Shown = tuple[Browser, dict[str, Any]]

#: What a browser shows does not depend on the versions of CPython and Scrapy.
pytestmark = pytest.mark.once

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
    sites = [[row["share"], str(row["requests"]), str(row["allowed"])] for row in sums["by_origin"]]
    rules = [[row["share"], str(row["requests"])] for row in sums["by_rule"]]
    exempt = [[str(row["requests"])] for row in sums["exempt"]]
    assert [row[1:] for row in rows(browser, "origin")] == sites
    assert [row[1:] for row in rows(browser, "rule")] == rules
    assert [row[1:] for row in rows(browser, "exempt")] == exempt
    total = sums["requests"] + sums["allowed"]
    assert text(browser, "h1").startswith(f"{sums['requests']} of {total:,} requests dropped")


def test_a_site_has_its_robots_txt(browser: Browser, tmp_path: Path) -> None:
    """A site has the state of its robots.txt, and the URL, digest and time of each file.

    A failed request is not called a file.
    """
    failed = unreachable(origin="https://b.example", robots_url="https://b.example/robots.txt")
    records = [record(), site("https://a.example", 3, crawl_delay=2), failed, failed, ended(3)]
    opened(browser, tmp_path, records)
    for summary in browser.driver.find_elements(By.CSS_SELECTOR, "#origin summary"):
        summary.click()
    [[failing, *_], [name, *numbers]] = rows(browser, "origin")
    assert failing.split("\n")[2:] == [
        "robots.txt request",
        "https://b.example/robots.txt (requested 2026-11-21 22:40:01 UTC)",
    ]
    assert numbers == ["33.3%", "1", "3"]
    assert name.split("\n") == [
        "https://a.example",
        "successful (200), so its rules apply; Crawl-delay 2 s",
        "1 robots.txt file",
        f"https://a.example/robots.txt (sha256:{0:064x}, requested 2026-11-21 22:40:01 UTC)",
    ]


def test_reasons_add_up_to_the_total(browser: Browser, tmp_path: Path) -> None:
    """Each reason has a number, a share and an explanation, and rare reasons are added up."""
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


def test_dropped_urls_are_listed_with_their_rules(browser: Browser, tmp_path: Path) -> None:
    """The first ten URLs are shown, a button shows more, and a line counts the rest."""
    urls = [f"https://a.example/private/{number}" for number in range(1002)]
    slow = unreachable(url="https://b.example/x", origin="https://b.example")
    opened(browser, tmp_path, [*(record(url=url) for url in urls), slow, slow])
    why = "robots.txt line 2: Disallow: /private/ (rule, group *, agent newsbot)"
    assert rows(browser, "dropped") == [[f"{url}\n{why}", "1"] for url in urls[:10]]
    more = browser.driver.find_element(By.CSS_SELECTOR, "#dropped .rest button")
    assert more.text == "Show all 1,001"
    more.click()
    *shown, last = rows(browser, "dropped")
    assert [row[0].split("\n")[0] for row in shown] == urls[:1000]
    unreachable_why = "robots.txt unreachable: 503 (unreachable, agent newsbot)"
    assert last == [f"https://b.example/x\n{unreachable_why}", "2"]
    rest = "scrapy robots report --json lists every URL"
    assert text(browser, "#dropped .rest") == f"and 2 more requests; {rest}"
    browser.driver.find_element(By.ID, "filter-dropped").send_keys("nothing")
    nothing = f"no dropped URL matches these filters on this page; {rest}"
    assert text(browser, "#dropped .rest") == nothing


def test_allowed_urls_have_a_table(browser: Browser, tmp_path: Path) -> None:
    """With `--allowed`, the allowed URLs are listed in a table of their own."""
    why = "robots.txt: no rule"
    allowed = record(allowed=True, reason="no_rule", rule=None, url="https://a.example/", why=why)
    made(tmp_path, [record(), allowed, ended(1)], "--allowed")
    browser.open(tmp_path / "report.html")
    [[found, number]] = rows(browser, "allowed_urls")
    assert found.split("\n")[0] == "https://a.example/"
    assert number == "1"


# How it is used.


def urls_shown(browser: Browser) -> list[str]:
    """The dropped URLs that are shown."""
    return [row[0].split("\n")[0] for row in rows(browser, "dropped")]


def test_urls_are_found(browser: Browser, tmp_path: Path) -> None:
    """A search finds URLs that contain the text in any case, even if they were hidden. If none
    does, a line says so.
    """
    urls = [f"https://a.example/private/{number}" for number in range(200)]
    why = "robots.txt line 3: Disallow: /b"
    records = [*(record(url=url) for url in urls), record(url="https://a.example/b", why=why)]
    opened(browser, tmp_path, records)
    field = browser.driver.find_element(By.ID, "filter-dropped")
    field.send_keys("PRIVATE/19")
    assert text(browser, "#dropped .rest") == "Show all 11"
    browser.driver.find_element(By.CSS_SELECTOR, "#dropped .rest button").click()
    assert urls_shown(browser) == [urls[19], *urls[190:]]
    field.clear()
    field.send_keys("line 3", Keys.BACKSPACE * 2)
    assert len(urls_shown(browser)) == 10
    field.send_keys(" 3")
    assert urls_shown(browser) == ["https://a.example/b"]
    field.send_keys("nothing")
    assert text(browser, "#dropped .rest") == "no dropped URL matches these filters"


def test_a_click_shows_the_urls(browser: Browser, tmp_path: Path) -> None:
    """A click on a reason, a site or a rule shows its URLs only, until another click."""
    b = {"origin": "https://b.example", "url": "https://b.example/private/1"}
    other = {"rule": "Disallow: /b", "why": "robots.txt line 3: Disallow: /b"}
    c = {"origin": "https://c.example", "url": "https://c.example/"}
    opened(browser, tmp_path, [record(), record(**b), record(url="x", **other), unreachable(**c)])
    first, second, third, fourth = urls_shown(browser)
    choices: dict[str, list[str]] = {
        ".tiles button[value=unreachable]": [fourth],
        "#origin button[value='https://a.example']": [first, second],
        "#rule button[value='Disallow: /private/']": [first, third],
        "#rule button[value='robots.txt unreachable: 503']": [fourth],
    }
    for selector, expected in choices.items():
        choice = browser.driver.find_element(By.CSS_SELECTOR, selector)
        browser.run("arguments[0].click()", choice)
        assert urls_shown(browser) == expected, selector
        assert choice.get_attribute("aria-pressed") == "true"
        browser.driver.find_element(By.CSS_SELECTOR, ".chip").click()
        assert urls_shown(browser) == [first, second, third, fourth]
        assert choice.get_attribute("aria-pressed") == "false"


def test_filters_are_combined(browser: Browser, tmp_path: Path) -> None:
    """A URL is shown if it has the chosen site and the chosen rule."""
    b = {"origin": "https://b.example", "url": "https://b.example/private/1"}
    opened(browser, tmp_path, [record(), record(**b)])
    for selector in ("#rule button.choice", "#origin button[value='https://b.example']"):
        browser.run("document.querySelector(arguments[0]).click()", selector)
    assert urls_shown(browser) == [b["url"]]
    chips = browser.driver.find_elements(By.CSS_SELECTOR, ".chip")
    assert [chip.text for chip in chips] == [
        "site: https://b.example \u00d7",
        "rule: Disallow: /private/ \u00d7",
    ]


def test_a_long_list_is_short_at_first(browser: Browser, tmp_path: Path) -> None:
    """A table shows ten rows. A button shows all of them, and so does paper, with the robots.txt of
    each site.
    """
    origins = [f"https://{number:02}.example" for number in range(12)]
    opened(browser, tmp_path, [record(origin=origin) for origin in reversed(origins)])
    assert [row[0].split("\n")[0] for row in rows(browser, "origin")] == origins[:10]
    browser.driver.find_element(By.CSS_SELECTOR, "#origin .rest button").click()
    assert [row[0].split("\n")[0] for row in rows(browser, "origin")] == origins
    browser.screen(1440, medium="print")
    browser.open(tmp_path / "report.html")
    printed = [name for name, *_ in rows(browser, "origin")]
    assert [name.split("\n")[0] for name in printed] == origins
    assert all("https://a.example/robots.txt (sha256:" in name for name in printed)


@pytest.mark.parametrize(("dry_run", "word"), [(False, "dropped"), (True, "disallowed")])
def test_a_dry_run_drops_nothing(
    browser: Browser, tmp_path: Path, dry_run: bool, word: str
) -> None:
    """The headings of the tables and the footer do not call requests of a dry run dropped."""
    browser.screen(360)
    opened(browser, tmp_path, [record(dry_run=dry_run)])
    for table in ("origin", "rule"):
        assert text(browser, f"#{table} th:nth-child(3)").split("\n")[-1] == word.capitalize()
    assert f"add up to the {word} requests" in text(browser, "footer")
    assert browser.run(CUT_OFF) == []


def test_urls_have_their_robots_txt(browser: Browser, tmp_path: Path) -> None:
    """If a site had several files, each URL has the digest of the file that decided about it."""
    digests = [f"sha256:{number:064x}" for number in range(2)]
    other = record(origin="https://b.example")
    opened(browser, tmp_path, [*(record(digest=digest) for digest in digests), other])
    ends = [name.rpartition("agent newsbot")[2] for name, _ in rows(browser, "dropped")]
    assert ends == [*(f", {digest})" for digest in digests), ")"]


def test_a_click_sorts_a_table(shown: Shown) -> None:
    """A click on a heading sorts the table, and another click reverses the order."""
    browser, sums = shown
    before = [str(row["requests"]) for row in sums["by_origin"]]
    name, _, heading, allowed = browser.driver.find_elements(
        By.CSS_SELECTOR, "#origin thead button"
    )
    for expected in (before[::-1], before):
        heading.click()
        assert [row[2] for row in rows(browser, "origin")] == expected
    name.click()
    sites = sorted(row["origin"] for row in sums["by_origin"])
    assert [row[0].split("\n")[0] for row in rows(browser, "origin")] == sites
    headings = "[...document.querySelectorAll('#origin thead th')]"
    order = browser.run(f"return {headings}.map((one) => one.getAttribute('aria-sort'))")
    assert order == ["ascending", None, None, None]
    allowed.click()
    numbers = sorted((row["allowed"] for row in sums["by_origin"]), reverse=True)
    assert [int(row[3]) for row in rows(browser, "origin")] == numbers


# How it looks.

CUT_OFF = """
    const edge = document.documentElement.clientWidth;
    for (const details of document.querySelectorAll("details")) details.open = true;
    return [...document.querySelectorAll("body *:not(caption)")]
        .filter((one) => one.getBoundingClientRect().right > edge || one.scrollWidth >
            Math.max(one.clientWidth, 1) && (one.matches("th") ||
            getComputedStyle(one).overflow !== "visible"))
        .map((one) => one.outerHTML.slice(0, 80))
"""


def test_nothing_is_cut_off(browser: Browser, usual: tuple[Path, Any], tmp_path: Path) -> None:
    """Long text fits narrow and wide screens, in the light and the dark theme."""
    made(tmp_path, [*crawl(), *hostile("http://127.0.0.1:9"), record(rule="p" * 3000)])
    for page, width, dark in product(
        (usual[0], tmp_path / "report.html"), (360, 400, 1440), (False, True)
    ):
        browser.screen(width, dark=dark)
        browser.open(page)
        assert browser.run(HAS_ROOM)
        assert browser.run(CUT_OFF) == []


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


# Hostile records.


def test_nothing_acts(browser: Browser, tmp_path: Path) -> None:
    """Scripts and URLs in records and in the file name are not executed or requested."""
    with Site() as server:
        made(tmp_path, hostile(server.url("")), name='<img src=x onerror="acted=1">.jsonl')
        opened = browser.open(tmp_path / "report.html")
        for target in browser.driver.find_elements(By.CSS_SELECTOR, "thead button")[:6]:
            target.click()
        browser.run(
            "for (const link of document.links) link.dispatchEvent(new MouseEvent('mouseover'))"
        )
        assert browser.run("return window.acted") is None
        asked = sum(item["reason"] != "exempt" for item in hostile(""))
        assert browser.driver.title == f"{asked:,} requests dropped - robots.txt report"
        assert server.asked == []
    assert opened.asked == [(tmp_path / "report.html").as_uri()]
    assert (opened.console, browser.said().console) == ([], [])
    text = browser.run("return document.body.innerText")
    assert f"<script>{ACTS}</script>" in text
    assert "$script ${style} $headline {{7*7}} %s &lt;b&gt; &amp;" in text
    assert "\\u202eabc\\u2066\\x00\\x1b[2J\\ud800\\r\\n" in text
    assert '<img src=x onerror="acted=1">.jsonl' in text


def test_the_page_has_its_own_elements_only(browser: Browser, tmp_path: Path) -> None:
    """A page of hostile records has only its own script, and links only to http URLs."""
    made(tmp_path, hostile("http://127.0.0.1:9"))
    browser.open(tmp_path / "report.html")
    others = "script:nth-of-type(n + 3), img, base, iframe, object, form, link, [style], [onload]"
    assert browser.driver.find_elements(By.CSS_SELECTOR, others) == []
    links = browser.run(
        "return [...document.querySelectorAll('a:not(nav a)')].map((a) => [a.href, a.rel])"
    )
    assert links
    for address, relation in links:
        assert re.match(r"https?://[^/@]+/", address), address
        assert relation == "noopener noreferrer"


def test_a_script_of_others_would_not_run(shown: tuple[Browser, dict[str, Any]]) -> None:
    """The Content-Security-Policy blocks other scripts and all requests."""
    browser, _ = shown
    with Site() as site:
        browser.run(
            """
            const script = document.createElement("script");
            script.textContent = "window.acted = 1";
            const image = document.createElement("img");
            image.src = arguments[0];
            document.body.append(script, image);
            """,
            site.url("/x.png"),
        )
        assert browser.run("return window.acted") is None
        assert site.asked == []
    refused = browser.said().console
    assert len(refused) == 2
    assert all("Content Security Policy" in line for line in refused)
