"""The report of a crawl, ROBOTS_REPORT: a record of each request that was decided.

Signals notify it of decisions; `feed.py` writes the records.
"""

from __future__ import annotations

import logging
import math
from importlib.metadata import version
from pathlib import Path
from typing import Any

from scrapy import Request
from scrapy import signals as scrapy_signals
from scrapy.crawler import Crawler

from scrapy_robots_rfc import signals, stats
from scrapy_robots_rfc._runtime import Runtime
from scrapy_robots_rfc.core.decision import Decision
from scrapy_robots_rfc.core.text import error_text, many, printable, utc_text, without_credentials
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.fetching.parsed import EXEMPT, OriginPolicy
from scrapy_robots_rfc.policy.origins import without_userinfo
from scrapy_robots_rfc.reporting import LossLog, counted_by_name
from scrapy_robots_rfc.reporting.feed import REPORT, Feed, refuse_shared_place
from scrapy_robots_rfc.settings import Settings

logger: logging.Logger = logging.getLogger(__name__)

_NAMES = (
    "time spider url referrer origin token reason line rule why robots_url digest outcome"
    " fresh_until version"
)
_RECORDS, _ERRORS = (key.format(output="report") for key in (stats.RECORDS, stats.RECORD_ERRORS))
#: The fields of a record, in their order, with the value of one where a record has no other.
#: `docs/report.md` explains them.
FIELDS: dict[str, Any] = {
    **dict.fromkeys(_NAMES.split()),
    "stale": False,
    "dry_run": False,
    "allowed": False,
    "count": 1,
}


class Report:
    """The report of a crawl.

    :param settings: its feed is a URI -> options, as in FEEDS.
    :raises SettingError: Scrapy does not accept the feed, or another output has its place.
    """

    def __init__(self, crawler: Crawler, settings: Settings) -> None:
        assert crawler.spider is not None
        assert crawler.stats is not None
        self._spider = crawler.spider
        self._stats = crawler.stats
        self._runtime = Runtime()
        self._settings = settings
        self._version = version("scrapy-robots-rfc")
        # The URIs of local files are made now: the working folder may be deleted later.
        self._overrides = {
            path: Path(path).absolute().as_uri() for path in settings.overrides.values()
        }
        self._losses = LossLog(crawler, REPORT, _ERRORS)
        refuse_shared_place(crawler, settings, REPORT)
        [(uri, options)] = settings.report.items()
        try:
            self._feed = Feed(crawler, uri, options, self._record())
        except Exception as error:  # noqa: BLE001 - a class of the user's raises anything
            key = f"{REPORT}[{without_credentials(uri)!r}]"
            accepted = f"options that work: {error_text(error)}"
            raise SettingError(key, dict(options), accepted) from None
        self._place = without_credentials(self._feed.uri)
        crawler.signals.connect(self._decided, signals.request_disallowed)
        crawler.signals.connect(self._decided, signals.request_allowed)
        crawler.signals.connect(self._closed, scrapy_signals.spider_closed)

    def _decided(
        self,
        request: Request,
        decision: Decision,
        why: str,
        robots: OriginPolicy | None,
        line: int | None,
    ) -> None:
        """Write the record of a request that was decided; see `signals.py`."""
        rule = decision.rule
        header = request.headers.get("Referer")
        referrer = None if header is None else header.decode("utf-8", "backslashreplace")
        record = self._record(
            url=printable(without_userinfo(request.url)),
            referrer=None if referrer is None else printable(without_userinfo(referrer)),
            origin=decision.origin,
            token=decision.token,
            reason=decision.reason.value,
            line=line,
            rule=None if rule is None else str(rule),
            why=printable(why),
            stale=decision.stale,
            dry_run=self._settings.dry_run,
            allowed=decision.allowed,
            **({} if robots is None else self._policy(robots)),
        )
        if self._write(record):
            self._stats.inc_value(_RECORDS)

    def _policy(self, robots: OriginPolicy) -> dict[str, Any]:
        """Return the fields that say what governs an origin."""
        left = robots.validity.fresh_until - self._runtime.clock()
        local = robots.override
        return {
            "robots_url": robots.origin.robots_url if local is None else self._overrides.get(local),
            "digest": None if robots.file is None else robots.file.digest,
            "outcome": robots.outcome.value,
            "fresh_until": None if left == math.inf else utc_text(self._runtime.date() + left),
        }

    async def _closed(self) -> None:
        """Write the records of ROBOTS_EXEMPT, and wait until all is stored."""
        counted = self._stats.get_stats()
        for entry, count in counted_by_name(counted, stats.EXEMPTED_BY).items():
            why = EXEMPT.format(exempt=entry)
            self._write(self._record(reason="exempt", rule=entry, why=why, count=count))
        try:
            await self._feed.close()
        except Exception as error:  # noqa: BLE001 - a storage raises anything
            self._losses.add(self._place, error)
        logger.info(
            "ROBOTS_REPORT: %s in %s; writes that failed: %d",
            many(self._stats.get_value(_RECORDS, 0), "decision"),
            self._place,
            self._stats.get_value(_ERRORS, 0),
            extra={"spider": self._spider},
        )

    def _write(self, record: dict[str, Any]) -> bool:
        """Write a record, and return whether it is in the report; never raises."""
        try:
            return self._feed.write(record)
        except Exception as error:  # noqa: BLE001 - a disk, or a class of the user's, raises anything
            self._losses.add(self._place, error)
            return False

    def _record(self, **fields: object) -> dict[str, Any]:
        time = utc_text(self._runtime.date())
        fixed = {"time": time, "spider": self._spider.name, "version": self._version}
        return {**FIELDS, **fixed, **fields}
