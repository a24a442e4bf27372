"""docs/stores.md shows what there is: a value, and a store of a user's own."""

from __future__ import annotations

from pathlib import Path

from scrapy_robots_rfc.policy.access import Outcome
from scrapy_robots_rfc.stores.codec import decode, encode
from tests.documents import block


def test_the_value_that_is_shown() -> None:
    """The value in the document is what is written today, and can be read."""
    value = block("docs/stores.md", "text", "robots.txt 1 ").encode()
    copy = decode(value)
    assert encode(copy) == value
    assert (copy.outcome, copy.body) == (Outcome.SUCCESSFUL, b"User-agent: *\nDisallow: /x\n")


def test_the_store_that_is_shown() -> None:
    """The store in the document is the one that passes the contract."""
    own = (Path(__file__).parent / "own.py").read_text(encoding="utf-8")
    assert block("docs/stores.md", "python", "class FolderStore") == own[own.index("from __future__") :]
