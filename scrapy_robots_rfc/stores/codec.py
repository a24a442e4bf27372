"""A copy: all that is kept of an origin's robots.txt, and how it is written down.

In here: the values of every store, whatever the store is. For how long a copy is used is `policy/freshness.py`.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass, field, replace

from scrapy_robots_rfc.policy.access import Outcome

#: The version of what is written.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Validators:
    """What a server is asked with whether a file has changed (RFC 9110, 13.1).

    :param url: the URL that gave the file, redirects followed: no other one is asked with these.
    :param etag: the ETag header, as it came; ``None`` where there was none.
    :param last_modified: the Last-Modified header, as it came.
    """

    url: str
    etag: bytes | None = None
    last_modified: bytes | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """What is known of one origin. Times are seconds on the clock of whoever holds it: see `moved`.

    :param outcome: what governs the decisions.
    :param status: the HTTP status of the last fetch; ``None`` without an answer.
    :param cause: how the last fetch ended, in a word or two.
    :param fetched: when it ended.
    :param fresh_until: from then on the file is asked for again.
    :param confirmed: when the file that is obeyed was last confirmed; ``None`` where there is none.
    :param unreachable_since: when the run of unreachable fetches began; ``None`` outside of one.
    :param lifetime: seconds for which its server called it fresh (RFC 9111, 4.2.1); ``None`` where it said nothing. A 304
        that says nothing leaves it as it is.
    :param body: the file that is obeyed, without content coding; ``None`` where there is none.
    """

    outcome: Outcome
    status: int | None
    cause: str
    fetched: float
    fresh_until: float
    confirmed: float | None = None
    unreachable_since: float | None = None
    lifetime: float | None = None
    validators: Validators | None = None
    body: bytes | None = field(default=None, repr=False)

    def moved(self, seconds: float) -> Copy:
        """Return the same copy on a clock that shows so many seconds more."""

        def later(time: float | None) -> float | None:
            return None if time is None else time + seconds

        return replace(
            self,
            fetched=self.fetched + seconds,
            fresh_until=self.fresh_until + seconds,
            confirmed=later(self.confirmed),
            unreachable_since=later(self.unreachable_since),
        )


def encode(copy: Copy) -> bytes:
    """Return a copy as octets."""
    raise NotImplementedError


def decode(value: bytes) -> Copy:
    """Return the copy of `encode`; hostile octets are refused, and cost no more than they are long.

    :raises ValueError: an unknown version, or damaged.
    """
    raise NotImplementedError


_ = json, zlib
