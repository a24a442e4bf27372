"""Every signal of this package, once; `docs/signals.md` is its reference. Connect to them as to Scrapy's own."""

from __future__ import annotations

#: A fetch of a robots.txt has ended, one way or the other. Handlers may be coroutines; the waiting requests go on when
#: they are done, or when ROBOTSTXT_TIMEOUT is over.
#: Arguments: `origin` (`policy.origin.Origin`), `result` (`policy.access.Outcome`), `status` (int, or None without an
#: answer), `body` (bytes, or None without a file), `error` (str: the cause, or None where the fetch was successful),
#: `request` (the request that asked, or None).
robots_fetched = object()

#: A request is about to be dropped. Handlers are plain functions.
#: Arguments: `request`, `decision` (`Decision`).
request_disallowed = object()
