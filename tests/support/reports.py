"""Reports as Scrapy's exporters write them, and the records of a made-up crawl."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from scrapy.exporters import JsonLinesItemExporter

from scrapy_robots_rfc.reporting.report import FIELDS
from tests.support.command_line import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

    from tests.support.command_line import Done
    from tests.support.site import Site

    #: Functions that sum up records with some options, and return different results.
    Report = Callable[..., Done]
    Printed = Callable[..., list[str]]
    Sums = Callable[..., dict[str, Any]]


#: A robots.txt that disallows some pages.
RULES = "User-agent: *\nDisallow: /private\n"


def private(site: Site, count: int) -> list[str]:
    """Return pages that `RULES` disallows."""
    return [site.url(f"/private/{number}") for number in range(count)]


def record(**fields: Any) -> dict[str, Any]:
    """A record with all fields, of a request that a rule disallows by default."""
    made = {
        **FIELDS,
        "time": "2026-11-21T22:40:01.123Z",
        "run": "2026-11-21T22:40:00.000Z",
        "spider": "news",
        "agent": "newsbot",
        "url": "https://a.example/private/1",
        "origin": "https://a.example",
        "token": "*",
        "reason": "rule",
        "line": 2,
        "rule": "Disallow: /private/",
        "why": "robots.txt line 2: Disallow: /private/",
        "robots_url": "https://a.example/robots.txt",
        "digest": f"sha256:{0:064x}",
        "outcome": "successful",
        "status": 200,
        "fetched": "2026-11-21T22:40:01.100Z",
        "fresh_until": "2026-11-22T22:40:01.100Z",
        "version": "0.1.0",
    }
    assert fields.keys() <= FIELDS.keys()
    return {**made, **fields}


def unreachable(cause: str = "503", **fields: Any) -> dict[str, Any]:
    """A record of a request whose robots.txt was unreachable."""
    nothing = dict.fromkeys(("token", "line", "rule", "digest"))
    why = f"robots.txt unreachable: {cause}"
    state = {"outcome": "unreachable", "status": int(cause) if cause.isdecimal() else None}
    return record(**{**nothing, **state, "reason": "unreachable", "why": why, **fields})


def exempt(entry: str, count: int, **fields: Any) -> dict[str, Any]:
    """A last record, about an entry of ROBOTS_EXEMPT."""
    names = "agent url referrer origin token line robots_url digest outcome status fetched"
    nothing = dict.fromkeys((*names.split(), "fresh_until"))
    why = f"exempt: `{entry}` of ROBOTS_EXEMPT"
    return record(**nothing, reason="exempt", rule=entry, why=why, count=count, **fields)


def site(origin: str, allowed: int, **fields: Any) -> dict[str, Any]:
    """A last record, about an origin."""
    nothing = dict.fromkeys(("url", "referrer", "token", "line", "rule"))
    made = {"robots_url": f"{origin}/robots.txt", "why": "successful (200), so its rules apply"}
    counts = {"count": 0, "allowed_requests": allowed, "disallowed_requests": 0}
    return record(**{**nothing, **made, **counts, "reason": "origin", "origin": origin, **fields})


def ended(allowed: int = 1, **fields: Any) -> dict[str, Any]:
    """The last record of a crawl."""
    names = "url referrer origin token line rule robots_url digest outcome status fetched"
    nothing = dict.fromkeys((*names.split(), "fresh_until"))
    why = f"ended (finished), {allowed:,} requests allowed"
    made = {"reason": "run", "why": why, "count": 0, "allowed_requests": allowed}
    return record(**{**nothing, **made, **fields})


def read(path: Path, *last: str) -> list[dict[str, Any]]:
    """The records of a file of JSON lines, without those about an origin and a whole crawl.

    :param last: the reasons of such records that are included.
    """
    left_out = {"origin", "run"} - set(last)
    return [record for record in values(path) if record["reason"] not in left_out]


def values(path: Path) -> list[dict[str, Any]]:
    """All records of a report, in the format of its suffix. CSV and XML have only texts."""
    text = path.read_text(encoding="utf-8")
    match path.suffix:
        case ".json":
            return list(json.loads(text))
        case ".csv":
            return list(csv.DictReader(text.splitlines(), strict=True))
        case ".xml":
            items = ElementTree.fromstring(text)
            return [{child.tag: child.text for child in item} for item in items]
    return [json.loads(line) for line in text.splitlines()]


def sha256(octets: bytes) -> str:
    """The digest of a file, as a record has it."""
    return f"sha256:{hashlib.sha256(octets).hexdigest()}"


def exported(records: Iterable[dict[str, Any]], fields: Sequence[str] | None = None) -> bytes:
    """Return records as JSON lines, as Scrapy writes them.

    :param fields: the key ``fields`` of a feed.
    """
    written = io.BytesIO()
    exporter = JsonLinesItemExporter(
        written, fields_to_export=fields, export_empty_fields=True, encoding=None
    )
    exporter.start_exporting()
    for item in records:
        exporter.export_item(item)
    exporter.finish_exporting()
    return written.getvalue()


#: Three requests and a record about exempt sites.
FEW = [
    record(),
    unreachable(),
    record(line=3, rule="Disallow: /b", token="foobot"),
    exempt("intranet.example", 7),
]

#: The sites of the sample crawl: origin, share of the requests, rules with lines and paths.
_SITES = (
    (
        "https://shop.example",
        30,
        ((12, "Disallow: /*?sort=", "/shoes?sort=price"), (9, "Disallow: /cart", "/cart")),
    ),
    (
        "https://news.example",
        16,
        ((7, "Disallow: /archive/", "/archive/2001/"), (8, "Disallow: /*.pdf$", "/press/a.pdf")),
    ),
    ("https://www.museum.example", 9, ((3, "Disallow: /search", "/search?q=vase"),)),
    ("https://forum.example:8443", 6, ((2, "Disallow: /", "/thread/"),)),
    ("http://town.example", 4, ((21, "Disallow: /intern/", "/intern/minutes"),)),
)
_FAILING = (
    ("https://slow.example", "no answer in 30 s"),
    ("https://broken.example", "503"),
    ("https://gone.example", "503"),
)


def crawl() -> list[dict[str, Any]]:
    """The records of a made-up crawl of an hour and a half, always the same."""
    made, number = [], 0
    for minute in range(90):
        wave = 3 + (minute * 7 % 11) + (12 if 30 <= minute < 50 else 0)
        for step in range(wave):
            number += 1
            pick = number * 37 % 65
            clock = f"{8 + minute // 60:02}:{minute % 60:02}:{step * 60 // wave:02}"
            time = f"2026-11-21T{clock}.{number % 1000:03}Z"
            made.append(_request(time, number, pick, failing=55 <= minute < 70 and step % 2 == 0))
    last = "2026-11-21T09:30:00.000Z"
    sites = [site(origin, 30 * weight, time=last, **_FETCHED) for origin, weight, _ in _SITES]
    failing = [
        site(origin, 0, time=last, **{**_FETCHED, **_failed(cause)}) for origin, cause in _FAILING
    ]
    return [
        *made,
        exempt("*.staging.example", 41, time=last),
        exempt("intranet.example", 12, time=last),
        *(each | {"spider": "shops"} for each in [*sites, *failing]),
        ended(1539, spider="shops", time=last),
        ended(411, spider="news", time=last),
    ]


_FETCHED = {"fetched": "2026-11-21T08:00:00.000Z"}


def _failed(cause: str) -> dict[str, Any]:
    """The fields of an origin whose robots.txt was unreachable."""
    why = f"unreachable ({cause}), so nothing is allowed"
    return {"outcome": "unreachable", "status": None, "digest": None, "why": why}


def _request(time: str, number: int, pick: int, *, failing: bool) -> dict[str, Any]:
    spider = "shops" if number % 4 else "news"
    if failing:
        origin, cause = _FAILING[number % 3]
        url, file = f"{origin}/{number}", f"{origin}/robots.txt"
        found = {"url": url, "origin": origin, "robots_url": file, **_FETCHED}
        return unreachable(cause, time=time, spider=spider, **found)
    origin, rules = [(origin, rules) for origin, weight, rules in _SITES for _ in range(weight)][
        pick
    ]
    line, rule, path = rules[number % 5 // 3 % len(rules)]
    return record(
        time=time,
        spider=spider,
        url=f"{origin}{path}",
        origin=origin,
        line=line,
        rule=rule,
        why=f"robots.txt line {line}: {rule}",
        robots_url=f"{origin}/robots.txt",
        stale=origin == "http://town.example",
        **_FETCHED,
    )


def made(
    folder: Path, records: list[dict[str, Any]], *arguments: str, name: str = "robots.jsonl"
) -> dict[str, Any]:
    """Write a page of records, and return the JSON that the command prints."""
    (folder / name).write_bytes(exported(records))
    done = run("report", name, "--json", "--html", "report.html", *arguments, folder=folder)
    assert (done.code, done.err) == (0, "")
    sums: dict[str, Any] = json.loads(done.out)
    return sums


ACTS = "document.title=window.acted=1"


def hostile(site: str) -> list[dict[str, Any]]:
    """Records whose texts try to run code, or to reach a site."""
    texts = [
        f"<script>{ACTS}</script>",
        f'"><img src="{site}/x" onerror="{ACTS}">',
        f"'><svg onload='{ACTS}'>",
        f"</title></style></script></code></table><script>{ACTS}</script>",
        "<!-- <script>",
        "__proto__",
        f"<base href='{site}/'><link rel=stylesheet href='{site}/x.css'>",
        f"<meta http-equiv=refresh content='0;url={site}/'>",
        "$script ${style} $headline {{7*7}} %s &lt;b&gt; &amp;",
        "\u202eabc\u2066\x00\x1b[2J\ud800\r\n",
    ]
    links = [
        f"javascript:{ACTS}",
        f"JaVaScRiPt:{ACTS}//https://a.example",
        f"data:text/html,<script>{ACTS}</script>",
        f'https://a.example/" onmouseover="{ACTS}',
        f"https://me:secret@a.example/'onclick='{ACTS}",
        "https://a.example/\n\tjavascript:alert(1)",
        "//b.example/x",
        "file:///etc/passwd",
        "https://" + "x" * 3000 + ".example/",
    ]
    every = [*texts, *links]
    names = ("run", "spider", "agent", "url", "origin", "token", "reason", "rule", "why")
    made = [record(**{name: text}) for text in every for name in names]
    made += [record(**dict.fromkeys(names, text)) for text in every]
    return [*made, *(unreachable(text) for text in every), *(exempt(text, 3) for text in every)]
