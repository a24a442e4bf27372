"""Every signal of this package, once. Connect to them as to Scrapy's own; see `docs/spiders.md`."""

#: A fetch of a robots.txt has ended, with or without a file. Handlers may be coroutines; waiting
#: requests go on when all handlers are done, or when ROBOTS_TIMEOUT is over.
#: Arguments: `origin` (`policy.origins.Origin`), `result` (`policy.access.Outcome`), `status` (int,
#: or None without an answer), `body` (bytes, or None without a file), `error` (str: the cause, or
#: None where the fetch was successful), `request` (the request that asked, or None), `robots` (the
#: `OriginPolicy`, which is what governs the origin from now on).
robots_fetched: object = object()

#: An exchange for a robots.txt is over, whole or not: a redirect, or an error, too. Handlers are
#: plain functions.
#: Arguments: `origin` (the `Origin` for which the file was asked for, or None), `request` (with the
#: headers that were sent), `response` (with its body as it came, or None without an answer),
#: `codings` (its lines of Content-Encoding, as octets), `cut_off` (whether only a part was read).
robots_exchanged: object = object()

#: A request is about to be dropped, or an item by a rule of its page (`Reason.PAGE`). Handlers are
#: plain functions.
#: Arguments: `request` (of an item: that of its page), `decision` (`Decision`), `why` (str),
#: `robots` (the `OriginPolicy` that decided, or None), `line` (int: of robots.txt that decided, or
#: None).
request_disallowed: object = object()

#: A request may be fetched, and is about to be. Sent only where ROBOTS_REPORT has the option
#: `allowed`, as it takes time for each page. Handlers are plain functions.
#: Arguments: as those of `request_disallowed`.
request_allowed: object = object()

#: Internal, for the log: an attempt to get a robots.txt has ended, or a copy of another worker is
#: used. Not sent for an ordinary success at the first attempt. Handlers are plain functions.
#: Arguments: `robots` (the `OriginPolicy` that governs the origin now), `fetch` (its `attempts`,
#: `before` and `last` are as they were before the attempt), `access` (the `Access`, or None if a
#: copy from the store is used), `delays` (seconds before each further attempt).
robots_attempted: object = object()
