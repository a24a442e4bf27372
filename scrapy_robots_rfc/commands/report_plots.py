"""The plots of a report's page: requests over time, and bars of what cost most, as SVG that stands in the page.

In here: shapes, and the text that belongs to them. No text is inside of a picture that is stretched to the width of a
screen: it stands beside it, as HTML. What the shapes look like is `report_page.css`.
"""

from __future__ import annotations

import datetime
import html
from typing import TYPE_CHECKING

from scrapy_robots_rfc.commands.report_sums import percent
from scrapy_robots_rfc.commands.report_times import said, width
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import printable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scrapy_robots_rfc.commands.report_sums import Sums
    from scrapy_robots_rfc.commands.report_times import Bucket

#: The reasons that have a colour each, from the bottom of a bar to its top; the others share one.
COLOURED = (Reason.RULE.value, Reason.UNREACHABLE.value, Reason.CRAWL_DELAY.value, Reason.PARSER.value)
OTHERS = "other"
#: Bars that the plot of times has room for at least, so that a single one does not fill it.
_FEWEST = 24
_DAY = 86_400
#: Tenths at which an axis may end.
_ENDS = (10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100)


def escaped(text: str) -> str:
    """Return a text as HTML in which nothing acts: no markup, no control character, none that turns others round."""
    return html.escape(printable(text))


def colour_of(reason: str) -> str:
    """Return the class of a reason's colour."""
    return f"c-{reason.replace('_', '-')}" if reason in COLOURED else "c-other"


def bars(rows: Sequence[tuple[str, Mapping[str, int]]], requests: int) -> str:
    """Return a list of bars, the first of which is the longest.

    :param rows: HTML of the name, in elements of which each is cut for itself, and its requests by reason.
    :param requests: of all.
    """
    items, most = [], 0
    for name, reasons in rows:
        count = sum(reasons.values())
        most = most or count
        says = f"{count:,} of {requests:,} requests, {escaped(percent(count / requests, ' '))}"
        items.append(
            f'<li><span class="name">{name}</span><span class="n">{count:,}</span>'
            f'<svg viewBox="0 0 100 1" preserveAspectRatio="none" role="img" aria-label="{says}"><title>{says}</title>'
            f'<rect class="track" width="100" height="1"/>'
            f"{_parts(reasons, most)}</svg></li>"
        )
    return f'<ol class="bars">{"".join(items)}</ol>'


def _parts(reasons: Mapping[str, int], most: int) -> str:
    parts, before = [], 0
    for reason, count in _stacked(reasons):
        x, length = (f"{100 * number / most:.3f}" for number in (before, count))
        parts.append(f'<rect class="bar {colour_of(reason)}" x="{x}" width="{length}" height="1"/>')
        before += count
    return "".join(parts)


def _stacked(reasons: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return the reasons in the order of their colours, those without a colour as one."""
    counts = {reason: reasons.get(reason, 0) for reason in COLOURED}
    counts[OTHERS] = sum(reasons.values()) - sum(counts.values())
    return [(reason, count) for reason, count in counts.items() if count]


def over_time(sums: Sums) -> str:
    """Return the plot of requests over time, stacked by reason; nothing where the report gives no times."""
    buckets = sums.timeline.buckets()
    if not buckets:
        return ""
    wide = sums.timeline.width
    top = _round_up(max(bucket.counts.total() for bucket in buckets))
    slots = max(len(buckets), _FEWEST)
    start = buckets[0].start
    ticks = [start + slots * wide * part // 2 for part in range(3)]
    marks = "".join(f"<li>{_tick(time, wide, slots * wide)}</li>" for time in ticks)
    says = f"Disallowed requests over time; a bar is {width(wide)}, the highest {_highest(buckets)}."
    return (
        f'<div class="time"><ul class="up" aria-hidden="true"><li>{top:,}</li><li>{top // 2:,}</li><li>0</li></ul>'
        f'<svg viewBox="0 0 {slots * 10} 100" preserveAspectRatio="none" role="img" aria-labelledby="time-title">'
        f'<title id="time-title">{says}</title>'
        '<path class="grid" d="'
        + " ".join(f"M0 {height}H{slots * 10}" for height in (0, 50, 100))
        + f'"/>{"".join(_column(bucket, place, top) for place, bucket in enumerate(buckets))}</svg>'
        f'<ul class="along" aria-hidden="true">{marks}</ul></div>'
    )


def legend(sums: Sums) -> str:
    """Return which colour is which reason."""
    present = [reason for reason in COLOURED if reason in sums.reasons]
    if set(sums.reasons) - set(present):
        present.append(OTHERS)
    items = (
        f'<li><svg viewBox="0 0 1 1" aria-hidden="true"><rect class="{colour_of(reason)}" width="1" height="1"/></svg>'
        f"{reason}</li>"
        for reason in present
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def _column(bucket: Bucket, place: int, top: int) -> str:
    """Return the bar of a bucket: a part for each reason, one above the other."""
    if not bucket.counts:
        return ""
    counts = _stacked(bucket.counts)
    parts, below = [], 0
    for reason, count in counts:
        below += count
        parts.append(
            f'<rect class="bar {colour_of(reason)}" x="{place * 10 + 1}" width="8"'
            f' y="{100 - 100 * below / top:.3f}" height="{100 * count / top:.3f}"/>'
        )
    told = ", ".join(f"{count:,} {reason}" for reason, count in counts)
    return f"<g><title>{said(bucket.start)} UTC: {told}</title>{''.join(parts)}</g>"


def _round_up(number: int) -> int:
    """Return the next number that makes a good end of an axis, and has a half."""
    size: int = 10 ** (len(str(number)) - 1)
    ends = (size * step // 10 for step in _ENDS)
    return next(end for end in ends if end >= number and end % 2 == 0)


def _highest(buckets: Sequence[Bucket]) -> str:
    highest = max(buckets, key=lambda bucket: bucket.counts.total())
    return f"{highest.counts.total():,} requests at {said(highest.start)} UTC"


def _tick(time: int, wide: int, length: int) -> str:
    """Return a time under the axis, no longer than it has to be."""
    text = said(time)
    shown = (
        text[:10] if length > 5 * _DAY else text[5:16] if length > _DAY else text[11:19] if wide < 60 else text[11:16]
    )
    iso = datetime.datetime.fromisoformat(text).isoformat()
    return f'<time datetime="{iso}Z">{shown}</time>'
