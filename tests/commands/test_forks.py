"""A command that is forked from a process that has imported Scrapy does what one does that Python begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.commands.running import launch, run
from tests.scrapy.site import Site, robots

if TYPE_CHECKING:
    from pathlib import Path


def test_no_difference(tmp_path: Path) -> None:
    """Exit code, output and errors are the same, and so are the requests; settings of a project are found."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = plan_settings\n", encoding="utf-8")
    (tmp_path / "plan_settings.py").write_text("USER_AGENT = 'PlanBot/1.0'\n", encoding="utf-8")
    with Site({"/robots.txt": robots("User-agent: planbot\nDisallow: /x\n")}) as site:
        urls = f"{site.url('/x')}\n{site.url('/é')}\nnone\n"
        begun, forked = (way("check", folder=tmp_path, stdin=urls) for way in (launch, run))
        assert begun == forked
        assert (begun.code, begun.out.count("for PlanBot"), begun.err.count("\n")) == (2, 2, 1)
        first, second = site.asked
    assert (first.target, dict(first.headers)) == (second.target, dict(second.headers))
