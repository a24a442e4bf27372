"""Pages that are made to stop a crawl which reads their rules."""

from __future__ import annotations

import pytest
from scrapy.http import HtmlResponse

from scrapy_robots_rfc.middleware.page_rules import metas_of, unendorsed


@pytest.mark.parametrize("attributes", ["".join(f" a{number}=1" for number in range(70_000)), " a" * 100_000])
@pytest.mark.parametrize("tag", ["meta", "a"])
def test_tags_with_very_many_attributes_are_left_out(tag: str, attributes: str) -> None:
    """A tag for which lxml would take minutes costs its page nothing else: the tags beside it count."""
    crowded = f"<{tag}{attributes} name=robots content=noindex rel=ugc href=/x>"
    body = f"<meta name=robots content=nofollow>{crowded}<a rel=ugc href=/y>y</a>"
    response = HtmlResponse("https://e.example/", body=body.encode(), encoding="utf-8")
    assert metas_of(response) == metas_of(response, head=False) == [("robots", "nofollow")]
    assert unendorsed(response) == {"https://e.example/y"}


HIDDEN = "<!-- <meta name=robots content=noarchive> --><META name=robots content=nofollow>"


@pytest.mark.parametrize("tag", ["div", "foo", "DIV class='a > b'"])
@pytest.mark.parametrize("end", ["", "</head><body>"])
def test_metas_behind_very_many_open_elements_count(tag: str, end: str) -> None:
    """A page cannot hide a meta from the parser by nesting: behind thousands of open elements each meta counts."""
    body = f"<head>{f'<{tag}>' * 50_000}{HIDDEN}{end}"
    assert metas_of(HtmlResponse("https://e.example/", body=body.encode(), encoding="utf-8")) == [
        ("robots", "nofollow")
    ]


def test_metas_behind_very_many_closed_elements() -> None:
    """Elements that are closed hide nothing: without a body that is written, a meta behind them is not in the head."""
    body = f"<head>{'<div></div>' * 50_000}{HIDDEN}"
    assert metas_of(HtmlResponse("https://e.example/", body=body.encode(), encoding="utf-8")) == []
