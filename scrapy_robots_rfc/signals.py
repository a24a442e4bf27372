"""The signals of this package. Connect to them as to Scrapy's own; docs/spiders.md has examples."""

from pydispatch.dispatcher import (  # type: ignore[import-untyped]  # Scrapy's
    getAllReceivers,
    liveReceivers,
)
from scrapy.signalmanager import SignalManager


def has_receivers(manager: SignalManager, signal: object) -> bool:
    """Return whether anything listens to a signal: sending one takes 30,000 instructions."""
    return any(liveReceivers(getAllReceivers(manager.sender, signal)))


#: A fetch of a robots.txt has ended, with or without a file. Handlers may be coroutines. Waiting
#: requests continue when all handlers have finished, or after ROBOTS_TIMEOUT.
#: Arguments: `origin` (`policy.origins.Origin`), `result` (`policy.access.Outcome`), `status` (int,
#: or None without a response), `body` (bytes, or None without a file), `error` (str: the cause, or
#: None if the fetch succeeded), `request` (the request that needed the file, or None), `robots`
#: (the `OriginPolicy` that applies to the origin from now on).
robots_fetched: object = object()

#: An exchange for a robots.txt has ended, complete or not. It may be a redirect or an error.
#: Handlers are plain functions.
#: Arguments: `origin` (the `Origin` whose file was requested, or None), `request` (with the headers
#: that were sent), `response` (with its body as received, or None without a response), `codings`
#: (its Content-Encoding lines, as bytes), `cut_off` (whether only a part was read).
robots_exchanged: object = object()

#: A request is about to be dropped, or an item because of a rule of its page (`Reason.PAGE`).
#: Handlers are plain functions.
#: Arguments: `request` (for an item, the request of its page), `decision` (`Decision`), `why`
#: (str), `robots` (the `OriginPolicy` that decided, or None), `line` (int: the line of robots.txt
#: that decided, or None).
request_disallowed: object = object()

#: A request may be fetched, and is about to be. Sent only if ROBOTS_REPORT has the option
#: `allowed`, because it takes time for each page. Handlers are plain functions.
#: Arguments: the same as for `request_disallowed`.
request_allowed: object = object()

#: Internal, for the log: an attempt to get a robots.txt has ended, or a copy of another worker is
#: used. Not sent for an ordinary success at the first attempt. Handlers are plain functions.
#: Arguments: `robots` (the `OriginPolicy` that governs the origin now), `fetch` (its `attempts`,
#: `before` and `last` are as they were before the attempt), `access` (the `Access`, or None if a
#: copy from the store is used), `delays` (seconds before each further attempt).
robots_attempted: object = object()

#: A site asks for an interval between its requests. Sent once for each site. Handlers are plain
#: functions.
#: Arguments: `robots` (the `OriginPolicy` of the site), `bound` (the `Bound` with the interval that
#: it asks for), `interval` (the seconds that are kept, at most ROBOTS_CRAWL_DELAY_MAX).
site_paced: object = object()
