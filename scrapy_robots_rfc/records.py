"""Records: what the report of a crawl says of a request that may not be fetched, and of sites that were not asked.

In here: the fields, in their order, and what goes into them. Where records are written is `feeds.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeAlias

from scrapy_robots_rfc.core.text import printable
from scrapy_robots_rfc.policy.origin import without_userinfo

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scrapy import Request

    from scrapy_robots_rfc.core.decision import Decision
    from scrapy_robots_rfc.robots import Robots

#: The fields of FIELDS, in this order.
Record: TypeAlias = dict[str, Any]

#: Field -> what stands in it. `docs/report.md` is checked against this table.
FIELDS = {
    "time": "when it was decided: UTC, ISO 8601 with milliseconds",
    "spider": "the name of the spider",
    "url": "the URL of the request, without user and password",
    "referrer": "the Referer header of the request, without user and password; null: it has none",
    "origin": "scheme, host and port whose robots.txt it falls under; null: the URL has no valid authority",
    "token": "the product token whose group applied, `*` for the wildcard group; null: none did",
    "reason": "`rule`, `unreachable`, `parser`, `crawl_delay`; `exempt` in the last records",
    "line": "the number of the line that decided; null: no rule did",
    "rule": "the rule, as `Disallow: /private/`; null: no rule decided",
    "why": "the text of the log line, as `robots.txt line 3: Disallow: /private/`",
    "robots_url": "the URL of the robots.txt; of a local file of ROBOTSTXT_OVERRIDES its `file:` URI",
    "digest": "`sha256:` and the digest of the octets of the file that count; null: there is no file",
    "stale": "whether an earlier copy decided, because its refresh failed",
    "dry_run": "whether the request was let through all the same",
    "count": "how many requests the record is about: 1, but for the last records",
}

#: The value of a field that is neither filled in by `Records.refused` nor by `Records.exempt`.
_NOTHING: Record = {**dict.fromkeys(FIELDS), "stale": False, "dry_run": False, "count": 1}


@dataclass(frozen=True, slots=True)
class Records:
    """Makes the records of a crawl.

    :param spider: its name.
    :param dry_run: whether what is refused goes on all the same.
    :param local: paths of ROBOTSTXT_OVERRIDES -> their URIs, from the start of the crawl: its folder may go away.
    """

    spider: str
    dry_run: bool = False
    local: Mapping[str, str] = field(default_factory=dict)

    def refused(self, now: float, request: Request, decision: Decision, why: str, robots: Robots | None) -> Record:
        """Return the record of a request that may not be fetched.

        :param now: seconds since 1970.
        :param robots: what is known of its origin; ``None`` where it has none.
        """
        rule = decision.rule
        return {
            "time": _time(now),
            "spider": self.spider,
            "url": printable(without_userinfo(request.url)),
            "referrer": _referrer(request),
            "origin": decision.origin,
            "token": decision.token,
            "reason": decision.reason.value,
            "line": None if rule is None else rule.line,
            "rule": None if rule is None else str(rule),
            "why": printable(why),
            "robots_url": None if robots is None else self._robots_url(robots),
            "digest": None if robots is None or robots.file is None else robots.file.digest,
            "stale": decision.stale,
            "dry_run": self.dry_run,
            "count": 1,
        }

    def exempt(self, now: float, entry: str, count: int) -> Record:
        """Return the record of an entry of ROBOTSTXT_EXEMPT that was used.

        :param now: seconds since 1970.
        :param count: by how many requests.
        """
        return {
            **_NOTHING,
            "time": _time(now),
            "spider": self.spider,
            "reason": "exempt",
            "rule": entry,
            "why": f"not asked: `{entry}` of ROBOTSTXT_EXEMPT",
            "count": count,
        }

    def _robots_url(self, robots: Robots) -> str | None:
        return robots.origin.robots_url if robots.override is None else self.local.get(robots.override)


def _time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _referrer(request: Request) -> str | None:
    header: bytes | None = request.headers.get("Referer")
    return None if header is None else printable(without_userinfo(header.decode("utf-8", "backslashreplace")))
