"""How a proxy is named, and which one a robots.txt takes from the page that it is fetched for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pytest_twisted import ensureDeferred
from scrapy import Request

from scrapy_robots_rfc.fetching.pending import PendingFetch
from scrapy_robots_rfc.fetching.routes import proxy_of
from scrapy_robots_rfc.policy.origins import Origin
from tests.support.service_crawls import run

if TYPE_CHECKING:
    from scrapy_robots_rfc import RobotsService

SAME = "http://p.example:3128"
OTHER = b"Basic b3RoZXI6c2VjcmV0"


@pytest.mark.parametrize(
    ("proxy", "name"),
    [
        ("http://user:pass@p.example:3128", "http://p.example:3128"),
        ("http://p@ss:w@rd@p.example", "http://p.example"),
        ("user:pass@p.example", "p.example"),
        ("socks5://p.example", "socks5://p.example"),
    ],
)
def test_name_of_a_proxy(proxy: str, name: str) -> None:
    """The name of a proxy has no credentials."""
    assert proxy_of(Request("http://a.example/", meta={"proxy": proxy})) == name


@pytest.mark.parametrize(
    ("environment", "meta", "credentials", "taken"),
    [
        (SAME, {"proxy": SAME}, None, {}),
        (SAME, {"proxy": SAME}, OTHER, {"proxy": SAME}),
        (SAME, {"proxy": "http://q.example"}, None, {"proxy": "http://q.example"}),
        (SAME, {"proxy": None}, None, {"proxy": None}),
        (SAME, {}, None, {}),
        ("", {"proxy": None}, None, {"proxy": None}),
    ],
    ids=[
        "of-the-environment",
        "with-another-account",
        "another",
        "none",
        "not-chosen-yet",
        "none-of-none",
    ],
)
@ensureDeferred
async def test_proxy_of_a_page(
    environment: str,
    meta: dict[str, Any],
    credentials: bytes | None,
    taken: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its own is taken, also that it has none.

    That of the environment is chosen for each redirect by its scheme.
    """
    monkeypatch.setenv("http_proxy", environment)
    monkeypatch.setenv("no_proxy", "")
    page = Request("http://a.example/", meta=meta)
    if credentials is not None:
        page.headers[b"Proxy-Authorization"] = credentials
    found: list[Request] = []

    async def script(service: RobotsService) -> None:
        fetch = PendingFetch(Origin("http", "a.example", 80), source=page)
        found.append(service.download.request("http://a.example/robots.txt", fetch, None))

    await run(script)
    assert {key: value for key, value in found[0].meta.items() if key == "proxy"} == taken
    assert found[0].headers.get(b"Proxy-Authorization") == credentials
