"""The signals sent by this package. See docs/spiders.md for examples."""

import logging
from typing import Any

from pydispatch.dispatcher import (  # type: ignore[import-untyped]  # Scrapy's
    getAllReceivers,
    liveReceivers,
)
from scrapy.signalmanager import SignalManager

logger: logging.Logger = logging.getLogger(__name__)


def has_receivers(manager: SignalManager, signal: object) -> bool:
    """Return whether a signal has any receivers. If not, there is no need to send it."""
    return any(liveReceivers(getAllReceivers(manager.sender, signal)))


def send(
    manager: SignalManager,
    signal: object,
    policy: Any,  # noqa: ANN401
    **arguments: object,
) -> None:
    """Send an internal signal, whose handlers accept all arguments.

    This is much faster than `send_catch_log`, which inspects each handler.

    :param policy: the `OriginPolicy` of the site.
    """
    for handler in liveReceivers(getAllReceivers(manager.sender, signal)):
        try:
            handler(policy=policy, **arguments)
        except Exception:  # still call the other handlers
            text = "Cannot handle a signal for %s; the crawl continues"
            logger.exception(text, policy.origin.robots_url)


#: Sent when an attempt to fetch a robots.txt file has ended, whether or not it was successful.
#: Handlers may be coroutines. The fetch continues or ends once all handlers have finished, or after
#: ROBOTS_TIMEOUT.
#: Arguments: `origin` (`policy.origins.Origin`), `result` (`policy.access.Outcome`), `status` (int,
#: or None if there was no response), `body` (bytes, or None if there is no file), `error` (the
#: cause as a str, or None if the fetch was successful), `request` (the request that needed the
#: file, or None), `policy` (the `OriginPolicy` that applies to the origin from now on).
robots_fetched: object = object()

#: Sent when a single exchange for a robots.txt has ended, such as a redirect or an error. Handlers
#: must not be coroutines.
#: Arguments: `origin` (the `Origin` of the file), `request` (with the headers that were sent),
#: `response` (with the body as received, or None if there was no response), `codings` (its
#: Content-Encoding lines, as bytes), `cut_off` (True if the body was not read completely).
robots_exchanged: object = object()

#: Sent before a request is dropped, or before an item is dropped because of its page
#: (`Reason.PAGE`). Handlers must not be coroutines.
#: Arguments: `request` (for an item, the request for its page), `decision` (`Decision`), `why`
#: (str), `policy` (the `OriginPolicy` that decided, or None), `line` (the line number in robots.txt
#: as an int, or None).
request_disallowed: object = object()

#: Sent before an allowed request is fetched. Because it slows down the crawl, it is only sent if
#: ROBOTS_REPORT is set. Handlers must not be coroutines.
#: Arguments: the same as for `request_disallowed`.
request_allowed: object = object()

#: Internal. Sent when an attempt to fetch a robots.txt has ended, or when a copy from the store is
#: used. Handlers must not be coroutines, and must accept all arguments.
#: Arguments: `policy` (the `OriginPolicy` that applies to the origin now), `fetch` (with
#: `attempts` and `validity_before` as they were before the attempt), `access` (the `Access`, or
#: None if a copy from the store is used), `delays` (the seconds before each remaining attempt).
robots_attempted: object = object()

#: Sent once for each site that asks for an interval between requests. Handlers must not be
#: coroutines.
#: Arguments: `policy` (the `OriginPolicy` of the site), `bound` (the `Bound` with the requested
#: interval), `interval` (the interval that is used, in seconds, up to ROBOTS_CRAWL_DELAY_MAX).
site_paced: object = object()
