"""Files of Gemini capsules, whose rules differ from RFC 9309."""

from __future__ import annotations

import pytest

from scrapy_robots_rfc.core.explanation import explain
from scrapy_robots_rfc.core.gemini import GeminiFile, deciding_tokens
from scrapy_robots_rfc.core.robotstxt import RobotsTxt

FILE = b"""# *
User-agent: *
Disallow: /all

User-agent: archiver
User-agent: webproxy
Disallow: /private # $
Disallow: /a*b
Allow: /private/open
Disallow: /end$

User-agent: indexer
Disallow: /drafts
Crawl-delay: 2
"""
URL = "gemini://a.example"


def decided(target: str, *tokens: str) -> tuple[bool, int | None]:
    """Return whether a page is allowed, and the line of the deciding rule."""
    decision = GeminiFile(FILE).decide(f"{URL}{target}", tokens)
    return decision.allowed, None if decision.rule is None else decision.rule.line


@pytest.mark.parametrize(
    ("target", "tokens", "expected"),
    [
        ("/all", ("foobot",), (False, 3)),
        ("/all", ("foobot", "archiver"), (True, None)),
        ("/private/x", ("foobot", "Archiver"), (False, 7)),
        ("/private/open", ("webproxy",), (False, 7)),
        ("/axb", ("archiver",), (True, None)),
        ("/a*b/c", ("archiver",), (False, 8)),
        ("/a%2Ab", ("archiver",), (False, 8)),
        ("/end", ("archiver",), (True, None)),
        ("/end$/x", ("archiver",), (False, 10)),
    ],
)
def test_disallow_is_a_plain_prefix(
    target: str, tokens: tuple[str, ...], expected: tuple[bool, int | None]
) -> None:
    """Groups are chosen as in RFC 9309. Allow is ignored, ``*`` and ``$`` are ordinary characters,
    and lines keep their numbers.
    """
    assert decided(target, *tokens) == expected


def test_the_most_restrictive_purpose_decides() -> None:
    """A crawler with several purposes may fetch what each of them may, in any order."""
    for tokens in (("archiver", "indexer"), ("indexer", "archiver")):
        assert decided("/private", *tokens) == (False, 7)
        assert decided("/drafts", *tokens) == (False, 13)
        assert decided("/page", *tokens) == (True, None)
    assert decided("/all", "archiver", "researcher") == (False, 3)  # no group for researchers


def test_an_own_name_comes_before_purposes() -> None:
    """A group for the crawler itself decides alone."""
    file = GeminiFile(FILE + b"\nUser-agent: foobot\nDisallow: /foo\n")
    tokens = ("foobot", "archiver", "indexer")
    assert not file.decide(f"{URL}/foo", tokens).allowed
    assert file.decide(f"{URL}/private", tokens).allowed


def test_an_explanation_names_the_purpose_that_decides() -> None:
    """The explanation names the group that decides."""
    file, url = GeminiFile(FILE), f"{URL}/drafts"
    tokens = deciding_tokens(file, url, ("foobot", "archiver", "indexer"))
    assert tokens == ("foobot", "indexer")
    assert explain(file, url, tokens).token == "indexer"


def test_other_files_know_no_purposes() -> None:
    """In a file of the web, the first token with a group decides, even if it is the name of a
    purpose.
    """
    tokens = ("archiver", "indexer")
    assert deciding_tokens(RobotsTxt(FILE), f"{URL}/drafts", tokens) == tokens
    assert RobotsTxt(FILE).decide(f"{URL}/drafts", tokens).allowed
