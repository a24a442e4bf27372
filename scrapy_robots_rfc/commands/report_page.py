"""The page of a report: one file with plots and tables, which needs no network and in which only its own script acts.

In here: the page as a whole, its head, and where the plots stand. Whatever a site, a spider or a file name wrote goes
through `escaped`.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files as resources
from string import Template
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.report_plots import bars, escaped, legend, over_time
from scrapy_robots_rfc.commands.report_sums import most
from scrapy_robots_rfc.commands.report_tables import rule_place, sections
from scrapy_robots_rfc.commands.report_text import NO_ORIGIN, NO_SPIDER
from scrapy_robots_rfc.commands.report_times import between, width
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import many

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from scrapy_robots_rfc.commands.report_files import ReportFile
    from scrapy_robots_rfc.commands.report_sums import RuleKey, Sums

#: Bars in a plot; the tables have the rest.
_BARS = 10

_RULE, _UNREACHABLE = Reason.RULE.value, Reason.UNREACHABLE.value


def page(sums: Sums, files: Sequence[ReportFile], top: int) -> str:
    """Return the page.

    :param top: how many rows a table has at most.
    """
    style, script = _resource("css"), _resource("js")
    main = [_figures(sums), *_plots(sums), *sections(sums, files, top)]
    return Template(_resource("html")).substitute(
        style=style,
        script=script,
        style_hash=_digest(style),
        script_hash=_digest(script),
        title=f"{_headline(sums)} - robots.txt report",
        headline=_headline(sums),
        lede=_lede(sums, files),
        main="\n".join(main),
        footer="Made by <code>scrapy robots report</code>. Times are UTC. Shares are of all disallowed requests.",
    )


def _resource(suffix: str) -> str:
    return (resources("scrapy_robots_rfc.commands") / f"report_page.{suffix}").read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return how a Content-Security-Policy names the one text that may act."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


# The head of the page.


def _headline(sums: Sums) -> str:
    return f"{many(sums.requests, 'request')} disallowed" if sums.requests else "No request was disallowed"


def _lede(sums: Sums, files: Sequence[ReportFile]) -> str:
    parts = []
    if sums.first is not None and sums.last is not None:
        times = between(sums.first, sums.last)
        parts.append(times[0].upper() + times[1:])
    if sums.requests:
        parts.append(_counted(sums.spiders, "spider", NO_SPIDER))
        parts.append(_counted(sums.origins, "origin", NO_ORIGIN))
    parts.append(files[0].name if len(files) == 1 else many(len(files), "file"))
    return escaped(" · ".join(parts))


def _counted(names: Iterable[str | None], what: str, nameless: str) -> str:
    """Return how many there are, or the name of the only one."""
    found = list(names)
    return f"{what} {found[0] or nameless}" if len(found) == 1 else many(len(found), what)


def _figures(sums: Sums) -> str:
    rest = sums.requests - sums.reasons[_RULE] - sums.reasons[_UNREACHABLE]
    found = (
        ("by a rule", sums.reasons[_RULE], True),
        ("robots.txt unreachable", sums.reasons[_UNREACHABLE], True),
        ("for another reason", rest, False),
        ("origins", len(sums.origins), True),
        ("rules", len(sums.rules), True),
        ("let through (dry run)", sums.dry_run, False),
        ("decided by a stale copy", sums.stale, False),
        ("of exempt sites, not asked", sums.exempt.total(), False),
    )
    items = (f"<div><dt>{name}</dt><dd>{count:,}</dd></div>" for name, count, always in found if count or always)
    return f'<dl class="figures">{"".join(items)}</dl>'


def _plots(sums: Sums) -> Iterator[str]:
    if not sums.requests:
        return
    plot = over_time(sums)
    if plot:
        yield (
            f'<figure><figcaption><h2>Over time</h2><p class="note">a bar is {width(sums.timeline.width)}</p>'
            f"{legend(sums)}</figcaption>{plot}</figure>"
        )
    reasons = [(_name(reason), {reason: count}) for reason, count in most(sums.reasons, _BARS)]
    origins = [(_name(origin or NO_ORIGIN), sums.origins[origin]) for origin, _ in most(sums.by_origin, _BARS)]
    rules = [(_short(key), {_RULE: count}) for key, count in most(sums.rules, _BARS)]
    named = (("Reasons", reasons), ("Origins that cost most", origins), ("Rules that cost most", rules))
    figures = (
        f"<figure><figcaption><h2>{title}</h2></figcaption>{bars(rows, sums.requests)}</figure>"
        for title, rows in named
        if rows
    )
    yield f'<div class="plots">{"".join(figures)}</div>'


def _name(text: str) -> str:
    return f"<span>{escaped(text)}</span>"


def _short(key: RuleKey) -> str:
    """Return a rule with all that tells it from others: a file may say the same twice, for different crawlers."""
    place = rule_place(key)
    below = [escaped(key.origin or NO_ORIGIN), *([escaped(place)] if place else [])]
    return f"<code>{escaped(key.rule)}</code>" + "".join(f'<span class="quiet">{text}</span>' for text in below)
