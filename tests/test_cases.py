"""Every case of `tests/cases/*.toml`, in every variant, by the core and by Scrapy's interface."""

from __future__ import annotations

import re
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pytest

from scrapy_robots_rfc.core.agents import is_token, product_tokens
from scrapy_robots_rfc.core.explanation import Flag, lines_of
from scrapy_robots_rfc.core.robotstxt import RobotsTxt
from scrapy_robots_rfc.parser import RfcRobotParser
from tests.support.case_files import Case, cases, others

if TYPE_CHECKING:
    from collections.abc import Callable


_LINE_END = re.compile("\r\n|\r|\n")

#: Variants of a file that must have the same meaning.
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
    """Return a variant of the file of a case."""
    if case.encoding == "hex":
        return case.octets
    octets = VARIANTS[variant](case.text).encode(case.encoding)
    return _BOM + octets if variant == "bom" else octets


def variants(case: Case) -> dict[bytes, str]:
    """Return the different variants of the file of a case, with their names."""
    assert case.skip <= VARIANTS.keys(), f"{case.id} skips an unknown variant"
    bodies: dict[bytes, str] = {}
    for variant in VARIANTS:
        if variant not in case.skip:
            bodies.setdefault(body_of(case, variant), variant)
    return bodies


@pytest.mark.parametrize("case", cases(), ids=str)
def test_verdict_in_every_variant(case: Case) -> None:
    """The verdict, the reason and the deciding line match the case, in every variant."""
    for body, variant in variants(case).items():
        robots = RobotsTxt.parse(body)
        for _ in range(3):  # later verdicts may come from an index
            decision = robots.decide(case.url, case.asked)
            line = decision.rule.line if decision.rule else None
            actual = (decision.allowed, decision.reason, line)
            assert actual == (case.allowed, case.reason, case.line), f"{variant}: {case.says}"


# Scrapy's interface accepts one string, so these cases have exactly one token.
_ONE_TOKEN = [case for case in cases() if isinstance(case.asked, str) or len(case.asked) == 1]


def test_scrapys_interface() -> None:
    """Scrapy's interface returns the verdict of the core, for str and bytes."""
    for case in _ONE_TOKEN:
        agent = case.asked if isinstance(case.asked, str) else case.asked[0]
        parser = RfcRobotParser.from_crawler(None, body_of(case, "as_written"))
        url = case.url.encode("utf-8") if isinstance(case.url, str) else case.url
        assert parser.allowed(case.url, agent) is case.allowed, f"{case}: {case.says}"
        assert parser.allowed(url, agent.encode("utf-8")) is case.allowed, f"{case}: {case.says}"


def test_flags() -> None:
    """A line that is read leniently or ignored has the flag that says so."""
    for case in (case for case in cases() if case.flagged):
        lines = lines_of(RobotsTxt.parse(body_of(case, "as_written")))
        flags: dict[int, frozenset[Flag]] = {line.number: line.flags for line in lines}
        missing = [(number, flag) for number, flag in case.flagged if flag not in flags[number]]
        assert missing == [], f"{case}: {case.says}"


_EXTENDED = [case for case in cases() if case.crawl_delay is not None or case.sitemaps is not None]


@pytest.mark.parametrize("case", _EXTENDED, ids=str)
def test_other_records(case: Case) -> None:
    """Crawl-delay and sitemaps match the case."""
    robots = RobotsTxt.parse(body_of(case, "as_written"))
    if case.crawl_delay is not None:
        assert robots.crawl_delay(case.asked) == case.crawl_delay, case.says
    if case.sitemaps is not None:
        assert robots.sitemaps == case.sitemaps, case.says


@pytest.mark.parametrize("case", [case for case in cases() if case.truncated is not None], ids=str)
def test_limit(case: Case) -> None:
    """A file is marked as truncated if it exceeds the parsing limit."""
    body = body_of(case, "as_written")
    assert case.size in (None, len(body))
    assert RobotsTxt.parse(body).content.truncated is case.truncated, case.says


@pytest.mark.parametrize("case", others("identification"), ids=itemgetter("id"))
def test_tokens_of_an_identification(case: dict[str, Any]) -> None:
    """The product tokens of an identification match the case, for str and bytes."""
    identification, tokens = case["identification"], tuple(case["tokens"])
    assert product_tokens(identification) == tokens, case["says"]
    assert product_tokens(identification.encode("utf-8")) == tokens, case["says"]


@pytest.mark.parametrize("case", others("own_token"), ids=itemgetter("id"))
def test_own_token(case: dict[str, Any]) -> None:
    """A string is a valid token if the case says so."""
    assert is_token(case["value"]) is case["valid"], case["says"]
