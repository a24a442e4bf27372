"""Add up the records in a ROBOTS_REPORT file.

The file may be incomplete, damaged or hostile, so lines that are not records are just counted, and
nothing raises. Memory use depends on the number of sites, rules and runs, but not on the number of
requests, because only a limited number of URLs is kept.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from heapq import nsmallest
from typing import Any, BinaryIO, NamedTuple

from scrapy_robots_rfc.commands.common import whole_number, without_passwords
from scrapy_robots_rfc.core.decision import Reason
from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.reporting.report import ORIGIN, RUN

#: Every ROBOTS_REPORT record has at least one of these fields, even if the feed exports only a few.
MARKS = frozenset({"reason", "why", "rule", "robots_url", "token", "dry_run"})
#: Maximum record size in bytes. Longer lines are read in chunks, which don't count as records.
LONGEST = 1_000_000
#: The text to show for missing values.
NOT_GIVEN = "not given"
#: Maximum number of URLs to keep for each group, and for all groups together.
MAX_URLS_OF_GROUP, MAX_URLS = 1000, 20_000
#: Maximum number of robots.txt files to keep for each site.
MAX_FILES = 10
#: Delays in seconds that are not shown, because no crawl can obey them.
LONGEST_DELAY = 1e9
_EXEMPT = Reason.EXEMPT.value
# The reasons in the last records of a crawl.
_LAST = frozenset({_EXEMPT, ORIGIN, RUN})
_FIELD = 2000  # maximum characters to read from a field
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", re.ASCII)

#: Explanations of the reasons for users.
MEANINGS = {
    Reason.RULE.value: "a rule of robots.txt disallows the page",
    Reason.UNREACHABLE.value: "robots.txt could not be fetched, so nothing is allowed",
    Reason.LOCAL.value: "the crawl itself failed to fetch robots.txt, so nothing is allowed",
    Reason.PARSER.value: "the ROBOTSTXT_PARSER class disallows the page",
    Reason.CRAWL_DELAY.value: "the site requests a longer delay than ROBOTS_CRAWL_DELAY_MAX",
    Reason.USE.value: "the site disallows a use that the crawl declares (ROBOTS_USE)",
    Reason.PAGE.value: "the page contains a nofollow or noindex rule (ROBOTS_TAG_OBEY)",
    NOT_GIVEN: "the report does not contain the reason",
}


class Group(NamedTuple):
    """The fields shared by all requests that a rule of a file dropped for an agent."""

    reason: str
    why: str | None
    origin: str | None
    line: int | None
    rule: str | None
    token: str | None
    agent: str | None
    digest: str | None


@dataclass(slots=True, eq=False)
class Requests:
    """Counts of the requests in a group.

    :param dry_run: the number of requests sent in a dry run.
    :param urls: for each URL, the number of requests, and the number sent in a dry run.
    """

    requests: int = 0
    dry_run: int = 0
    urls: dict[str, list[int]] = field(default_factory=dict)


Groups = defaultdict[Group, Requests]


@dataclass(slots=True, eq=False)
class Site:
    """What the report contains about an origin.

    :param requests: the number of dropped requests.
    :param allowed: the number of allowed requests, or `None` if it is not known.
    :param state: the last known state of its robots.txt, with the names of the record's fields.
    :param files: for each robots.txt (URL and digest), when it was fetched first and last.
    """

    requests: int = 0
    allowed: int | None = None
    state: dict[str, Any] = field(default_factory=dict)
    files: dict[tuple[str | None, str | None], tuple[str | None, str | None]] = field(
        default_factory=dict
    )

    def note(self, fields: Mapping[str, Any], reason: str) -> None:
        """Keep what a record says about the origin's robots.txt.

        The record of the origin, which the crawl writes at its end, also says why, and the delay.
        """
        if _text(fields, "outcome") is None:
            return  # a rule of a page says nothing about robots.txt
        url = without_userinfo(_text(fields, "robots_url") or "") or None
        file = url, _text(fields, "digest")
        if any(file) and (file in self.files or len(self.files) < MAX_FILES):
            fetched = _time(fields, "fetched")
            self.files[file] = self.files.get(file, (fetched,))[0], fetched
        self.state |= {
            "outcome": _text(fields, "outcome"),
            "status": whole_number(fields.get("status")),
        }
        if reason == ORIGIN:
            self.state["why"] = without_passwords(_text(fields, "why") or NOT_GIVEN)
        delay: Any = fields.get("crawl_delay")
        if type(delay) in (int, float) and 0 < delay < LONGEST_DELAY:
            self.state["crawl_delay"] = delay


@dataclass(slots=True, eq=False)
class Run:
    """A single crawl. Several crawls may append to the same file.

    :param allowed: the number of allowed requests, or `None` if it is not known.
    :param disallowed: the number of requests that robots.txt disallowed, as counted by the crawl,
        or `None` if that was not recorded.
    :param end: how the crawl ended, or `None` if that was not recorded.
    """

    number: int
    started: str | None
    spider: str | None
    first: str | None = None
    last: str | None = None
    requests: int = 0
    dry_run: int = 0
    allowed: int | None = None
    disallowed: int | None = None
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
        """Extend the run's time span to include the time of a record."""
        if time is not None:
            self.first = min(self.first or time, time)
            self.last = max(self.last or time, time)


