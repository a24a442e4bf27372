"""Colour on streams that are terminals, and on others."""

from __future__ import annotations

import io

import pytest

from scrapy_robots_rfc.commands.common import BAD, Console


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


def console(stream: io.StringIO) -> Console:
    """A console that has nothing but one stream."""
    return Console(stream, stream, stream, "scrapy robots")


@pytest.mark.parametrize(
    ("stream", "environment", "painted"),
    [
        (Terminal(), {}, "\x1b[31mno\x1b[0m"),
        (Terminal(), {"NO_COLOR": ""}, "\x1b[31mno\x1b[0m"),
        (Terminal(), {"NO_COLOR": "1"}, "no"),
        (Terminal(), {"TERM": "dumb"}, "no"),
        (io.StringIO(), {}, "no"),
    ],
)
def test_colour_is_for_terminals_that_want_it(
    stream: io.StringIO, environment: dict[str, str], painted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is colour on a terminal alone, and not where NO_COLOR has a value or the terminal
    has none.
    """
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert console(stream).paint("no", BAD) == painted


def test_a_fact_is_safe_to_print() -> None:
    """A fact stands beside its name, in one line whatever is in it."""
    stream = io.StringIO()
    console(stream).fact("why", "a\x1b[2J\nb")
    assert stream.getvalue() == "  why        a\\x1b[2J\\nb\n"
