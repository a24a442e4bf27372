"""How a proxy is named."""

from __future__ import annotations

import pytest
from scrapy import Request

from scrapy_robots_rfc.fetching.routes import proxy_of


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
    """Credentials are left out of it."""
    assert proxy_of(Request("http://a.example/", meta={"proxy": proxy})) == name
