"""Colour, width and the progress bar, on streams that are terminals and on others."""

from __future__ import annotations

import io

import pytest

from scrapy_robots_rfc.commands.common import Colour, ProgressBar, Style, columns


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        """Say so."""
        return True


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
    """There is colour on a terminal alone, and not where NO_COLOR has a value or the terminal has none."""
    set_environment(monkeypatch, environment)
    assert Style.of(stream).paint("no", Colour.BAD) == painted


def set_environment(monkeypatch: pytest.MonkeyPatch, environment: dict[str, str]) -> None:
    """Have these variables, of those that change how a terminal is used."""
    for name in ("NO_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal's width is kept, a very small one excepted; there is none elsewhere."""
    monkeypatch.setenv("COLUMNS", "72")
    assert Style.of(Terminal()).width == 72
    assert Style.of(io.StringIO()).width is None
    monkeypatch.setenv("COLUMNS", "10")
    assert Style.of(Terminal()).width == 40


def test_text_is_wrapped_under_its_beginning() -> None:
    """Text is wrapped between words, under its beginning; URLs stay whole."""
    style = Style(width=40)
    url = "https://example.com/a-very-long-path/that-no-line-has-room-for"
    assert list(style.wrapped(f"see what is at {url} today", 4)) == [
        "see what is at",
        f"    {url}",
        "    today",
    ]
    assert list(Style().wrapped("a " * 100, 4)) == ["a " * 100]
    assert list(style.wrapped("", 4)) == [""]


@pytest.mark.parametrize(
    ("text", "cut"), [("a" * 36, "a" * 36), ("a" * 37, "a" * 33 + "..."), ("漢" * 20, "漢" * 16 + "..."), ("", "")]
)
def test_what_has_no_room_is_cut(text: str, cut: str) -> None:
    """What has no room ends in dots; a wide character takes two columns."""
    shown = Style(width=40).cut(text, 4)
    assert shown == cut
    assert columns(shown) <= 36
    assert Style().cut(text, 4) == text


def test_progress_is_one_line_that_is_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar says how much is done, in one line that it can take away."""
    set_environment(monkeypatch, {"COLUMNS": "80"})
    stream = Terminal()
    progress = ProgressBar(stream, 4)
    progress.show(2)
    progress.clear()
    assert stream.getvalue() == f"\r\x1b[K[{'#' * 15}{'.' * 15}] 2 of 4\r\x1b[K"


@pytest.mark.parametrize(
    ("stream", "total", "environment"), [(io.StringIO(), 4, {}), (Terminal(), 1, {}), (Terminal(), 4, {"TERM": "dumb"})]
)
def test_no_progress_where_it_cannot_be_shown(
    stream: io.StringIO, total: int, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no bar elsewhere, on a terminal that cannot show it, nor for a single URL."""
    set_environment(monkeypatch, environment)
    progress = ProgressBar(stream, total)
    progress.show(1)
    progress.clear()
    assert stream.getvalue() == ""
