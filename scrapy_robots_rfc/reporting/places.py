"""Where outputs go: URIs with placeholders filled in, and a check that no two are the same."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from scrapy.crawler import Crawler
from scrapy.utils.misc import load_object
from w3lib.url import file_uri_to_path

from scrapy_robots_rfc.core.text import without_credentials
from scrapy_robots_rfc.errors import SettingError
from scrapy_robots_rfc.settings import Settings

REPORT, ARCHIVE = "ROBOTS_REPORT", "ROBOTS_ARCHIVE"


def refuse_shared_place(crawler: Crawler, settings: Settings, key: str) -> None:
    """Refuse a place that another output writes to as well: one of them would damage the other.

    :param key: ROBOTS_REPORT or ROBOTS_ARCHIVE.
    :raises SettingError: FEEDS or the other of the two names the same place.
    """
    outputs = list(_outputs(crawler, settings))
    [(_, own, own_place)] = [output for output in outputs if output[0] == key]
    for other, uri, place in outputs:
        if other != key and place == own_place:
            hint = " (-o and -O of the command line set FEEDS)" if other == "FEEDS" else ""
            named = f"{other} names {without_credentials(uri)!r}{hint}"
            accepted = f"a place that no other output writes to, but {named}"
            raise SettingError(key, without_credentials(own), accepted)


def _outputs(crawler: Crawler, settings: Settings) -> Iterator[tuple[str, str, str]]:
    """Yield the setting, the value and the place of each output."""
    feeds = crawler.settings.getdict("FEEDS")
    for setting, named in ((REPORT, settings.report), ("FEEDS", feeds)):
        for key, options in named.items():
            uri = str(key)
            with suppress(Exception):  # of a function of the user's: FEEDS reports it
                uri = filled_in(uri, options, crawler)
            yield setting, str(key), _place(uri)
    if settings.archive is not None:
        yield ARCHIVE, settings.archive, os.path.realpath(settings.archive)


def filled_in(uri: str, options: Mapping[str, Any], crawler: Crawler) -> str:
    """Fill in the placeholders of a feed's URI, such as ``%(name)s``, as FEEDS does.

    :param options: of the feed; `uri_params` may name a function of the user's.
    :raises Exception: that function raises anything; an unknown placeholder is a KeyError.
    """
    spider = crawler.spider
    change = options.get("uri_params", crawler.settings["FEED_URI_PARAMS"])
    function = load_object(change) if change else None
    if "%(" not in uri:
        return uri
    now = datetime.now(UTC)
    params = {
        **{name: getattr(spider, name) for name in dir(spider)},
        "time": now.replace(microsecond=0).isoformat().replace(":", "-"),
        "batch_time": now.isoformat().replace(":", "-"),
        "batch_id": 1,
    }
    changed = function(params, spider) if function is not None else None
    # Another percent sign is part of the URI, such as that of %20.
    return re.sub(r"%(?!\()", "%%", uri) % (params if changed is None else changed)


def _place(uri: str) -> str:
    """Return a name of a place that does not depend on how it was written."""
    try:
        scheme = urlsplit(uri).scheme
        if scheme == "stdout":
            return "stdout:"
        if scheme not in ("", "file"):
            return uri
        return os.path.realpath(file_uri_to_path(uri) if scheme else uri)
    except ValueError:  # it is neither a URI nor a path; the storage raises an error
        return uri
