"""Add up the records of a ROBOTS_REPORT file.

The file may be incomplete, damaged or hostile, so lines that are not records are only counted, and
nothing raises. Memory grows with sites, rules, runs and the limited number of URLs that are kept,
but not with requests.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from heapq import nlargest
from typing import Any, BinaryIO, NamedTuple

from scrapy_robots_rfc.commands.common import whole_number, without_passwords
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.fetching.parsed import UNREACHABLE
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.reporting.report import RUN

#: Every record of ROBOTS_REPORT has one of these fields, even if its feed has few.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Maximum bytes of a record; longer lines are read in pieces, which are not records.
LONGEST = 1_000_000
#: The text for missing values.
NOT_GIVEN = "not given"
#: Maximum URLs that are kept for each group, and for all groups together.
MAX_URLS_OF_GROUP, MAX_URLS = 1000, 20_000
_EXEMPT = Reason.EXEMPT.value
_FIELD = 2000  # characters of a field that are read
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)

#: Reason -> what it means, for users.
MEANINGS = {
    Reason.RULE.value: "a rule of robots.txt disallows the page",
    Reason.UNREACHABLE.value: "robots.txt could not be fetched, so nothing is allowed",
    Reason.LOCAL.value: "the crawl itself failed to fetch robots.txt, so nothing is allowed",
    Reason.PARSER.value: "the parser of ROBOTSTXT_PARSER disallows the page",
    Reason.CRAWL_DELAY.value: "the site asks for a longer interval than ROBOTS_CRAWL_DELAY_MAX",
    Reason.USE.value: "the site refuses every use that the crawl declares (ROBOTS_USE)",
    Reason.PAGE.value: "a rule of the page (ROBOTS_TAG_OBEY): nofollow or noindex",
    NOT_GIVEN: "the report does not have the reason",
}


class Group(NamedTuple):
    """The common fields of requests that one rule dropped for one agent."""

    reason: str
    why: str | None
    origin: str | None
    line: int | None
    rule: str | None
    token: str | None
    agent: str | None


@dataclass(slots=True, eq=False)
class Dropped:
    """The requests of a group.

    :param dry_run: the requests that a dry run sent.
    :param urls: URL -> its requests, and the requests that a dry run sent.
    """

    requests: int = 0
    dry_run: int = 0
    urls: dict[str, list[int]] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Run:
    """One crawl. Several crawls may append to a file.

    :param end: how the crawl ended, or `None` if the file has no record of that.
    """

    number: int
    started: str | None
    spider: str | None
    first: str | None = None
    last: str | None = None
    requests: int = 0
    dry_run: int = 0
    end: str | None = None

    @property
    def period(self) -> str:
        """The time from the first to the last record; empty if it is not known."""
        if self.first is None or self.last is None:
            return ""
        first, last = self.first[:19].replace("T", " "), self.last[:19].replace("T", " ")
        return (
            f"{first} UTC" if first == last else f"{first} to {last.removeprefix(first[:11])} UTC"
        )

    @property
    def ending(self) -> str:
        """How the crawl ended, in words."""
        return self.end or "no end recorded"

    def note(self, time: str | None) -> None:
        """Extend the time from the first to the last record."""
        if time is not None and _TIME.fullmatch(time):
            self.first = min(self.first or time, time)
            self.last = max(self.last or time, time)


@dataclass(slots=True, eq=False)
class Sums:
    """The sums of a file, or of one of its runs.

    :param only: the number of the run to sum up, or `None` for all runs.
    :param keeps_all: whether to keep every URL.
    """

    only: int | None = None
    keeps_all: bool = False
    records: int = 0
    broken: int = 0
    allowed: int = 0
    total: Run = field(default_factory=lambda: Run(0, None, None))
    runs: dict[tuple[str | None, str | None], Run] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    origins: Counter[str | None] = field(default_factory=Counter)
    spiders: Counter[str | None] = field(default_factory=Counter)
    agents: Counter[str | None] = field(default_factory=Counter)
    causes: Counter[str] = field(default_factory=Counter)
    exempt: Counter[str | None] = field(default_factory=Counter)
    groups: defaultdict[Group, Dropped] = field(default_factory=lambda: defaultdict(Dropped))
    _kept_urls: int = 0

    def read(self, file: BinaryIO) -> None:
        """Add the records of a file."""
        for line in iter(partial(file.readline, LONGEST), b""):
            fields = None
            # A number with thousands of digits also raises ValueError.
            with suppress(ValueError, RecursionError):
                fields = json.loads(line.decode("utf-8-sig", "replace"))
            if isinstance(fields, dict) and not MARKS.isdisjoint(fields):
                self.records += 1
                self._add(fields)
            elif line.strip():
                self.broken += 1

    def _add(self, fields: Mapping[str, Any]) -> None:
        """Add a record. Fields may be missing, and values may have any type."""
        key = _text(fields, "run"), _text(fields, "spider")
        run = self.runs.get(key)
        if run is None:
            run = self.runs[key] = Run(len(self.runs) + 1, *key)
        counted = [run, self.total] if self.only in (None, run.number) else [run]
        rule = _text(fields, "rule")
        reason = _text(fields, "reason") or (NOT_GIVEN if rule is None else Reason.RULE.value)
        requests = whole_number(fields.get("count")) or 1
        is_dropped = fields.get("allowed") is not True and reason not in (_EXEMPT, RUN)
        for one in counted:
            one.note(_text(fields, "time"))
            one.requests += requests * is_dropped
            one.dry_run += requests * (is_dropped and fields.get("dry_run") is True)
        if reason == RUN:
            run.end = _text(fields, "why")
        if self.total not in counted:
            return
        if is_dropped:
            self._add_dropped(fields, _group(fields, reason, rule), requests)
        elif reason == _EXEMPT:
            self.exempt[rule] += requests
        elif reason == RUN:
            # The report of a crawl that dropped nothing has no other record with these names.
            if not run.requests:
                self.spiders[run.spider] += 0
                self.agents[_text(fields, "agent")] += 0
        else:
            self.allowed += requests

    def _add_dropped(self, fields: Mapping[str, Any], group: Group, requests: int) -> None:
        self.reasons[group.reason] += requests
        self.origins[group.origin] += requests
        self.spiders[_text(fields, "spider")] += requests
        self.agents[group.agent] += requests
        dropped = self.groups[group]
        dropped.requests += requests
        dry_run = requests * (fields.get("dry_run") is True)
        dropped.dry_run += dry_run
        if group.reason == Reason.UNREACHABLE.value:
            self.causes[(group.why or NOT_GIVEN).removeprefix(UNREACHABLE)] += requests
        url = _text(fields, "url", LONGEST if self.keeps_all else _FIELD)
        if url is None:
            return
        url, urls = without_userinfo(url), dropped.urls
        has_room = len(urls) < MAX_URLS_OF_GROUP and self._kept_urls < MAX_URLS
        if url not in urls and (self.keeps_all or has_room):
            self._kept_urls += 1
            urls[url] = [0, 0]
        if url in urls:
            urls[url][0] += requests
            urls[url][1] += dry_run

    def largest_groups(self, most: int | None = None) -> list[tuple[Group, Dropped]]:
        """Return the groups with the most requests.

        :param most: maximum groups, or `None` for all.
        """
        return nlargest(
            most or len(self.groups), self.groups.items(), lambda item: item[1].requests
        )


def _group(fields: Mapping[str, Any], reason: str, rule: str | None) -> Group:
    why = _text(fields, "why")
    return Group(
        reason,
        None if why is None else _cleaned(why, reason == Reason.PAGE.value),
        without_userinfo(_text(fields, "origin") or "") or None,
        whole_number(fields.get("line")),
        rule,
        _text(fields, "token"),
        _text(fields, "agent"),
    )


@lru_cache(maxsize=1024)
def _cleaned(why: str, is_page: bool) -> str:
    """Return an explanation without passwords, and without the URL of a page that has a rule."""
    if is_page:  # "nofollow of https://a.example/b, meta robots: nofollow"
        directive, _, place = why.partition(" of ")
        why = f"{directive}: {place.partition(', ')[2]}" if place else why
    return without_passwords(why)


def _text(fields: Mapping[str, Any], name: str, longest: int = _FIELD) -> str | None:
    """Return a field as printable text, or `None` if it is empty or not text."""
    value = fields.get(name)
    is_text = isinstance(value, str | int | float)
    return printable(str(value)[:longest]) if value and is_text else None
