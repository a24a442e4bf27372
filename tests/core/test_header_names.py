"""Names of crawlers in User-Agent headers, and headers of browsers, which contain none."""

from __future__ import annotations

import time

import pytest

from scrapy_robots_rfc.core.agents import product_tokens
from tests.support.case_files import tables

HEADERS = tables("headers")


@pytest.mark.parametrize(("header", "names"), HEADERS["crawlers"])
def test_names_of_crawlers(header: str, names: list[str]) -> None:
    """A crawler is found by its name, with or without a version, wherever its header has it."""
    assert product_tokens(header) == tuple(names)


@pytest.mark.parametrize("header", HEADERS["browsers"])
def test_browsers_name_no_crawler(header: str) -> None:
    """The header of a plain browser contains no product token."""
    assert product_tokens(header) == ()


@pytest.mark.parametrize(
    "part", ["a", "(", ")", "(a", "()", "a@", "1.", "a;", "www.", "bot/", "(a)(", "\u00e9", "+"]
)
def test_long_headers(part: str) -> None:
    """A long header is read in linear time."""
    header = f"x {part * 50_000}"
    start = time.process_time()
    assert isinstance(product_tokens(header), tuple)
    assert time.process_time() - start < 2
