"""Every case of `tests/cases/*.toml`, in every delivery, through the core and through Scrapy's
interface.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from scrapy_robots_rfc.core.agents import is_token, product_tokens
from scrapy_robots_rfc.core.findings import Flag, lines_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.parser import RfcRobotParser
from tests.support.case_files import (
    Case,
    Identification,
    OwnToken,
    cases,
    identifications,
    own_tokens,
)

if TYPE_CHECKING:
    from collections.abc import Callable


_LINE_END = re.compile("\r\n|\r|\n")

#: Ways to deliver one and the same file; none of them may change what it says.
VARIANTS: dict[str, Callable[[str], str]] = {
    "as_written": lambda text: text,
    "lf": lambda text: _LINE_END.sub("\n", text),
    "cr": lambda text: _LINE_END.sub("\r", text),
    "crlf": lambda text: _LINE_END.sub("\r\n", text),
    "no_last_end": lambda text: re.sub(r"(\r\n|\r|\n)\Z", "", text),
    "bom": lambda text: text,
}
_BOM = b"\xef\xbb\xbf"


def body_of(case: Case, variant: str) -> bytes:
    """The octets of a case's file, delivered in one of the ways."""
    if case.encoding == "hex":
        return case.octets
    octets = VARIANTS[variant](case.text).encode(case.encoding)
    return _BOM + octets if variant == "bom" else octets


def _deliveries(case: Case) -> dict[bytes, str]:
    """The octets of every way that gives others than the ways before it, and its name."""
    assert case.skip <= VARIANTS.keys(), f"{case.id} skips what is no variant"
    found: dict[bytes, str] = {}
    for variant in VARIANTS:
        if variant not in case.skip:
            found.setdefault(body_of(case, variant), variant)
    return found


@pytest.mark.parametrize("case", cases(), ids=str)
def test_verdict_in_every_delivery(case: Case) -> None:
    """A case's verdict, its reason and the line that decides are as the case says, in every
    delivery.
    """
    asked = case.asked if isinstance(case.asked, str) else list(case.asked)
    for body, variant in _deliveries(case).items():
        robots = RobotsTxt.parse(body)
        for _ in range(3):  # what a file is asked again may come from an index
            decision = robots.decide(case.url, asked)
            line = decision.rule.line if decision.rule else None
            found = (decision.allowed, decision.reason, line)
            assert found == (case.allowed, case.reason, case.line), f"{variant}: {case.says}"


# Scrapy's interface takes one string, so a list of several tokens, or of none, cannot be put to it.
_ASKED_BY_ONE = [case for case in cases() if isinstance(case.asked, str) or len(case.asked) == 1]


@pytest.mark.parametrize("case", _ASKED_BY_ONE, ids=str)
def test_through_scrapy_s_interface(case: Case) -> None:
    """Scrapy's interface gives the verdict of the core, for text and for octets."""
    agent = case.asked if isinstance(case.asked, str) else case.asked[0]
    parser = RfcRobotParser.from_crawler(None, body_of(case, "as_written"))
    url = case.url.encode("utf-8") if isinstance(case.url, str) else case.url
    assert parser.allowed(case.url, agent) is case.allowed, case.says
    assert parser.allowed(url, agent.encode("utf-8")) is case.allowed, case.says


@pytest.mark.parametrize("case", [case for case in cases() if case.flagged], ids=str)
def test_flags(case: Case) -> None:
    """A line that is read leniently, or not at all, carries the flag that says so."""
    flags: dict[int, frozenset[Flag]] = {
        line.number: line.flags for line in lines_of(RobotsTxt.parse(body_of(case, "as_written")))
    }
    assert [(number, flag) for number, flag in case.flagged if flag not in flags[number]] == [], (
        case.says
    )


_EXTENDED = [case for case in cases() if case.crawl_delay is not None or case.sitemaps is not None]


@pytest.mark.parametrize("case", _EXTENDED, ids=str)
def test_other_records(case: Case) -> None:
    """Crawl delay and sitemaps are read as the case says."""
    robots = RobotsTxt.parse(body_of(case, "as_written"))
    asked = case.asked if isinstance(case.asked, str) else list(case.asked)
    if case.crawl_delay is not None:
        assert robots.crawl_delay(asked) == case.crawl_delay, case.says
    if case.sitemaps is not None:
        assert robots.sitemaps == case.sitemaps, case.says


@pytest.mark.parametrize("case", [case for case in cases() if case.truncated is not None], ids=str)
def test_limit(case: Case) -> None:
    """A file over the parsing limit says that it was cut off; one within it does not."""
    body = body_of(case, "as_written")
    assert case.size in (None, len(body))
    assert RobotsTxt.parse(body).content.truncated is case.truncated, case.says


@pytest.mark.parametrize("case", identifications(), ids=[case.id for case in identifications()])
def test_tokens_of_an_identification(case: Identification) -> None:
    """The product tokens of whatever a crawler calls itself are as the case says, also where it
    comes as octets.
    """
    assert product_tokens(case.identification) == case.tokens, case.says
    assert product_tokens(case.identification.encode("utf-8")) == case.tokens, case.says


@pytest.mark.parametrize("case", own_tokens(), ids=[case.id for case in own_tokens()])
def test_own_token(case: OwnToken) -> None:
    """A string is a valid token as the case says."""
    assert is_token(case.value) is case.valid, case.says
