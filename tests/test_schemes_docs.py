"""docs/schemes.md is true: its settings are accepted, and mean what it says."""

from __future__ import annotations

from scrapy.settings import Settings as ScrapySettings

from scrapy_robots_rfc.core.agents import Agent
from scrapy_robots_rfc.policy.origins import SCHEMES, Answers, Dialect, Scheme
from scrapy_robots_rfc.settings import read_settings
from tests.support.documents import block, settings


def test_a_purpose_is_one_of_the_tokens() -> None:
    """A crawl says what it is behind its name."""
    read = read_settings(
        ScrapySettings(settings(block("docs/schemes.md", "python", "ROBOTSTXT_USER_AGENT")))
    )
    assert read.user_agent == Agent(("foobot", "indexer"), "foobot")


def test_schemes_are_added_and_taken_away() -> None:
    """What a description leaves out is as with http."""
    read = read_settings(
        ScrapySettings(settings(block("docs/schemes.md", "python", "ROBOTS_SCHEMES")))
    )
    assert read.schemes == {
        **{name: SCHEMES[name] for name in ("http", "https", "ftp")},
        "ftps": Scheme(990, Answers.FTP, Dialect.RFC9309),
        "titan": Scheme(1965, Answers.GEMINI, Dialect.GEMINI),
    }
