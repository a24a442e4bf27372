"""Which uses a page refuses: `scrapy robots check --use`, with and without `--page`, and `page`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.command_line import run
from tests.support.site import HANG, PAGE, Reply, Site, redirect, robots

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILE = "User-agent: *\nContent-Signal: search=yes\nDisallow: /private\n"
SIGNAL = (("Content-Signal", "ai-train=no, ai-input=yes"),)
TDMREP = json.dumps([{"location": "/reserved", "tdm-reservation": 1}]).encode()
NOTE = (
    "  note       only robots.txt was read; the page's headers and meta tags, or the site's"
    " tdmrep.json, may refuse a use, too (--page reads them)"
)


@pytest.fixture
def site() -> Iterator[Site]:
    """A site that allows everything in robots.txt, and refuses some uses elsewhere."""
    replies: dict[str, Any] = {
        "/robots.txt": robots(FILE),
        "/.well-known/tdmrep.json": Reply(200, TDMREP),
        "/signal": Reply(200, headers=SIGNAL),
        "/reserved": PAGE,
        "/moved": redirect("/private"),
        "/to-signal": redirect("/signal"),
        "/reset": Reply(reset=True),
        "/plain": PAGE,
    }
    with Site(replies) as running:
        yield running


def checked(*arguments: str, folder: Path) -> list[tuple[str, str]]:
    """Return the verdict and the reason for each URL."""
    done = run("check", *arguments, "--json", "-s", "RETRY_ENABLED=0", folder=folder)
    return [(record["verdict"], record["why"]) for record in done.records]


def test_a_check_of_uses_says_what_it_read(site: Site, tmp_path: Path) -> None:
    """With a declared use, a note says that only robots.txt was read, unless --page is given."""
    plain = site.url("/plain")
    assert NOTE in run("check", plain, "--use", "search", folder=tmp_path).lines
    assert NOTE in run("check", plain, "-s", "ROBOTS_USE=search", folder=tmp_path).lines
    assert site.pages == []
    assert NOTE not in run("check", plain, folder=tmp_path).lines
    assert NOTE not in run("check", plain, "--use", "search", "--page", folder=tmp_path).lines
    assert site.pages == ["/plain"]
    site.replies["/robots.txt"] = Reply(404)
    assert NOTE in run("check", plain, "--use", "search", folder=tmp_path).lines


def test_pages_that_refuse(site: Site, tmp_path: Path) -> None:
    """With --page, headers, meta tags and tdmrep.json count as in a crawl."""
    pages = [site.url(path) for path in ("/signal", "/reserved", "/plain", "/private")]
    found = checked(*pages, "--page", "--use", "noai", folder=tmp_path)
    assert found == [
        ("disallowed", "refuses train-ai (header Content-Signal: ai-train=no, ai-input=yes)"),
        ("disallowed", "refuses train-ai (/.well-known/tdmrep.json /reserved: 1)"),
        ("allowed", "robots.txt: no rule of the group `*` matches"),
        ("disallowed", "robots.txt line 3: Disallow: /private"),
    ]
    assert "/private" not in site.pages


def test_uses_of_a_page_without_a_declared_use(site: Site, tmp_path: Path) -> None:
    """Without a declared use, --page shows what robots.txt and the page say, and refuses nothing.

    A dry run in the project does not matter.
    """
    options = ("--page", "-s", "ROBOTS_DRY_RUN=1")
    done = run("check", site.url("/to-signal"), "--json", *options, folder=tmp_path)
    record = done.records[0]
    assert (record["verdict"], record["declared"]) == ("allowed", [])
    assert record["page"] == {"url": site.url("/signal"), "status": 200}
    assert record["use"] == {"search": True, "train-ai": False, "ai-input": True}
    assert "/.well-known/tdmrep.json" not in site.pages
    done = run("check", site.url("/signal"), "--use", "train-ai", *options, folder=tmp_path)
    assert done.code == 1


def test_pages_that_cannot_be_read(site: Site, tmp_path: Path) -> None:
    """A page that cannot be read is undecided, and a redirect to a disallowed one disallowed."""
    moved, reset = checked(site.url("/moved"), site.url("/reset"), "--page", folder=tmp_path)
    why = f"redirected to {site.url('/private')}; robots.txt line 3: Disallow: /private"
    assert moved == ("disallowed", why)
    assert reset[0] == "undecided"
    assert reset[1].startswith("the page cannot be read: ")


def test_page_without_an_answer(site: Site, tmp_path: Path) -> None:
    """The message about a page that timed out contains DOWNLOAD_TIMEOUT, and does not advise a copy
    of robots.txt.
    """
    site.replies["/hangs"] = HANG
    page = site.url("/hangs")
    options = ("-s", "DOWNLOAD_TIMEOUT=0.2", "-s", "RETRY_ENABLED=0")
    done = run("page", page, *options, folder=tmp_path)
    assert done.err == f"scrapy robots page: {page} cannot be read: no answer in 0.2 s\n"
    done = run("check", page, "--page", *options, folder=tmp_path)
    why = "the page cannot be read: no answer in 0.2 s; check whether the page opens in a browser"
    assert done.err == f"scrapy robots check: {page} is undecided: {why}\n"


def test_a_redirect_to_a_page_that_refuses(site: Site, tmp_path: Path) -> None:
    """The uses are those of the final page, which is named."""
    options = ("--page", "--use", "train-ai", "--json")
    record = run("check", site.url("/to-signal"), *options, folder=tmp_path).records[0]
    assert record["use"] == {"train-ai": False, "ai-input": True, "search": True}
    assert record["page"] == {"url": site.url("/signal"), "status": None}
    source = "header Content-Signal: ai-train=no, ai-input=yes"
    assert record["why"] == f"redirected to {site.url('/signal')}; refuses train-ai ({source})"
    record = run("check", site.url("/moved"), *options, folder=tmp_path).records[0]
    assert (record["reason"], record["use"]) == ("rule", {})


def test_the_status_of_a_page(site: Site, tmp_path: Path) -> None:
    """The status of an allowed page is shown."""
    site.replies["/paid"] = Reply(402)
    lines = run("check", site.url("/paid"), "--page", folder=tmp_path).lines
    assert f"  page       {site.url('/paid')} (status 402)" in lines


def test_uses_in_the_table(site: Site, tmp_path: Path) -> None:
    """The table has the refused uses, and the line if robots.txt refuses them. `check` marks it."""
    site.replies["/robots.txt"] = robots(
        "User-agent: a\nContent-Signal: ai-train=no, search=no\nAllow: /\n"
    )
    urls = (site.url("/plain"), site.url("/signal"))
    options = ("--agent", "a", "--agent", "b", "--page", "--use", "train-ai,search")
    lines = run("check", *urls, *options, folder=tmp_path).lines
    refused = "disallowed (line 2, refuses train-ai and search)"
    assert [line.partition("  ")[2].strip() for line in lines[1:]] == [
        f"{refused}  allowed (status 200)",
        f"{refused}  disallowed (refuses train-ai)",
    ]
    lines = run("check", urls[0], "--agent", "a", "--use", "search", folder=tmp_path).lines
    assert ">     2  Content-Signal: ai-train=no, search=no" in lines


def test_each_agent_gets_its_own_answer(site: Site, tmp_path: Path) -> None:
    """A page is read for each agent, because a header may name one of them."""
    site.replies["/plain"] = Reply(200, headers=(("X-Robots-Tag", "abot: noai"),))
    agents = ("--agent", "abot", "--agent", "bbot")
    page = site.url("/plain")
    found = checked(page, *agents, "--page", "--use", "train-ai", folder=tmp_path)
    assert [verdict for verdict, _ in found] == ["disallowed", "allowed"]


def test_uses_that_a_page_names(site: Site, tmp_path: Path) -> None:
    """`page` shows each use with its source, even if the project's declared use is refused, and a
    note names what it did not read.
    """
    site.replies["/plain"] = Reply(
        200,
        b'<meta name=robots content=noml><meta name="tdm-reservation" content=0>',
        (("Content-Type", "text/html"), ("Content-Usage", "search=y, x=\x9b")),
    )
    refused = ("-s", "ROBOTS_USE=train-ai")
    lines = run("page", site.url("/plain"), *refused, folder=tmp_path).lines
    assert "  use        train-ai: no (meta robots: noml)" in lines
    assert "  use        tdm: yes (meta tdm-reservation: 0)" in lines
    note = (
        "  note       uses in the site's robots.txt or tdmrep.json were not read, and may be"
        " refused there, too (check --page --use LABELS reads them)"
    )
    assert note in lines
    record = run("page", site.url("/signal"), "--json", *refused, folder=tmp_path).records[0]
    assert record["use"] == {"train-ai": False, "ai-input": True}
    source = "header Content-Signal: ai-train=no, ai-input=yes"
    assert record["use_sources"] == {"train-ai": source, "ai-input": source}


def test_an_empty_list_of_uses(site: Site, tmp_path: Path) -> None:
    """An empty --use replaces the project's uses, so nothing is refused."""
    options = ("--use", "", "--page", "-s", "ROBOTS_USE=train-ai")
    assert checked(site.url("/signal"), *options, folder=tmp_path)[0][0] == "allowed"
