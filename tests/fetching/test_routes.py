"""What is remembered of routes that failed, and how a proxy is named."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.fetching import routes
from scrapy_robots_rfc.fetching.routes import FailedRoutes, named
from scrapy_robots_rfc.policy.origins import Origin

A, B = Origin("http", "a.example", 80), Origin("http", "b.example", 80)


def test_each_route_of_each_origin() -> None:
    """What failed by one route is not known by another one, until one of them leads there."""
    failed: FailedRoutes[str] = FailedRoutes()
    failed.put(A, "http://p", "dead")
    failed.put(A, None, "direct")
    assert [failed.get(A, "http://p"), failed.get(A, None), failed.get(A, "http://q"), failed.get(B, "http://p")] == [
        "dead",
        "direct",
        None,
        None,
    ]
    failed.forget(A)
    failed.forget(B)
    assert failed.get(A, "http://p") is None


def test_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many origins with many proxies only some are remembered, the oldest go first."""
    monkeypatch.setattr(routes, "_REMEMBERED", 3)
    failed: FailedRoutes[int] = FailedRoutes()
    for number in range(3):
        failed.put(A, str(number), number)
    failed.put(A, "2", 22)
    failed.put(B, "0", 10)
    failed.put(B, "1", 11)
    assert [failed.get(A, "0"), failed.get(A, "1"), failed.get(A, "2"), failed.get(B, "0")] == [None, None, 22, 10]
    failed.forget(A)
    failed.put(B, "2", 12)
    assert failed.get(B, "0") == 10


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
    assert named(proxy) == name