@dataclass(slots=True, eq=False)
class Sums:
    """Totals for a file or for one of its runs.

    :param only: the number of the only run to include, or `None` for all runs.
    :param keeps_all: True to keep every URL.
    :param keeps_allowed: True to keep the URLs of allowed requests, too.
    """

    only: int | None = None
    keeps_all: bool = False
    keeps_allowed: bool = False
    records: int = 0
    broken: int = 0
    total: Run = field(default_factory=lambda: Run(0, None, None))
    runs: dict[tuple[str | None, str | None], Run] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    sites: defaultdict[str | None, Site] = field(default_factory=lambda: defaultdict(Site))
    spiders: Counter[str | None] = field(default_factory=Counter)
    agents: Counter[str | None] = field(default_factory=Counter)
    versions: Counter[str] = field(default_factory=Counter)
    exempt: Counter[str | None] = field(default_factory=Counter)
    groups: Groups = field(default_factory=lambda: defaultdict(Requests))
    allowed_groups: Groups = field(default_factory=lambda: defaultdict(Requests))
    _kept_urls: int = 0
    # For each allowed URL, the group of its last record.
    _allowed: dict[str | None, Group] = field(default_factory=dict)

    @property
    def included(self) -> list[Run]:
        """The runs that the totals include."""
        return [run for run in self.runs.values() if self.only in (None, run.number)]

    @property
    def allowed(self) -> int | None:
        """The number of allowed requests, or `None` if it is not known for a run."""
        numbers = [run.allowed for run in self.included]
        return None if None in numbers else sum(filter(None, numbers))

    @property
    def lost(self) -> int:
        """The number of requests that robots.txt disallowed and that have no record."""
        recorded = self.total.requests - self.reasons[Reason.PAGE.value]
        return max(0, sum(run.disallowed or 0 for run in self.included) - recorded)

    def read(self, file: BinaryIO) -> None:
        """Read a file and add its records."""
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
        rule = _text(fields, "rule")
        reason = _text(fields, "reason") or (NOT_GIVEN if rule is None else Reason.RULE.value)
        requests = whole_number(fields.get("count")) or 1
        is_dropped = fields.get("allowed") is not True and reason not in _LAST
        is_included = self.only in (None, run.number)
        for one in [run, self.total] if is_included else [run]:
            one.note(_time(fields, "time"))
            one.requests += requests * is_dropped
            one.dry_run += requests * (is_dropped and fields.get("dry_run") is True)
        group = _group(fields, reason, rule)
        if is_included:
            self.versions[_text(fields, "version") or NOT_GIVEN] += 1
            if is_dropped:
                self._add_dropped(fields, group, run, requests)
            else:
                self._add_other(fields, group, run, requests)
        if reason == RUN:
            run.end = _text(fields, "why")
            run.disallowed = whole_number(fields.get("disallowed_requests"))
            run.allowed = run.allowed or whole_number(fields.get("allowed_requests"))
        elif fields.get("allowed") is True:
            run.allowed = (run.allowed or 0) + requests
        elif reason == Reason.USE.value and run.allowed:
            run.allowed = max(0, run.allowed - requests)  # as in `_add_dropped`

    def _add_other(self, fields: Mapping[str, Any], group: Group, run: Run, requests: int) -> None:
        """Add the record of an allowed request, or one of the last records of a crawl."""
        if group.reason == _EXEMPT:
            self.exempt[group.rule] += requests
            return
        if group.reason == RUN:
            # If the crawl dropped nothing, no other record contains these names.
            if not run.requests:
                self.spiders[run.spider] += 0
                self.agents[group.agent] += 0
            return
        site = self.sites[group.origin]
        site.note(fields, group.reason)
        if group.reason == ORIGIN:
            # The run's allowed requests either have records, or they are counted here.
            counted = whole_number(fields.get("allowed_requests")) or 0
            site.allowed = (site.allowed or 0) + counted * (run.allowed is None)
        else:
            site.allowed = (site.allowed or 0) + requests
            if self.keeps_allowed:
                self._allowed[self._url(fields)] = group
                self._keep(fields, self.allowed_groups[group], requests)

    def _add_dropped(
        self, fields: Mapping[str, Any], group: Group, run: Run, requests: int
    ) -> None:
        site = self.sites[group.origin]
        site.note(fields, group.reason)
        site.requests += requests
        if group.reason == Reason.USE.value and run.allowed:
            # If allowed requests are recorded, this one was, before its use was checked.
            site.allowed = max(0, (site.allowed or 0) - requests)
            self._remove_allowed(self._url(fields), requests)
        self.reasons[group.reason] += requests
        self.spiders[_text(fields, "spider")] += requests
        self.agents[group.agent] += requests
        self.rules[group.rule or group.why or NOT_GIVEN] += requests
        self._keep(fields, self.groups[group], requests)

    def _keep(self, fields: Mapping[str, Any], kept: Requests, requests: int) -> None:
        """Count a group's requests, and keep the URL if there is room."""
        dry_run = requests * (fields.get("dry_run") is True)
        kept.requests += requests
        kept.dry_run += dry_run
        url, urls = self._url(fields), kept.urls
        if url is None:
            return
        has_room = len(urls) < MAX_URLS_OF_GROUP and self._kept_urls < MAX_URLS
        if url not in urls and (self.keeps_all or has_room):
            self._kept_urls += 1
            urls[url] = [0, 0]
        if url in urls:
            urls[url][0] += requests
            urls[url][1] += dry_run

    def _remove_allowed(self, url: str | None, requests: int) -> None:
        """Remove requests for a URL whose use was refused from the group that allowed them."""
        group = self._allowed.get(url)
        if url is None or group is None or url not in self.allowed_groups[group].urls:
            return
        kept = self.allowed_groups[group]
        removed = min(requests, kept.urls[url][0])
        kept.requests -= removed
        kept.urls[url][0] -= removed
        if not kept.urls[url][0]:
            del kept.urls[url], self._allowed[url]
        if not kept.requests:
            del self.allowed_groups[group]

    def _url(self, fields: Mapping[str, Any]) -> str | None:
        url = _text(fields, "url", LONGEST if self.keeps_all else _FIELD)
        return None if url is None else without_userinfo(url)


def largest(groups: Groups, most: int | None = None) -> list[tuple[Group, Requests]]:
    """Return the groups with the most requests. Ties are sorted by site and line.

    :param most: maximum number of groups, or `None` for all.
    """
    return nsmallest(
        most or len(groups),
        groups.items(),
        lambda item: (-item[1].requests, item[0].origin or "", item[0].line or 0),
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
        _text(fields, "digest"),
    )


@lru_cache(maxsize=1024)
def _cleaned(why: str, is_page: bool) -> str:
    """Remove passwords from an explanation, and the page's URL if a page rule applied."""
    if is_page:  # "nofollow of https://a.example/b, meta robots: nofollow"
        directive, _, place = why.partition(" of ")
        why = f"{directive}: {place.partition(', ')[2]}" if place else why
    return without_passwords(why)


def _text(fields: Mapping[str, Any], name: str, longest: int = _FIELD) -> str | None:
    """Return a field as printable text, or `None` if it is empty or not text."""
    value = fields.get(name)
    is_text = isinstance(value, str | int | float)
    return printable(str(value)[:longest]) if value and is_text else None


def _time(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field if it is a time, or `None`."""
    text = _text(fields, name)
    return text if text is not None and _TIME.fullmatch(text) else None
