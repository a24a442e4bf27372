"""Every signal of this package, once. Connect to them as to Scrapy's own; `docs/signals.md` is the reference page."""

from __future__ import annotations

#: A fetch of a robots.txt has ended, with or without a file. Handlers may be coroutines; waiting requests go on when
#: all handlers are done, or when ROBOTSTXT_TIMEOUT is over.
#: Arguments: `origin` (`policy.origins.Origin`), `result` (`policy.access.Outcome`), `status` (int, or None without an
#: answer), `body` (bytes, or None without a file), `error` (str: the cause, or None where the fetch was successful),
#: `request` (the request that asked, or None).
robots_fetched: object = object()

#: A request is about to be dropped. Handlers are plain functions.
#: Arguments: `request`, `decision` (`Decision`).
request_disallowed: object = object()
