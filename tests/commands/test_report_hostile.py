"""The page that `scrapy robots report --html` writes, in a real browser.

Nothing acts in it but its own script.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
from selenium.webdriver.common.by import By

from tests.support.report_pages import ACTS, hostile, made
from tests.support.site import Site

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.browser import Browser

#: What a browser shows does not depend on the versions of CPython and Scrapy.
pytestmark = pytest.mark.once


def test_nothing_acts(browser: Browser, tmp_path: Path) -> None:
    """Records and the name of the file are text: nothing in them runs, or requests anything."""
    with Site() as site:
        made(tmp_path, hostile(site.url("")), name='<img src=x onerror="acted=1">.jsonl')
        opened = browser.open(tmp_path / "report.html")
        for target in browser.driver.find_elements(By.CSS_SELECTOR, "thead button")[:6]:
            target.click()
        browser.run(
            "for (const link of document.links) link.dispatchEvent(new MouseEvent('mouseover'))"
        )
        assert browser.run("return window.acted") is None
        asked = sum(item["reason"] != "exempt" for item in hostile(""))
        assert browser.driver.title == f"{asked:,} requests dropped - robots.txt report"
        assert site.asked == []
    assert opened.asked == [(tmp_path / "report.html").as_uri()]
    assert (opened.console, browser.said().console) == ([], [])
    text = browser.run("return document.body.innerText")
    assert f"<script>{ACTS}</script>" in text
    assert "$script ${style} $headline {{7*7}} %s &lt;b&gt; &amp;" in text
    assert "\\u202eabc\\u2066\\x00\\x1b[2J\\ud800\\r\\n" in text
    assert '<img src=x onerror="acted=1">.jsonl' in text


def test_the_page_has_its_own_elements_only(browser: Browser, tmp_path: Path) -> None:
    """A page of hostile records has only its own script, and links only to files on the web."""
    made(tmp_path, hostile("http://127.0.0.1:9"))
    browser.open(tmp_path / "report.html")
    kinds = browser.run(
        "return [...document.querySelectorAll('script, style')].map((one) => [one.tagName,"
        " one.type])"
    )
    assert kinds == [["STYLE", ""], ["SCRIPT", "application/json"], ["SCRIPT", ""]]
    assert (
        browser.run(
            "return document.querySelectorAll('img, base, iframe, object, form, link').length"
        )
        == 0
    )
    script = (
        "return [...document.querySelectorAll('*')].flatMap((one) => [...one.attributes].map((a) =>"
        " a.name))"
    )
    names = set(browser.run(script))
    assert [name for name in names if name.startswith("on") or name == "style"] == []
    links = browser.run(
        "return [...document.querySelectorAll('a:not(nav a)')].map((a) => [a.href, a.rel])"
    )
    assert links
    for address, relation in links:
        assert re.match(r"https?://[^/@]+/", address), address
        assert relation == "noopener noreferrer"


def test_a_script_of_others_would_not_run(shown: tuple[Browser, dict[str, Any]]) -> None:
    """Even a script that got into the page would not run, and could not reach any site."""
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
