"""Sample cache entries."""

from __future__ import annotations

from scrapy_robots_rfc.cache.entry import Validators
from scrapy_robots_rfc.policy.access import Outcome
from tests.support.entries import made

#: A file with a value in every field.
FILE = made(
    Outcome.SUCCESSFUL,
    200,
    "200",
    1_700_000_000.25,
    1_700_086_400.25,
    confirmed=1_700_000_000.25,
    unreachable_since=1_700_000_100.0,
    validators=Validators(
        "https://a.example/robots.txt", b'W/"5\xff"', b"Tue, 14 Nov 2023 22:13:20 GMT"
    ),
    body=b"User-agent: *\nDisallow: /x\n# \xff\n" * 20,
    lifetime=3600.0,
    cut=512_000,
)

#: There is no file.
MISSING = made(Outcome.UNAVAILABLE, 404, "404", 1_700_000_000.0, 1_700_086_400.0)
