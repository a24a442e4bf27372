"""The pictures of the documents are the same whenever they are made, and show what is printed."""

from __future__ import annotations

import json

from tools.check_docs import long_sentences
from tools.pictures import coloured, fixed


def record(port: int, time: str) -> str:
    """A record of a report."""
    url = f"http://127.0.0.1:{port}/x"
    return json.dumps({"time": time, "url": url, "reason": "rule", "why": "robots.txt line 2"})


def test_ports_and_times_are_fixed() -> None:
    """Two crawls of the demo, on other ports and at other times, give one report."""
    first = fixed(record(40001, "2026-11-25T03:00:00.000Z"))
    assert first == fixed(record(40002, "2027-01-01T00:00:00.000Z"))
    assert json.loads(first)["url"] == "http://127.0.0.1:8001/x"


def test_colours_of_a_terminal() -> None:
    """Colours become styles, and what is printed is text."""
    assert coloured("\x1b[1;31mno\x1b[0m <b>") == (
        '<span style="font-weight:bold;color:#ff7b72">no</span><span style=""> &lt;b&gt;</span>'
    )


def test_long_sentences_are_found() -> None:
    """A sentence of more than 30 words is found, in prose and in a cell; code does not count."""
    words = "word " * 30
    assert list(long_sentences(f"{words}.\n\n| a | {words}`code` |\n")) == []
    assert len(list(long_sentences(f"{words}word. {words}.\n\n| a | {words}word |\n"))) == 2
